# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, overload

from . import _library as lib
from ._call import Call, Problem, flag, kind
from ._errors import FlashscanValueError
from ._operator import AFFINE, INCLUSIVE, Scan
from ._spaces import Spec
from ._types import Array, ArrayLike

if TYPE_CHECKING:
    from ._options import AffineOptions, Unpack


def _scan(problem: Problem, W: Spec, like: Spec, seq_offsets: Spec | None, reverse: bool) -> Scan:
    if len(like.shape) < 2 or W.shape != (*like.shape, like.shape[-1]):
        raise FlashscanValueError(
            f"W has shape {W.shape} for vectors of shape {like.shape}; accepted are vectors [..., time, d] and "
            "matrices [..., time, d, d]"
        )
    scan = Scan(problem, like, AFFINE, INCLUSIVE, len(like.shape) - 2, 1, reverse, seq_offsets)
    problem.read_converted(lib.GATE, W, W.shape, like.dtype)
    return scan


@kind(1, "W", "b", "initial_state?", "seq_offsets?")
def forward(problem: Problem, final: bool, reverse: bool, threads: int) -> Call:
    W, b, state, seq_offsets = problem.specs
    scan = _scan(problem, W, b, seq_offsets, reverse)
    problem.read(lib.INPUT, b)
    problem.read_converted(lib.STATE_IN, state, scan.state_shape, scan.state_dtype)
    problem.write(lib.OUTPUT, b.shape, b.dtype)
    if flag("return_final_state", final):
        problem.write(lib.STATE_OUT, scan.state_shape, scan.state_dtype)
    return problem.call(problem.plan("operator", (*scan.fields, None), threads), False)


@kind(1, "W", "output", "grad_output", "initial_state?", "grad_final_state?", "seq_offsets?")
def backward(problem: Problem, reverse: bool, threads: int) -> Call:
    W, out, grad, state, grad_state, seq_offsets = problem.specs
    scan = _scan(problem, W, out, seq_offsets, reverse)
    problem.read(lib.OUTPUT, out)
    problem.read_converted(lib.GRAD | lib.OUTPUT, grad, out.shape, out.dtype)
    problem.read_converted(lib.GRAD | lib.STATE_OUT, grad_state, scan.state_shape, scan.state_dtype)
    problem.write(lib.GRAD | lib.GATE, W.shape, out.dtype)
    problem.write(lib.GRAD | lib.INPUT, out.shape, out.dtype)
    if state is not None:
        problem.read_converted(lib.STATE_IN, state, scan.state_shape, scan.state_dtype)
        problem.write(lib.GRAD | lib.STATE_IN, scan.state_shape, scan.state_dtype)
    return problem.call(problem.plan("operator", (*scan.fields, None), threads), True)


@overload
def affine_scan(
    W: ArrayLike, b: Array, initial_state: ArrayLike | None = None, *, return_final_state: Literal[False] = False,
    **options: Unpack[AffineOptions],
) -> Array: ...  # fmt: skip
@overload
def affine_scan(
    W: ArrayLike, b: Array, initial_state: ArrayLike | None = None, *, return_final_state: Literal[True],
    **options: Unpack[AffineOptions],
) -> tuple[Array, Array]: ...  # fmt: skip
@overload
def affine_scan(
    W: ArrayLike, b: Array, initial_state: ArrayLike | None = None, *, return_final_state: bool,
    **options: Unpack[AffineOptions],
) -> Array | tuple[Array, Array]: ...  # fmt: skip
def affine_scan(
    W: ArrayLike,
    b: Array,
    initial_state: ArrayLike | None = None,
    *,
    reverse: bool = False,
    seq_offsets: ArrayLike | None = None,
    return_final_state: bool = False,
    threads: int = 0,
) -> Array | tuple[Array, Array]:
    """States ``x[t] = W[t] x[t-1] + b[t]`` with ``x[-1] = initial_state``, zeros if None.

    Args:
        W: ``[..., time, d, d]`` (row: out, column: in), of ``b``'s dtype.
        b: ``[..., time, d]`` of float32, float64, float16, bfloat16, complex64 or complex128; an array of NumPy,
            PyTorch, CuPy or a package that speaks DLPack, on the CPU or a GPU.
        initial_state: ``[..., d]``, or ``[num_sequences, d]`` if packed.
        reverse: ``x[t] = W[t] x[t+1] + b[t]``.
        seq_offsets: int32 or int64 ``[num_sequences + 1]``: packed sequences along time.
        return_final_state: also return the last state, in float32 for 16-bit data.
        threads: number of CPU threads, 0 for all, and on a GPU.

    Returns:
        ``x`` of ``b``'s shape, or ``(x, final_state)``.
    """
    results = forward((W, b, initial_state, seq_offsets), (return_final_state, reverse, threads))
    return tuple(results) if return_final_state else results[0]


def affine_scan_backward(
    W: ArrayLike,
    output: Array,
    grad_output: ArrayLike,
    initial_state: ArrayLike | None = None,
    *,
    grad_final_state: ArrayLike | None = None,
    reverse: bool = False,
    seq_offsets: ArrayLike | None = None,
    threads: int = 0,
) -> tuple[Array, Array, Array | None]:
    """Gradients ``(grad_W, grad_b, grad_initial_state)`` of ``affine_scan``, given its ``output`` and the gradients of
    its results; the last is None without ``initial_state``."""
    arrays = (W, output, grad_output, initial_state, grad_final_state, seq_offsets)
    results = backward(arrays, (reverse, threads))
    return results[0], results[1], results[2] if initial_state is not None else None
