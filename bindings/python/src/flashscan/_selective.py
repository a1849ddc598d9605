# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Literal, overload

from . import _library as lib
from ._call import Call, Problem, choose, flag, kind, real_number, same_dtype, same_shape
from ._errors import FlashscanTypeError, FlashscanValueError
from ._linear import LAYOUTS, _read, _write
from ._out import check_out
from ._spaces import Spec
from ._types import Array, ArrayLike, Layout

if TYPE_CHECKING:
    from ._options import SelectiveOutOptions, Unpack

_DENSE = (0, 0, 0)
_COMPLEX = {lib.F32: lib.C64, lib.F64: lib.C128}
_MOST_STATES = 256
_OPTIONAL = ("D", "z", "delta_bias")


class _Selective:
    """What both passes have in common; ``masks``: seq_offsets and reset; ``options``: delta_softplus, layout, reverse,
    threads."""

    fields: tuple[Any, ...]

    def __init__(
        self, problem: Problem, like: Spec, arrays: list[Any], masks: tuple[Any, ...], options: tuple[Any, ...]
    ) -> None:
        softplus, layout, reverse, self.threads = options
        delta, A, B, C, D, z, bias = arrays
        if len(like.shape) != 3:
            raise FlashscanValueError(f"{like.name} has shape {like.shape}; accepted are arrays of 3 axes")
        layout_number, self.axes = choose("layout", layout, LAYOUTS)
        data = real_number(like)
        self.sizes = tuple(like.shape[axis] for axis in self.axes)
        batch, time, channels = self.sizes
        self.real = problem.state_dtype(like.dtype, data)
        if len(A.shape) != 2 or A.shape[0] != channels or not 1 <= A.shape[1] <= _MOST_STATES:
            raise FlashscanValueError(f"A has shape {A.shape}; accepted is ({channels}, N) with N from 1 to {_MOST_STATES}")
        self.states, self.matrix = A.shape[1], A.dtype
        if A.dtype != self.real and A.number != _COMPLEX.get(data):
            complex_too = f" and {problem.space.dtype(_COMPLEX[data])}" if data in _COMPLEX else ""
            raise FlashscanTypeError(f"A has dtype {A.dtype}; accepted are {self.real}{complex_too}")
        self.step = like.dtype if A.dtype == self.real else A.dtype
        problem.read(lib.A, A)
        sequences, offsets = problem.read_offsets(masks[0], like, batch)
        flags = problem.read_reset(masks[1], (batch, time), lib.SELECTIVE_FLAG_RESET)
        if flag("delta_softplus", softplus):
            flags |= lib.SELECTIVE_FLAG_SOFTPLUS
        self.strides, groups = {}, {}
        for name, field, array, number, bit in (
            ("B", "b", B, lib.B, lib.SELECTIVE_FLAG_B_PER_STEP),
            ("C", "c", C, lib.C, lib.SELECTIVE_FLAG_C_PER_STEP),
        ):
            if len(array.shape) == 2:
                same_shape(array, A.shape)
                same_dtype(array, A.dtype)
                problem.read(number, array)
                continue
            flags |= bit
            groups[name], merged = self._merged(array)
            self.strides[field] = _read(problem, number, merged, self.axes)
        if len(set(groups.values())) > 1:
            raise FlashscanValueError(f"B has {groups['B']} groups and C has {groups['C']}; accepted is one number of them")
        for name, array, number in (("delta", delta, lib.DELTA), ("output_gate", z, lib.OUTPUT_GATE)):
            if array is not None:
                same_shape(array, like.shape)
                same_dtype(array, like.dtype)
                self.strides[name] = _read(problem, number, array, self.axes)
        for array, number in ((D, lib.D), (bias, lib.BIAS)):
            if array is not None:
                same_shape(array, (channels,))
                same_dtype(array, self.real)
                problem.read(number, array)
        self.fields = (data, A.number, layout_number, lib.direction(flag("reverse", reverse)), flags, offsets, 0)
        self.fields += (batch, time, channels, self.states, next(iter(groups.values()), 1), sequences)
        self.state_shape = (sequences if problem.packed else batch, channels, self.states)

    def _merged(self, array: Spec) -> tuple[int, Spec]:
        """The number of groups of B or C of each step, and the array with the axes of groups and states as one."""
        batch, time, _ = self.sizes
        steps_last = self.axes[1] == 2
        shape, rank = array.shape, len(array.shape)
        front, inner, behind = ((batch,), shape[1:-1], (time,)) if steps_last else ((batch, time), shape[2:], ())
        if rank not in (3, 4) or (*front, *inner, *behind) != shape or inner[-1] != self.states:
            steps = f"({batch}, {self.states}, {time}), ({batch}, groups, {self.states}, {time})"
            if not steps_last:
                steps = f"({batch}, {time}, {self.states}), ({batch}, {time}, groups, {self.states})"
            raise FlashscanValueError(f"{array.name} has shape {shape}; accepted are ({self.sizes[2]}, {self.states}), {steps}")
        same_dtype(array, self.step)
        if rank == 3:
            return 1, array
        at = len(front)
        strides, groups, channels = array.strides, inner[0], self.sizes[2]
        if groups < 1 or channels % groups:
            raise FlashscanValueError(f"{array.name} has {groups} groups; accepted are divisors of {channels}, the number of channels")
        side_by_side = groups == 1 or strides[at] == self.states * strides[at + 1]
        return groups, dataclasses.replace(
            array,
            shape=(*front, groups * self.states, *behind),
            strides=(*strides[:at], *strides[at + 1 :]),
            plain=array.plain and side_by_side,
        )

    def plan(self, problem: Problem, pool: tuple[Any, ...] = (), **given: tuple[int, ...]) -> lib.Plan:
        strides = [given.get(name, self.strides.get(name, _DENSE)) for name in lib.SELECTIVE_TENSORS]
        return problem.plan("selective", (*self.fields, *strides, *pool), self.threads)


@kind(0, "u", "delta", "A", "B", "C", "D?", "z?", "delta_bias?", "initial_state?", "seq_offsets?", "reset?", "out?")
def forward(problem: Problem, final: bool, *options: Any) -> Call:
    u, *arrays, state, seq_offsets, reset, out = problem.specs
    scan = _Selective(problem, u, arrays, (seq_offsets, reset), options)
    strides = _read(problem, lib.INPUT, u, scan.axes)
    problem.read_converted(lib.STATE_IN, state, scan.state_shape, scan.matrix)
    out_strides = _write(problem, out, u, scan.axes)
    if flag("return_final_state", final):
        problem.write(lib.STATE_OUT, scan.state_shape, scan.matrix)
    return problem.call(scan.plan(problem, input=strides, output=out_strides), False)


@kind(
    0, "u", "delta", "A", "B", "C", "D?", "z?", "delta_bias?", "grad_output", "initial_state?", "grad_final_state?",
    "seq_offsets?", "reset?",
)  # fmt: skip
def backward(problem: Problem, *options: Any) -> Call:
    u, *arrays, grad, state, grad_state, seq_offsets, reset = problem.specs
    scan = _Selective(problem, u, arrays, (seq_offsets, reset), options)
    same_shape(grad, u.shape)
    same_dtype(grad, u.dtype)
    strides = {"input": _read(problem, lib.INPUT, u, scan.axes)}
    strides["grad_output"] = _read(problem, lib.GRAD | lib.OUTPUT, grad, scan.axes)
    problem.read_converted(lib.STATE_IN, state, scan.state_shape, scan.matrix)
    problem.read_converted(lib.GRAD | lib.STATE_OUT, grad_state, scan.state_shape, scan.matrix)
    problem.write(lib.GRAD | lib.STATE_IN, scan.state_shape, scan.matrix)
    numbers = (lib.INPUT, lib.DELTA, lib.A, lib.B, lib.C, lib.D, lib.OUTPUT_GATE, lib.BIAS)
    for array, number in zip((u, *arrays), numbers):
        if array is not None:
            problem.write(lib.GRAD | number, array.shape, array.dtype)
    return problem.call(scan.plan(problem, **strides), True)


@overload
def selective_scan(
    u: Array, delta: Array, A: Array, B: Array, C: Array, D: Array | None = None, z: Array | None = None,
    delta_bias: Array | None = None, initial_state: ArrayLike | None = None, *, return_final_state: Literal[False] = False,
    **options: Unpack[SelectiveOutOptions[Array]],
) -> Array: ...  # fmt: skip
@overload
def selective_scan(
    u: Array, delta: Array, A: Array, B: Array, C: Array, D: Array | None = None, z: Array | None = None,
    delta_bias: Array | None = None, initial_state: ArrayLike | None = None, *, return_final_state: Literal[True],
    **options: Unpack[SelectiveOutOptions[Array]],
) -> tuple[Array, Array]: ...  # fmt: skip
@overload
def selective_scan(
    u: Array, delta: Array, A: Array, B: Array, C: Array, D: Array | None = None, z: Array | None = None,
    delta_bias: Array | None = None, initial_state: ArrayLike | None = None, *, return_final_state: bool,
    **options: Unpack[SelectiveOutOptions[Array]],
) -> Array | tuple[Array, Array]: ...  # fmt: skip
def selective_scan(
    u: Array,
    delta: Array,
    A: Array,
    B: Array,
    C: Array,
    D: Array | None = None,
    z: Array | None = None,
    delta_bias: Array | None = None,
    initial_state: ArrayLike | None = None,
    *,
    delta_softplus: bool = False,
    layout: Layout = "btc",
    reverse: bool = False,
    seq_offsets: ArrayLike | None = None,
    reset: ArrayLike | None = None,
    return_final_state: bool = False,
    out: Array | None = None,
    threads: int = 0,
) -> Array | tuple[Array, Array]:
    """Mamba's state-space layer (arXiv 2312.00752) with N states a channel: with ``d = delta + delta_bias``, or
    ``softplus`` of that,

    ``h[t] = exp(d[t] * A) * h[t-1] + d[t] * B[t] * u[t]``, ``y[t] = sum(C[t] * h[t], over N) + D * u[t]``,

    and ``y * silu(z)`` where there is a ``z``. Complex matrices stand for states in conjugate pairs: y is then twice the
    real part of the sum.

    Args:
        u, delta, z: [B, T, C], or [B, C, T] with ``layout="bct"``; float32, float64, float16 or bfloat16.
        A: [C, N] with N up to 256; float32 (float64 with float64 data), or complex64 (complex128) with data of 32 (64) bits.
        B, C: constant, [C, N] of A's dtype, or of each step: [B, T, N] or [B, T, G, N] ([B, N, T] or [B, G, N, T] with
            ``layout="bct"``) of u's dtype, or of A's if that is complex; each of G groups of neighbouring channels has its own.
        D, delta_bias: [C], float32, or float64 with float64 data.
        initial_state: [B, C, N], [sequences, C, N] with ``seq_offsets``; zeros if not given.
        delta_softplus: d is log(1 + exp(delta + delta_bias)).
        layout, reverse, seq_offsets, reset, threads: as in ``linear_scan``.
        return_final_state: also return h after the last step, of A's dtype.
        out: an array that y is written to, as in ``linear_scan``: one that overlaps no argument, or u itself, of which backward
            then has nothing left.

    Returns:
        y, of the shape and dtype of u: ``out``, or a new dense array; a tuple of it and the final state where that is asked
        for.

    Raises:
        FlashscanValueError, FlashscanTypeError: an argument is not accepted; the message says what is.
        FlashscanError: the library failed; ``status`` tells how.
    """
    check_out(out, u)
    arrays = (u, delta, A, B, C, D, z, delta_bias, initial_state, seq_offsets, reset, out)
    results = forward(arrays, (return_final_state, delta_softplus, layout, reverse, threads))
    results = results if out is None else [out, *results]
    return tuple(results) if len(results) > 1 else results[0]


def selective_scan_backward(
    u: Array,
    delta: Array,
    A: Array,
    B: Array,
    C: Array,
    grad_output: Array,
    D: Array | None = None,
    z: Array | None = None,
    delta_bias: Array | None = None,
    initial_state: ArrayLike | None = None,
    grad_final_state: ArrayLike | None = None,
    *,
    delta_softplus: bool = False,
    layout: Layout = "btc",
    reverse: bool = False,
    seq_offsets: ArrayLike | None = None,
    reset: ArrayLike | None = None,
    threads: int = 0,
) -> dict[str, Any]:
    """The gradients of ``selective_scan``.

    Args:
        grad_output: the gradient of y, of its shape and dtype.
        grad_final_state: the gradient of the final state; zeros if not given.

    The others are as ``selective_scan`` was given them.

    Returns:
        Gradients by the names of arguments: "u", "delta", "A", "B", "C", "initial_state", "D", "z", "delta_bias", in their
        shapes and dtypes; None for what was not given but for the state.

    Raises:
        FlashscanValueError, FlashscanTypeError: an argument is not accepted; the message says what is.
        FlashscanError: the library failed; ``status`` tells how.
    """
    optional = (D, z, delta_bias)
    arrays = (u, delta, A, B, C, *optional, grad_output, initial_state, grad_final_state, seq_offsets, reset)
    results = iter(backward(arrays, (delta_softplus, layout, reverse, threads)))
    gradients = {"initial_state": next(results), **{name: next(results) for name in ("u", "delta", "A", "B", "C")}}
    return {**gradients, **{name: None if array is None else next(results) for name, array in zip(_OPTIONAL, optional)}}
