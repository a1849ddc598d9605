# SPDX-License-Identifier: Apache-2.0
"""The signatures of flash-linear-attention's ``fla.ops.hgrn``."""

from __future__ import annotations

from typing import Any

import torch

from .._call import flag
from .._errors import FlashscanValueError, naming
from ..torch import linear_scan
from ..torch._types import Offsets, tensors

__all__ = ["chunk_hgrn", "fused_recurrent_hgrn"]

_linear_scan = naming(linear_scan, gate="g", input="x", seq_offsets="cu_seqlens")


def fused_recurrent_hgrn(
    x: torch.Tensor,
    g: torch.Tensor,
    initial_state: torch.Tensor | None = None,
    output_final_state: bool = False,
    cu_seqlens: Offsets = None,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """The recurrence of HGRN, ``h[t] = exp(g[t]) * h[t-1] + x[t]``.

    Args:
        x: [B, T, D]; float32, bfloat16, float16 or float64. States are kept in float32 or wider.
        g: [B, T, D], logarithms of the forget gates; of x's dtype, or float32 with 16-bit x.
        initial_state: [B, D], or [N, D] with ``cu_seqlens``; zeros if not given.
        output_final_state: also return the last state.
        cu_seqlens: [N + 1], offsets of N sequences that are packed in one row, with B = 1.

    Returns:
        ``(h, final_state)``: [B, T, D] of x's dtype, and [B, D] or [N, D] in float32 or wider, None if it is not asked
        for; differentiable in x, g and the initial state.

    Raises:
        FlashscanError: what is wrong, and what is accepted.
    """
    tensors(x=x, g=g)
    if g.shape != x.shape:
        raise FlashscanValueError(f"g has shape {tuple(g.shape)}; accepted is x's, {tuple(x.shape)}")
    options: dict[str, Any] = {"gate_form": "log", "seq_offsets": cu_seqlens, "return_final_state": True}
    h, last = _linear_scan(g, x, initial_state, **options)
    return h, last if flag("output_final_state", output_final_state) else None


def chunk_hgrn(
    x: torch.Tensor,
    g: torch.Tensor,
    initial_state: torch.Tensor | None = None,
    output_final_state: bool = False,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """``fused_recurrent_hgrn`` without packed sequences: here both are one function."""
    return fused_recurrent_hgrn(x, g, initial_state, output_final_state)
