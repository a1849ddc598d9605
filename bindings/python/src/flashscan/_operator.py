# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Union, overload

from . import _library as lib
from ._call import INTEGERS, Call, Problem, data_number, flag, integer, kind, real_number
from ._errors import FlashscanTypeError, FlashscanValueError
from ._out import check_out
from ._spaces import Spec
from ._types import Array, ArrayLike, OperatorName

if TYPE_CHECKING:
    from ._options import ReduceOutOptions, ScanOutOptions, Unpack

NAMED = {
    "add": lib.OPERATOR_ADD,
    "mul": lib.OPERATOR_MUL,
    "min": lib.OPERATOR_MIN,
    "max": lib.OPERATOR_MAX,
    "logaddexp": lib.OPERATOR_LOGADDEXP,
    "matmul": lib.OPERATOR_MATMUL,
    "and": lib.OPERATOR_AND,
    "or": lib.OPERATOR_OR,
    "xor": lib.OPERATOR_XOR,
}
AFFINE, CUSTOM = lib.OPERATOR_AFFINE, lib.OPERATOR_CUSTOM
INCLUSIVE, EXCLUSIVE, REDUCTION = lib.MODE_INCLUSIVE, lib.MODE_EXCLUSIVE, lib.MODE_REDUCTION
_MOST_ROWS = 1024  # of a matrix
# Whose gradient of x reads x.
_READS_X = {"mul", "min", "max", "logaddexp", "matmul"}


_EXTREMA = ("min", "max")
_REAL = {"min", "max", "logaddexp"}
_BITS = {"and", "or", "xor"}
_OF_INTEGERS = {"add", "mul", "min", "max", *_BITS}
_OF_BOOLS = {"mul", "min", "max", *_BITS}


def _numbers(x: Spec, op: str) -> tuple[int, int]:
    """The library's numbers of the dtype and of the operator."""
    if x.number in INTEGERS and op in _OF_INTEGERS:
        return x.number, NAMED[op]
    if x.number == lib.BOOL and op in _OF_BOOLS:
        # Of bytes 0 and 1 these are products, whose identity is 1, not all bits.
        return lib.U8, lib.OPERATOR_MUL if op in ("and", "min") else NAMED[op]
    if op in _BITS:
        raise FlashscanTypeError(
            f"{x.name} has dtype {x.dtype}; accepted for {op!r} are int32, int64, uint8 and bool, in native byte order"
        )
    if x.number == lib.BOOL and op in _OF_INTEGERS:
        raise FlashscanTypeError(f"{x.name} has dtype {x.dtype}, which no results of {op!r} fit; accepted are numbers")
    others = "" if op not in _OF_INTEGERS else ", int32, int64, uint8" + (", bool" if op in _OF_BOOLS else "")
    return (real_number if op in _REAL else data_number)(x, f" for {op!r}", others), NAMED[op]


@dataclass(frozen=True)
class HostOperator:
    """A compiled associative operator, ``void f(void* state, const void* lhs, const void* rhs, void* out)``.

    ``address`` is that of the function, a ``numba.cfunc``'s ``address`` for example, and ``state`` what it gets first.
    It is called from several threads at once, without the GIL. An element is what lies behind the scanned axis.
    """

    address: int
    state: int = 0

    def __post_init__(self) -> None:
        for name in ("address", "state"):
            value = integer(name, getattr(self, name))
            if not (0 if name == "state" else 1) <= value < 2**64:
                raise FlashscanValueError(f"{name} is {value}; accepted are addresses")


@dataclass(frozen=True)
class CudaOperator:
    """An associative operator in device code, for arrays on a GPU:
    ``extern "C" __device__ void name(const void* lhs, const void* rhs, void* out)``.

    ``code`` is CUDA C++ source, or as bytes LTO-IR, of which ``numba.cuda.compile(.., abi="c", output="ltoir")`` makes
    some. ``adjoint_name`` names ``void(const void* lhs, const void* rhs, const void* grad_out, void* grad_lhs,
    void* grad_rhs)`` in the same code, for gradients. An element is what lies behind the scanned axis.
    """

    code: str | bytes
    name: str
    adjoint_name: str = ""

    def __post_init__(self) -> None:
        for name, kinds, accepted in (
            ("code", (str, bytes), "source as str, LTO-IR as bytes"),
            ("name", (str,), "str"),
            ("adjoint_name", (str,), "str"),
        ):
            value = getattr(self, name)
            if not isinstance(value, kinds):
                raise FlashscanTypeError(f"{name} is a {type(value).__name__}; accepted are {accepted}")


Operator = Union[OperatorName, HostOperator, CudaOperator, Callable[[Any, Any], Any]]


def axis_of(axis: int | None, default: int | None, ndim: int, inner: int) -> int:
    """The axis of time, counted from the front; ``inner`` axes behind it belong to an element."""
    if axis is None:
        if default is None:
            raise FlashscanTypeError("axis is not given; an operator that is no name needs it")
        axis = default
    axis = integer("axis", axis)
    place = axis + ndim if axis < 0 else axis
    if not 0 <= place < ndim - inner:
        raise FlashscanValueError(
            f"axis is {axis} for an array of {ndim} axes; accepted are {-ndim} to {ndim - 1 - inner}"
            + (f", as the last {inner} are a matrix" if inner else "")
        )
    return place


class Scan:
    """A scan or reduction of ``x`` along an axis; the last ``inner`` axes are an element's."""

    fields: tuple[Any, ...]

    def __init__(
        self,
        problem: Problem,
        x: Spec,
        number: int,
        mode: int,
        axis: int,
        inner: int,
        reverse: bool,
        seq_offsets: Spec | None,
        dtype: int | None = None,
    ) -> None:
        """``dtype``: the library's number where it is not that of real or complex numbers."""
        custom = number == CUSTOM
        if inner and not 1 <= x.shape[-1] <= _MOST_ROWS:
            raise FlashscanValueError(f"{x.name} has shape {x.shape}; accepted are 1 to {_MOST_ROWS} in the last axis")
        batch, time, behind = math.prod(x.shape[:axis]), x.shape[axis], x.shape[axis + 1 :]
        channels = 1 if custom else math.prod(behind[: len(behind) - inner])
        if seq_offsets is not None and batch != 1:
            raise FlashscanValueError(
                f"{x.name} has shape {x.shape} with seq_offsets; accepted are extents of 1 before axis {axis}"
            )
        if dtype is None:
            dtype = 0 if custom else data_number(x)
        sequences, offsets = problem.read_offsets(seq_offsets, x, batch)
        self.fields = (dtype, number, lib.LAYOUT_BTC, mode, lib.direction(flag("reverse", reverse)), 0, offsets, batch, time, channels)
        self.fields += (x.shape[-1] if inner else 0, sequences)
        self.state_shape = ((sequences,) if problem.packed else x.shape[:axis]) + behind
        self.state_dtype = x.dtype if custom else problem.state_dtype(x.dtype, dtype)
        self.output_shape = self.state_shape if mode == REDUCTION else x.shape
        self.axis = axis

    def write(self, problem: Problem, out: Spec | None, dtype: Any) -> None:
        """Has the output written, to ``out`` if it is given."""
        if out is None:
            problem.write(lib.OUTPUT, self.output_shape, dtype)
        else:
            problem.write_into(lib.OUTPUT, out, self.output_shape, dtype, dense=True)


def _scan_of(
    problem: Problem, x: Spec, op: str, mode: int, axis: int | None, reverse: bool, offsets: Spec | None
) -> Scan:
    ndim = len(x.shape)
    inner = 2 if op == "matmul" else 0
    if ndim < inner + 1:
        raise FlashscanValueError(f"{x.name} has shape {x.shape}; accepted are arrays of {inner + 1} axes or more")
    if inner and x.shape[-1] != x.shape[-2]:
        raise FlashscanValueError(f"{x.name} has shape {x.shape}; accepted are square matrices in the last two axes")
    dtype, number = _numbers(x, op)
    place = axis_of(axis, -3 if inner else -1, ndim, inner)
    return Scan(problem, x, number, mode, place, inner, reverse, offsets, dtype)


def _forward(
    problem: Problem, op: str, index: bool, final: bool, mode: int, axis: int | None, reverse: bool, threads: int
) -> Call:
    x, initial, seq_offsets, out = problem.specs
    scan = _scan_of(problem, x, op, mode, axis, reverse, seq_offsets)
    problem.read(lib.INPUT, x)
    problem.read_converted(lib.STATE_IN, initial, scan.state_shape, scan.state_dtype)
    scan.write(problem, out, x.dtype)
    if index:
        if x.number == lib.BOOL:
            raise FlashscanTypeError(f"{x.name} has dtype {x.dtype}; accepted with return_index are numbers")
        problem.write(lib.INDEX, scan.output_shape, problem.space.dtype(lib.I64))
    if flag("return_final", final):
        problem.write(lib.STATE_OUT, scan.state_shape, scan.state_dtype)
    return problem.call(problem.plan("operator", (*scan.fields, None), threads), False)


@kind(0, "x", "initial?", "seq_offsets?", "out?")
def forward(problem: Problem, op: str, final: bool, mode: int, axis: int | None, reverse: bool, threads: int) -> Call:
    return _forward(problem, op, False, final, mode, axis, reverse, threads)


@kind(0, "x", "initial?", "seq_offsets?", "out?")
def indexed(problem: Problem, op: str, final: bool, mode: int, axis: int | None, reverse: bool, threads: int) -> Call:
    """``forward`` of "min" and "max" with INDEX behind the output."""
    return _forward(problem, op, True, final, mode, axis, reverse, threads)


@kind(0, "x", "output?", "grad_output", "initial?", "grad_final?", "seq_offsets?")
def backward(problem: Problem, op: str, mode: int, axis: int | None, reverse: bool, threads: int) -> Call:
    x, output, grad, initial, grad_final, seq_offsets = problem.specs
    scan = _scan_of(problem, x, op, mode, axis, reverse, seq_offsets)
    if op in _READS_X:
        problem.read(lib.INPUT, x)
    if op == "matmul" and mode != REDUCTION:
        if output is None:
            raise FlashscanTypeError("output is None; the gradient of a scan of 'matmul' needs it")
        problem.read_converted(lib.OUTPUT, output, x.shape, x.dtype)
    problem.read_converted(lib.GRAD | lib.OUTPUT, grad, scan.output_shape, x.dtype)
    problem.read_converted(lib.GRAD | lib.STATE_OUT, grad_final, scan.state_shape, scan.state_dtype)
    problem.write(lib.GRAD | lib.INPUT, x.shape, x.dtype)
    if initial is not None:
        problem.read_converted(lib.STATE_IN, initial, scan.state_shape, scan.state_dtype)
        problem.write(lib.GRAD | lib.STATE_IN, scan.state_shape, scan.state_dtype)
    return problem.call(problem.plan("operator", (*scan.fields, None), threads), True)


def named(op: Any, others: str) -> bool:
    if isinstance(op, str):
        if op not in NAMED:
            raise FlashscanValueError(f"op is {op!r}; accepted are {', '.join(map(repr, NAMED))}{others}")
        return True
    return False


def refuse_operator(op: Any) -> None:
    raise FlashscanTypeError(
        f"op is {op!r}; accepted are {', '.join(map(repr, NAMED))}, HostOperator, CudaOperator, callables"
    )


def asks_index(index: Any, op: Any) -> bool:
    """Checks ``return_index``."""
    asked = flag("return_index", index)
    if asked and op not in _EXTREMA:
        raise FlashscanValueError(f"return_index is True with op {op!r}; accepted are 'min' and 'max'")
    return asked


def _run(
    x: ArrayLike, op: Operator, others: tuple[Any, ...], index: bool, final: bool, mode: int, *options: Any
) -> list[Any]:
    """``others``: initial, seq_offsets, out; ``options``: axis, reverse, threads."""
    is_name, out = named(op, " and callables"), others[-1]
    index = asks_index(index, op)
    if not is_name and not callable(op) and not isinstance(op, (HostOperator, CudaOperator)):
        refuse_operator(op)
    check_out(out, x)
    if is_name:
        run = indexed if index else forward
        results = run((x, *others), (op, final, mode, *options))
    else:
        from . import _custom

        results = _custom.forward(_custom.Request(op, mode, *options), x, *others, final=final)
    return results if out is None else [out, *results]


@overload
def prefix_scan(
    x: Array, op: Operator, *, return_index: Literal[False] = False, return_final: Literal[False] = False,
    **options: Unpack[ScanOutOptions[Array]],
) -> Array: ...  # fmt: skip
@overload
def prefix_scan(
    x: Array, op: Operator, *, return_index: Literal[False] = False, return_final: Literal[True],
    **options: Unpack[ScanOutOptions[Array]],
) -> tuple[Array, Array]: ...  # fmt: skip
@overload
def prefix_scan(
    x: Array, op: Operator, *, return_index: Literal[False] = False, return_final: bool,
    **options: Unpack[ScanOutOptions[Array]],
) -> Array | tuple[Array, Array]: ...  # fmt: skip
@overload
def prefix_scan(
    x: Array, op: Literal["min", "max"], *, return_index: Literal[True], return_final: Literal[False] = False,
    **options: Unpack[ScanOutOptions[Array]],
) -> tuple[Array, Any]: ...  # fmt: skip
@overload
def prefix_scan(
    x: Array, op: Literal["min", "max"], *, return_index: Literal[True], return_final: Literal[True],
    **options: Unpack[ScanOutOptions[Array]],
) -> tuple[Array, Any, Array]: ...  # fmt: skip
def prefix_scan(
    x: Array,
    op: Operator,
    *,
    axis: int | None = None,
    reverse: bool = False,
    exclusive: bool = False,
    initial: ArrayLike | None = None,
    seq_offsets: ArrayLike | None = None,
    return_index: bool = False,
    return_final: bool = False,
    out: Array | None = None,
    threads: int = 0,
) -> Any:
    """Prefixes ``y[t] = x[0] o x[1] o ... o x[t]`` of an associative operator along an axis.

    Args:
        x: an array of NumPy, PyTorch, CuPy or a package that speaks DLPack, on the CPU or a GPU; float32, float64,
            float16 or bfloat16, or for "add", "mul", "matmul" complex64 or complex128; int32, int64 or uint8, which
            wrap, for all names but "logaddexp" and "matmul"; bool for these but "add"; of any dtype for operators that
            are no names.
        op: "add", "mul", "min", "max", "logaddexp", "and", "or", "xor" (elementwise), "matmul" (of the last two axes), a ``HostOperator``,
            a ``CudaOperator``, or a function ``f(left, right)`` of two arrays of n elements each,
            ``[n, *x.shape[axis + 1:]]``, that combines them pair by pair and is called about ``2 log2(time)`` times.
        axis: the axis of time; -3 for "matmul", -1 for the other names. Other operators need it.
        reverse: the same scan on the flipped sequence, flipped back.
        exclusive: ``x[t]`` is left out of ``y[t]``; the first is ``initial``, or the identity of a named operator.
        initial: left operand of the first element: ``x``'s shape without ``axis``; ``[num_sequences, ...]`` if packed. Without
            it operators that are no names have no result for an empty sequence: no axis of extent 0 is reduced, and of a
            packed sequence without steps the last prefix is 0.
        seq_offsets: int32 or int64 ``[num_sequences + 1]``: packed sequences along ``axis``.
        return_index: of "min" and "max", also return the running argmin or argmax: for each of ``y`` the step of ``x``
            that it comes from, int64, counted along ``axis`` from its beginning; of equal ones the earlier in the order
            of computation, of NaN the first. It is -1 where ``y`` is ``initial`` or the identity, and behind the last sequence
            of ``seq_offsets``.
        return_final: also return the last inclusive prefix, in float32 for 16-bit data, of the shape of ``initial``.
        out: a dense array of ``x``'s package, device, shape and dtype that ``y`` is written to and that overlaps no
            argument. Steps behind the last sequence of ``seq_offsets`` stay as they are.
        threads: number of CPU threads, 0 for all, and on a GPU.

    Returns:
        ``y`` of ``x``'s shape, ``out`` if it is given, or ``(y, final)``, ``(y, index)``, ``(y, index, final)``.

    Raises:
        FlashscanValueError, FlashscanTypeError: an argument is not accepted; the message says what is.
        FlashscanError: the library failed; ``status`` tells how.
    """
    mode = EXCLUSIVE if flag("exclusive", exclusive) else INCLUSIVE
    results = _run(x, op, (initial, seq_offsets, out), return_index, return_final, mode, axis, reverse, threads)
    return tuple(results) if return_index or return_final else results[0]


@overload
def reduce(
    x: Array, op: Operator, *, return_index: Literal[False] = False, **options: Unpack[ReduceOutOptions[Array]]
) -> Array: ...
@overload
def reduce(
    x: Array, op: Literal["min", "max"], *, return_index: Literal[True], **options: Unpack[ReduceOutOptions[Array]]
) -> tuple[Array, Any]: ...
def reduce(
    x: Array,
    op: Operator,
    *,
    axis: int | None = None,
    reverse: bool = False,
    initial: ArrayLike | None = None,
    seq_offsets: ArrayLike | None = None,
    return_index: bool = False,
    out: Array | None = None,
    threads: int = 0,
) -> Any:
    """The last of ``prefix_scan``, with the same bits: ``x``'s shape without ``axis``; see there for the arguments.

    ``out`` has the result's shape, that of ``initial``. Returns the result, or with ``return_index`` the pair of it and the
    argmin or argmax.
    """
    results = _run(x, op, (initial, seq_offsets, out), return_index, False, REDUCTION, axis, reverse, threads)
    return tuple(results) if return_index else results[0]


def _backward(x: ArrayLike, op: Any, arrays: tuple[Any, ...], *options: Any) -> tuple[Array, Array | None]:
    """``arrays``: output, grad_output, initial, grad_final, seq_offsets; ``options``: mode, axis, reverse, threads."""
    if not named(op, ""):
        raise FlashscanTypeError(f"op is {op!r}; accepted are {', '.join(map(repr, NAMED))}")
    results = backward((x, *arrays), (op, *options))
    return results[0], results[1] if arrays[2] is not None else None


def prefix_scan_backward(
    x: Array,
    op: OperatorName,
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
    """Gradients of ``prefix_scan`` with a named operator, given the gradients of its results. Integers have none.

    ``output`` is what ``prefix_scan`` returned; only "matmul" needs it. Returns ``(grad_x, grad_initial)``, the latter
    None without ``initial``.
    """
    mode = EXCLUSIVE if flag("exclusive", exclusive) else INCLUSIVE
    return _backward(x, op, (output, grad_output, initial, grad_final, seq_offsets), mode, axis, reverse, threads)


def reduce_backward(
    x: Array,
    op: OperatorName,
    grad_output: ArrayLike,
    *,
    axis: int | None = None,
    reverse: bool = False,
    initial: ArrayLike | None = None,
    seq_offsets: ArrayLike | None = None,
    threads: int = 0,
) -> tuple[Array, Array | None]:
    """Gradients ``(grad_x, grad_initial)`` of ``reduce`` with a named operator."""
    return _backward(x, op, (None, grad_output, initial, None, seq_offsets), REDUCTION, axis, reverse, threads)
