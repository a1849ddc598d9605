# SPDX-License-Identifier: Apache-2.0
"""A layer around the linear recurrence."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from .._call import flag
from .._errors import naming
from ._linear import linear_scan
from ._types import Offsets, Tensor, features, positive, product

_linear_scan = naming(linear_scan, initial_state="state")


class LinearRecurrence(nn.Module):
    """A gated average of the past, as in HGRN (arXiv 2311.04823) and minGRU (arXiv 2410.01201):

        a[t] = sigmoid(W_a x[t] + b_a),  h[t] = a[t] h[t-1] + (1 - a[t]) (W_x x[t] + b_x)

    Args:
        input_size: features of the input.
        hidden_size: features of h.
        bias: whether there are b_a and b_x.

    ``projection`` is the linear layer of both products, W_a above W_x.
    """

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None, dtype: torch.dtype | None = None
    ) -> None:
        super().__init__()
        positive(input_size=input_size, hidden_size=hidden_size)
        bias = flag("bias", bias)
        self.input_size, self.hidden_size = input_size, hidden_size
        self.projection = nn.Linear(input_size, 2 * hidden_size, bias, device=device, dtype=dtype)

    def forward(
        self,
        input: Tensor,
        state: Tensor | None = None,
        *,
        reverse: bool = False,
        seq_offsets: Offsets = None,
        reset: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """[B, T, input_size] and, zeros if not given, h before the first step, [B, hidden_size], to h,
        [B, T, hidden_size], and h after the last step, in float32 for 16-bit data. For ``reverse``, ``seq_offsets`` and
        ``reset`` see ``flashscan.linear_scan``."""
        features("input", input, (3,), self.input_size)
        gate, value = product(self.projection, input).chunk(2, -1)
        options: dict[str, Any] = {"reverse": reverse, "seq_offsets": seq_offsets, "reset": reset}
        results: tuple[Tensor, Tensor] = _linear_scan(
            gate, torch.sigmoid(-gate) * value, state, gate_form="logit", return_final_state=True, **options
        )
        return results
