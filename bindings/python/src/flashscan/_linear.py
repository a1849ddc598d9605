# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, overload

import numpy as np
from numpy.typing import ArrayLike

from . import _library as lib
from ._arrays import (
    OFFSETS_DTYPES,
    Array,
    argument,
    choose,
    dtype_number,
    reset_flags,
    sequence_offsets,
    state_array,
    state_dtype,
    thread_count,
)
from ._errors import FlashscanTypeError, FlashscanValueError

# Axis of batch, time and channels in an array of each layout, and the layout's number.
_LAYOUTS = {"btc": (0, (0, 1, 2)), "bct": (1, (0, 2, 1))}
_GATE_FORMS = {"value": 0, "log": 1, "logit": 2}
_DENSE = (0, 0, 0)


def _sequence_array(name: str, value: ArrayLike) -> Array:
    array = np.asarray(value)
    if array.ndim != 3:
        raise FlashscanValueError(f"{name} has shape {array.shape}; accepted are arrays of 3 axes")
    return array


def _strided(array: Array, axes: tuple[int, int, int]) -> tuple[Array, tuple[int, int, int]]:
    """An array the library can read in place, or a dense copy, and its strides along (batch, time, channels).

    Strides along axes of extent 1 are 0. All zero means dense to the library.
    """
    if not array.flags.aligned:
        array = array.copy(order="C")
    if array.flags.c_contiguous:
        return array, _DENSE
    item = array.itemsize
    steps = [0 if array.shape[axis] <= 1 else array.strides[axis] for axis in axes]
    if any(step < 0 or step % item for step in steps) or not any(steps):
        return np.ascontiguousarray(array), _DENSE
    return array, (steps[0] // item, steps[1] // item, steps[2] // item)


@dataclass
class _Problem:
    """One call's arrays and options, checked and brought into the library's terms."""

    gate: Array  # three axes, strides the library takes
    gate_shape: tuple[int, ...]  # as the caller gave it
    fields: list[Any]  # the descriptor's fields up to its strides
    gate_strides: tuple[int, int, int]
    axes: tuple[int, int, int]
    shape: tuple[int, int, int]
    dtype: np.dtype
    state_shape: tuple[int, int]
    args: list[tuple[int, int, int, int]]  # of both passes
    kept: list[Array]  # arrays that `args` point to
    packed: bool
    threads: int

    def new(self, shape: tuple[int, ...], dtype: np.dtype) -> Array:
        # Steps behind the last packed sequence are not written by the library.
        return np.zeros(shape, dtype) if self.packed else np.empty(shape, dtype)

    def add(self, number: int, array: Array) -> None:
        self.args.append(argument(number, array))
        self.kept.append(array)

    def add_state(self, number: int, name: str, value: ArrayLike) -> None:
        self.add(number, state_array(name, value, self.state_shape, self.dtype))

    def plan(self, *strides: tuple[int, int, int]) -> lib.Plan:
        """`strides` of input, gate, output, grad_input, grad_gate and grad_output."""
        return lib.plan("linear", (*self.fields, *strides), self.threads)


def _gate(gate: ArrayLike, like: Array, axes: tuple[int, int, int]) -> tuple[Array, tuple[int, ...], int]:
    """The gate with three axes, the shape it was given in, and the bits of gate_broadcast."""
    array = np.asarray(gate, like.dtype) if isinstance(gate, (int, float, complex)) else np.asarray(gate)
    shape = (1,) * (3 - array.ndim) + array.shape
    if len(shape) != 3 or any(n not in (1, m) for n, m in zip(shape, like.shape)):
        raise FlashscanValueError(
            f"gate has shape {array.shape}; accepted are shapes that broadcast to the other array's, {like.shape}"
        )
    bits = sum(1 << i for i, axis in enumerate(axes) if shape[axis] == 1 and like.shape[axis] != 1)
    return array.reshape(shape), array.shape, bits


def _problem(
    gate: ArrayLike,
    like: Array,
    name: str,
    layout: str,
    gate_form: str,
    reverse: bool,
    seq_offsets: ArrayLike | None,
    reset: ArrayLike | None,
    threads: int,
) -> _Problem:
    layout_number, axes = choose("layout", layout, _LAYOUTS)
    form = choose("gate_form", gate_form, _GATE_FORMS)
    dtype = dtype_number(name, like)
    gate_array, gate_shape, broadcast = _gate(gate, like, axes)
    gate_array, gate_strides = _strided(gate_array, axes)
    batch, time, channels = (like.shape[axis] for axis in axes)
    offsets = None if seq_offsets is None else sequence_offsets(seq_offsets)
    sequences = 0 if offsets is None else offsets.size - 1
    offsets_dtype = 0 if offsets is None else OFFSETS_DTYPES[offsets.dtype]
    flags = 0 if reset is None else lib.FLAG_RESET
    fields = [dtype, dtype_number("gate", gate_array), layout_number, form, broadcast, int(bool(reverse)), flags]
    fields += [batch, time, channels, sequences, offsets_dtype, 0]
    problem = _Problem(
        gate=gate_array,
        gate_shape=gate_shape,
        fields=fields,
        gate_strides=gate_strides,
        axes=axes,
        shape=like.shape,
        dtype=like.dtype,
        state_shape=(batch if offsets is None else sequences, channels),
        args=[],
        kept=[],
        packed=offsets is not None,
        threads=thread_count(threads),
    )
    problem.add(lib.GATE, gate_array)
    if offsets is not None:
        problem.add(lib.SEQ_OFFSETS, offsets)
    if reset is not None:
        problem.add(lib.RESET, reset_flags(reset, (batch, time)))
    return problem


@overload
def linear_scan(
    gate: ArrayLike,
    input: ArrayLike,
    initial_state: ArrayLike | None = None,
    *,
    layout: str = "btc",
    gate_form: str = "value",
    reverse: bool = False,
    seq_offsets: ArrayLike | None = None,
    reset: ArrayLike | None = None,
    return_final_state: Literal[False] = False,
    threads: int = 0,
) -> Array: ...
@overload
def linear_scan(
    gate: ArrayLike,
    input: ArrayLike,
    initial_state: ArrayLike | None = None,
    *,
    layout: str = "btc",
    gate_form: str = "value",
    reverse: bool = False,
    seq_offsets: ArrayLike | None = None,
    reset: ArrayLike | None = None,
    return_final_state: Literal[True],
    threads: int = 0,
) -> tuple[Array, Array]: ...
def linear_scan(
    gate: ArrayLike,
    input: ArrayLike,
    initial_state: ArrayLike | None = None,
    *,
    layout: str = "btc",
    gate_form: str = "value",
    reverse: bool = False,
    seq_offsets: ArrayLike | None = None,
    reset: ArrayLike | None = None,
    return_final_state: bool = False,
    threads: int = 0,
) -> Array | tuple[Array, Array]:
    """Computes ``h[t] = a[t] * h[t-1] + input[t]`` for every batch and channel, starting from ``initial_state``.

    Args:
        gate: where a comes from (see ``gate_form``); any shape that broadcasts to the input's by NumPy's rules. Its
            dtype is the input's, or float32 with float16, bfloat16 and complex64 input, or float64 with complex128
            input. A Python number takes the input's dtype.
        input: [B, T, C], or [B, C, T] with ``layout="bct"``; float32, float64, float16, complex64, complex128 or
            bfloat16 of ml_dtypes. Views are read in place unless a stride is negative or no multiple of the item size.
        initial_state: [B, C], [N, C] with ``seq_offsets``; zeros if not given. States are float32 for float32 and
            16-bit input, else of the input's dtype.
        layout: "btc" (channels innermost) or "bct" (time innermost).
        gate_form: "value": a = gate; "log": a = exp(gate); "logit": a = 1 / (1 + exp(-gate)).
        reverse: computes ``h[t] = a[t] * h[t+1] + input[t]``, from the last step to the first.
        seq_offsets: [N + 1], int32 or int64, never decreasing, from 0 to at most T; sequence n of the single row
            (B = 1) is steps ``seq_offsets[n]`` to ``seq_offsets[n+1] - 1``. The output is 0 behind the last sequence.
        reset: [B, T], bool or uint8; where it is not 0, the state before that step counts as 0.
        return_final_state: also return the state after the last step.
        threads: number of CPU threads; 0 for all that OpenMP would use.

    Returns:
        The output h, of the input's shape and dtype, dense; with ``return_final_state`` the pair of it and the final
        state, of ``initial_state``'s shape.

    Raises:
        FlashscanValueError, FlashscanTypeError: an argument is not accepted; the message says what is.
        FlashscanError: the library failed; ``status`` tells how.
    """
    array = _sequence_array("input", input)
    problem = _problem(gate, array, "input", layout, gate_form, reverse, seq_offsets, reset, threads)
    array, strides = _strided(array, problem.axes)
    if initial_state is not None:
        problem.add_state(lib.STATE_IN, "initial_state", initial_state)
    output = problem.new(problem.shape, problem.dtype)
    problem.add(lib.INPUT, array)
    problem.add(lib.OUTPUT, output)
    final_state = None
    if return_final_state:
        final_state = np.empty(problem.state_shape, state_dtype(problem.dtype))
        problem.add(lib.STATE_OUT, final_state)
    problem.plan(strides, problem.gate_strides, _DENSE, _DENSE, _DENSE, _DENSE).forward(problem.args)
    return output if final_state is None else (output, final_state)


def linear_scan_backward(
    gate: ArrayLike,
    output: ArrayLike,
    grad_output: ArrayLike,
    initial_state: ArrayLike | None = None,
    grad_final_state: ArrayLike | None = None,
    *,
    layout: str = "btc",
    gate_form: str = "value",
    reverse: bool = False,
    seq_offsets: ArrayLike | None = None,
    reset: ArrayLike | None = None,
    threads: int = 0,
) -> tuple[Array, Array, Array]:
    """The gradients of ``linear_scan``.

    Args:
        gate, initial_state, layout, gate_form, reverse, seq_offsets, reset, threads: as ``linear_scan`` was given them.
        output: what ``linear_scan`` returned, [B, T, C] or [B, C, T].
        grad_output: the gradient of the output, of its shape and dtype.
        grad_final_state: the gradient of the final state, [B, C] or [N, C]; zeros if not given.

    Returns:
        ``(grad_gate, grad_input, grad_initial_state)``: the gradient with respect to what ``gate`` was given as, in its
        shape and dtype, summed over the axes along which it was broadcast; that of the input, in its shape and dtype;
        and that of the initial state, [B, C] or [N, C], whether or not one was given. Complex gradients follow
        PyTorch's convention. Behind the last sequence of ``seq_offsets`` they are 0.

    Raises:
        FlashscanValueError, FlashscanTypeError: an argument is not accepted; the message says what is.
        FlashscanError: the library failed; ``status`` tells how.
    """
    array, grad = _sequence_array("output", output), _sequence_array("grad_output", grad_output)
    problem = _problem(gate, array, "output", layout, gate_form, reverse, seq_offsets, reset, threads)
    if grad.shape != array.shape:
        raise FlashscanValueError(f"grad_output has shape {grad.shape}; accepted is output's shape, {array.shape}")
    if grad.dtype != array.dtype:
        raise FlashscanTypeError(f"grad_output has dtype {grad.dtype}; accepted is output's dtype, {array.dtype}")
    array, strides = _strided(array, problem.axes)
    grad, grad_strides = _strided(grad, problem.axes)
    if initial_state is not None:
        problem.add_state(lib.STATE_IN, "initial_state", initial_state)
    if grad_final_state is not None:
        problem.add_state(lib.GRAD | lib.STATE_OUT, "grad_final_state", grad_final_state)
    grad_gate = problem.new(problem.gate.shape, problem.gate.dtype)
    grad_input = problem.new(problem.shape, problem.dtype)
    grad_state = np.empty(problem.state_shape, state_dtype(problem.dtype))
    problem.add(lib.OUTPUT, array)
    problem.add(lib.GRAD | lib.OUTPUT, grad)
    problem.add(lib.GRAD | lib.GATE, grad_gate)
    problem.add(lib.GRAD | lib.INPUT, grad_input)
    problem.add(lib.GRAD | lib.STATE_IN, grad_state)
    problem.plan(_DENSE, problem.gate_strides, strides, _DENSE, _DENSE, grad_strides).backward(problem.args)
    return grad_gate.reshape(problem.gate_shape), grad_input, grad_state
