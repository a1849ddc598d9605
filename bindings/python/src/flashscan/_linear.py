# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, overload

from . import _library as lib
from ._axis import TimeAxis, along
from ._call import (
    Call,
    Kind,
    Problem,
    choose,
    data_number,
    dtype_beside,
    flag,
    kind,
    same_dtype,
    same_shape,
)
from ._errors import FlashscanValueError
from ._out import check_out
from ._spaces import Spec
from ._types import Array, ArrayLike, GateForm, Layout

if TYPE_CHECKING:
    from ._options import LinearOutOptions, Unpack

# Axis of batch, time and channels in an array of each layout, and the layout's number.
LAYOUTS = {"btc": (lib.LAYOUT_BTC, (0, 1, 2)), "bct": (lib.LAYOUT_BCT, (0, 2, 1))}
GATE_FORMS = {"value": lib.GATE_VALUE, "log": lib.GATE_LOG, "logit": lib.GATE_LOGIT}
_DENSE = (0, 0, 0)


def _three_axes(spec: Spec) -> None:
    if len(spec.shape) != 3:
        raise FlashscanValueError(f"{spec.name} has shape {spec.shape}; accepted are arrays of 3 axes")


def _read(problem: Problem, number: int, spec: Spec, axes: tuple[int, int, int]) -> tuple[int, ...]:
    """Reads an array where it lies, or a dense copy. Returns its strides along (batch, time, channels).

    Strides along axes of extent 1 are 0. All zero means dense to the library.
    """
    missing = 3 - len(spec.shape)
    shape, strides = (1,) * missing + spec.shape, (0,) * missing + spec.strides
    steps = tuple(0 if shape[axis] <= 1 else strides[axis] for axis in axes)
    item = spec.itemsize
    in_place = spec.plain and any(steps) and not any(step < 0 or step % item for step in steps)
    if spec.dense or not in_place:
        problem.read(number, spec)
        return _DENSE
    problem.read(number, spec, in_place=True)
    return tuple(step // item for step in steps)


def _write(problem: Problem, out: Spec | None, like: Spec, axes: tuple[int, int, int]) -> tuple[int, ...]:
    """Has the output written, to ``out`` if it is given. Returns its strides as ``_read`` does."""
    if out is None:
        problem.write(lib.OUTPUT, like.shape, like.dtype)
        return _DENSE
    problem.write_into(lib.OUTPUT, out, like.shape, like.dtype)
    return _DENSE if out.dense else tuple(0 if out.shape[a] <= 1 else out.strides[a] // out.itemsize for a in axes)


def _broadcast(gate: Spec, like: Spec, axes: tuple[int, int, int]) -> int:
    """The bits of gate_broadcast."""
    shape = (1,) * (3 - len(gate.shape)) + gate.shape
    if len(shape) != 3 or any(n not in (1, m) for n, m in zip(shape, like.shape)):
        raise FlashscanValueError(
            f"gate has shape {gate.shape}; accepted are shapes that broadcast to the other array's, {like.shape}"
        )
    return sum(1 << i for i, axis in enumerate(axes) if shape[axis] == 1 and like.shape[axis] != 1)


# The dtypes of gates that data may have beside its own.
_GATES = {lib.BF16: lib.F32, lib.F16: lib.F32, lib.C64: lib.F32, lib.C128: lib.F64}


class _Linear:
    """What both passes have in common; ``like`` is an array of the input's shape and dtype."""

    fields: tuple[Any, ...]

    def __init__(
        self, problem: Problem, gate: Spec, like: Spec, seq_offsets: Spec | None, reset: Spec | None, options: tuple[Any, ...]
    ) -> None:
        layout, gate_form, reverse, self.threads = options
        layout_number, self.axes = choose("layout", layout, LAYOUTS)
        form = choose("gate_form", gate_form, GATE_FORMS)
        number = data_number(like)
        dtype_beside(gate, like, _GATES)
        broadcast = _broadcast(gate, like, self.axes)
        batch, time, channels = (like.shape[axis] for axis in self.axes)
        sequences, offsets = problem.read_offsets(seq_offsets, like, batch)
        flags = problem.read_reset(reset, (batch, time), lib.LINEAR_FLAG_RESET)
        self.fields = (number, data_number(gate), layout_number, form, broadcast, lib.direction(flag("reverse", reverse)), flags)
        self.fields += (batch, time, channels, sequences, offsets, 0)
        self.gate_strides = _read(problem, lib.GATE, gate, self.axes)
        self.state_shape = (sequences if problem.packed else batch, channels)
        self.state_dtype = problem.state_dtype(like.dtype, number)


@kind(1, "gate", "input", "initial_state?", "seq_offsets?", "reset?", "out?")
def forward(problem: Problem, final: bool, *options: Any) -> Call:
    gate, x, state, seq_offsets, reset, out = problem.specs
    _three_axes(x)
    linear = _Linear(problem, gate, x, seq_offsets, reset, options)
    strides = _read(problem, lib.INPUT, x, linear.axes)
    problem.read_converted(lib.STATE_IN, state, linear.state_shape, linear.state_dtype)
    out_strides = _write(problem, out, x, linear.axes)
    if flag("return_final_state", final):
        problem.write(lib.STATE_OUT, linear.state_shape, linear.state_dtype)
    fields = (*linear.fields, strides, linear.gate_strides, out_strides, _DENSE, _DENSE, _DENSE)
    return problem.call(problem.plan("linear", fields, linear.threads), False)


@kind(1, "gate", "output", "grad_output", "initial_state?", "grad_final_state?", "seq_offsets?", "reset?")
def backward(problem: Problem, *options: Any) -> Call:
    gate, out, grad, state, grad_state, seq_offsets, reset = problem.specs
    _three_axes(out)
    _three_axes(grad)
    linear = _Linear(problem, gate, out, seq_offsets, reset, options)
    same_shape(grad, out.shape)
    same_dtype(grad, out.dtype)
    strides = _read(problem, lib.OUTPUT, out, linear.axes)
    grad_strides = _read(problem, lib.GRAD | lib.OUTPUT, grad, linear.axes)
    problem.read_converted(lib.STATE_IN, state, linear.state_shape, linear.state_dtype)
    problem.read_converted(lib.GRAD | lib.STATE_OUT, grad_state, linear.state_shape, linear.state_dtype)
    problem.write(lib.GRAD | lib.GATE, gate.shape, gate.dtype)
    problem.write(lib.GRAD | lib.INPUT, out.shape, out.dtype)
    problem.write(lib.GRAD | lib.STATE_IN, linear.state_shape, linear.state_dtype)
    fields = (*linear.fields, _DENSE, linear.gate_strides, strides, _DENSE, _DENSE, grad_strides)
    return problem.call(problem.plan("linear", fields, linear.threads), True)


def _along(kind: Kind, arrays: tuple[Any, ...], options: tuple[Any, ...], layout: Any, axis: Any) -> list[Any]:
    """``forward`` or ``backward`` with time at ``axis`` of arrays of any rank."""

    def call(space: Any, time: TimeAxis, given: dict[str, Any]) -> list[Any]:
        gate, out = given.pop("gate"), given.get("out")
        views = (time.view(name, array) for name, array in given.items())
        results = kind((time.gate(gate, space.expand), *views), options)
        if kind is forward:
            return time.results(*results) if out is None else [state.reshape(time.state_shape) for state in results]
        return [time.gate_gradient(results[0], gate, space.sum_over), *time.results(*results[1:])]

    return along(kind, arrays, layout, axis, call)


@overload
def linear_scan(
    gate: ArrayLike, input: Array, initial_state: ArrayLike | None = None, *, return_final_state: Literal[False] = False,
    **options: Unpack[LinearOutOptions[Array]],
) -> Array: ...  # fmt: skip
@overload
def linear_scan(
    gate: ArrayLike, input: Array, initial_state: ArrayLike | None = None, *, return_final_state: Literal[True],
    **options: Unpack[LinearOutOptions[Array]],
) -> tuple[Array, Array]: ...  # fmt: skip
@overload
def linear_scan(
    gate: ArrayLike, input: Array, initial_state: ArrayLike | None = None, *, return_final_state: bool,
    **options: Unpack[LinearOutOptions[Array]],
) -> Array | tuple[Array, Array]: ...  # fmt: skip
def linear_scan(
    gate: ArrayLike,
    input: Array,
    initial_state: ArrayLike | None = None,
    *,
    layout: Layout = "btc",
    axis: int | None = None,
    gate_form: GateForm = "value",
    reverse: bool = False,
    seq_offsets: ArrayLike | None = None,
    reset: ArrayLike | None = None,
    return_final_state: bool = False,
    out: Array | None = None,
    threads: int = 0,
) -> Array | tuple[Array, Array]:
    """Computes ``h[t] = a[t] * h[t-1] + input[t]`` for every batch and channel, starting from ``initial_state``.

    Args:
        gate: where a comes from (see ``gate_form``); any shape that broadcasts to the input's by NumPy's rules. Its
            dtype is the input's, or float32 with float16, bfloat16 and complex64 input, or float64 with complex128
            input. A Python number takes the input's dtype.
        input: [B, T, C], or [B, C, T] with ``layout="bct"``; float32, float64, float16, bfloat16 (NumPy: ml_dtypes'),
            complex64 or complex128; an array of NumPy, PyTorch, CuPy or a package that speaks DLPack, on the CPU or a
            GPU, where all others have to be too. Views are read in place unless a stride is negative or no multiple of
            the item size.
        initial_state: [B, C], [N, C] with ``seq_offsets``; zeros if not given. States are float32 for float32 and
            16-bit input, else of the input's dtype.
        layout: "btc" (channels innermost) or "bct" (time innermost).
        axis: the axis of time of an input of any rank, in the place of ``layout``. ``gate`` broadcasts to the input's
            shape as before, ``initial_state`` has that shape without this axis, and ``reset`` that up to and with this
            axis; with ``seq_offsets`` the extents before it are 1, and states are ``[N, *axes behind it]``. Views are read
            in place where the axes before time have one stride together, and those behind it; others are copied.
        gate_form: "value": a = gate; "log": a = exp(gate); "logit": a = 1 / (1 + exp(-gate)).
        reverse: computes ``h[t] = a[t] * h[t+1] + input[t]``, from the last step to the first.
        seq_offsets: [N + 1], int32 or int64, never decreasing, from 0 to at most T; sequence n of the single row
            (B = 1) is steps ``seq_offsets[n]`` to ``seq_offsets[n+1] - 1``. The output is 0 behind the last sequence.
        reset: [B, T], bool or uint8; where it is not 0, the state before that step counts as 0.
        return_final_state: also return the state after the last step.
        out: an array of the input's package, device, shape and dtype that the output is written to; the input itself, to
            overwrite it, or one that overlaps no argument. It may have gaps. Steps behind the last sequence of
            ``seq_offsets`` stay as they are.
        threads: number of CPU threads; 0 for all that OpenMP would use, and on a GPU.

    Returns:
        The output h, of the input's package, shape and dtype: ``out``, or a new dense array; with
        ``return_final_state`` the pair of it and the final state, of ``initial_state``'s shape.

    Raises:
        FlashscanValueError, FlashscanTypeError: an argument is not accepted; the message says what is.
        FlashscanError: the library failed; ``status`` tells how.
    """
    arrays = (gate, input, initial_state, seq_offsets, reset, out)
    options: tuple[Any, ...] = (layout, gate_form, reverse, threads)
    if axis is None and out is None:
        results = forward(arrays, (return_final_state, *options))
        return tuple(results) if return_final_state else results[0]
    check_out(out, input)
    options = (return_final_state, *options)
    results = forward(arrays, options) if axis is None else _along(forward, arrays, options, layout, axis)
    results = results if out is None else [out, *results]
    return tuple(results) if return_final_state else results[0]


def linear_scan_backward(
    gate: ArrayLike,
    output: Array,
    grad_output: Array,
    initial_state: ArrayLike | None = None,
    grad_final_state: ArrayLike | None = None,
    *,
    layout: Layout = "btc",
    axis: int | None = None,
    gate_form: GateForm = "value",
    reverse: bool = False,
    seq_offsets: ArrayLike | None = None,
    reset: ArrayLike | None = None,
    threads: int = 0,
) -> tuple[Array, Array, Array]:
    """The gradients of ``linear_scan``.

    Args:
        gate, initial_state, layout, axis, gate_form, reverse, seq_offsets, reset, threads: as ``linear_scan`` was given
            them.
        output: what ``linear_scan`` returned.
        grad_output: the gradient of the output, of its shape and dtype.
        grad_final_state: the gradient of the final state, of its shape; zeros if not given.

    Returns:
        ``(grad_gate, grad_input, grad_initial_state)``: the gradient with respect to what ``gate`` was given as, in its
        shape and dtype, summed over the axes along which it was broadcast; that of the input, in its shape and dtype;
        and that of the initial state, of its shape, whether or not one was given. Complex gradients follow
        PyTorch's convention. Behind the last sequence of ``seq_offsets`` they are 0.

    Raises:
        FlashscanValueError, FlashscanTypeError: an argument is not accepted; the message says what is.
        FlashscanError: the library failed; ``status`` tells how.
    """
    arrays = (gate, output, grad_output, initial_state, grad_final_state, seq_offsets, reset)
    options = (layout, gate_form, reverse, threads)
    return tuple(backward(arrays, options) if axis is None else _along(backward, arrays, options, layout, axis))
