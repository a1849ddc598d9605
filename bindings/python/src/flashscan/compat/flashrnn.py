# SPDX-License-Identifier: Apache-2.0
"""The signature, layouts and orders of gates of FlashRNN's ``flashrnn``, and the names of its settings."""

from __future__ import annotations

from typing import Any

import torch

from .._call import integer, number
from .._errors import FlashscanTypeError, FlashscanValueError, naming
from .._rnn import CELLS
from ..torch import rnn
from ..torch._types import tensors

__all__ = ["FlashRNNConfig", "flashrnn"]

_rnn = naming(rnn, cell="function", initial_state="states", recurrent_clip="config.gradient_recurrent_clipval")

_FUNCTIONS = ("lstm", "gru", "elman", "slstm")
_BACKENDS = ("vanilla", "vanilla_fwbw", "cuda", "cuda_fused", "triton", "triton_fused")
_DTYPES = ("bfloat16", "float16", "float32", "float64")
# dtypes of single arrays: input, recurrent weights, biases and states; and of what stays within a kernel.
_ARRAYS, _WITHIN = ("dtype_w", "dtype_r", "dtype_b", "dtype_s"), ("dtype_g", "dtype_a", "dtype_acc")
# These settings would change the result and are not obeyed: they are refused where they are on, name another layout, or
# are not all True.
_SWITCHES = ("gradient_recurrent_cut", "forward_clipval", "constants")
_SHAPES = {"input_shape": "BTGHD", "recurrent_shape": "GHDP", "bias_shape": "GHD", "output_shape": "SBTHD"}
_TRAINED = ("trainable_r", "trainable_b")
_SIZES = {"num_heads": 3, "head_dim": 4}  # the axes of Wx
_OBEYED = ("function", "backend", "dtype", "gradient_recurrent_clipval", "initial_val")
# Counts follow from the cell, and how kernels compute from where tensors are.
_WITHOUT_MEANING = (
    *("hidden_dim", "num_states", "num_gates_r", "num_gates_w", "num_gates_i", "num_gates_t", "batch_size"),
    *("simple_agg", "enable_automatic_mixed_precision"),
)


class FlashRNNConfig:
    """Settings of a call of ``flashrnn`` by FlashRNN's names, given by keyword; None where they are not.

    ``function``, ``backend`` and ``dtype`` go before ``flashrnn``'s arguments of the same names, as they do there.
    """

    def __init__(
        self, *, function: str = "lstm", backend: str = "cuda_fused", dtype: str = "bfloat16", **settings: Any
    ) -> None:
        names = (*_OBEYED, *_ARRAYS, *_WITHIN, *_SWITCHES, *_SHAPES, *_TRAINED, *_SIZES, *_WITHOUT_MEANING)
        for name in settings:
            if name not in names:
                raise FlashscanTypeError(f"FlashRNNConfig has no setting {name}; accepted are {', '.join(names)}")
        vars(self).update(dict.fromkeys(names), function=function, backend=backend, dtype=dtype, **settings)


def _choose(name: str, value: Any, accepted: tuple[str, ...]) -> str:
    text = str(value).removeprefix("torch.")
    if text not in accepted:
        raise FlashscanValueError(f"{name} is {value!r}; accepted are {', '.join(map(repr, accepted))}")
    return text


def _setting(config: Any, name: str, value: Any, accepted: tuple[str, ...]) -> str:
    """What a call asks for: the config's, where it has one, goes before the argument, as in FlashRNN."""
    over = getattr(config, name, None)
    return _choose(name, value, accepted) if over is None else _choose(f"config.{name}", over, accepted)


def _check_config(config: Any, dtype: str, shape: tuple[int, ...]) -> None:
    """Refuses what would change the result and cannot be obeyed; ``shape`` is Wx's."""
    if isinstance(config, (dict, str, int)):
        raise FlashscanTypeError(
            f"config is a {type(config).__name__}; accepted are objects that have FlashRNN's settings as attributes"
        )

    def refuse(name: str, accepted: Any) -> None:
        raise FlashscanValueError(f"config.{name} is {getattr(config, name)!r}; accepted is {accepted}")

    for name in _SWITCHES:
        given = getattr(config, name, None)
        if given is not None and not (isinstance(given, (bool, int, float, dict)) and not given):
            refuse(name, "what is off")
    for name, layout in _SHAPES.items():
        given = getattr(config, name, None)
        if given is not None and not (isinstance(given, str) and given == layout):
            refuse(name, repr(layout))
    for name in _TRAINED:
        given = getattr(config, name, None)
        flags = given if isinstance(given, (list, tuple)) else [given]
        if given is not None and not all(each is True for each in flags):
            refuse(name, "True; a tensor that is detached gets no gradient")
    for name, axis in _SIZES.items():
        given = getattr(config, name, None)
        if given is not None and integer(f"config.{name}", given) not in (-1, shape[axis]):
            refuse(name, f"{shape[axis]}, which Wx has")
    narrow = dtype in ("bfloat16", "float16")
    for name in (*_ARRAYS, *_WITHIN):
        given = getattr(config, name, None)
        # Sums and gates of 16-bit data are in float32, and sums are never narrower.
        wide = (name in _WITHIN and narrow) or name == "dtype_acc"
        if given is not None:
            _choose(f"config.{name}", given, tuple(dict.fromkeys((dtype, "float32"))) if wide else (dtype,))


def _initial(config: Any, states: torch.Tensor | None, Wx: torch.Tensor, function: str) -> torch.Tensor | None:
    """The states before the first step [S, B, H, D]; those that are not given are ``config.initial_val``."""
    given, count = getattr(config, "initial_val", None), CELLS[function][3]
    if states is not None:
        accepted = (count, Wx.shape[0], 1, *Wx.shape[3:])
        if states.shape != accepted:
            raise FlashscanValueError(f"states has shape {tuple(states.shape)}; accepted is {accepted} for {function!r}")
        return torch.squeeze(states, 2)
    if given is None:
        return None
    values = list(given) if isinstance(given, (list, tuple)) else [given] * count
    values = [number("config.initial_val", value) for value in values]
    if len(values) != count:
        raise FlashscanValueError(f"config.initial_val has {len(values)} numbers; accepted are {count} for {function!r}")
    shape = (count, Wx.shape[0], *Wx.shape[3:])
    return Wx.new_tensor(values).reshape(-1, 1, 1, 1).expand(shape).contiguous() if any(values) else None


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
        config: a FlashRNNConfig, or an object like one. Its ``function``, ``backend`` and ``dtype`` go before the
            arguments of the same names, ``gradient_recurrent_clipval`` limits the gradient through R at every step, and
            ``initial_val`` stands for states that are not given. Refused are cut recurrent gradients, clipped states,
            constants, other layouts than these, tensors that are not trained, a ``num_heads`` or ``head_dim`` that is
            not Wx's, and a ``dtype_w``, ``_r``, ``_b`` or ``_s`` that is not ``dtype`` (``dtype_g``, ``_a`` and
            ``_acc`` may also be float32 with 16-bit data). Settings of kernels have no meaning here.
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
    Wx, R, b = (tensor.to(getattr(torch, dtype)) for tensor in (Wx, R, b))
    for name, tensor, axes in (("Wx", Wx, 5), ("R", R, 4), ("b", b, 3), ("states", states, 5)):
        if tensor is not None and tensor.dim() != axes:
            raise FlashscanValueError(f"{name} has shape {tuple(tensor.shape)}; accepted are tensors of {axes} axes")
    _check_config(config, dtype, tuple(Wx.shape))
    if function == "gru" and (R.shape[0] != 3 or b.shape[0] != 4):
        raise FlashscanValueError(f"R and b have {R.shape[0]} and {b.shape[0]} gates; accepted are 3 and 4 for 'gru'")
    if function == "gru":
        R, b = R[[1, 2, 0]], b[[1, 2, 3, 0]]
    initial = _initial(config, states, Wx, function)
    clip = getattr(config, "gradient_recurrent_clipval", None)
    clip = 0.0 if clip is None else number("config.gradient_recurrent_clipval", clip)
    options: dict[str, Any] = {"return_all_states": True, "return_final_state": True, "recurrent_clip": clip}
    cell: Any = function
    output, last = _rnn(Wx, R, b, cell, initial, **options)
    return (output if output.dim() == 5 else output.unsqueeze(0)), last.unsqueeze(2).to(output.dtype)
