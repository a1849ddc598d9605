# SPDX-License-Identifier: Apache-2.0
"""The signature of accelerated-scan's modules ``scalar`` and ``complex``."""

from __future__ import annotations

import torch

from ...torch._types import tensors
from . import _scan

__all__ = ["scan"]


def scan(forget: torch.Tensor, inputs: torch.Tensor) -> torch.Tensor:
    """``flashscan.compat.accelerated_scan.scan`` with other names: ``x[t] = forget[t] * x[t-1] + inputs[t]``.

    Args:
        forget, inputs: [B, C, T], of the dtypes of ``gates`` and ``tokens`` there.

    Returns:
        x, [B, C, T]; differentiable in both.
    """
    tensors(forget=forget, inputs=inputs)
    return _scan(forget, inputs)
