# SPDX-License-Identifier: Apache-2.0
"""RG-LRU, and the weights of RecurrentGemma's."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from .._call import number
from .._errors import FlashscanTypeError, FlashscanValueError, naming
from ._gated import gated_scan
from ._gated_layers import Stepped
from ._types import Offsets, Tensor, features, positive, refuse_other_kind

_gated_scan = naming(gated_scan, initial_state="state")
# The parameters of the layer elsewhere: p, the weights and biases of the recurrence gate and of the input gate.
_NAMES = {
    "recurrentgemma": ("a_param", "a_gate.w", "a_gate.b", "input_gate.w", "input_gate.b"),
    "Hugging Face": (
        "recurrent_param",
        "recurrent_gate_weight",
        "recurrent_gate_bias",
        "input_gate_weight",
        "input_gate_bias",
    ),
}


def _layout(state_dict: Mapping[str, Any], prefix: str) -> tuple[str, ...] | None:
    """The names of what is there, None where they are neither package's."""
    return next((names for names in _NAMES.values() if prefix + names[0] in state_dict), None)


def _converted(state_dict: dict[str, Any], names: tuple[str, ...], prefix: str) -> None:
    """Puts the layer's own parameters in the place of another package's. What is missing stays so."""
    if any(prefix + name not in state_dict for name in names):
        return
    p, *gates = (state_dict.pop(prefix + name) for name in names)
    state_dict[prefix + "Lambda"] = -p
    state_dict[prefix + "gate_weight"] = torch.stack(gates[::2]).transpose(-1, -2)
    state_dict[prefix + "gate_bias"] = torch.stack(gates[1::2])


class RGLRU(Stepped):
    """The Real-Gated Linear Recurrent Unit of Griffin (De et al., arXiv 2402.19427, section 2.4), with the first steps of
    RecurrentGemma:

        r[t] = sigmoid(W_a x[t] + b_a)          recurrence gate
        i[t] = sigmoid(W_x x[t] + b_x)          input gate
        log a[t] = c r[t] log sigmoid(Lambda)   c = 8
        h[t] = a[t] h[t-1] + sqrt(1 - a[t]^2) (i[t] x[t])
        h[t] = i[t] x[t]                        where a sequence starts

    A sequence starts at steps with a reset, and at the first step of a call without a state.

    Args:
        width: features of the input and of h, a multiple of ``num_heads``.
        num_heads: blocks on the diagonals of W_a and W_x.
        c: the exponent's scale.
        sqrt_slope_limit: the largest derivative of the square root that backward passes on; 0: no limit, with which
            gradients are exact, and infinite at a = 1. RecurrentGemma has 1000.

    Parameters, for H heads of D = width / H: ``gate_weight`` [2, H, D, D] (a, x; out, in), ``gate_bias`` [2, H, D] and
    ``Lambda`` [width], at first such that sigmoid(Lambda)^c is uniform between 0.9 and 0.999. ``load_state_dict`` also
    takes those of recurrentgemma's RGLRU and of Hugging Face's RecurrentGemmaRglru.

    All but the products of the gates is one pass over memory.
    """

    def __init__(
        self,
        width: int,
        num_heads: int = 1,
        *,
        c: float = 8.0,
        sqrt_slope_limit: float = 1000.0,
        device: Any = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        positive(width=width, num_heads=num_heads)
        c, limit = number("c", c), number("sqrt_slope_limit", sqrt_slope_limit)
        if not c > 0:
            raise FlashscanValueError(f"c is {c}; accepted are numbers above 0")
        if not 0 <= limit < math.inf:
            raise FlashscanValueError(f"sqrt_slope_limit is {limit}; accepted are 0 (no limit) and numbers above")
        if width % num_heads:
            raise FlashscanValueError(f"num_heads is {num_heads}; accepted are divisors of width, {width}")
        self.width = self.input_size = width
        self.num_heads, self.c, self.sqrt_slope_limit = num_heads, c, limit
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

    @classmethod
    def from_recurrentgemma(cls, state_dict: Mapping[str, Tensor], prefix: str = "", **options: Any) -> RGLRU:
        """A layer that computes what RecurrentGemma's does, in the dtype and on the device of its weights.

        Where the other layer is given positions and a cache, this one gets ``reset=positions == 0`` and the cache as its
        ``state``; without a cache, and with a first position that is not 0, zeros as its state.

        Args:
            state_dict: with ``a_param`` [width], ``a_gate.w`` and ``input_gate.w`` [H, D, D] (in, out), ``a_gate.b`` and
                ``input_gate.b`` [H, D], as in recurrentgemma's RGLRU; or with ``recurrent_param``,
                ``recurrent_gate_weight`` and ``_bias``, ``input_gate_weight`` and ``_bias``, as in Hugging Face's
                RecurrentGemmaRglru; other entries do not matter.
            prefix: of those names in ``state_dict``, with its dot.
            options: c and sqrt_slope_limit.

        Raises:
            FlashscanError: a parameter is missing.
        """
        if not isinstance(state_dict, Mapping):
            raise FlashscanTypeError(f"state_dict is a {type(state_dict).__name__}; accepted are dictionaries")
        names = _layout(state_dict, prefix) or _NAMES["recurrentgemma"]
        missing = [prefix + name for name in names if prefix + name not in state_dict]
        if missing:
            raise FlashscanValueError(
                f"state_dict has no {', '.join(missing)}; accepted are the parameters of recurrentgemma's RGLRU or of "
                "Hugging Face's RecurrentGemmaRglru under prefix"
            )
        own = {name: state_dict[prefix + name] for name in names}
        weight = own[names[1]]
        width, heads = own[names[0]].numel(), weight.shape[0]
        layer = cls(width, heads, device=weight.device, dtype=weight.dtype, **options)
        layer.load_state_dict(own)
        return layer

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        names = _layout(state_dict, prefix)
        if names is not None:
            _converted(state_dict, names, prefix)
        base: Any = super()
        base._load_from_state_dict(state_dict, prefix, *rest)

    def extra_repr(self) -> str:
        return f"{self.width}, num_heads={self.num_heads}"

    def forward(
        self,
        input: Tensor,
        state: Tensor | None = None,
        *,
        reverse: bool = False,
        seq_offsets: Offsets = None,
        reset: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Runs the layer.

        Args:
            input: [B, T, width].
            state: h before the first step, [B, width], or [N, width] with ``seq_offsets``; if not given, sequences
                start.
            reverse, seq_offsets, reset: as in ``flashscan.linear_scan``.

        Returns:
            ``(h, state)``: [B, T, width], and h after the last step, of ``state``'s shape, in float32 for 16-bit data.

        Raises:
            FlashscanError: what is wrong, and what is accepted.
        """
        features("input", input, (3,), self.width)
        heads = input.unflatten(-1, (self.num_heads, -1))
        try:
            gates = torch.einsum("bthd,ghed->gbthe", heads, self.gate_weight) + self.gate_bias[:, None, None]
        except RuntimeError:
            refuse_other_kind(input, self.gate_weight)
            raise
        recurrence, entry = gates.flatten(-2).to(input.dtype)
        return _gated_scan(
            recurrence,
            input,
            state,
            layer="rglru",
            input_gate=entry,
            param=-self.Lambda,
            decay_rate=self.c,
            sqrt_slope_limit=self.sqrt_slope_limit,
            reverse=reverse,
            seq_offsets=seq_offsets,
            reset=reset,
            return_final_state=True,
        )
