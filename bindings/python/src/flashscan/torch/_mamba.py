# SPDX-License-Identifier: Apache-2.0
"""Mamba's block around selective_scan."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from .._call import flag, number
from .._errors import FlashscanValueError, naming
from ._gated_layers import Stepped, with_past
from ._selective import selective_scan
from ._steps import Steps
from ._types import Offsets, Tensor, as_offsets, features, positive, product, tensors

_selective_scan = naming(selective_scan, initial_state="state")


class Mamba(Stepped):
    """Mamba's block (Gu and Dao, arXiv 2312.00752, section 3.4), with E = expand d_model channels and N = d_state:

        x, z [t] = W_in input[t]                                    x[t] = silu(sum over k of w[k] x[t-k] + b)
        r, B, C [t] = W_x x[t]                                      delta[t] = softplus(W_dt r[t] + b_dt)
        h[t] = exp(delta[t] A) h[t-1] + delta[t] x[t] B[t],  A = -exp(A_log)
        output[t] = W_out ((sum over states of C[t] h[t] + D x[t]) silu(z[t]))

    Args:
        d_model: features of the input and the output.
        d_state: N, states of a channel, up to 256.
        d_conv: steps that the convolution sees.
        expand: channels for each feature.
        dt_rank: features of r; None: d_model / 16, rounded up.
        dt_min, dt_max: delta begins between them (section 3.6).
        conv_bias, bias: whether the convolution and both outer products have biases.

    Parameters have the names and shapes of mamba_ssm's block, whose state dict loads: ``in_proj``, ``conv1d``, ``x_proj``,
    ``dt_proj``, ``A_log`` [E, N], ``D`` [E], ``out_proj``.
    """

    def __init__(
        self,
        d_model: int,
        d_state: int = 16,
        d_conv: int = 4,
        expand: int = 2,
        dt_rank: int | None = None,
        dt_min: float = 0.001,
        dt_max: float = 0.1,
        conv_bias: bool = True,
        bias: bool = False,
        device: Any = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        positive(d_model=d_model, d_state=d_state, d_conv=d_conv, expand=expand)
        rank = math.ceil(d_model / 16) if dt_rank is None else dt_rank
        positive(dt_rank=rank)
        if not 0 < number("dt_min", dt_min) <= number("dt_max", dt_max):
            raise FlashscanValueError(f"dt_min is {dt_min} and dt_max {dt_max}; accepted is 0 < dt_min <= dt_max")
        self.input_size = self.d_model = d_model
        self.d_state, self.d_conv, self.d_inner, self.dt_rank = d_state, d_conv, expand * d_model, rank
        inner, made = self.d_inner, {"device": device, "dtype": dtype}
        self.in_proj = nn.Linear(d_model, 2 * inner, flag("bias", bias), **made)
        self.conv1d = nn.Conv1d(inner, inner, d_conv, groups=inner, bias=flag("conv_bias", conv_bias), **made)
        self.x_proj = nn.Linear(inner, rank + 2 * d_state, False, **made)
        self.dt_proj = nn.Linear(rank, inner, True, **made)
        self.out_proj = nn.Linear(inner, d_model, bool(bias), **made)
        # Kept in float32 by 16-bit models: rates of decay and what skips the states.
        wide = {"device": device, "dtype": torch.float64 if dtype is torch.float64 else torch.float32}
        self.A_log = nn.Parameter(torch.arange(1, d_state + 1, **wide).log().repeat(inner, 1))
        self.D = nn.Parameter(torch.ones(inner, **wide))
        nn.init.uniform_(self.dt_proj.weight, -(rank**-0.5), rank**-0.5)
        with torch.no_grad():
            first = torch.empty(inner, **wide).uniform_(math.log(dt_min), math.log(dt_max)).exp()
            self.dt_proj.bias.copy_(first + torch.log(-torch.expm1(-first)))  # softplus of it is `first`

    def extra_repr(self) -> str:
        return f"{self.d_model}, d_state={self.d_state}, d_conv={self.d_conv}"

    def forward(
        self,
        input: Tensor,
        state: tuple[Tensor, Tensor] | None = None,
        *,
        seq_offsets: Offsets = None,
        reset: Tensor | None = None,
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """Runs the block.

        Args:
            input: [B, T, d_model], of the parameters' dtype.
            state: what an earlier call returned: h before the first step, [B, E, N], or with ``seq_offsets`` a row for
                each sequence, and what the convolution saw last, the newest first, [B, d_conv - 1, E]; None: zeros.
            seq_offsets, reset: as in ``flashscan.linear_scan``.

        Returns:
            ``(output, state)``: [B, T, d_model], and the state to go on with, h in float32 for 16-bit data.

        Raises:
            FlashscanError: what is wrong, and what is accepted.
        """
        features("input", input, (3,), self.d_model)
        tensors(True, reset=reset)
        seq_offsets = as_offsets(seq_offsets, input)
        x, z = product(self.in_proj, input).chunk(2, -1)
        h, past = with_past(state, x, self.d_conv, seq_offsets)
        steps = Steps(1, False, seq_offsets, None if reset is None else torch.ne(reset, 0).unsqueeze(2))
        seen, last = steps.window(x, past)
        taps = self.conv1d.weight.to(x.dtype).squeeze(1).flip(1).unbind(1)  # of the newest step first
        u = sum(tap * each for tap, each in zip(taps, seen))
        u = functional.silu(u if self.conv1d.bias is None else u + self.conv1d.bias.to(x.dtype))
        rank, B, C = self.x_proj(u).split((self.dt_rank, self.d_state, self.d_state), -1)
        delta = functional.linear(rank, self.dt_proj.weight)
        wide = torch.float64 if u.dtype is torch.float64 else torch.float32
        A, D, bias = -torch.exp(self.A_log.to(wide)), self.D.to(wide), self.dt_proj.bias.to(wide)
        y, h = _selective_scan(
            *(u, delta, A, B, C, D, z, bias, h),
            delta_softplus=True,
            seq_offsets=seq_offsets,
            reset=reset,
            return_final_state=True,
        )
        return self.out_proj(y), (h, last)
