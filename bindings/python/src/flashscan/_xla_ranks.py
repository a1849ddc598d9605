# SPDX-License-Identifier: Apache-2.0
"""Scans in jax.shard_map, with time cut along an axis of the mesh.

What the steps of a device do to the state that enters them is told by a summary of them, which is about as large as
the state. All devices get those of all, in one all-gather, and go through them to the state that enters their own
steps. The gradient of that state takes the same way back, with a second all-gather.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from . import _library as lib
from ._errors import FlashscanValueError
from ._gated import parts_of
from ._linear import LAYOUTS
from ._operator import EXCLUSIVE, REDUCTION, axis_of
from ._xla import Family, Named, Work, _varied, call, converted, forward_and_kept, gradients, in_reverse_only
from ._xla_derivatives import GATE_FORMS, gate_of, logaddexp, right_is_taken, slopes, starts, step_of, wide, without_resets
from ._xla_families import AFFINE, GATED, LINEAR, OPERATOR, SELECTIVE
from ._xla_time import Steps

Array = jax.Array
_psum: Callable[[Any, Any], Any] = jax.lax.psum


class _Summary(NamedTuple):
    """Functions of the options of the forward pass, among others."""

    # of(named, options, last): of a device's steps; ``last`` is the state behind them if they start with ``start``.
    of: Callable[[Named, tuple[Any, ...], Array], Array]
    # step(options, state, summary): the state behind the steps.
    step: Callable[[tuple[Any, ...], Array, Array], Array]
    # start(options, state): what makes no difference in front of a state, of its shape and dtype.
    start: Callable[[tuple[Any, ...], Array], Array]


def _product(gate: Array, form: str, layout: str, named: Named) -> Array:
    """[1 or B, 1 or C]: the product of the gates of all steps, 0 behind a reset."""
    time = LAYOUTS[layout][1][1]
    gate = without_resets(GATE_FORMS[form](wide(gate)), named["reset"], layout)
    if gate.shape[time] == named["input"].shape[time]:
        return jnp.prod(gate, time)
    product: Array = jnp.squeeze(gate, time) ** named["input"].shape[time]
    return product


def _of_linear(named: Named, options: tuple[Any, ...], last: Array) -> Array:
    return _pair(_product(named["gate"], options[2], options[1], named), last)


def _of_gated(named: Named, options: tuple[Any, ...], last: Array) -> Array:
    form, gate, *_ = gate_of(named, GATED.backward_options(options))
    return _pair(_product(gate, form, options[10], named), last)


def _of_selective(named: Named, options: tuple[Any, ...], last: Array) -> Array:
    step, reset = step_of(named, SELECTIVE.backward_options(options)).sum(1), named["reset"]
    product = jnp.exp(step[..., None] * named["A"])
    return _pair(product if reset is None else jnp.where((reset != 0).any(1)[:, None, None], 0, product), last)


def _of_affine(named: Named, options: tuple[Any, ...], last: Array) -> Array:
    _, reverse, threads = options
    turned = named["W"].swapaxes(-1, -2)
    _, product = call(OPERATOR, [turned, None, None], ("matmul", True, REDUCTION, None, reverse, threads))
    return jnp.concatenate((product.swapaxes(-1, -2), last[..., None]), -1)


def _of_operator(named: Named, options: tuple[Any, ...], last: Array) -> Array:
    """The result of the steps, and for logaddexp also how many of them equal it: where the result is infinite and the state
    before equals it, each of those halves that state's gradient."""
    x, (op, _, _, axis, *_) = named["x"], options
    if op != "logaddexp":
        return last
    time = axis_of(axis, -1, x.ndim, 0)
    return jnp.stack((last, (x == jnp.expand_dims(last, time)).sum(time).astype(last.dtype)))


def _pair(product: Array, last: Array) -> Array:
    return jnp.stack((jnp.broadcast_to(product, last.shape).astype(last.dtype), last))


def _combined(options: tuple[Any, ...], left: Array, right: Array) -> Array:
    op = options[0]
    if op in ("min", "max"):
        return jnp.where(right_is_taken(op, left, right), right, left)
    if op == "matmul":
        return jnp.matmul(left, right, precision="highest")
    functions: dict[str, Callable[..., Array]] = {"add": jnp.add, "mul": jnp.multiply, "logaddexp": logaddexp}
    functions |= {"and": jnp.bitwise_and, "or": jnp.bitwise_or, "xor": jnp.bitwise_xor}
    combined: Array = functions[op](left, right)
    return combined


def _operated(options: tuple[Any, ...], state: Array, own: Array) -> Array:
    return _logaddexp_of_steps(state, *own) if options[0] == "logaddexp" else _combined(options, state, own)


@jax.custom_jvp
def _logaddexp_of_steps(state: Array, total: Array, equal: Array) -> Array:
    """The state behind steps, with its derivative by the state before them: that by ``total`` is of one step."""
    return logaddexp(state, total)


@_logaddexp_of_steps.defjvp
def _logaddexp_of_steps_tangent(primals: tuple[Array, ...], tangents: tuple[Array, ...]) -> tuple[Array, Array]:
    state, total, equal = primals
    by_state, by_total = slopes("logaddexp", state, total)
    by_state = jnp.where((state == total) & jnp.isinf(total), 0.5**equal, by_state)
    return _logaddexp_of_steps(*primals), by_state * tangents[0] + by_total * tangents[1]


def _identity(options: tuple[Any, ...], like: Array) -> Array:
    op, dtype = options[0], like.dtype
    if op == "matmul":
        return jnp.broadcast_to(jnp.eye(like.shape[-1], dtype=dtype), like.shape)
    if op in ("add", "or", "xor"):
        return jnp.zeros_like(like)
    if op == "mul" or dtype == bool:
        return jnp.full_like(like, op != "max")
    if op == "and":
        return ~jnp.zeros_like(like)
    if jnp.issubdtype(dtype, jnp.floating):
        return jnp.full_like(like, jnp.inf if op == "min" else -jnp.inf)
    range_: Any = np.iinfo(dtype)
    return jnp.full_like(like, range_.max if op == "min" else range_.min)


@jax.custom_jvp
def _in_front(identity: Array, first: Array) -> Array:
    """``identity`` with the gradients of the first step ``first``, of which it takes a part where it is equal to it."""
    return identity


_in_front.defjvp(lambda primals, tangents: (primals[0], tangents[1]))


_Step = Callable[[tuple[Any, ...], Array, Array], Array]
_zeros: Callable[[tuple[Any, ...], Array], Array] = lambda options, state: jnp.zeros_like(state)
_multiplied: _Step = lambda options, state, own: own[0] * state + own[1]
_mapped: _Step = lambda options, state, own: (
    jnp.squeeze(jnp.matmul(own[..., :-1], state[..., None], precision="highest"), -1) + own[..., -1]
)
_SUMMARIES = {
    LINEAR.name: _Summary(_of_linear, _multiplied, _zeros),
    GATED.name: _Summary(_of_gated, _multiplied, _zeros),
    SELECTIVE.name: _Summary(_of_selective, _multiplied, _zeros),
    AFFINE.name: _Summary(_of_affine, _mapped, _zeros),
    OPERATOR.name: _Summary(_of_operator, _operated, _identity),
}


def _gathered(array: Array, axis: Any, reverse: bool) -> Array:
    """Gathers the arrays of all devices, in the order of computation."""
    every = jax.lax.all_gather(array, axis)
    return jnp.flip(every, 0) if reverse else every


class _Along:
    """A call whose time is cut along an axis: ``function(place, *arrays)`` gives the output and the state behind a
    device's steps. ``place`` is that of the device in the order of computation, the state that of the first."""

    def __init__(self, work: Work, arrays: Sequence[Any], at: int, axis: Any, reverse: bool) -> None:
        """``at``: the place of the state among the arrays of the call."""
        self.work, self.at, self.axis, self.reverse = work, at, axis, reverse
        self.summary = _SUMMARIES[work.family.name]
        self.reduces = work.family is OPERATOR and work.options[2] == REDUCTION
        numbers = {place: number for number, place, _ in work.trace(arrays).reads}
        # Each entry is the number of an array's gradient, or None, and the dtype of the array.
        self.inputs = [
            (numbers.get(place) if jnp.issubdtype(array.dtype, jnp.inexact) else None, array.dtype)
            for place, array in enumerate(work.full(arrays))
            if array is not None
        ]
        self.function = jax.custom_vjp(lambda *given: self._forward(False, *given)[0])
        self.function.defvjp(functools.partial(self._forward, True), self._backward)

    def _forward(self, training: bool, place: Array, *arrays: Array) -> tuple[Any, Any]:
        family, options, summary = self.work.family, self.work.options, self.summary
        full = self.work.full(arrays)
        state = full[self.at]
        full[self.at], _ = _varied([summary.start(options, state), state])
        own = summary.of(dict(zip(family.forward.names, full)), options, call(family, full, options)[-1])
        every = _gathered(own, self.axis, self.reverse)
        total, entering = jax.lax.scan(lambda state, own: (summary.step(options, state, own), state), state, every)
        full[self.at] = jnp.take(entering, place, 0)
        reduced = (total.astype(full[0].dtype), total) if self.reduces else None
        if not training:
            return reduced or tuple(call(family, full, options)), None
        results, kept = forward_and_kept(self.work, [array for array in full if array is not None])
        return reduced or (results[lib.OUTPUT], results[lib.STATE_OUT]), (place, kept, every, entering)

    def _backward(self, residual: tuple[Any, ...], cotangents: tuple[Array, Array]) -> tuple[Any, ...]:
        place, kept, every, entering = residual
        output, final = cotangents
        leaving = gradients(self.work, kept, output, final, frozenset({lib.STATE_IN}))[lib.STATE_IN]

        def back(arriving: Array, of: tuple[Array, Array, Array]) -> tuple[Array, Array]:
            leaving, own, before = of
            _, pull = jax.vjp(lambda state: self.summary.step(self.work.options, state, own), before)
            return leaving + pull(arriving)[0], arriving

        nothing, _ = _varied([jnp.zeros_like(leaving), leaving])
        steps = _gathered(leaving, self.axis, self.reverse), every, entering
        _, arriving = jax.lax.scan(back, nothing, steps, reverse=True)
        wanted = frozenset(number for number, _ in self.inputs if number is not None)
        found = gradients(self.work, kept, output, final + jnp.take(arriving, place, 0), wanted)
        found[lib.STATE_IN] = jnp.where(place == 0, found[lib.STATE_IN], 0)
        return None, *(None if number is None else converted(found[number], dtype) for number, dtype in self.inputs)


@functools.partial(jax.custom_jvp, nondiff_argnums=(2,))
def _from_one(here: Array, array: Array, axis: Any) -> Array:
    """The array of the device where ``here`` is true, on all devices."""
    if jnp.issubdtype(array.dtype, jnp.floating):  # as bits, because 0 would take the sign of -0
        bits: Any = jnp.dtype(f"uint{8 * array.dtype.itemsize}")
        return jax.lax.bitcast_convert_type(_chosen(here, jax.lax.bitcast_convert_type(array, bits), axis), array.dtype)
    if array.dtype == bool:
        return _chosen(here, array.astype(jnp.uint8), axis).astype(bool)
    return _chosen(here, array, axis)


def _chosen(here: Array, numbers: Array, axis: Any) -> Array:
    total: Array = _psum(jnp.where(here, numbers, 0), axis)
    return total


@_from_one.defjvp
def _from_one_tangent(axis: Any, primals: tuple[Array, Array], tangents: tuple[Any, Any]) -> tuple[Array, Array]:
    tangent = tangents[1]
    if tangent.dtype != jax.dtypes.float0:
        tangent = _chosen(primals[0], tangent, axis)
    return _from_one(*primals, axis), tangent


def _reduced(axis: Any, place: Array, x: Array, state: Any, options: tuple[Any, ...]) -> Array:
    """Reduces over all devices by combining one result of each. For operators other than logaddexp the gradients of a device's
    steps follow from that of its result."""
    _, own = call(OPERATOR, [x, None, None], options)
    every = _gathered(own, axis, options[4])
    if state is None:
        start, every = every[0], every[1:]
    else:
        start, _ = _varied([state, own])
    total, _ = jax.lax.scan(lambda state, own: (_combined(options, state, own), None), start, every)
    return _from_one(place == 0, total, axis)


def _first_step_is_reset(place: Array, x: Array, reset: Any, options: tuple[Any, ...]) -> Array:
    """Resets that include the first step of the whole sequence."""
    batch, time, _ = (x.shape[axis] for axis in LAYOUTS[options[10]][1])
    firsts = Steps(0, options[11]).firsts(time) & (place == 0)
    return jnp.broadcast_to(starts(firsts, reset), (batch, time))


def over_axis(family: Family, axis: Any, arrays: Sequence[Any], options: tuple[Any, ...], reverse: bool) -> list[Array]:
    """The output of a device's steps, and the last state of the whole sequence, which all devices get.

    Args:
        axis: the name of an axis of the mesh, in jax.shard_map.
        arrays: those of the forward pass; None stands for one that is not given.
        options: of the forward pass.

    Raises:
        FlashscanValueError: there is no such axis, or there are sequence offsets.
    """
    names, full = family.forward.names, list(arrays)
    if full[names.index("seq_offsets")] is not None:
        raise FlashscanValueError("seq_offsets is given with axis_name; accepted over devices is reset")
    try:
        size, place = _psum(1, axis), jax.lax.axis_index(axis)
    except (NameError, TypeError, ValueError) as error:
        raise FlashscanValueError(
            f"axis_name is {axis!r}; accepted are axes of the mesh around the call, in jax.shard_map"
        ) from error
    of_final = 1 if family is OPERATOR else 0
    final, options = options[of_final], (*options[:of_final], True, *options[of_final + 1 :])
    place = size - 1 - place if reverse else place
    at = names.index("initial" if family is OPERATOR else "initial_state")
    # Shapes and dtypes are checked as without an axis.
    results = _work(family, full, options).trace([array for array in full if array is not None]).results
    shape, dtype = next((shape, dtype) for number, shape, dtype in results if number == lib.STATE_OUT)
    given = full[at]
    state = None if given is None else given.astype(dtype)
    reduces = family is OPERATOR and options[2] == REDUCTION
    if reduces and options[0] != "logaddexp":
        x, _ = _varied([full[0], place])
        return [_reduced(axis, place, x, state, options).astype(x.dtype)]
    if given is None:
        state = _SUMMARIES[family.name].start(options, jnp.zeros(shape, dtype))
        if family is GATED and parts_of(*options[2:8]).first_step:
            place_of_reset = names.index("reset")
            full[place_of_reset] = _first_step_is_reset(place, full[1], full[place_of_reset], options)
    # The identity of these operators can be an operand itself, so that the first step of the whole is told apart.
    start: tuple[int, int] | None = None
    if family is OPERATOR and given is None and options[0] in ("min", "max", "logaddexp"):
        time = axis_of(options[3], -1, full[0].ndim, 0)
        length = full[0].shape[time]
        if length and jnp.issubdtype(dtype, jnp.inexact):
            start = time, length - 1 if reverse else 0
            first = jax.lax.index_in_dim(full[0], start[1], time, keepdims=False).astype(dtype)
            state = _in_front(*_varied([state, first]))
    full[at] = state
    place, *present = _varied([place, *(array for array in full if array is not None)])
    along = _Along(_work(family, full, options), present, at, axis, reverse)
    name = f"{family.name} with axis_name"
    moving = [in_reverse_only(a, name) if jnp.issubdtype(a.dtype, jnp.inexact) else a for a in present]
    output, last = along.function(place, *moving)
    if start is not None and options[2] == EXCLUSIVE:  # the first of all is the identity, without a gradient
        steps = jax.lax.broadcasted_iota(jnp.int32, output.shape, start[0])
        output = jnp.where((steps == start[1]) & (place == 0), jax.lax.stop_gradient(output), output)
    if reduces:
        return [_from_one(place == size - 1, last, axis).astype(output.dtype)]
    return [output, _from_one(place == size - 1, last, axis)] if final else [output]


def _work(family: Family, arrays: Sequence[Any], options: tuple[Any, ...]) -> Work:
    return Work(family, False, options, tuple(array is not None for array in arrays))
