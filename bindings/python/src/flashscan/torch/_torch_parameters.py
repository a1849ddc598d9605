# SPDX-License-Identifier: Apache-2.0
"""Parameters of torch.nn.LSTM, GRU and RNN, which have two biases and no heads, as those of Recurrent and back.

``one_head`` and ``one_bias`` serve cells as well, which keep torch.nn's parameters.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from .._errors import FlashscanValueError
from ._types import Tensor

_KINDS: dict[str, tuple[Any, dict[str, Any]]] = {
    "lstm": (nn.LSTM, {}),
    "gru": (nn.GRU, {}),
    "elman": (nn.RNN, {"nonlinearity": "tanh"}),
    "elman_relu": (nn.RNN, {"nonlinearity": "relu"}),
}


def _all_suffixes(layer: Any) -> list[str]:
    return [suffix for number in range(layer.num_layers) for suffix in layer._suffixes(number)]


def one_head(weight: Tensor) -> Tensor:
    """torch.nn's weight_hh [G * D, D] as recurrent weights [G, 1, D, D]."""
    return torch.reshape(weight, (-1, 1, weight.shape[1], weight.shape[1]))


def one_bias(layer: Any, ih: Tensor, hh: Tensor) -> Tensor:
    """torch.nn's two biases [G * D] as [G, 1, D]; [4, 1, D] for a GRU."""
    ih, hh = ih.reshape(-1, 1, layer.hidden_size), hh.reshape(-1, 1, layer.hidden_size)
    # A GRU has one bias of n outside and one inside of the reset.
    bias: Tensor = torch.cat([ih[:2] + hh[:2], ih[2:], hh[2:]]) if layer.cell == "gru" else ih + hh
    return bias


def take_parameters(layer: Any, state_dict: dict[str, Any], prefix: str) -> None:
    """Puts a layer's own parameters in the place of torch.nn's. What does not fit is left for torch to name."""
    if layer.num_heads != 1 or layer.cell not in _KINDS:
        return
    for suffix in _all_suffixes(layer):
        weight = state_dict.get(prefix + "weight_hh" + suffix)
        own = getattr(layer, "weight_hh" + suffix)
        if isinstance(weight, Tensor) and weight.dim() == 2 and weight.shape == own.flatten(0, 2).shape:
            state_dict[prefix + "weight_hh" + suffix] = weight.reshape(own.shape)
        names = [f"{prefix}bias_{side}{suffix}" for side in ("ih", "hh")]
        biases: list[Any] = [state_dict.get(name) for name in names]
        accepted = own.shape[0] * layer.hidden_size
        if layer.bias and all(isinstance(bias, Tensor) and bias.shape == (accepted,) for bias in biases):
            state_dict[prefix + "bias" + suffix] = one_bias(layer, *biases)
            for name in names:
                del state_dict[name]


def module_of(layer: Any) -> nn.RNNBase:
    if layer.cell not in _KINDS:
        raise FlashscanValueError(f"cell is {layer.cell}; accepted are those of torch.nn: {', '.join(_KINDS)}")
    if layer.num_heads != 1:
        raise FlashscanValueError(f"num_heads is {layer.num_heads}; accepted is 1, which torch.nn has")
    kind, options = _KINDS[layer.cell]
    weight = layer.weight_hh_l0
    if layer.proj_size:
        options = {"proj_size": layer.proj_size}
    module: nn.RNNBase = kind(
        layer.input_size,
        layer.hidden_size,
        layer.num_layers,
        bias=layer.bias,
        batch_first=layer.batch_first,
        dropout=layer.dropout,
        bidirectional=layer.bidirectional,
        device=weight.device,
        dtype=weight.dtype,
        **options,
    )
    values = {}
    for suffix in _all_suffixes(layer):
        for name in ("weight_ih", "weight_hh", "weight_hr")[: 3 if layer.proj_size else 2]:
            values[name + suffix] = getattr(layer, name + suffix)
        values["weight_hh" + suffix] = values["weight_hh" + suffix].flatten(0, 2)
        if layer.bias:
            bias = getattr(layer, "bias" + suffix).flatten(0, 1)
            gates = weight.shape[0]
            values["bias_ih" + suffix] = bias[:gates].flatten()
            # The last one of a GRU is within the reset.
            inside = torch.cat([torch.zeros_like(bias[: gates - 1]), bias[gates:]]) if layer.cell == "gru" else None
            values["bias_hh" + suffix] = torch.zeros_like(bias).flatten() if inside is None else inside.flatten()
    module.load_state_dict({name: value.detach() for name, value in values.items()})
    return module.train(layer.training)
