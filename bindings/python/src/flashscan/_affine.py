# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from . import _library as lib
from ._arrays import Array
from ._errors import FlashscanValueError
from ._operator import _AFFINE, _INCLUSIVE, _problem, _Problem


def _affine(W: ArrayLike, like: Array, *rest: Any) -> tuple[Array, _Problem]:
    matrices = np.ascontiguousarray(W, like.dtype)
    if like.ndim < 2 or matrices.shape != (*like.shape, like.shape[-1]):
        raise FlashscanValueError(
            f"W has shape {matrices.shape} for vectors of shape {like.shape}; accepted are vectors [..., time, d] and "
            "matrices [..., time, d, d]"
        )
    problem = _problem(like, _AFFINE, _INCLUSIVE, like.ndim - 2, 1, *rest)
    problem.add(lib.GATE, matrices)
    return matrices, problem


def affine_scan(
    W: ArrayLike,
    b: ArrayLike,
    initial_state: ArrayLike | None = None,
    *,
    reverse: bool = False,
    seq_offsets: ArrayLike | None = None,
    return_final_state: bool = False,
    threads: int = 0,
) -> Any:
    """States ``x[t] = W[t] x[t-1] + b[t]`` with ``x[-1] = initial_state``, zeros if None.

    Args:
        W: ``[..., time, d, d]`` (row: out, column: in), of ``b``'s dtype.
        b: ``[..., time, d]`` of float32, float64, float16, bfloat16, complex64 or complex128.
        initial_state: ``[..., d]``, or ``[num_sequences, d]`` if packed.
        reverse: ``x[t] = W[t] x[t+1] + b[t]``.
        seq_offsets: int32 or int64 ``[num_sequences + 1]``: packed sequences along time.
        return_final_state: also return the last state, in float32 for 16-bit data.
        threads: number of CPU threads, 0 for all.

    Returns:
        ``x`` of ``b``'s shape, or ``(x, final_state)``.
    """
    array = np.ascontiguousarray(b)
    _, problem = _affine(W, array, reverse, seq_offsets, threads)
    problem.add(lib.INPUT, array)
    if initial_state is not None:
        problem.add_given(lib.STATE_IN, "initial_state", initial_state, problem.state_shape, problem.state_dtype)
    output = problem.new(lib.OUTPUT, problem.shape, problem.dtype)
    last = problem.new(lib.STATE_OUT, problem.state_shape, problem.state_dtype) if return_final_state else None
    problem.plan().forward(problem.args)
    return output if last is None else (output, last)


def affine_scan_backward(
    W: ArrayLike,
    output: ArrayLike,
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
    array = np.ascontiguousarray(output)
    matrices, problem = _affine(W, array, reverse, seq_offsets, threads)
    problem.add(lib.OUTPUT, array)
    problem.add_given(lib.GRAD | lib.OUTPUT, "grad_output", grad_output, problem.shape, problem.dtype)
    if grad_final_state is not None:
        problem.add_given(
            lib.GRAD | lib.STATE_OUT, "grad_final_state", grad_final_state, problem.state_shape, problem.state_dtype
        )
    grad_initial = None
    if initial_state is not None:
        problem.add_given(lib.STATE_IN, "initial_state", initial_state, problem.state_shape, problem.state_dtype)
        grad_initial = problem.new(lib.GRAD | lib.STATE_IN, problem.state_shape, problem.state_dtype)
    grad_b = problem.new(lib.GRAD | lib.INPUT, problem.shape, problem.dtype)
    grad_W = problem.new(lib.GRAD | lib.GATE, matrices.shape, problem.dtype)
    problem.plan().backward(problem.args)
    return grad_W, grad_b, grad_initial
