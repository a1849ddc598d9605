# SPDX-License-Identifier: Apache-2.0
"""Calls of the library from XLA programs: one JAX primitive for all functions, and its rules.

``xla/handlers.cpp`` finds the plan when a program runs.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

import jax
import jax.numpy as jnp
import numpy as np
from jax._src import dispatch
from jax.core import ShapedArray
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir
from jax.sharding import PartitionSpec

from . import _library as lib
from ._call import Kind
from ._errors import FlashscanNotImplementedError
from ._xla_partition import Axes, Layout, named_axes, partitioned
from ._xla_problem import Traced


def _register() -> None:
    named = os.environ.get("FLASHSCAN_JAX_LIBRARY")
    path = named or str(Path(__file__).with_name("libflashscan_jax.so"))
    try:
        handlers = ctypes.CDLL(path)
    except OSError as error:
        raise ImportError(
            f"flashscan: {path} could not be loaded ({error}); it is built where jaxlib is found while flashscan is "
            "installed, and FLASHSCAN_JAX_LIBRARY names another"
        ) from error
    for platform, function in (("cpu", handlers.flashscan_xla_cpu), ("CUDA", handlers.flashscan_xla_cuda)):
        jax.ffi.register_ffi_target("flashscan", jax.ffi.pycapsule(function), platform=platform)


_register()


@dataclass(frozen=True)
class Work:
    """What the primitive is bound with besides the arrays that are given."""

    family: Family
    backward: bool
    options: tuple[Any, ...]
    given: tuple[bool, ...]
    wanted: frozenset[int] | None = None  # of the results; None: all

    @property
    def kind(self) -> Kind:
        backward = self.family.backward if self.backward else None
        return backward or self.family.forward

    def full(self, arrays: Sequence[Any]) -> list[Any]:
        """The arrays at their places, None where one is not given."""
        rest = iter(arrays)
        return [next(rest) if given else None for given in self.given]

    def trace(self, arrays: Sequence[Any]) -> Traced:
        return _trace(replace(self, wanted=None), _shapes(arrays))

    def results(self, traced: Traced) -> list[tuple[int, tuple[int, ...], np.dtype]]:
        return [result for result in traced.results if self.wanted is None or result[0] in self.wanted]


def _shapes(arrays: Sequence[Any]) -> tuple[jax.ShapeDtypeStruct, ...]:
    return tuple(jax.ShapeDtypeStruct(a.shape, a.dtype) for a in arrays)


@functools.lru_cache(maxsize=1024)
def _trace(work: Work, shapes: tuple[Any, ...]) -> Traced:
    traced = Traced(work.kind, work.full(shapes))
    function: Callable[..., Any] = work.kind.function
    result: Traced = function(traced, *work.options)
    return result


@dataclass(frozen=True)
class Fold:
    """How a mapped axis becomes part of a call: where it goes in the argument of each number, None for nowhere."""

    options: tuple[Any, ...]
    axis: Callable[[int], int | None]
    merge: bool  # into the axis that is there, instead of a new one

    def _place(self, number: int) -> int:
        axis = self.axis(number)
        assert axis is not None
        return axis

    def join(self, number: int, array: Any) -> Any:
        """``array`` has the mapped axis first."""
        axis = self._place(number)
        array = jnp.moveaxis(array, 0, axis)
        if not self.merge:
            return array
        shape = array.shape
        return array.reshape(*shape[:axis], shape[axis] * shape[axis + 1], *shape[axis + 2 :])

    def split(self, number: int, array: Any, size: int, shape: tuple[int, ...]) -> Any:
        """The opposite, for a result that has ``shape`` where nothing is mapped."""
        axis = self._place(number)
        return jnp.moveaxis(array.reshape(*shape[:axis], size, *shape[axis:]), axis, 0)


@dataclass(frozen=True)
class Family:
    """A function: both of its passes, and how they fit together.

    A family without a backward pass has no derivatives.

    ``fold(traced, options, mapped, results)`` gets the numbers of arguments that are mapped and of results; None where
    the mapped axis has to be walked. ``axes(traced, options)`` names the axes of the argument of each number.
    """

    name: str
    forward: Kind
    backward: Kind | None
    backward_options: Callable[[tuple[Any, ...]], tuple[Any, ...]]
    training_options: Callable[[tuple[Any, ...]], tuple[Any, ...]]
    fold: Callable[[Traced, tuple[Any, ...], set[int], set[int]], Fold | None]
    axes: Callable[[Traced, tuple[Any, ...]], dict[int, Axes]]

    def __repr__(self) -> str:
        return self.name


def _conjugate(arrays: Sequence[Any], numbers: Sequence[int]) -> list[Any]:
    """Gradients in PyTorch's convention, which is the library's, from JAX's and back."""
    return [jnp.conj(a) if n & lib.GRAD and jnp.iscomplexobj(a) else a for a, n in zip(arrays, numbers)]


def _numbers(traced: Traced) -> dict[int, int]:
    """The number of each array that is given, by its place. Some gradients read neither the operand nor the output."""
    unread = {"output": lib.OUTPUT}
    numbers = {spec.position: unread.get(spec.name, lib.INPUT) for spec in traced.specs if spec is not None}
    return numbers | {place: number for number, place, _ in traced.reads}


def converted(array: Any, dtype: Any) -> Any:
    """The array in a dtype, of which the real part where that is real."""
    if jnp.iscomplexobj(array) and not jnp.issubdtype(dtype, jnp.complexfloating):
        array = array.real
    return array.astype(dtype)


def _layout(work: Work, traced: Traced) -> Layout:
    axes, fresh = work.family.axes(traced, work.options), itertools.count()
    full: dict[str, int] = {}
    numbers = _numbers(traced)
    given = [(spec, axes[numbers[spec.position] & ~lib.GRAD]) for spec in traced.specs if spec is not None]
    for spec, names in sorted(given, key=lambda each: each[0].position != work.kind.lead):
        named_axes(spec.shape, names, full, fresh)
    operands = [(spec.name, named_axes(spec.shape, names, full, fresh)) for spec, names in given]
    results = [named_axes(shape, axes[number & ~lib.GRAD], full, fresh) for number, shape, _ in work.results(traced)]
    return Layout(work.family.name, operands, results)


def _run(*arrays: Any, work: Work) -> list[Any]:
    traced = work.trace(arrays)
    numbers = [number for number, _, _ in work.results(traced)]
    whole = lib.RESERVE in numbers or any(number == lib.RESERVE for number, _, _ in traced.reads)
    run = lambda *given: _run_here(*given, work=work)
    grads = [bool(number & lib.GRAD) for number in numbers]
    results: list[Any] = partitioned(run, _layout(work, traced), grads, whole)(*arrays)
    return results


def _run_here(*arrays: Any, work: Work) -> list[Any]:
    traced, full = work.trace(arrays), work.full(arrays)
    reads = [number for number, _, _ in traced.reads]
    operands = _conjugate([full[place].astype(dtype) for _, place, dtype in traced.reads], reads)
    results = work.results(traced)
    types = [jax.ShapeDtypeStruct(shape, dtype) for _, shape, dtype in results]
    aliases = {}
    if traced.packed:  # the library leaves steps behind the last sequence as they are
        aliases = {len(operands) + i: i for i in range(len(types))}
        operands = _varied([*operands, *(jnp.zeros(of.shape, of.dtype) for of in types)])
    if traced.in_place:
        aliases = {reads.index(lib.STATE_IN): [number for number, _, _ in results].index(lib.STATE_OUT)}
    desc_type = lib.FAMILIES[traced.family][0]
    desc = bytes(desc_type(ctypes.sizeof(desc_type), *traced.fields))
    numbers = [number for number, _, _ in results]
    outputs = jax.ffi.ffi_call("flashscan", types, input_output_aliases=aliases)(
        *operands,
        family=np.int32(list(lib.FAMILIES).index(traced.family)),
        backward=np.int32(traced.backward),
        threads=np.int32(traced.threads),
        words="\n".join(map("=".join, lib.words(traced.names).items())),
        desc=np.frombuffer(desc, np.uint8),
        ids=np.array([*reads, *[0] * (len(operands) - len(reads)), *numbers], np.int32),
    )
    return _conjugate(outputs, numbers)


def _bind(*arrays: Any, work: Work) -> list[Any]:
    """Under jax.shard_map all arrays of a call vary along the same axes of the mesh, as its results do; the gradients
    of those that were the same everywhere are then summed."""
    results: list[Any] = _primitive.bind(*_varied(arrays), work=work)
    return results


def _varied(arrays: Sequence[Any]) -> list[Any]:
    varying = [_varying(jax.typeof(array)) for array in arrays]
    everywhere = frozenset().union(*varying)
    return [a if own == everywhere else _vary(a, everywhere - own) for a, own in zip(arrays, varying)]


def _varying(aval: Any) -> frozenset[str]:
    """The axes of the mesh, in jax.shard_map, along which an array varies; JAX renamed where it says so."""
    return aval.mat.varying if hasattr(aval, "mat") else getattr(aval, "vma", frozenset())


def _vary(array: Any, axes: frozenset[str]) -> Any:
    if hasattr(jax.lax, "pcast"):
        return jax.lax.pcast(array, tuple(axes), to="varying")
    before: Any = jax.lax  # pvary of older releases
    return before.pvary(array, tuple(axes))


def _types(*arrays: Any, work: Work) -> list[ShapedArray]:
    return _avals(arrays[0], [(shape, dtype) for _, shape, dtype in work.results(work.trace(arrays))])


def _avals(first: Any, types: Sequence[tuple[tuple[int, ...], Any]]) -> list[ShapedArray]:
    """Of results that vary over a mesh as the operand ``first`` does."""
    if not _varying(first):
        return [ShapedArray(shape, dtype) for shape, dtype in types]
    on: Callable[[Any], Any] = lambda shape: first.sharding.update(spec=PartitionSpec(*(None,) * len(shape)))
    return [first.update(shape=shape, dtype=dtype, weak_type=False, sharding=on(shape)) for shape, dtype in types]


Named = dict[str, Any]


@dataclass(frozen=True)
class Derivatives:
    """What a family has beside first derivatives in reverse mode, by calls that have derivatives themselves.

    Arrays are named as those of the backward pass; None is one that is not given. The gradients do not look at what the
    forward pass has kept: it is a function of the other arrays, which get its part.
    """

    # Tangents of the output and the final state, from arrays, tangents by the names of the forward pass, and its
    # options.
    tangent: Callable[[Named, Named, tuple[Any, ...]], Sequence[Any]]
    # Gradients by number, of those that are wanted at least, from arrays and the options of the backward pass.
    gradients: Callable[[Named, tuple[Any, ...], frozenset[int]], dict[int, Any]]


derivatives: dict[str, Derivatives] = {}  # by the family's name; _xla_derivatives.py has them
# Some calls have gradients that cannot be cut. This maps a family's name to a function of such a call's options and
# arrays, which computes the same by calls whose gradients can be cut.
divisible: dict[str, Callable[[tuple[Any, ...], list[Any]], list[Any]]] = {}


def forward_and_kept(work: Work, arrays: Sequence[Any]) -> tuple[dict[int, Any], list[Any]]:
    """Runs the forward pass so that gradients can be computed: its results by number, and the arrays of the backward
    pass, None where it gets a gradient."""
    assert work.family.backward is not None
    training = replace(work, options=work.family.training_options(work.options))
    numbers = [number for number, _, _ in training.trace(arrays).results]
    results = dict(zip(numbers, _bind(*arrays, work=training)))
    known = dict(zip(work.family.forward.names, training.full(arrays)))
    output, reserve = results[lib.OUTPUT], results.get(lib.RESERVE)
    known.update(output=output, reserve=reserve, states=output if reserve is None else reserve)
    return results, [known.get(name) for name in work.family.backward.names]


def gradients(work: Work, kept: Sequence[Any], output: Any, final: Any, wanted: frozenset[int]) -> dict[int, Any]:
    """The gradients of arguments, by their numbers ``wanted``, from those of the output and of the final state."""
    family = work.family
    assert family.backward is not None
    incoming = {"grad_output": output, "grad_final_state": final, "grad_final": final}
    arrays = [incoming.get(name, array) for name, array in zip(family.backward.names, kept)]
    given = tuple(a is not None for a in arrays)
    task = Work(family, True, family.backward_options(work.options), given, frozenset(lib.GRAD | n for n in wanted))
    present = [a for a in arrays if a is not None]
    numbers = [number & ~lib.GRAD for number, _, _ in task.results(task.trace(present))]
    return dict(zip(numbers, _bind(*present, work=task)))


def _pushed(function: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    """``jax.jvp`` where tangents may be symbolic zeros, or those of integers."""
    varied = [_varies(p, t) for p, t in zip(primals, tangents)]

    def of(*moving: Any) -> Any:
        rest = iter(moving)
        return function(*(next(rest) if varies else p for p, varies in zip(primals, varied)))

    compress: Callable[[Sequence[Any]], list[Any]] = lambda each: list(itertools.compress(each, varied))
    result: tuple[Any, Any] = jax.jvp(of, compress(primals), compress(tangents))
    return result


def _varies(primal: Any, tangent: Any) -> bool:
    return type(tangent) is not ad.Zero and jnp.issubdtype(primal.dtype, jnp.inexact)


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], *, work: Work) -> tuple[Any, Any]:
    family = work.family
    if family.backward is None:
        raise FlashscanNotImplementedError(
            f"flashscan.jax.{family.name} has no derivatives; accepted are those of the function of all steps"
        )
    if work.backward:
        return _bind(*primals, work=work), _pushed(functools.partial(_composed_gradients, work), primals, tangents)[1]
    traced = work.trace(primals)
    if family.name in divisible and _keeps_reserve(work, primals) and _is_cut_by_xla(primals):
        in_parts = functools.partial(divisible[family.name], work.options)
        return _pushed(lambda *arrays: in_parts(work.full(arrays)), primals, tangents)
    results, kept = forward_and_kept(work, primals)
    given = work.full([t if _varies(p, t) else None for p, t in zip(primals, tangents)])
    names = family.forward.names
    moving = {(names[place], n): given[place] for n, place, _ in traced.reads if given[place] is not None}
    types = tuple(result for result in traced.results if result[0] != lib.RESERVE)
    found: dict[int, Any] = {}
    if moving:
        along = Along(work, tuple(array is not None for array in kept), tuple(moving), types)
        operands = _varied([*(array for array in kept if array is not None), *moving.values()])
        found = dict(zip((number for number, _, _ in types), _tangent.bind(*operands, along=along)))
    numbers = [number for number, _, _ in traced.results]
    outputs = [results[number] for number in numbers]
    zero: Callable[[Any], Any] = lambda out: ad.Zero(jax.typeof(out).to_tangent_aval())
    return outputs, [found[n] if n in found else zero(out) for n, out in zip(numbers, outputs)]


def _keeps_reserve(work: Work, arrays: Sequence[Any]) -> bool:
    """Whether gradients need what cannot be cut, and the call does not return it itself."""
    training = replace(work, options=work.family.training_options(work.options))
    return training != work and any(number == lib.RESERVE for number, _, _ in training.trace(arrays).results)


def _is_cut_by_xla(arrays: Sequence[Any]) -> bool:
    return jax.device_count() > 1 and not any(_varying(jax.typeof(array)) for array in arrays)


def _composed_gradients(work: Work, *arrays: Any) -> list[Any]:
    """The backward pass by calls that have derivatives."""
    rules = derivatives.get(work.family.name)
    if rules is None:
        raise FlashscanNotImplementedError(
            f"flashscan.jax.{work.family.name} was differentiated twice; accepted is once, in reverse mode"
        )
    numbers = [(number, dtype) for number, _, dtype in work.results(work.trace(arrays))]
    wanted = frozenset(number & ~lib.GRAD for number, _ in numbers)
    found = rules.gradients(dict(zip(work.kind.names, work.full(arrays))), work.options, wanted)
    return [converted(found[number & ~lib.GRAD], dtype) for number, dtype in numbers]


@dataclass(frozen=True)
class Along:
    """The tangent of a forward pass, which reverse mode transposes to the backward pass. Its operands are the arrays
    that the backward pass gets, and tangents."""

    work: Work
    known: tuple[bool, ...]  # which arrays of the backward pass are given
    moving: tuple[tuple[str, int], ...]  # names and numbers of the arguments that have tangents
    types: tuple[tuple[int, tuple[int, ...], np.dtype], ...]  # number, shape and dtype of each result

    def apart(self, operands: Sequence[Any]) -> tuple[list[Any], Named]:
        rest = iter(operands)
        kept = [next(rest) if known else None for known in self.known]
        return kept, {name: next(rest) for name, _ in self.moving}


def _run_tangent(*operands: Any, along: Along) -> list[Any]:
    family = along.work.family
    rules, (kept, tangents) = derivatives.get(family.name), along.apart(operands)
    if rules is None:
        _no_forward_mode(family.name)
    assert family.backward is not None
    results = rules.tangent(dict(zip(family.backward.names, kept)), tangents, along.work.options)
    return [converted(result, dtype) for result, (_, _, dtype) in zip(results, along.types)]


def _no_forward_mode(function: str) -> NoReturn:
    raise FlashscanNotImplementedError(
        f"flashscan.jax.{function} has no forward-mode derivatives (jvp, jacfwd); accepted are those in reverse mode"
    )


@functools.partial(jax.custom_jvp, nondiff_argnums=(1,))
def in_reverse_only(array: Any, function: str) -> Any:
    """The array. Its tangents are refused in the name of ``function`` unless reverse mode transposes them."""
    return array


@in_reverse_only.defjvp
def _refused(function: str, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    return primals[0], _refusal.bind(tangents[0], function=function)


def _transpose_tangent(cotangents: Sequence[Any], *operands: Any, along: Along) -> list[Any]:
    kept, tangents = along.apart(operands)
    incoming = {n: c for (n, _, _), c in zip(along.types, cotangents) if type(c) is not ad.Zero}
    output = incoming.get(lib.OUTPUT)
    if output is None:
        output = ad.instantiate_zeros(cotangents[0])
    of = {number: tangents[name].aval for name, number in along.moving if ad.is_undefined_primal(tangents[name])}
    found = gradients(along.work, kept, output, incoming.get(lib.STATE_OUT), frozenset(of))
    results = [converted(found[number], of[number].dtype) if number in of else None for _, number in along.moving]
    return [None] * sum(along.known) + results


def _types_of_tangent(*operands: Any, along: Along) -> list[ShapedArray]:
    return _avals(operands[0], [(shape, dtype) for _, shape, dtype in along.types])


def _batch_tangent(operands: Sequence[Any], dims: Sequence[int | None], *, along: Along) -> tuple[list[Any], list[int]]:
    run = jax.vmap(functools.partial(_run_tangent, along=along), in_axes=tuple(dims))
    results: list[Any] = run(*operands)
    return results, [0] * len(results)


def _batch(arrays: Sequence[Any], dims: Sequence[int | None], *, work: Work) -> tuple[list[Any], list[int]]:
    size = next(a.shape[d] for a, d in zip(arrays, dims) if d is not None)
    arrays = [a if d is None else jnp.moveaxis(a, d, 0) for a, d in zip(arrays, dims)]
    traced = work.trace([a if d is None else jax.ShapeDtypeStruct(a.shape[1:], a.dtype) for a, d in zip(arrays, dims)])
    mapped = [d is not None for d in work.full(dims)]
    results = {number: shape for number, shape, _ in work.results(traced)}
    numbers = _numbers(traced)
    fold = work.family.fold(traced, work.options, {n for n, p, _ in traced.reads if mapped[p]}, set(results))
    if fold is None:
        return _walk(arrays, dims, work), [0] * len(results)
    full = work.full(arrays)
    for place, array in enumerate(full):
        if array is None or fold.axis(numbers[place]) is None:
            continue
        if not mapped[place]:
            array = jnp.broadcast_to(array, (size, *array.shape))
        full[place] = fold.join(numbers[place], array)
    outputs = _primitive.bind(*[a for a in full if a is not None], work=replace(work, options=fold.options))
    outputs = [fold.split(number, out, size, shape) for out, (number, shape) in zip(outputs, results.items())]
    return outputs, [0] * len(results)


def _walk(arrays: Sequence[Any], dims: Sequence[int | None], work: Work) -> list[Any]:
    """One call after another along the mapped axis, the first of the mapped arrays."""

    def one(mapped: tuple[Any, ...]) -> list[Any]:
        rest = iter(mapped)
        results: list[Any] = _primitive.bind(*[a if d is None else next(rest) for a, d in zip(arrays, dims)], work=work)
        return results

    walked: list[Any] = jax.lax.map(one, tuple(itertools.compress(arrays, [d is not None for d in dims])))
    return walked



def _defined(name: str, run: Any, static: str, types: Any, jvp: Any, batch: Any) -> Primitive:
    """A primitive that runs ``run(*operands, static=)``."""
    compiled = jax.jit(run, static_argnames=static)
    primitive = Primitive(name)
    primitive.multiple_results = True
    primitive.def_impl(lambda *operands, **options: compiled(*operands, **options))
    primitive.def_abstract_eval(types)
    mlir.register_lowering(primitive, mlir.lower_fun(run, multiple_results=True))
    # A lowering to what is partitioned looks at the devices, which JAX asks for by this set alone.
    dispatch.prim_requires_devices_during_lowering.add(primitive)
    ad.primitive_jvps[primitive] = jvp
    batching.primitive_batchers[primitive] = batch
    return primitive


_primitive = _defined("flashscan", _run, "work", _types, _jvp, _batch)
_tangent = _defined(
    "flashscan_tangent",
    _run_tangent,
    "along",
    _types_of_tangent,
    lambda primals, tangents, *, along: _pushed(functools.partial(_run_tangent, along=along), primals, tangents),
    _batch_tangent,
)
ad.primitive_transposes[_tangent] = _transpose_tangent

_refusal = Primitive("flashscan_refusal")
_refusal.def_impl(lambda _, *, function: _no_forward_mode(function))
_refusal.def_abstract_eval(lambda tangent, *, function: tangent)
mlir.register_lowering(_refusal, lambda *_, function: _no_forward_mode(function))
ad.deflinear2(_refusal, lambda cotangent, _, *, function: [cotangent])
batching.primitive_batchers[_refusal] = lambda values, dims, *, function: (
    _refusal.bind(*values, function=function),
    dims[0],
)


def call(family: Family, arrays: Sequence[Any], options: tuple[Any, ...]) -> list[Any]:
    """The forward pass; None stands for an array that is not given."""
    work = Work(family, False, options, tuple(a is not None for a in arrays))
    return _bind(*[a for a in arrays if a is not None], work=work)
