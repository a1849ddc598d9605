# SPDX-License-Identifier: Apache-2.0
"""The signature of accelerated-scan's modules ``scalar`` and ``complex``."""

from __future__ import annotations

import torch

from ..._errors import naming
from ...torch import linear_scan
from ...torch._types import tensors
from . import _scan

__all__ = ["scan"]

_linear_scan = naming(linear_scan, gate="forget", input="inputs")


def scan(forget: torch.Tensor, inputs: torch.Tensor) -> torch.Tensor:
    """``flashscan.compat.accelerated_scan.scan`` with other names: ``x[t] = forget[t] * x[t-1] + inputs[t]``.

    Args:
        forget, inputs: [B, C, T], of the dtypes of ``gates`` and ``tokens`` there.

    Returns:
        x, [B, C, T]; differentiable in both.
    """
    tensors(forget=forget, inputs=inputs)
    return _scan(forget, inputs, linear_scan=_linear_scan)
