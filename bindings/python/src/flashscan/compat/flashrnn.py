# SPDX-License-Identifier: Apache-2.0
"""The signature, layouts and orders of gates of FlashRNN's ``flashrnn``."""

from __future__ import annotations

from typing import Any

import torch

from .._errors import FlashscanTypeError, FlashscanValueError
from ..torch import rnn
from ..torch._types import tensors

__all__ = ["flashrnn"]

_FUNCTIONS = ("lstm", "gru", "elman", "slstm")
_BACKENDS = ("vanilla", "vanilla_fwbw", "cuda", "cuda_fused", "triton", "triton_fused")
_DTYPES = ("bfloat16", "float16", "float32", "float64")
# dtypes of single arrays: input, recurrent weights, biases and states; and of what stays within a kernel.
_ARRAYS, _WITHIN = ("dtype_w", "dtype_r", "dtype_b", "dtype_s"), ("dtype_g", "dtype_a")


def _choose(name: str, value: Any, accepted: tuple[str, ...]) -> str:
    text = str(value).removeprefix("torch.")
    if text not in accepted:
        raise FlashscanValueError(f"{name} is {value!r}; accepted are {', '.join(map(repr, accepted))}")
    return text


def _setting(config: Any, name: str, value: Any, accepted: tuple[str, ...]) -> str:
    """What a call asks for: the config's, where it has one, goes before the argument, as in FlashRNN."""
    over = getattr(config, name, None)
    return _choose(name, value, accepted) if over is None else _choose(f"config.{name}", over, accepted)


def _check_config(config: Any, dtype: str) -> None:
    """Refuses what would change the result and cannot be obeyed."""
    if isinstance(config, (dict, str, int)):
        raise FlashscanTypeError(
            f"config is a {type(config).__name__}; accepted are objects that have FlashRNN's settings as attributes"
        )
    for name in ("gradient_recurrent_cut", "forward_clipval"):
        if getattr(config, name, None):
            raise FlashscanValueError(f"config.{name} is {getattr(config, name)!r}; accepted is what is off")
    for name in (*_ARRAYS, *_WITHIN):
        given = getattr(config, name, None)
        # Sums and gates of 16-bit data are in float32.
        accepted = (dtype, "float32") if name in _WITHIN and dtype in ("bfloat16", "float16") else (dtype,)
        if given is not None:
            _choose(f"config.{name}", given, accepted)


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
        config: an object like a FlashRNNConfig. Its ``function``, ``backend`` and ``dtype`` go before the arguments of
            the same names, and ``gradient_recurrent_clipval`` limits the gradient through R at every step. Refused are
            cut recurrent gradients, clipped states, and a ``dtype_w``, ``_r``, ``_b`` or ``_s`` that is not ``dtype``
            (``dtype_g`` and ``_a`` may also be float32 with 16-bit data). Settings of kernels have no meaning here.
        backend: one of FlashRNN's, and of no consequence: flashscan chooses by where the tensors are.
        dtype: "bfloat16", "float16", "float32" or "float64", which tensors are converted to. States are carried in
            float32 or wider whatever it is.

    Returns:
        ``(states, last_states)``: [S, B, T, H, D] after every step and [S, B, 1, H, D] after the last, in ``dtype``;
        differentiable in all tensors.
    """
    tensors(Wx=Wx, R=R, b=b)
    tensors(True, states=states)
    function = _setting(config, "function", function, _FUNCTIONS)
    _setting(config, "backend", backend, _BACKENDS)
    dtype = _setting(config, "dtype", dtype, _DTYPES)
    _check_config(config, dtype)
    Wx, R, b = (tensor.to(getattr(torch, dtype)) for tensor in (Wx, R, b))
    for name, tensor, axes in (("Wx", Wx, 5), ("R", R, 4), ("b", b, 3), ("states", states, 5)):
        if tensor is not None and tensor.dim() != axes:
            raise FlashscanValueError(f"{name} has shape {tuple(tensor.shape)}; accepted are tensors of {axes} axes")
    if function == "gru" and (R.shape[0] != 3 or b.shape[0] != 4):
        raise FlashscanValueError(f"R and b have {R.shape[0]} and {b.shape[0]} gates; accepted are 3 and 4 for 'gru'")
    if function == "gru":
        R, b = R[[1, 2, 0]], b[[1, 2, 3, 0]]
    initial = None if states is None else states.squeeze(2)
    clip = getattr(config, "gradient_recurrent_clipval", None) or 0.0
    options: dict[str, Any] = {"return_all_states": True, "return_final_state": True, "recurrent_clip": clip}
    output, last = rnn(Wx, R, b, function, initial, **options)
    return (output if output.dim() == 5 else output.unsqueeze(0)), last.unsqueeze(2).to(output.dtype)
