# SPDX-License-Identifier: Apache-2.0
"""The signature of sequential_scan's scans."""

from __future__ import annotations

import torch

from .._errors import naming
from ..torch import linear_scan
from ..torch._types import tensors

__all__ = ["scan", "scan_cu", "scan_cu_single", "scan_tr"]

_linear_scan = naming(linear_scan, gate="alpha", input="beta")


def scan(alpha: torch.Tensor, beta: torch.Tensor) -> torch.Tensor:
    """``h[t] = alpha[t] * h[t-1] + beta[t]`` along the second axis with ``h[-1] = 0``.

    Args:
        alpha, beta: [B, T, D], any T and D; float32, bfloat16, float16, float64, complex64 or complex128.

    Returns:
        h, [B, T, D], of ``beta``'s dtype; differentiable in both.
    """
    tensors(alpha=alpha, beta=beta)
    return _linear_scan(alpha, beta)


scan_cu = scan_cu_single = scan_tr = scan
