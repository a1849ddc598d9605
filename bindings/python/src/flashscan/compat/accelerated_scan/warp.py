# SPDX-License-Identifier: Apache-2.0
"""The signatures of accelerated-scan's module ``warp``."""

from __future__ import annotations

import torch

from ...torch._types import tensors
from . import _scan, scan

__all__ = ["scan", "scan_forward"]


def scan_forward(gates: torch.Tensor, tokens: torch.Tensor, reverse: bool = False) -> torch.Tensor:
    """``scan``, or with ``reverse`` the same from the last step to the first; differentiable here."""
    tensors(gates=gates, tokens=tokens)
    return _scan(gates, tokens, reverse)
