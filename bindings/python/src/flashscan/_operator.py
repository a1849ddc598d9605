# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import ctypes
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Union

import numpy as np
from numpy.typing import ArrayLike

from . import _library as lib
from ._arrays import OFFSETS_DTYPES, Array, argument, dtype_number, sequence_offsets, state_dtype, thread_count
from ._errors import FlashscanError, FlashscanTypeError, FlashscanValueError

_KINDS = {"add": 0, "mul": 1, "min": 2, "max": 3, "logaddexp": 4, "matmul": 5}
_AFFINE, _CUSTOM = 6, 7
_INCLUSIVE, _EXCLUSIVE, _REDUCTION = range(3)
# Whether a gradient of x reads x.
_READS_X = {"mul", "min", "max", "logaddexp", "matmul"}


@dataclass(frozen=True)
class HostOperator:
    """A compiled associative operator, ``void f(void* state, const void* lhs, const void* rhs, void* out)``.

    ``address`` is that of the function, a ``numba.cfunc``'s ``address`` for example, and ``state`` what it gets first.
    It is called from several threads at once, without the GIL. An element is what lies behind the scanned axis.
    """

    address: int
    state: int = 0


Operator = Union[str, HostOperator, Callable[[Array, Array], ArrayLike]]


@dataclass
class _Problem:
    """One call's options, checked and brought into the library's terms, and its arguments."""

    mode: int
    kind: int
    axis: int
    shape: tuple[int, ...]
    state_shape: tuple[int, ...]
    dtype: np.dtype
    fields: tuple[Any, ...]
    threads: int
    packed: bool
    args: list[tuple[int, int, int, int]] = field(default_factory=list)
    kept: list[Any] = field(default_factory=list)

    @property
    def state_dtype(self) -> np.dtype:
        return self.dtype if self.kind == _CUSTOM else state_dtype(self.dtype)

    @property
    def output_shape(self) -> tuple[int, ...]:
        return self.state_shape if self.mode == _REDUCTION else self.shape

    def add(self, number: int, array: Array) -> Array:
        self.args.append(argument(number, array))
        self.kept.append(array)
        return array

    def add_given(self, number: int, name: str, value: ArrayLike, shape: tuple[int, ...], dtype: np.dtype) -> None:
        array = np.asarray(value)
        if array.shape != shape:
            raise FlashscanValueError(f"{name} has shape {array.shape}; accepted is {shape}")
        if not np.can_cast(array.dtype, dtype, "same_kind"):
            raise FlashscanTypeError(f"{name} has dtype {array.dtype}; accepted are those that convert to {dtype}")
        self.add(number, np.ascontiguousarray(array, dtype))

    def new(self, number: int, shape: tuple[int, ...], dtype: np.dtype) -> Array:
        # Steps behind the last packed sequence are not written by the library.
        return self.add(number, np.zeros(shape, dtype) if self.packed else np.empty(shape, dtype))

    def plan(self) -> lib.Plan:
        return lib.plan("operator", (*self.fields, None), self.threads)


def _axis_of(axis: int | None, default: int | None, ndim: int, inner: int) -> int:
    """The axis of time, counted from the front; ``inner`` axes behind it belong to an element."""
    if axis is None:
        if default is None:
            raise FlashscanTypeError("axis is not given; an operator that is no name needs it")
        axis = default
    place = axis + ndim if axis < 0 else axis
    if not 0 <= place < ndim - inner:
        raise FlashscanValueError(
            f"axis is {axis} for an array of {ndim} axes; accepted are {-ndim} to {ndim - 1 - inner}"
            + (f", as the last {inner} are a matrix" if inner else "")
        )
    return place


def _problem(
    x: Array,
    kind: int,
    mode: int,
    axis: int,
    inner: int,
    reverse: bool,
    seq_offsets: ArrayLike | None,
    threads: int,
) -> _Problem:
    custom = kind == _CUSTOM
    offsets = None if seq_offsets is None else sequence_offsets(seq_offsets)
    batch, time = math.prod(x.shape[:axis]), x.shape[axis]
    behind = x.shape[axis + 1 :]
    channels = 1 if custom else math.prod(behind[: len(behind) - inner])
    if offsets is not None and batch != 1:
        raise FlashscanValueError(f"x has shape {x.shape} with seq_offsets; accepted are extents of 1 before axis {axis}")
    sequences = 0 if offsets is None else offsets.size - 1
    fields = (0 if custom else dtype_number("x", x), kind, 0, mode, int(bool(reverse)), 0)
    fields += (0 if offsets is None else OFFSETS_DTYPES[offsets.dtype], batch, time, channels)
    problem = _Problem(
        mode=mode,
        kind=kind,
        axis=axis,
        shape=x.shape,
        state_shape=(x.shape[:axis] if offsets is None else (sequences,)) + behind,
        dtype=x.dtype,
        fields=(*fields, x.shape[-1] if inner else 0, sequences),
        threads=thread_count(threads),
        packed=offsets is not None,
    )
    if offsets is not None:
        problem.add(lib.SEQ_OFFSETS, offsets)
    return problem


def _problem_of(x: ArrayLike, op: Operator, mode: int, axis: int | None, *rest: Any) -> tuple[Array, _Problem]:
    if isinstance(op, str):
        if op not in _KINDS:
            raise FlashscanValueError(f"op is {op!r}; accepted are {', '.join(map(repr, _KINDS))} and callables")
        array = np.ascontiguousarray(x)
        inner = 2 if op == "matmul" else 0
        if array.ndim < inner + 1:
            raise FlashscanValueError(f"x has shape {array.shape}; accepted are arrays of {inner + 1} axes or more")
        if inner and array.shape[-1] != array.shape[-2]:
            raise FlashscanValueError(f"x has shape {array.shape}; accepted are square matrices in the last two axes")
        place = _axis_of(axis, -3 if inner else -1, array.ndim, inner)
        return array, _problem(array, _KINDS[op], mode, place, inner, *rest)
    if not callable(op) and not isinstance(op, HostOperator):
        raise FlashscanTypeError(f"op is {op!r}; accepted are {', '.join(map(repr, _KINDS))}, HostOperator, callables")
    array = np.ascontiguousarray(x)
    return array, _problem(array, _CUSTOM, mode, _axis_of(axis, None, array.ndim, 0), 0, *rest)


def _custom_plan(problem: _Problem, op: Any, errors: list[BaseException]) -> lib.Plan:
    """A plan that calls ``op``; what it raises is kept in ``errors``."""
    shape, dtype = problem.shape[problem.axis + 1 :], problem.dtype
    size = dtype.itemsize * math.prod(shape)
    inner = np.empty(shape, dtype).strides
    custom = lib.CustomOperator(struct_size=ctypes.sizeof(lib.CustomOperator), element_bytes=size)
    if isinstance(op, HostOperator):
        custom.state, custom.host = op.state, op.address
    else:

        def view(address: int, stride: int, count: int) -> Array:
            low = min(0, (count - 1) * stride)
            memory = (ctypes.c_char * (abs(stride) * (count - 1) + size)).from_address(address + low)
            return np.ndarray((count, *shape), dtype, memory, -low, (stride, *inner))

        def batched(_state, lhs, lhs_stride, rhs, rhs_stride, out, out_stride, count, _stream) -> int:
            try:
                view(out, out_stride, count)[...] = op(view(lhs, lhs_stride, count), view(rhs, rhs_stride, count))
                return 0
            except BaseException as error:  # it must not pass through the library
                errors.append(error)
                return 1

        custom.batched = lib.BatchedOperator(batched)
    problem.kept.append(custom)
    return lib.Plan("operator", (*problem.fields, ctypes.addressof(custom)), problem.threads)


def _run(x: Array, op: Operator, problem: _Problem, initial: ArrayLike | None, final: bool) -> tuple[Array, Array | None]:
    problem.add(lib.INPUT, x)
    if initial is not None:
        problem.add_given(lib.STATE_IN, "initial", initial, problem.state_shape, problem.state_dtype)
    output = problem.new(lib.OUTPUT, problem.output_shape, problem.dtype)
    last = problem.new(lib.STATE_OUT, problem.state_shape, problem.state_dtype) if final else None
    if isinstance(op, str):
        problem.plan().forward(problem.args)
        return output, last
    errors: list[BaseException] = []
    try:
        _custom_plan(problem, op, errors).forward(problem.args)
    except FlashscanError:
        if errors:
            raise errors[0] from None
        raise
    return output, last


def prefix_scan(
    x: ArrayLike,
    op: Operator,
    *,
    axis: int | None = None,
    reverse: bool = False,
    exclusive: bool = False,
    initial: ArrayLike | None = None,
    seq_offsets: ArrayLike | None = None,
    return_final: bool = False,
    threads: int = 0,
) -> Any:
    """Prefixes ``y[t] = x[0] o x[1] o ... o x[t]`` of an associative operator along an axis.

    Args:
        x: array of float32, float64, float16 or bfloat16, or for "add", "mul", "matmul" of complex64 or complex128; of
            any dtype for other operators.
        op: "add", "mul", "min", "max", "logaddexp" (elementwise), "matmul" (of the last two axes), a ``HostOperator``,
            or a function ``f(left, right)`` of two arrays of n elements each, ``[n, *x.shape[axis + 1:]]``, that
            combines them pair by pair and is called about ``2 log2(time)`` times.
        axis: the axis of time; -3 for "matmul", -1 for the other names. Other operators need it.
        reverse: the same scan on the flipped sequence, flipped back.
        exclusive: ``x[t]`` is left out of ``y[t]``; the first is ``initial``, or the identity of a named operator.
        initial: left operand of the first element: ``x``'s shape without ``axis``; ``[num_sequences, ...]`` if packed.
        seq_offsets: int32 or int64 ``[num_sequences + 1]``: packed sequences along ``axis``.
        return_final: also return the last inclusive prefix, in float32 for 16-bit data, of the shape of ``initial``.
        threads: number of CPU threads, 0 for all.

    Returns:
        ``y`` of ``x``'s shape, or ``(y, final)``.
    """
    mode = _EXCLUSIVE if exclusive else _INCLUSIVE
    array, problem = _problem_of(x, op, mode, axis, reverse, seq_offsets, threads)
    output, last = _run(array, op, problem, initial, return_final)
    return output if last is None else (output, last)


def reduce(
    x: ArrayLike,
    op: Operator,
    *,
    axis: int | None = None,
    reverse: bool = False,
    initial: ArrayLike | None = None,
    seq_offsets: ArrayLike | None = None,
    threads: int = 0,
) -> Array:
    """The last of ``prefix_scan``, with the same bits: ``x``'s shape without ``axis``; see there for the arguments."""
    array, problem = _problem_of(x, op, _REDUCTION, axis, reverse, seq_offsets, threads)
    return _run(array, op, problem, initial, False)[0]


def _backward(
    x: ArrayLike,
    op: str,
    mode: int,
    grad_output: ArrayLike,
    output: ArrayLike | None,
    initial: ArrayLike | None,
    grad_final: ArrayLike | None,
    *rest: Any,
) -> tuple[Array, Array | None]:
    if not isinstance(op, str):
        raise FlashscanTypeError(f"op is {op!r}; accepted are {', '.join(map(repr, _KINDS))}")
    array, problem = _problem_of(x, op, mode, *rest)
    if op in _READS_X:
        problem.add(lib.INPUT, array)
    if op == "matmul" and mode != _REDUCTION:
        if output is None:
            raise FlashscanTypeError("output is None; the gradient of a scan of 'matmul' needs it")
        problem.add_given(lib.OUTPUT, "output", output, problem.shape, problem.dtype)
    problem.add_given(lib.GRAD | lib.OUTPUT, "grad_output", grad_output, problem.output_shape, problem.dtype)
    if grad_final is not None:
        problem.add_given(lib.GRAD | lib.STATE_OUT, "grad_final", grad_final, problem.state_shape, problem.state_dtype)
    grad_initial = None
    if initial is not None:
        problem.add_given(lib.STATE_IN, "initial", initial, problem.state_shape, problem.state_dtype)
        grad_initial = problem.new(lib.GRAD | lib.STATE_IN, problem.state_shape, problem.state_dtype)
    grad_x = problem.new(lib.GRAD | lib.INPUT, problem.shape, problem.dtype)
    problem.plan().backward(problem.args)
    return grad_x, grad_initial


def prefix_scan_backward(
    x: ArrayLike,
    op: str,
    grad_output: ArrayLike,
    output: ArrayLike | None = None,
    *,
    axis: int | None = None,
    reverse: bool = False,
    exclusive: bool = False,
    initial: ArrayLike | None = None,
    grad_final: ArrayLike | None = None,
    seq_offsets: ArrayLike | None = None,
    threads: int = 0,
) -> tuple[Array, Array | None]:
    """Gradients of ``prefix_scan`` with a named operator, given the gradients of its results.

    ``output`` is what ``prefix_scan`` returned; only "matmul" needs it. Returns ``(grad_x, grad_initial)``, the latter
    None without ``initial``.
    """
    mode = _EXCLUSIVE if exclusive else _INCLUSIVE
    return _backward(x, op, mode, grad_output, output, initial, grad_final, axis, reverse, seq_offsets, threads)


def reduce_backward(
    x: ArrayLike,
    op: str,
    grad_output: ArrayLike,
    *,
    axis: int | None = None,
    reverse: bool = False,
    initial: ArrayLike | None = None,
    seq_offsets: ArrayLike | None = None,
    threads: int = 0,
) -> tuple[Array, Array | None]:
    """Gradients ``(grad_x, grad_initial)`` of ``reduce`` with a named operator."""
    return _backward(x, op, _REDUCTION, grad_output, None, initial, None, axis, reverse, seq_offsets, threads)
