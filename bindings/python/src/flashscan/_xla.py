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
from typing import Any

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


def _layout(work: Work, traced: Traced) -> Layout:
    axes, fresh = work.family.axes(traced, work.options), itertools.count()
    full: dict[str, int] = {}
    numbers = {place: number & ~lib.GRAD for number, place, _ in traced.reads}
    # Some gradients read neither the operand nor the output.
    unread = {"output": lib.OUTPUT}
    given = [
        (spec, axes[numbers.get(spec.position, unread.get(spec.name, lib.INPUT))])
        for spec in traced.specs
        if spec is not None
    ]
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
    types = [(shape, dtype) for _, shape, dtype in work.results(work.trace(arrays))]
    first = arrays[0]
    if not _varying(first):
        return [ShapedArray(shape, dtype) for shape, dtype in types]
    on: Callable[[Any], Any] = lambda shape: first.sharding.update(spec=PartitionSpec(*(None,) * len(shape)))
    return [first.update(shape=shape, dtype=dtype, weak_type=False, sharding=on(shape)) for shape, dtype in types]


def _differentiable(work: Work, shapes: Sequence[Any], wanted: frozenset[int]) -> Callable[..., Any]:
    """The forward pass on arrays of ``shapes``, with gradients of the arguments ``wanted``."""
    family, backward_kind = work.family, work.family.backward
    assert backward_kind is not None
    training = replace(work, options=family.training_options(work.options))
    numbers = [number for number, _, _ in training.trace(shapes).results]
    places = {number: place for number, place, _ in work.trace(shapes).reads if number in wanted}
    dtypes = [None if of is None else of.dtype for of in work.full(shapes)]

    @jax.custom_vjp
    def function(*arrays: Any) -> list[Any]:
        return _bind(*arrays, work=work)

    def forward(*arrays: Any) -> tuple[list[Any], list[Any]]:
        results = dict(zip(numbers, _bind(*arrays, work=training)))
        known = dict(zip(family.forward.names, training.full(arrays)))
        reserve, output = results.pop(lib.RESERVE, None), results[lib.OUTPUT]
        known.update(output=output, reserve=reserve, states=output if reserve is None else reserve)
        return list(results.values()), [known.get(name) for name in backward_kind.names]

    def backward(kept: list[Any], cotangents: Sequence[Any]) -> tuple[Any, ...]:
        final = cotangents[1] if len(cotangents) > 1 else None
        incoming = {"grad_output": cotangents[0], "grad_final_state": final, "grad_final": final}
        arrays = [incoming.get(name, array) for name, array in zip(backward_kind.names, kept)]
        given = tuple(a is not None for a in arrays)
        task = Work(family, True, family.backward_options(work.options), given, frozenset(lib.GRAD | n for n in wanted))
        present = [a for a in arrays if a is not None]
        results = [number for number, _, _ in task.results(task.trace(present))]
        gradients = dict(zip(results, _bind(*present, work=task)))
        found = [None] * len(dtypes)
        for number, place in places.items():
            found[place] = gradients[lib.GRAD | number].astype(dtypes[place])
        return tuple(itertools.compress(found, work.given))

    function.defvjp(forward, backward)
    return function


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], *, work: Work) -> tuple[Any, Any]:
    if work.family.backward is None:
        raise FlashscanNotImplementedError(
            f"flashscan.jax.{work.family.name} has no derivatives; accepted are those of the function of all steps"
        )
    traced = work.trace(primals)
    if work.backward or any(number == lib.RESERVE for number, _, _ in traced.results):
        raise FlashscanNotImplementedError(
            f"flashscan.jax.{work.family.name} was differentiated twice; accepted is once, in reverse mode"
        )
    varied = [type(t) is not ad.Zero and jnp.issubdtype(p.dtype, jnp.inexact) for p, t in zip(primals, tangents)]
    full = work.full(varied)
    wanted = frozenset(number for number, place, _ in traced.reads if full[place])
    function = _differentiable(work, _shapes(primals), wanted)
    guarded = [
        _tangent.bind(t, function=work.family.name) if varies else ad.instantiate_zeros(t)
        for t, varies in zip(tangents, varied)
    ]
    return jax.jvp(function, list(primals), guarded)


def _no_forward_mode(*_: Any, function: str) -> Any:
    raise FlashscanNotImplementedError(
        f"flashscan.jax.{function} has no forward-mode derivatives (jvp, jacfwd); accepted are those in reverse mode"
    )


def _batch(arrays: Sequence[Any], dims: Sequence[int | None], *, work: Work) -> tuple[list[Any], list[int]]:
    size = next(a.shape[d] for a, d in zip(arrays, dims) if d is not None)
    arrays = [a if d is None else jnp.moveaxis(a, d, 0) for a, d in zip(arrays, dims)]
    traced = work.trace([a if d is None else jax.ShapeDtypeStruct(a.shape[1:], a.dtype) for a, d in zip(arrays, dims)])
    mapped = [d is not None for d in work.full(dims)]
    results = {number: shape for number, shape, _ in work.results(traced)}
    numbers = {place: number for number, place, _ in traced.reads}
    fold = work.family.fold(traced, work.options, {n for p, n in numbers.items() if mapped[p]}, set(results))
    if fold is None:
        return _walk(arrays, dims, work), [0] * len(results)
    full = work.full(arrays)
    for place, array in enumerate(full):
        number = numbers.get(place)
        if array is None or number is None or fold.axis(number) is None:
            continue
        if not mapped[place]:
            array = jnp.broadcast_to(array, (size, *array.shape))
        full[place] = fold.join(number, array)
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


# A tangent that reverse mode transposes, and that nothing may compute.
_tangent = Primitive("flashscan_tangent")
_tangent.def_impl(_no_forward_mode)
_tangent.def_abstract_eval(lambda tangent, *, function: tangent)
mlir.register_lowering(_tangent, _no_forward_mode)
ad.deflinear2(_tangent, lambda cotangent, _, *, function: [cotangent])
batching.primitive_batchers[_tangent] = lambda values, dims, *, function: (
    _tangent.bind(*values, function=function),
    dims[0],
)

_compiled = jax.jit(_run, static_argnames="work")
_primitive = Primitive("flashscan")
_primitive.multiple_results = True
_primitive.def_impl(lambda *arrays, work: _compiled(*arrays, work=work))
_primitive.def_abstract_eval(_types)
mlir.register_lowering(_primitive, mlir.lower_fun(_run, multiple_results=True))
# A lowering to what is partitioned looks at the devices, which JAX asks for by this set alone.
dispatch.prim_requires_devices_during_lowering.add(_primitive)
ad.primitive_jvps[_primitive] = _jvp
batching.primitive_batchers[_primitive] = _batch


def call(family: Family, arrays: Sequence[Any], options: tuple[Any, ...]) -> list[Any]:
    """The forward pass; None stands for an array that is not given."""
    work = Work(family, False, options, tuple(a is not None for a in arrays))
    return _bind(*[a for a in arrays if a is not None], work=work)
