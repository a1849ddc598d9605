# SPDX-License-Identifier: Apache-2.0
"""Tangents of scans, and their gradients once more, by calls that have derivatives of every order themselves.

The tangent of a recurrence is a recurrence of the same gates, and its gradients one in the other direction with the
gates of the steps behind. Gated layers and selective scans are linear recurrences between functions of JAX.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from . import _library as lib
from ._gated import parts_of
from ._linear import LAYOUTS
from ._operator import EXCLUSIVE, REDUCTION, axis_of
from ._xla import Derivatives, Family, Named, call, derivatives, divisible
from ._xla_families import AFFINE, GATED, LINEAR, OPERATOR, SELECTIVE
from ._xla_time import Steps

Array = jax.Array
GATE_FORMS: dict[str, Callable[[Array], Array]] = {"value": lambda gate: gate, "log": jnp.exp, "logit": jax.nn.sigmoid}


def wide(array: Any) -> Any:
    """The array in the type that is computed in."""
    return None if array is None else array.astype(jnp.promote_types(array.dtype, jnp.float32))


def _steps(named: Named, layout: str, reverse: bool) -> Steps:
    return Steps(LAYOUTS[layout][1][1], reverse, named["seq_offsets"])


def without_resets(array: Array, reset: Any, layout: str) -> Array:
    """``array``, 0 at resets."""
    return array if reset is None else jnp.where(jnp.expand_dims(reset != 0, LAYOUTS[layout][1][2]), 0, array)


# The linear recurrence.


def _linear_tangent(named: Named, tangents: Named, options: tuple[Any, ...]) -> list[Array]:
    _, layout, form, reverse, threads = options
    h, reset = named["output"], named["reset"]
    entering = wide(tangents.get("input", jnp.zeros_like(h)))
    if "gate" in tangents:
        factor = lambda gate: GATE_FORMS[form](wide(gate))
        _, slope = jax.jvp(factor, (named["gate"],), (tangents["gate"],))
        before = _steps(named, layout, reverse).before(wide(h), named["initial_state"])
        entering = entering + slope * without_resets(before, reset, layout)
    arrays = [named["gate"], entering.astype(h.dtype), tangents.get("initial_state"), named["seq_offsets"], reset]
    return call(LINEAR, arrays, (True, layout, form, reverse, threads))


def _linear_gradients(named: Named, options: tuple[Any, ...], wanted: frozenset[int]) -> dict[int, Array]:
    layout, form, reverse, threads = options
    gate, h, reset, time = named["gate"], wide(named["output"]), named["reset"], LAYOUTS[layout][1][1]
    factor = without_resets(GATE_FORMS[form](wide(gate)), reset, layout)
    if factor.shape[time] != h.shape[time]:
        shape = list(factor.shape)
        shape[time] = h.shape[time]
        factor = jnp.broadcast_to(factor, shape)
    back = _steps(named, layout, not reverse)
    following = back.before_from(factor, jnp.ones((), factor.dtype))
    last = named["grad_final_state"]
    arrays = [following, wide(named["grad_output"]), last, back.seq_offsets, None]
    arriving, first = call(LINEAR, arrays, (True, layout, "value", not reverse, threads))
    found = {lib.INPUT: arriving}
    found[lib.STATE_IN] = back.after(factor * arriving, jnp.zeros_like(first) if last is None else last)
    if lib.GATE in wanted:
        before = without_resets(_steps(named, layout, reverse).before(h, named["initial_state"]), reset, layout)
        _, pull = jax.vjp(lambda gate: GATE_FORMS[form](wide(gate)) * before, gate)
        (found[lib.GATE],) = pull(arriving)
    return found


derivatives[LINEAR.name] = Derivatives(_linear_tangent, _linear_gradients)

# Affine maps.


def _times(matrices: Array, vectors: Array) -> Array:
    return jnp.squeeze(jnp.matmul(matrices, vectors[..., None], precision="highest"), -1)


def _affine_steps(named: Named, reverse: bool) -> Steps:
    return Steps(named["output"].ndim - 2, reverse, named["seq_offsets"])


def _affine_tangent(named: Named, tangents: Named, options: tuple[Any, ...]) -> list[Array]:
    _, reverse, threads = options
    x = named["output"]
    entering = wide(tangents.get("b", jnp.zeros_like(x)))
    if "W" in tangents:
        before = _affine_steps(named, reverse).before(wide(x), named["initial_state"])
        entering = entering + _times(wide(tangents["W"]), before)
    arrays = [named["W"], entering.astype(x.dtype), tangents.get("initial_state"), named["seq_offsets"]]
    return call(AFFINE, arrays, (True, reverse, threads))


def _affine_gradients(named: Named, options: tuple[Any, ...], wanted: frozenset[int]) -> dict[int, Array]:
    reverse, threads = options
    turned, x, last = wide(named["W"]).swapaxes(-1, -2), wide(named["output"]), named["grad_final_state"]
    back = _affine_steps(named, not reverse)
    following = back.before_from(turned, jnp.eye(x.shape[-1], dtype=x.dtype))
    arrays = [following, wide(named["grad_output"]), last, back.seq_offsets]
    arriving, first = call(AFFINE, arrays, (True, not reverse, threads))
    found = {lib.INPUT: arriving}
    found[lib.STATE_IN] = back.after(_times(turned, arriving), jnp.zeros_like(first) if last is None else last)
    if lib.GATE in wanted:
        before = _affine_steps(named, reverse).before(x, named["initial_state"])
        found[lib.GATE] = arriving[..., :, None] * before[..., None, :]
    return found


derivatives[AFFINE.name] = Derivatives(_affine_tangent, _affine_gradients)

# Operators.


def right_is_taken(op: str, left: Array, right: Array) -> Array:
    """Whether "min" or "max" take the right operand: NaNs win, the left one first, as it does where both are equal."""
    beaten = right > left if op == "max" else right < left
    return (left == left) & (beaten | (right != right))


def slopes(op: str, left: Array, right: Array) -> tuple[Array, Array]:
    """The derivatives of ``left o right``; where both are equal, those of the library's gradients."""
    if op == "mul":
        return right, left
    if op == "logaddexp":
        ahead = jnp.where((left == right) & jnp.isinf(left), 0, left - right)
        return jax.nn.sigmoid(ahead), jax.nn.sigmoid(-ahead)
    taken = right_is_taken(op, left, right)
    return (~taken).astype(left.dtype), taken.astype(left.dtype)


@jax.custom_jvp
def logaddexp(left: Array, right: Array) -> Array:
    """``jnp.logaddexp`` with derivatives where both are the same infinity."""
    return jnp.logaddexp(left, right)


@logaddexp.defjvp
def _logaddexp_tangent(primals: tuple[Array, Array], tangents: tuple[Array, Array]) -> tuple[Array, Array]:
    by_left, by_right = slopes("logaddexp", *primals)
    return logaddexp(*primals), by_left * tangents[0] + by_right * tangents[1]


def _operator_tangent(named: Named, tangents: Named, options: tuple[Any, ...]) -> list[Array]:
    if options[0] != "add":
        return _recurrence(named, tangents, options)
    dx = tangents.get("x", jnp.zeros_like(named["x"]))
    return call(OPERATOR, [dx, tangents.get("initial"), named["seq_offsets"]], (options[0], True, *options[2:]))


def _recurrence(named: Named, tangents: Named, options: tuple[Any, ...]) -> list[Array]:
    """The tangent as a recurrence, dy[t] = (derivative by the left operand) dy[t-1] + (that by the right one) dx[t]."""
    op, _, mode, axis, reverse, threads = options
    x, offsets = wide(named["x"]), named["seq_offsets"]
    matrices = op == "matmul"
    time = axis_of(axis, -3 if matrices else -1, x.ndim, 2 if matrices else 0)
    steps = Steps(time, reverse, offsets)
    dx, dinitial = wide(tangents.get("x", jnp.zeros_like(x))), wide(tangents.get("initial"))
    first = steps.firsts(x.shape[time]).reshape(-1, *(1,) * (x.ndim - 1 - time))
    if op == "add":
        left, entering = jnp.ones_like(x), dx
    else:
        before = call(OPERATOR, [x, named["initial"], offsets], (op, False, EXCLUSIVE, axis, reverse, threads))[0]
        if matrices:
            left, entering = x, jnp.matmul(before, dx, precision="highest")
        else:
            left, right = slopes(op, before, x)
            # First steps that nothing is in front of are x, and what has no tangent is not multiplied by infinity.
            left = jnp.where(first, 0, left) if dinitial is None else left
            right = jnp.where(first, 1, right) if named["initial"] is None else right
            entering = right * dx
    if matrices:
        dy, final = _along_matrices(left, entering, dinitial, steps, first)
    else:
        rows = (math.prod(x.shape[:time]), x.shape[time], math.prod(x.shape[time + 1 :]))
        front = x.shape[:time] if offsets is None else (offsets.shape[0] - 1,)
        state = None if dinitial is None else dinitial.reshape(math.prod(front), rows[2])
        arrays = [left.reshape(rows), entering.reshape(rows), state, offsets, None]
        dy, final = call(LINEAR, arrays, (True, "btc", "value", reverse, threads))
        dy, final = dy.reshape(x.shape), final.reshape(*front, *x.shape[time + 1 :])
    if mode == REDUCTION:
        return [final, final]
    return [steps.within(steps.before(dy, dinitial)) if mode == EXCLUSIVE else dy, final]


def _along_matrices(
    factors: Array, entering: Array, initial: Any, steps: Steps, first: Array
) -> tuple[Array, Array]:
    """dy[t] = dy[t-1] factors[t] + entering[t], and the last of it; ``first`` tells which steps are first ones."""
    multiply: Callable[..., Array] = lambda *two: jnp.matmul(*two, precision="highest")
    time, length = steps.time, factors.shape[steps.time]
    if initial is not None:
        carried = steps.before(jnp.zeros_like(factors), initial)  # 0 but at first steps
        entering = entering + multiply(carried, factors)
    pairs = jnp.where(first, 0, factors), steps.within(entering)
    combine = lambda one, two: (multiply(one[0], two[0]), multiply(one[1], two[0]) + two[1])
    if length:
        _, entering = jax.lax.associative_scan(combine, pairs, steps.reverse, time)
    shape = (*factors.shape[:time], *factors.shape[time + 1 :])
    if steps.seq_offsets is not None:
        shape = (steps.seq_offsets.shape[0] - 1, *factors.shape[time + 1 :])
    dy = steps.within(entering)
    return dy, steps.after(dy, jnp.zeros(shape, factors.dtype) if initial is None else initial)


def _operator_gradients(named: Named, options: tuple[Any, ...], wanted: frozenset[int]) -> dict[int, Array]:
    """The transpose of the tangent."""
    op, mode, *rest = options
    of = {name: named[name] for name in ("x", "initial") if named[name] is not None}
    tangent = lambda tangents: _recurrence(named, tangents, (op, True, mode, *rest))
    (_, last), pull = jax.vjp(tangent, {name: jnp.zeros_like(wide(array)) for name, array in of.items()})
    final = named["grad_final"]
    (found,) = pull([wide(named["grad_output"]), jnp.zeros_like(last) if final is None else final.astype(last.dtype)])
    return {{"x": lib.INPUT, "initial": lib.STATE_IN}[name]: gradient for name, gradient in found.items()}


derivatives[OPERATOR.name] = Derivatives(_operator_tangent, _operator_gradients)

# The families below are linear recurrences between functions of JAX.


def _by_composition(
    family: Family, composed: Callable[[Named, tuple[Any, ...]], list[Array]], names: dict[str, int]
) -> Derivatives:
    """``composed(named, options)`` gives the output and the final state, for the options of the backward pass.
    ``names``: what has gradients, and their numbers."""

    def tangent(named: Named, tangents: Named, options: tuple[Any, ...]) -> list[Array]:
        function = lambda moving: composed({**named, **moving}, family.backward_options(options))
        results: list[Array] = jax.jvp(function, ({name: named[name] for name in tangents},), (tangents,))[1]
        return results

    def gradients(named: Named, options: tuple[Any, ...], wanted: frozenset[int]) -> dict[int, Array]:
        of = {name: named[name] for name, number in names.items() if number in wanted}
        (y, last), pull = jax.vjp(lambda moving: composed({**named, **moving}, options), of)
        sent = named["grad_final_state"]
        sent = jnp.zeros_like(last) if sent is None else sent.astype(last.dtype)
        (found,) = pull([named["grad_output"].astype(y.dtype), sent])
        return {names[name]: gradient for name, gradient in found.items()}

    return Derivatives(tangent, gradients)


# Gated layers.


def _softplus(x: Array) -> Array:
    return jnp.logaddexp(x, 0.0)


def decayed(kind: str, g: Array, second: Any, param: Any, rate: float) -> tuple[str, Array, Array, Array]:
    """The gate of a linear recurrence and its form, a, and 1 - a without cancellation."""
    if kind == "value":
        return "value", g, g, 1 - g
    if kind == "lower_bound":
        a = param + (1 - param) * jax.nn.sigmoid(g)
        return "value", a, a, (1 - param) * jax.nn.sigmoid(-g)
    if kind in ("exp", "softplus"):
        log_a = g if kind == "exp" else -(rate or 8.0) * _softplus(param) * jax.nn.sigmoid(g)
        return "log", log_a, jnp.exp(log_a), -jnp.expm1(log_a)
    if kind == "ratio":
        logit = _softplus(-second) - _softplus(-g)
    else:
        logit = -g if kind == "one_minus_sigmoid" else g
    return "logit", logit, jax.nn.sigmoid(logit), jax.nn.sigmoid(-logit)


def _root(square: Array, limit: float) -> Array:
    """The square root, with derivatives of at most ``limit`` if there is one."""
    if limit == 0 or limit == math.inf:
        return jnp.sqrt(square)
    bend = 1 / (4 * limit * limit)  # where the slope is the limit
    flat = square < bend
    bounded = jnp.sqrt(jnp.where(flat, bend, square)) + jnp.where(flat, limit * (square - bend), 0)
    return bounded + jax.lax.stop_gradient(jnp.sqrt(square) - bounded)


def _activated(kind: str, x: Array) -> Array:
    if kind == "positive":
        return jnp.where(x < 0, jax.nn.sigmoid(x), x + 0.5)
    functions: dict[str, Callable[[Array], Array]] = {"tanh": jnp.tanh, "silu": jax.nn.silu}
    return functions[kind](x) if kind in functions else x


def _opened(kind: str, h: Array, o: Array) -> Array:
    """The epilogue."""
    if kind == "tanh_sigmoid":
        return jnp.tanh(h) * jax.nn.sigmoid(o)
    return h * (jax.nn.sigmoid(o) if kind == "sigmoid" else jax.nn.silu(o))


def gate_of(named: Named, options: tuple[Any, ...]) -> tuple[str, Array, Array, Array]:
    """What ``decayed`` gives for a gated layer."""
    *parts, rate, _, layout, _, _ = options
    channel: Callable[[Any], Any] = lambda each: each[:, None] if each is not None and layout == "bct" else each
    gate, bias = wide(named["gate"]), channel(wide(named["bias"]))
    gate, second = gate if bias is None else gate + bias, wide(named["second_gate"])
    return decayed(parts_of(*parts).decay, gate, second, channel(wide(named["param"])), rate)


def _gated(named: Named, options: tuple[Any, ...]) -> list[Array]:
    *parts, _, limit, layout, reverse, threads = options
    _, scale, activation, epilogue, first_step = parts_of(*parts)
    x, state, reset, steps = named["input"], named["initial_state"], named["reset"], _steps(named, layout, reverse)
    form, gate, a, rest = gate_of(named, options)
    entering = _activated(activation, wide(x))
    if named["input_gate"] is not None:
        entering = entering * jax.nn.sigmoid(wide(named["input_gate"]))
    if scale != "one":
        m = rest if scale == "one_minus" else _root(rest * (1 + a), limit)
        if first_step:
            time, channels = LAYOUTS[layout][1][1:]
            firsts = steps.firsts(x.shape[time]) if state is None else jnp.zeros(x.shape[time], bool)
            m = jnp.where(jnp.expand_dims(starts(firsts, reset), channels), 1, m)
        entering = m * entering
    arrays = [gate, entering.astype(x.dtype), state, steps.seq_offsets, reset]
    h, last = call(LINEAR, arrays, (True, layout, form, reverse, threads))
    return [h if epilogue == "none" else _opened(epilogue, wide(h), wide(named["output_gate"])).astype(x.dtype), last]


def starts(firsts: Array, reset: Any) -> Array:
    """[1 or B, T]: where a sequence starts, at the steps ``firsts`` [T] and at resets."""
    return firsts[None] if reset is None else firsts | (reset != 0)


def _gated_in_parts(options: tuple[Any, ...], arrays: list[Any]) -> list[Array]:
    """The layer without its epilogue, and that."""
    final, _, *given, rate, limit, layout, reverse, threads = options
    parts = parts_of(*given)._replace(epilogue="none")
    names = GATED.forward.names
    place = names.index("output_gate")
    without = [None if i == place else array for i, array in enumerate(arrays)]
    h, *last = call(GATED, without, (final, False, None, *parts, rate, limit, layout, reverse, threads))
    return [_opened(parts_of(*given).epilogue, wide(h), wide(arrays[place])).astype(h.dtype), *last]


_EXTRA = {
    "second_gate": lib.SECOND_GATE,
    "input_gate": lib.INPUT_GATE,
    "output_gate": lib.OUTPUT_GATE,
    "param": lib.PARAM,
    "bias": lib.BIAS,
}
_GATED = {"gate": lib.GATE, "input": lib.INPUT, "initial_state": lib.STATE_IN, **_EXTRA}
derivatives[GATED.name] = _by_composition(GATED, _gated, _GATED)
divisible[GATED.name] = _gated_in_parts

# Selective scans.


def step_of(named: Named, options: tuple[Any, ...]) -> Array:
    """What multiplies A in each step: [B, T, C]."""
    softplus, layout, *_ = options
    delta = wide(named["delta"])
    delta = delta.swapaxes(1, 2) if layout == "bct" else delta
    if named["delta_bias"] is not None:
        delta = delta + named["delta_bias"]
    return _softplus(delta) if softplus else delta


def _selective(named: Named, options: tuple[Any, ...]) -> list[Array]:
    """All states of all steps are in memory."""
    _, layout, reverse, threads = options
    turned: Callable[[Any], Any] = lambda each: jnp.moveaxis(each, -1, 1) if layout == "bct" else each
    A, D, z, state = named["A"], named["D"], named["z"], named["initial_state"]
    u, steps = wide(turned(named["u"])), Steps(1, reverse, named["seq_offsets"])
    batch, time, channels = u.shape

    def of_steps(matrix: Array) -> Array:
        """[1 or B, 1 or T, C, N]"""
        if matrix.ndim == 2:
            return matrix[None, None]
        matrix = wide(turned(matrix))
        matrix = matrix if matrix.ndim == 4 else matrix[:, :, None]
        return jnp.repeat(matrix, channels // matrix.shape[2], 2)

    step = step_of(named, options)
    rows = (batch, time, A.size)
    entering = jnp.broadcast_to((step * u)[..., None] * of_steps(named["B"]), (*u.shape, A.shape[1])).astype(A.dtype)
    gate = jnp.exp(step[..., None] * A).reshape(rows)
    state = None if state is None else state.reshape(len(state), A.size)
    arrays = [gate, entering.reshape(rows), state, steps.seq_offsets, named["reset"]]
    h, last = call(LINEAR, arrays, (True, "btc", "value", reverse, threads))
    y = (of_steps(named["C"]) * h.reshape(*u.shape, A.shape[1])).sum(-1)
    y = 2 * y.real if jnp.iscomplexobj(y) else y
    y = y if D is None else y + D * u
    y = steps.within(y if z is None else y * jax.nn.silu(wide(turned(z))))
    return [(y.swapaxes(1, 2) if layout == "bct" else y).astype(named["u"].dtype), last.reshape(len(last), *A.shape)]


_SELECTIVE = {"u": lib.INPUT, "delta": lib.DELTA, "A": lib.A, "B": lib.B, "C": lib.C, "D": lib.D, "z": lib.OUTPUT_GATE}
_SELECTIVE |= {"delta_bias": lib.BIAS, "initial_state": lib.STATE_IN}
derivatives[SELECTIVE.name] = _by_composition(SELECTIVE, _selective, _SELECTIVE)
