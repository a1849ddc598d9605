# SPDX-License-Identifier: Apache-2.0
"""The signature of accelerated-scan's module ``ref``."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch

from ..._errors import FlashscanValueError
from ...torch._types import tensors
from . import _scan

__all__ = ["scan"]

Function = Callable[..., Any]

# The library computes the recurrence itself, so these are the only functions that are accepted for it.
_ACCEPTED: dict[str, tuple[Function, ...]] = {
    "mul": (torch.mul, torch.multiply, operator.mul),
    "add": (torch.add, operator.add),
    "zeros_like": (torch.zeros_like,),
    "ones_like": (torch.ones_like,),
}


def scan(
    gates: torch.Tensor,
    tokens: torch.Tensor,
    mul: Function = torch.mul,
    add: Function = torch.add,
    zeros_like: Function = torch.zeros_like,
    ones_like: Function = torch.ones_like,
    reverse: bool = False,
) -> torch.Tensor:
    """``flashscan.compat.accelerated_scan.scan``, or with ``reverse`` the same from the last step to the first.

    Args:
        gates, tokens: as in ``flashscan.compat.accelerated_scan.scan``.
        mul, add, zeros_like, ones_like: PyTorch's, as they are by default. Others are refused: a recurrence of other
            functions is a ``flashscan.torch.prefix_scan``, and one of matrices a ``flashscan.torch.affine_scan``.
        reverse: ``x[t] = gates[t] * x[t+1] + tokens[t]`` with 0 behind the last step.

    Returns:
        x, [B, C, T]; differentiable in both.
    """
    tensors(gates=gates, tokens=tokens)
    for name, function in (("mul", mul), ("add", add), ("zeros_like", zeros_like), ("ones_like", ones_like)):
        if not any(function is accepted for accepted in _ACCEPTED[name]):
            raise FlashscanValueError(
                f"{name} is {function!r}; accepted is torch.{name}: other functions are for "
                "flashscan.torch.prefix_scan, matrices for affine_scan"
            )
    return _scan(gates, tokens, reverse)
