# SPDX-License-Identifier: Apache-2.0
"""The signature of accelerated-scan's ``scan``, and its modules ``warp``, ``scalar``, ``complex`` and ``ref``."""

from __future__ import annotations

from typing import Any

import torch

from ..._errors import naming
from ...torch import linear_scan
from ...torch._types import tensors

__all__ = ["scan"]

_linear_scan = naming(linear_scan, gate="gates", input="tokens")


def scan(gates: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
    """``x[t] = gates[t] * x[t-1] + tokens[t]`` along the last axis with ``x[-1] = 0``.

    ``flashscan.compat.accelerated_scan.warp.scan`` is this function; in ``scalar`` and ``complex`` the arguments are
    named ``forget`` and ``inputs``, as they are there.

    Args:
        gates, tokens: [B, C, T], any T; float32, bfloat16, float16, float64, complex64 or complex128. Sums are kept in
            float32 for 16-bit tensors. ``gates`` may also be float32 with 16-bit ``tokens``, and real ``tokens`` may
            have complex ``gates`` of their precision.

    Returns:
        x, [B, C, T], of ``tokens``' dtype, or ``gates``' where those are complex; differentiable in both.
    """
    tensors(gates=gates, tokens=tokens)
    return _scan(gates, tokens)


def _scan(
    gates: torch.Tensor, tokens: torch.Tensor, reverse: bool = False, linear_scan: Any = _linear_scan
) -> torch.Tensor:
    if gates.is_complex() and tokens.dtype == gates.real.dtype:
        tokens = tokens.to(gates.dtype)
    x: torch.Tensor = linear_scan(gates, tokens, layout="bct", reverse=reverse)
    return x
