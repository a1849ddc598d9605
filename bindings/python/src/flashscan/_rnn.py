# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

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

# Number, gates, biases and states of each cell.
_CELLS = {
    "lstm": (0, 4, 4, 2),
    "gru": (1, 3, 4, 1),
    "elman": (2, 1, 1, 1),
    "slstm": (3, 4, 4, 4),
    "gru_reset_before": (4, 3, 3, 1),
    "elman_relu": (5, 1, 1, 1),
}
_LAYOUTS = {"btghd": 0, "tbghd": 1}


def _axes(name: str, value: ArrayLike, count: int) -> Array:
    array = np.asarray(value)
    if array.ndim != count:
        raise FlashscanValueError(f"{name} has shape {array.shape}; accepted are arrays of {count} axes")
    return np.ascontiguousarray(array)


def _shaped(name: str, value: ArrayLike, shape: tuple[int, ...], dtype: np.dtype) -> Array:
    array = np.asarray(value)
    if array.shape != shape:
        raise FlashscanValueError(f"{name} has shape {array.shape}; accepted is {shape}")
    if array.dtype != dtype:
        raise FlashscanTypeError(f"{name} has dtype {array.dtype}; accepted is {dtype}")
    return np.ascontiguousarray(array)


@dataclass
class _Problem:
    """One call's options, checked and brought into the library's terms, and its arguments."""

    fields: tuple[Any, ...]
    threads: int
    dtype: np.dtype
    weight_dtype: np.dtype
    input_shape: tuple[int, ...]
    weight_shape: tuple[int, ...]
    bias_shape: tuple[int, ...]
    output_shape: tuple[int, ...]
    state_shape: tuple[int, ...]
    packed: bool
    args: list[tuple[int, int, int, int]] = field(default_factory=list)
    kept: list[Array] = field(default_factory=list)

    def add(self, number: int, array: Array) -> Array:
        self.args.append(argument(number, array))
        self.kept.append(array)
        return array

    def add_state(self, number: int, name: str, value: ArrayLike | None) -> None:
        if value is not None:
            self.add(number, state_array(name, value, self.state_shape, self.dtype))

    def new(self, number: int, shape: tuple[int, ...], dtype: np.dtype) -> Array:
        # Steps behind the last packed sequence are not written by the library.
        return self.add(number, np.zeros(shape, dtype) if self.packed else np.empty(shape, dtype))

    def plan(self) -> lib.Plan:
        return lib.plan("rnn", self.fields, self.threads)


def _problem(
    R: Array,
    like: Array,
    name: str,
    cell: str,
    layout: str,
    reverse: bool,
    seq_offsets: ArrayLike | None,
    reset: ArrayLike | None,
    all_states: bool,
    training: bool,
    recurrent_clip: float,
    threads: int,
) -> _Problem:
    """``like`` has the axes batch, time, heads and head dim, in the order of the layout, as its first two and last."""
    number, gates, biases, states = choose("cell", cell, _CELLS)
    layout_number = choose("layout", layout, _LAYOUTS)
    outer, (heads, dim) = like.shape[:2], like.shape[-2:]
    batch, time = outer if layout_number == 0 else outer[::-1]
    if R.shape != (gates, heads, dim, dim):
        raise FlashscanValueError(f"R has shape {R.shape}; accepted is {(gates, heads, dim, dim)} for {cell}")
    offsets = None if seq_offsets is None else sequence_offsets(seq_offsets)
    sequences = 0 if offsets is None else offsets.size - 1
    flags = (lib.FLAG_RESET if reset is not None else 0) | (lib.FLAG_ALL_STATES if all_states else 0)
    flags |= lib.FLAG_TRAINING if training else 0
    fields = (dtype_number(name, like), dtype_number("R", R), layout_number, number, int(bool(reverse)), flags)
    fields += (0 if offsets is None else OFFSETS_DTYPES[offsets.dtype], batch, time, heads, dim, sequences)
    problem = _Problem(
        fields=(*fields, float(recurrent_clip)),
        threads=thread_count(threads),
        dtype=like.dtype,
        weight_dtype=R.dtype,
        input_shape=(*outer, gates, heads, dim),
        weight_shape=R.shape,
        bias_shape=(biases, heads, dim),
        output_shape=(*((states,) if all_states else ()), *outer, heads, dim),
        state_shape=(states, batch if offsets is None else sequences, heads, dim),
        packed=offsets is not None,
    )
    problem.add(lib.WEIGHT, R)
    if offsets is not None:
        problem.add(lib.SEQ_OFFSETS, offsets)
    if reset is not None:
        problem.add(lib.RESET, reset_flags(reset, (batch, time)))
    return problem


def rnn(
    Wx: ArrayLike,
    R: ArrayLike,
    b: ArrayLike | None,
    cell: str = "lstm",
    initial_state: ArrayLike | None = None,
    *,
    layout: str = "btghd",
    reverse: bool = False,
    seq_offsets: ArrayLike | None = None,
    reset: ArrayLike | None = None,
    return_all_states: bool = False,
    return_final_state: bool = False,
    return_reserve: bool = False,
    recurrent_clip: float = 0.0,
    threads: int = 0,
) -> Any:
    """A recurrent network of H heads with D units each, on products ``Wx`` of input and input weights.

    The equations of the cells are in section 6 of flashscan.h. Gates are in PyTorch's order: i f z o for "lstm" and
    "slstm", r z n for "gru" and "gru_reset_before", one for "elman" (tanh) and "elman_relu".

    Args:
        Wx: [B, T, G, H, D], or [T, B, G, H, D] with ``layout="tbghd"``; float32, float64, float16, or ml_dtypes'
            bfloat16.
        R: recurrent weights [G, H, D, D] (out, in), of Wx's dtype or float32 with 16-bit data.
        b: biases [G, H, D], of R's dtype; for "gru" [4, H, D]: r, z, n and that of ``R_n h``; None for zeros.
        initial_state: [S, B, H, D], or [S, N, H, D] with ``seq_offsets``; zeros if not given. States are h c for
            "lstm", h c n m for "slstm", else h; float32 for 16-bit data.
        reverse: from the last step to the first.
        seq_offsets: N + 1 ascending offsets from 0 of sequences packed along time; B is 1 then.
        reset: bool or uint8 [B, T]; all states are 0 before a step where it is not 0.
        return_all_states: the output has all states, [S, B, T, H, D] or [S, T, B, H, D].
        return_reserve: return what ``rnn_backward`` needs.
        recurrent_clip: the limit, in backward, of each element of the gradient through R at every step; 0 for none.
        threads: CPU threads, 0 for all.

    Returns:
        The hidden states [B, T, H, D] or [T, B, H, D]; with ``return_final_state`` or ``return_reserve`` a tuple of
        them, the final state [S, B, H, D] or [S, N, H, D], and the reserve. Steps behind the last packed sequence are
        0.

    Raises:
        FlashscanValueError, FlashscanTypeError: an argument is not accepted; the message says what is.
        FlashscanError: the library failed; ``status`` tells how.
    """
    x, weight = _axes("Wx", Wx, 5), _axes("R", R, 4)
    problem = _problem(
        weight, x, "Wx", cell, layout, reverse, seq_offsets, reset, return_all_states, return_reserve, recurrent_clip,
        threads,
    )  # fmt: skip
    problem.add(lib.INPUT, _shaped("Wx", x, problem.input_shape, problem.dtype))
    if b is not None:
        problem.add(lib.BIAS, _shaped("b", b, problem.bias_shape, problem.weight_dtype))
    problem.add_state(lib.STATE_IN, "initial_state", initial_state)
    results = [problem.new(lib.OUTPUT, problem.output_shape, problem.dtype)]
    if return_final_state:
        results.append(problem.new(lib.STATE_OUT, problem.state_shape, state_dtype(problem.dtype)))
    plan = problem.plan()
    if return_reserve:
        results.append(_aligned(plan.forward_bytes(lib.RESERVE)))
        problem.add(lib.RESERVE, results[-1])
    plan.forward(problem.args)
    return results[0] if len(results) == 1 else tuple(results)


def _aligned(size: int) -> Array:
    """Bytes at a multiple of 256, as the library wants them for what it alone reads."""
    memory = np.empty(size + 255, np.uint8)
    start = -memory.ctypes.data % 256
    return memory[start : start + size]


def rnn_backward(
    R: ArrayLike,
    output: ArrayLike,
    reserve: Array,
    grad_output: ArrayLike,
    initial_state: ArrayLike | None = None,
    grad_final_state: ArrayLike | None = None,
    *,
    cell: str = "lstm",
    layout: str = "btghd",
    reverse: bool = False,
    seq_offsets: ArrayLike | None = None,
    reset: ArrayLike | None = None,
    all_states: bool = False,
    recurrent_clip: float = 0.0,
    threads: int = 0,
) -> tuple[Array, Array, Array, Array]:
    """The gradients of ``rnn``.

    Args:
        R, initial_state, cell, layout, reverse, seq_offsets, reset, recurrent_clip, threads: as ``rnn`` was given them.
        output, reserve: what ``rnn`` returned with ``return_reserve=True``.
        grad_output: the gradient of the output, of its shape and dtype.
        grad_final_state: the gradient of the final state; zeros if not given.
        all_states: ``rnn`` was given ``return_all_states=True``.

    Returns:
        ``(grad_Wx, grad_R, grad_b, grad_initial_state)``, in the shapes and dtypes of what they are gradients of,
        whether or not a bias and an initial state were given.

    Raises:
        FlashscanValueError, FlashscanTypeError: an argument is not accepted; the message says what is.
        FlashscanError: the library failed; ``status`` tells how.
    """
    array, weight = _axes("output", output, 5 if all_states else 4), _axes("R", R, 4)
    problem = _problem(
        weight, array[0] if all_states else array, "output", cell, layout, reverse, seq_offsets, reset, all_states, True,
        recurrent_clip, threads,
    )  # fmt: skip
    problem.add(lib.OUTPUT, _shaped("output", array, problem.output_shape, problem.dtype))
    problem.add(lib.GRAD | lib.OUTPUT, _shaped("grad_output", grad_output, problem.output_shape, problem.dtype))
    problem.add_state(lib.STATE_IN, "initial_state", initial_state)
    problem.add_state(lib.GRAD | lib.STATE_OUT, "grad_final_state", grad_final_state)
    if not isinstance(reserve, np.ndarray) or reserve.dtype != np.uint8 or not reserve.flags.c_contiguous:
        raise FlashscanTypeError(f"reserve is a {type(reserve).__name__}; accepted is what rnn returned as its reserve")
    problem.add(lib.RESERVE, reserve)
    gradients = (
        problem.new(lib.GRAD | lib.INPUT, problem.input_shape, problem.dtype),
        problem.new(lib.GRAD | lib.WEIGHT, problem.weight_shape, problem.weight_dtype),
        problem.new(lib.GRAD | lib.BIAS, problem.bias_shape, problem.weight_dtype),
        problem.new(lib.GRAD | lib.STATE_IN, problem.state_shape, state_dtype(problem.dtype)),
    )
    problem.plan().backward(problem.args)
    return gradients
