# SPDX-License-Identifier: Apache-2.0
"""The signature, layouts and orders of gates of FlashRNN's ``flashrnn``."""

from __future__ import annotations

from typing import Any

import torch

from .._errors import FlashscanValueError
from ..torch import rnn

__all__ = ["flashrnn"]

_FUNCTIONS = ("lstm", "gru", "elman", "slstm")
_BACKENDS = ("vanilla", "vanilla_fwbw", "cuda", "cuda_fused", "triton", "triton_fused")
_DTYPES = ("bfloat16", "float16", "float32", "float64")


def flashrnn(
    Wx: torch.Tensor,
    R: torch.Tensor,
    b: torch.Tensor,
    states: torch.Tensor | None = None,
    function: str = "lstm",
    config: Any = None,
    backend: str = "cuda_fused",
    dtype: str = "bfloat16",
) -> tuple[torch.Tensor, torch.Tensor]:
    """A recurrent network on the products Wx of input and input weights.

    Args:
        Wx: [B, T, G, H, D]: gates i f z o for "lstm" and "slstm", r z n for "gru".
        R: [G, H, D, D] (out, in); its gates are n r z for "gru".
        b: [G, H, D]; for "gru" [4, H, D]: that of the recurrent product of n, then r z n.
        states: [S, B, 1, H, D]: h c for "lstm", h c n m for "slstm", else h; zeros if not given.
        function: "lstm", "gru", "elman" or "slstm".
        config: an object whose ``gradient_recurrent_clipval``, if there is one, limits the gradient through R at every
            step; other settings of kernels have no meaning here. Cut recurrent gradients, clipped states are refused.
        backend: one of FlashRNN's, and of no consequence: flashscan chooses by where the tensors are.
        dtype: "bfloat16", "float16", "float32" or "float64", which tensors are converted to. States are carried in
            float32 or wider whatever it is.

    Returns:
        ``(states, last_states)``: [S, B, T, H, D] after every step and [S, B, 1, H, D] after the last, in ``dtype``;
        differentiable in all tensors.
    """
    for name, value, accepted in (("function", function, _FUNCTIONS), ("backend", backend, _BACKENDS)):
        if value not in accepted:
            raise FlashscanValueError(f"{name} is {value!r}; accepted are {', '.join(map(repr, accepted))}")
    name = str(dtype).removeprefix("torch.")
    if name not in _DTYPES:
        raise FlashscanValueError(f"dtype is {dtype!r}; accepted are {', '.join(map(repr, _DTYPES))}")
    for setting in ("gradient_recurrent_cut", "forward_clipval"):
        if getattr(config, setting, None):
            raise FlashscanValueError(f"config.{setting} is {getattr(config, setting)!r}; accepted is what is off")
    Wx, R, b = (tensor.to(getattr(torch, name)) for tensor in (Wx, R, b))
    if function == "gru":
        R, b = R[[1, 2, 0]], b[[1, 2, 3, 0]]
    initial = None if states is None else states.squeeze(2)
    clip = getattr(config, "gradient_recurrent_clipval", None) or 0.0
    options = {"return_all_states": True, "return_final_state": True, "recurrent_clip": clip}
    output, last = rnn(Wx, R, b, function, initial, **options)
    return (output if output.dim() == 5 else output.unsqueeze(0)), last.unsqueeze(2).to(output.dtype)
