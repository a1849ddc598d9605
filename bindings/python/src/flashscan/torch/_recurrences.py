# SPDX-License-Identifier: Apache-2.0
"""Layers around the linear recurrence."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from .._call import flag, number
from .._errors import FlashscanValueError
from ._linear import linear_scan
from ._types import Offsets, Tensor, features, positive, state_dtype


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
        gate, value = self.projection(input).chunk(2, -1)
        options = {"reverse": reverse, "seq_offsets": seq_offsets, "reset": reset}
        return linear_scan(
            gate, torch.sigmoid(-gate) * value, state, gate_form="logit", return_final_state=True, **options
        )


class RGLRU(nn.Module):
    """The Real-Gated Linear Recurrent Unit of Griffin (De et al., arXiv 2402.19427, section 2.4):

        r[t] = sigmoid(W_a x[t] + b_a)          recurrence gate
        i[t] = sigmoid(W_x x[t] + b_x)          input gate
        log a[t] = c r[t] log sigmoid(Lambda)   c = 8
        h[t] = a[t] h[t-1] + sqrt(1 - a[t]^2) (i[t] x[t])

    Args:
        width: features of the input and of h, a multiple of ``num_heads``.
        num_heads: blocks on the diagonals of W_a and W_x.
        c: the exponent's scale.

    Parameters, for H heads of D = width / H: ``gate_weight`` [2, H, D, D] (a, x; out, in), ``gate_bias`` [2, H, D] and
    ``Lambda`` [width], at first such that sigmoid(Lambda)^c is uniform between 0.9 and 0.999.
    """

    def __init__(
        self, width: int, num_heads: int = 1, *, c: float = 8.0, device: Any = None, dtype: torch.dtype | None = None
    ) -> None:
        super().__init__()
        positive(width=width, num_heads=num_heads)
        c = number("c", c)
        if not c > 0:
            raise FlashscanValueError(f"c is {c}; accepted are numbers above 0")
        if width % num_heads:
            raise FlashscanValueError(f"num_heads is {num_heads}; accepted are divisors of width, {width}")
        self.width, self.num_heads, self.c = width, num_heads, c
        dim = width // num_heads
        self.gate_weight = nn.Parameter(torch.empty(2, num_heads, dim, dim, device=device, dtype=dtype))
        self.gate_bias = nn.Parameter(torch.empty(2, num_heads, dim, device=device, dtype=dtype))
        self.Lambda = nn.Parameter(torch.empty(width, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.normal_(self.gate_weight, std=1 / math.sqrt(self.width // self.num_heads))
        nn.init.zeros_(self.gate_bias)
        with torch.no_grad():
            a = torch.empty(self.width).uniform_(0.9, 0.999).double() ** (1 / self.c)
            self.Lambda.copy_(torch.log(a) - torch.log1p(-a))

    def extra_repr(self) -> str:
        return f"{self.width}, num_heads={self.num_heads}"

    def forward(
        self, input: Tensor, state: Tensor | None = None, *, seq_offsets: Offsets = None, reset: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """[B, T, width] and, zeros if not given, h before the first step, [B, width], to h, [B, T, width], and h after
        the last step, in float32 for 16-bit data, as gates are. For ``seq_offsets`` and ``reset`` see
        ``flashscan.linear_scan``."""
        features("input", input, (3,), self.width)
        heads = input.unflatten(-1, (self.num_heads, -1))
        gates = torch.einsum("bthd,ghed->gbthe", heads, self.gate_weight) + self.gate_bias[:, None, None]
        recurrence, entry = torch.sigmoid(gates.to(state_dtype(gates.dtype))).flatten(-2)
        log_a = -self.c * recurrence * functional.softplus(-self.Lambda.to(recurrence.dtype))
        # 1 - a^2, kept from 0, where the root has no derivative.
        power = (-torch.expm1(2 * log_a)).clamp_min(1e-12)
        x = (torch.sqrt(power) * entry * input).to(input.dtype)
        return linear_scan(
            log_a, x, state, gate_form="log", return_final_state=True, seq_offsets=seq_offsets, reset=reset
        )
