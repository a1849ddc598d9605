# SPDX-License-Identifier: Apache-2.0
"""The signature of accelerated-scan's ``scan`` in its modules ``warp``, ``scalar`` and ``complex``."""

from __future__ import annotations

import torch

from ..torch import linear_scan
from ..torch._types import tensors

__all__ = ["scan"]


def scan(gates: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
    """``x[t] = gates[t] * x[t-1] + tokens[t]`` along the last axis with ``x[-1] = 0``.

    Args:
        gates, tokens: [B, C, T], any T; float32, bfloat16, float16, float64, complex64 or complex128. Sums are kept in
            float32 for 16-bit tensors. ``gates`` may also be float32 with 16-bit ``tokens``.

    Returns:
        x, [B, C, T], of ``tokens``' dtype; differentiable in both.
    """
    tensors(gates=gates, tokens=tokens)
    return linear_scan(gates, tokens, layout="bct")
