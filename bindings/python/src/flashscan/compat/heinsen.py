# SPDX-License-Identifier: Apache-2.0
"""Scans in log space (Heinsen, arXiv 2311.06281), with the signatures of heinsen_sequence's README and of minGRU's code."""

from __future__ import annotations

import math

import torch

from .._errors import FlashscanValueError, naming
from ..torch import linear_scan
from ..torch._types import Tensor, tensors

__all__ = ["compute_in_parallel", "compute_in_parallel_special_case", "heinsen_associative_scan_log"]

_linear_scan = naming(linear_scan, gate="log_coeffs", input="log_values")


def heinsen_associative_scan_log(log_coeffs: Tensor, log_values: Tensor) -> Tensor:
    """``h[t] = exp(log_coeffs[t]) * h[t-1] + exp(log_values[t])`` along the second axis with ``h[-1] = 0``.

    Coefficients of 0, whose logarithm is -inf, are as good as others, and sums are not taken in log space: h loses nothing
    where coefficients are small.

    Args:
        log_coeffs, log_values: [B, T, D]; float32, bfloat16, float16 or float64, of one dtype, or float32
            ``log_coeffs`` with 16-bit ``log_values``.

    Returns:
        h, not its logarithm, [B, T, D], of ``log_values``' dtype; differentiable in both.

    Raises:
        FlashscanError: what is wrong, and what is accepted.
    """
    tensors(log_coeffs=log_coeffs, log_values=log_values)
    if log_coeffs.shape != log_values.shape:
        raise FlashscanValueError(
            f"log_coeffs has shape {tuple(log_coeffs.shape)}; accepted is log_values', {tuple(log_values.shape)}"
        )
    return _linear_scan(log_coeffs, torch.exp(log_values), gate_form="log")


def compute_in_parallel_special_case(log_coeffs: Tensor, log_values: Tensor) -> Tensor:
    """``x[0] = exp(log_values[0])``, ``x[t] = exp(log_coeffs[t-1]) * x[t-1] + exp(log_values[t])`` along the last axis,
    for coefficients and values of 0 or more.

    Args:
        log_coeffs: [..., T].
        log_values: [..., T + 1], the initial value first; dtypes as in ``heinsen_associative_scan_log``.

    Returns:
        x, [..., T + 1], of ``log_values``' dtype; differentiable in both.

    Raises:
        FlashscanError: what is wrong, and what is accepted.
    """
    return _scan(log_coeffs, log_values)


def compute_in_parallel(log_coeffs: Tensor, log_values: Tensor) -> Tensor:
    """``compute_in_parallel_special_case`` for coefficients and values of any sign: their logarithms are complex64 or
    complex128, and the result is real, float32 or float64."""
    x = _scan(log_coeffs, log_values)
    return x.real if x.is_complex() else x


def _scan(log_coeffs: Tensor, log_values: Tensor) -> Tensor:
    tensors(log_coeffs=log_coeffs, log_values=log_values)
    front, steps = log_values.shape[:-1], log_values.shape[-1] if log_values.dim() else 0
    if steps == 0 or log_coeffs.shape != (*front, steps - 1):
        raise FlashscanValueError(
            f"log_coeffs has shape {tuple(log_coeffs.shape)} and log_values {tuple(log_values.shape)}; accepted are "
            "[..., T] and [..., T + 1]"
        )
    rows = (1, math.prod(front), steps)
    # The first coefficient meets a state of 0.
    gates = torch.cat([torch.zeros_like(log_values[..., :1]).to(log_coeffs.dtype), log_coeffs], -1)
    values = torch.exp(log_values).reshape(rows)
    h = _linear_scan(gates.reshape(rows), values, layout="bct", gate_form="log")
    return torch.reshape(h, log_values.shape)
