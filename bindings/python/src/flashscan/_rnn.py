# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, overload

from . import _library as lib
from ._call import (
    Call,
    Problem,
    choose,
    data_number,
    dtype_beside,
    flag,
    kind,
    look,
    number,
    real_number,
    same_dtype,
    same_shape,
    space_of,
)
from ._errors import FlashscanTypeError, FlashscanValueError
from ._spaces import Spec
from ._types import Array, ArrayLike, Cell, NetworkLayout

if TYPE_CHECKING:
    from ._options import NetworkOptions, Unpack

# Gates, biases and states of each cell, in the order of their numbers.
_COUNTS = {
    "lstm": (4, 4, 2),
    "gru": (3, 4, 1),
    "elman": (1, 1, 1),
    "slstm": (4, 4, 4),
    "gru_reset_before": (3, 3, 1),
    "elman_relu": (1, 1, 1),
    "mgu": (2, 2, 1),
}
CELLS = {cell: (number, *counts) for number, (cell, counts) in enumerate(_COUNTS.items(), lib.CELL_LSTM)}
LAYOUTS = {"btghd": lib.LAYOUT_BTGHD, "tbghd": lib.LAYOUT_TBGHD}


def _axes(spec: Spec, count: int) -> None:
    if len(spec.shape) != count:
        raise FlashscanValueError(f"{spec.name} has shape {spec.shape}; accepted are arrays of {count} axes")


def _exactly(spec: Spec, shape: tuple[int, ...], dtype: Any) -> Spec:
    same_shape(spec, shape)
    same_dtype(spec, dtype)
    return spec


class _Network:
    """What both passes have in common; ``outer`` and ``inner`` are the first two and last axes of the layout.

    ``options``: cell, layout, reverse, all_states, training, recurrent_clip, allow_tf32, threads.
    """

    fields: tuple[Any, ...]

    def __init__(
        self,
        problem: Problem,
        R: Spec,
        like: Spec,
        outer: tuple[int, ...],
        inner: tuple[int, ...],
        seq_offsets: Spec | None,
        reset: Spec | None,
        options: tuple[Any, ...],
    ) -> None:
        cell, layout, reverse, all_states, training, clip, allow_tf32, self.threads = options
        cell_number, gates, biases, states = choose("cell", cell, CELLS)
        layout_number = choose("layout", layout, LAYOUTS)
        batch, time = outer if layout_number == lib.LAYOUT_BTGHD else outer[::-1]
        _axes(R, 4)
        heads, dim = inner
        if R.shape != (gates, heads, dim, dim):
            raise FlashscanValueError(f"R has shape {R.shape}; accepted is {(gates, heads, dim, dim)} for {cell}")
        if not heads or not dim:
            raise FlashscanValueError(f"R has shape {R.shape}; accepted are 1 head and up, of 1 unit and up")
        data = real_number(like)
        dtype_beside(R, like, {lib.BF16: lib.F32, lib.F16: lib.F32})
        sequences, offsets = problem.read_offsets(seq_offsets, like, batch)
        flags = problem.read_reset(reset, (batch, time), lib.RNN_FLAG_RESET)
        flags |= (lib.RNN_FLAG_ALL_STATES if all_states else 0) | (lib.RNN_FLAG_TRAINING if training else 0)
        flags |= lib.RNN_FLAG_ALLOW_TF32 if flag("allow_tf32", allow_tf32) else 0
        self.fields = (data, data_number(R), layout_number, cell_number, lib.direction(flag("reverse", reverse)), flags, offsets)
        self.fields += (batch, time, heads, dim, sequences, number("recurrent_clip", clip))
        self.input_shape = (*outer, gates, heads, dim)
        self.bias_shape = (biases, heads, dim)
        self.output_shape = (*((states,) if all_states else ()), *outer, heads, dim)
        self.state_shape = (states, sequences if problem.packed else batch, heads, dim)
        self.state_dtype = problem.state_dtype(like.dtype, data)
        self.training = training
        problem.read(lib.WEIGHT, R)

    def plan(self, problem: Problem, pool: tuple[Any, ...] = ()) -> lib.Plan:
        """``pool``: the last fields of the descriptor, where there is a pool of states."""
        return problem.plan("rnn", (*self.fields, *pool), self.threads)


@kind(0, "Wx", "R", "b?", "initial_state?", "seq_offsets?", "reset?")
def forward(problem: Problem, final: bool, *options: Any) -> Call:
    x, R, b, state, seq_offsets, reset = problem.specs
    flag("return_all_states", options[3])
    flag("return_reserve", options[4])
    _axes(x, 5)
    net = _Network(problem, R, x, x.shape[:2], x.shape[3:], seq_offsets, reset, options)
    problem.read(lib.INPUT, _exactly(x, net.input_shape, x.dtype))
    if b is not None:
        problem.read(lib.BIAS, _exactly(b, net.bias_shape, R.dtype))
    problem.read_converted(lib.STATE_IN, state, net.state_shape, net.state_dtype)
    problem.write(lib.OUTPUT, net.output_shape, x.dtype)
    if flag("return_final_state", final):
        problem.write(lib.STATE_OUT, net.state_shape, net.state_dtype)
    plan = net.plan(problem)
    if net.training:
        problem.write_bytes(lib.RESERVE, plan.arg_bytes(False, lib.RESERVE))
    return problem.call(plan, False)


def reserve_bytes(arrays: tuple[Any, ...], *options: Any) -> int:
    """The size of what a call of ``forward`` keeps for backward. No data is looked at."""
    space = space_of(arrays[0])
    problem = forward.problem(space, look(space, arrays, 0, forward.names)[1])
    x, R, _, _, seq_offsets, reset = problem.specs
    net = _Network(problem, R, x, x.shape[:2], x.shape[3:], seq_offsets, reset, options)
    return net.plan(problem).arg_bytes(False, lib.RESERVE)


@kind(1, "R", "output", "reserve", "grad_output", "initial_state?", "grad_final_state?", "seq_offsets?", "reset?")
def backward(problem: Problem, *options: Any) -> Call:
    R, out, reserve, grad, state, grad_state, seq_offsets, reset = problem.specs
    all_states = flag("all_states", options[3])
    _axes(out, 5 if all_states else 4)
    shape = out.shape[1:] if all_states else out.shape
    net = _Network(problem, R, out, shape[:2], shape[2:], seq_offsets, reset, options)
    problem.read(lib.OUTPUT, _exactly(out, net.output_shape, out.dtype))
    problem.read(lib.GRAD | lib.OUTPUT, _exactly(grad, net.output_shape, out.dtype))
    problem.read_converted(lib.STATE_IN, state, net.state_shape, net.state_dtype)
    problem.read_converted(lib.GRAD | lib.STATE_OUT, grad_state, net.state_shape, net.state_dtype)
    if reserve.number != lib.U8 or not reserve.dense:
        raise FlashscanTypeError(f"reserve has dtype {reserve.dtype}; accepted is what rnn returned as its reserve")
    problem.read(lib.RESERVE, reserve)
    problem.write(lib.GRAD | lib.INPUT, net.input_shape, out.dtype)
    problem.write(lib.GRAD | lib.WEIGHT, R.shape, R.dtype)
    problem.write(lib.GRAD | lib.BIAS, net.bias_shape, R.dtype)
    problem.write(lib.GRAD | lib.STATE_IN, net.state_shape, net.state_dtype)
    return problem.call(net.plan(problem), True)


@overload
def rnn(
    Wx: Array, R: ArrayLike, b: ArrayLike | None, cell: Cell = "lstm", initial_state: ArrayLike | None = None, *,
    return_final_state: Literal[False] = False, return_reserve: Literal[False] = False, **options: Unpack[NetworkOptions],
) -> Array: ...  # fmt: skip
@overload
def rnn(
    Wx: Array, R: ArrayLike, b: ArrayLike | None, cell: Cell = "lstm", initial_state: ArrayLike | None = None, *,
    return_final_state: Literal[True], return_reserve: Literal[False] = False, **options: Unpack[NetworkOptions],
) -> tuple[Array, Array]: ...  # fmt: skip
@overload
def rnn(
    Wx: Array, R: ArrayLike, b: ArrayLike | None, cell: Cell = "lstm", initial_state: ArrayLike | None = None, *,
    return_final_state: Literal[False] = False, return_reserve: Literal[True], **options: Unpack[NetworkOptions],
) -> tuple[Array, Any]: ...  # fmt: skip
@overload
def rnn(
    Wx: Array, R: ArrayLike, b: ArrayLike | None, cell: Cell = "lstm", initial_state: ArrayLike | None = None, *,
    return_final_state: Literal[True], return_reserve: Literal[True], **options: Unpack[NetworkOptions],
) -> tuple[Array, Array, Any]: ...  # fmt: skip
@overload
def rnn(
    Wx: Array, R: ArrayLike, b: ArrayLike | None, cell: Cell = "lstm", initial_state: ArrayLike | None = None, *,
    return_final_state: bool = False, return_reserve: bool = False, **options: Unpack[NetworkOptions],
) -> Array | tuple[Any, ...]: ...  # fmt: skip
def rnn(
    Wx: Array,
    R: ArrayLike,
    b: ArrayLike | None,
    cell: Cell = "lstm",
    initial_state: ArrayLike | None = None,
    *,
    layout: NetworkLayout = "btghd",
    reverse: bool = False,
    seq_offsets: ArrayLike | None = None,
    reset: ArrayLike | None = None,
    return_all_states: bool = False,
    return_final_state: bool = False,
    return_reserve: bool = False,
    recurrent_clip: float = 0.0,
    allow_tf32: bool = False,
    threads: int = 0,
) -> Array | tuple[Any, ...]:
    """A recurrent network of H heads with D units each, on products ``Wx`` of input and input weights.

    The equations of the cells are in section 6 of flashscan.h. Gates are in PyTorch's order: i f z o for "lstm" and
    "slstm", r z n for "gru" and "gru_reset_before", f n for "mgu", one for "elman" (tanh) and "elman_relu".

    Args:
        Wx: [B, T, G, H, D], or [T, B, G, H, D] with ``layout="tbghd"``; float32, float64, float16, or bfloat16
            (NumPy: ml_dtypes'); an array of NumPy, PyTorch, CuPy or a package that speaks DLPack, on the CPU or a GPU.
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
        allow_tf32: on a GPU the factors of float32 matrix products may be rounded to tf32, each by up to 2^-10 of itself,
            where that is faster: with many rows or units.
        threads: CPU threads, 0 for all, and on a GPU.

    Returns:
        The hidden states [B, T, H, D] or [T, B, H, D]; with ``return_final_state`` or ``return_reserve`` a tuple of
        them, the final state [S, B, H, D] or [S, N, H, D], and the reserve. Steps behind the last packed sequence are
        0.

    Raises:
        FlashscanValueError, FlashscanTypeError: an argument is not accepted; the message says what is.
        FlashscanError: the library failed; ``status`` tells how.
    """
    options = (cell, layout, reverse, return_all_states, return_reserve, recurrent_clip, allow_tf32, threads)
    results = forward((Wx, R, b, initial_state, seq_offsets, reset), (return_final_state, *options))
    return results[0] if len(results) == 1 else tuple(results)


def rnn_backward(
    R: Array,
    output: Array,
    reserve: ArrayLike,
    grad_output: ArrayLike,
    initial_state: ArrayLike | None = None,
    grad_final_state: ArrayLike | None = None,
    *,
    cell: Cell = "lstm",
    layout: NetworkLayout = "btghd",
    reverse: bool = False,
    seq_offsets: ArrayLike | None = None,
    reset: ArrayLike | None = None,
    all_states: bool = False,
    recurrent_clip: float = 0.0,
    allow_tf32: bool = False,
    threads: int = 0,
) -> tuple[Array, Array, Array, Array]:
    """The gradients of ``rnn``.

    Args:
        R, initial_state, cell, layout, reverse, seq_offsets, reset, recurrent_clip, allow_tf32, threads: as ``rnn`` was
            given them.
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
    arrays = (R, output, reserve, grad_output, initial_state, grad_final_state, seq_offsets, reset)
    return tuple(backward(arrays, (cell, layout, reverse, all_states, True, recurrent_clip, allow_tf32, threads)))
