# SPDX-License-Identifier: Apache-2.0
"""gated_scan as a composition of linear_scan and PyTorch's functions: its tangents and second derivatives are those of
the composition."""

from __future__ import annotations

import math
from typing import Any

import torch

from .._gated import parts_of
from ._linear import linear_scan
from ._steps import Steps
from ._types import Tensor, state_dtype


def _softplus(x: Tensor) -> Tensor:
    return torch.logaddexp(x, torch.zeros_like(x))


def _decayed(
    kind: str, g: Any, second: Any, param: Any, rate: float
) -> tuple[str, Tensor, Tensor, Tensor]:
    """The gate of linear_scan and its form, a, and 1 - a without cancellation."""
    if kind == "value":
        return "value", g, g, 1 - g
    if kind == "lower_bound":
        above = 1 - param
        a = param + above * torch.sigmoid(g)
        return "value", a, a, above * torch.sigmoid(-g)
    if kind in ("exp", "softplus"):
        log_a: Any = g if kind == "exp" else -(rate or 8.0) * _softplus(param) * torch.sigmoid(g)
        return "log", log_a, torch.exp(log_a), -torch.expm1(log_a)
    if kind == "ratio":
        logit = _softplus(-second) - _softplus(-g)
    else:
        logit = -g if kind == "one_minus_sigmoid" else g
    return "logit", logit, torch.sigmoid(logit), torch.sigmoid(-logit)


def _root(square: Tensor, limit: float) -> Tensor:
    """The square root, with derivatives of at most ``limit`` if there is one."""
    if limit == 0 or limit == math.inf:
        return torch.sqrt(square)
    bend: Any = torch.full_like(square, 1 / (4 * limit * limit))  # where the slope is the limit
    bounded = torch.sqrt(torch.maximum(square, bend)) + limit * (torch.minimum(square, bend) - bend)
    root: Tensor = bounded + (torch.sqrt(square.detach()) - bounded.detach())
    return root


def _activated(kind: str, x: Tensor) -> Tensor:
    if kind == "tanh":
        return torch.tanh(x)
    if kind == "silu":
        return torch.mul(x, torch.sigmoid(x))
    if kind == "positive":
        # The branch that is not taken is kept from overflow, whose derivative would be NaN.
        return torch.where(torch.lt(x, 0), torch.sigmoid(x), torch.add(x, 0.5))
    return x


def _epilogue(kind: str, h: Tensor, o: Any) -> Tensor:
    if kind == "none":
        return h
    open_ = torch.sigmoid(o)
    if kind == "tanh_sigmoid":
        return torch.mul(torch.tanh(h), open_)
    return torch.mul(h, open_ if kind == "sigmoid" else o * open_)


def composed(
    gate: Tensor,
    x: Tensor,
    state: Tensor | None,
    second: Tensor | None,
    input_gate: Tensor | None,
    output_gate: Tensor | None,
    param: Tensor | None,
    bias: Tensor | None,
    seq_offsets: Tensor | None,
    reset: Tensor | None,
    *options: Any,
) -> tuple[Tensor, Tensor]:
    """The output and the final state; ``options`` are those of the operator gated_scan after ``training``."""
    *parts, rate, limit, layout, reverse = options
    decay, scale, activation, epilogue, first_step = parts_of(*parts)
    transposed = layout == "bct"
    wide: Any = lambda each: None if each is None else each.to(state_dtype(each.dtype))
    channel: Any = lambda each: each.unsqueeze(1) if each is not None and transposed else each
    gate, second, x_wide, input_gate, output_gate = map(wide, (gate, second, x, input_gate, output_gate))
    param, bias = channel(wide(param)), channel(wide(bias))
    form, gate, a, rest = _decayed(decay, gate if bias is None else gate + bias, second, param, rate)
    entering = _activated(activation, x_wide)
    if input_gate is not None:
        entering = entering * torch.sigmoid(input_gate)
    if scale != "one":
        m = rest if scale == "one_minus" else _root(rest * torch.add(a, 1), limit)
        if first_step:
            m = m.masked_fill(_starts(x, state, seq_offsets, reset, transposed, reverse), 1)
        entering = m * entering
    given: dict[str, Any] = {"layout": layout, "gate_form": form, "reverse": reverse}
    given |= {"seq_offsets": seq_offsets, "reset": reset}
    h, last = linear_scan(gate, entering.to(x.dtype), state, return_final_state=True, **given)
    return (h if epilogue == "none" else _epilogue(epilogue, wide(h), output_gate).to(x.dtype)), last


def _starts(
    x: Tensor, state: Tensor | None, seq_offsets: Tensor | None, reset: Tensor | None, transposed: bool, reverse: bool
) -> Tensor:
    """Where a sequence starts: at resets, and at first steps if there is no initial state."""
    steps = Steps(1, reverse, seq_offsets, None if reset is None else torch.ne(reset, 0).unsqueeze(2))
    ones = torch.ones(x.shape[0], x.shape[2 if transposed else 1], 1, device=x.device)
    before = steps.before(ones, None if state is None else torch.ones(state.shape[0], 1, device=x.device))
    starts = torch.eq(before, 0)
    return starts.transpose(1, 2) if transposed else starts
