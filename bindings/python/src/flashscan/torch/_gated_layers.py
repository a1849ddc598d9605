# SPDX-License-Identifier: Apache-2.0
"""Layers around gated_scan: a linear layer makes gates and candidates of the input, one call does the rest."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from .._call import flag, number
from .._errors import FlashscanTypeError, FlashscanValueError, naming
from .._types import Layer
from ._gated import gated_scan
from ._steps import Steps
from ._types import Offsets, Tensor, as_offsets, as_state, features, positive, product, tensors

_gated_scan = naming(gated_scan, initial_state="state", param="lower_bound")


class Stepped(nn.Module):
    """A layer whose ``forward(input, state)`` returns its output and the state with which the next call goes on."""

    input_size: int

    def step(self, input: Tensor, state: Any = None, *, reset: Tensor | None = None) -> tuple[Tensor, Any]:
        """One step of decoding, without a time axis.

        Args:
            input: [B, input_size].
            state: what the last call of ``step`` or ``forward`` returned; None where sequences start.
            reset: [B], bool or uint8; where it is not 0, a sequence starts whatever the state.

        Returns:
            ``(output, state)``: [B, features of the output], and the state to go on with.

        Raises:
            FlashscanError: what is wrong, and what is accepted.
        """
        features("input", input, (2,), self.input_size)
        tensors(True, reset=reset)
        reset = None if reset is None else reset.unsqueeze(1)
        output, state = self(input.unsqueeze(1), state, reset=reset)
        return output.squeeze(1), state


def with_past(
    state: Any, input: Tensor, window: int, seq_offsets: Tensor | None
) -> tuple[Tensor | None, tuple[Tensor, ...]]:
    """The pair that the state of a layer with a window is: h, and the inputs before the first step, the newest first."""
    rows = input.shape[0] if seq_offsets is None else seq_offsets.shape[0] - 1
    shape = (rows, window - 1, input.shape[2])
    if state is None:
        return None, input.new_zeros(shape).unbind(1)
    if not isinstance(state, (tuple, list)) or len(state) != 2 or not isinstance(state[1], Tensor):
        raise FlashscanTypeError(
            f"state is a {type(state).__name__}; accepted is a pair of tensors: h and the last inputs"
        )
    if tuple(state[1].shape) != shape:
        raise FlashscanValueError(f"state's inputs have shape {tuple(state[1].shape)}; accepted is {shape}")
    return state[0], state[1].to(input.dtype).unbind(1)


class _Layer(Stepped):
    """What the layers of this file have in common.

    ``projection`` is the linear layer that makes what ``_products`` names of the input, one above the other.
    """

    _layer: Layer
    _products: tuple[str, ...]  # arguments of gated_scan

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None, dtype: torch.dtype | None = None
    ) -> None:
        super().__init__()
        positive(input_size=input_size, hidden_size=hidden_size)
        self.input_size, self.hidden_size = input_size, hidden_size
        self.projection = self._linear(input_size, flag("bias", bias), device, dtype)

    def _linear(self, inputs: int, bias: bool, device: Any, dtype: torch.dtype | None) -> nn.Linear:
        return nn.Linear(inputs, len(self._products) * self.hidden_size, bias, device=device, dtype=dtype)

    def extra_repr(self) -> str:
        return f"{self.input_size}, {self.hidden_size}"

    def _scan(self, x: Tensor, state: Tensor | None, **options: Any) -> tuple[Tensor, Tensor]:
        products = product(self.projection, x).chunk(len(self._products), -1)
        arrays = dict(zip(self._products, products))
        results: tuple[Tensor, Tensor] = _gated_scan(
            **arrays, initial_state=state, layer=self._layer, return_final_state=True, **options
        )
        return results

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
            input: [B, T, input_size], of the parameters' dtype.
            state: h before the first step, [B, hidden_size], or [N, hidden_size] with ``seq_offsets``; zeros if not
                given.
            reverse, seq_offsets, reset: as in ``flashscan.linear_scan``.

        Returns:
            ``(output, state)``: [B, T, hidden_size], and h after the last step, of ``state``'s shape, in float32 for
            16-bit data.

        Raises:
            FlashscanError: what is wrong, and what is accepted.
        """
        features("input", input, (3,), self.input_size)
        return self._scan(input, state, reverse=reverse, seq_offsets=seq_offsets, reset=reset)


class MinGRU(_Layer):
    """minGRU (Feng et al., arXiv 2410.01201, section 3.1, with the candidate of its appendix B.3):

        z[t] = sigmoid(W_z x[t] + b_z)
        c[t] = g(W_c x[t] + b_c),  g(v) = v + 1/2 for v >= 0, else sigmoid(v)
        h[t] = (1 - z[t]) h[t-1] + z[t] c[t]

    Args:
        input_size: features of the input.
        hidden_size: features of h.
        bias: whether there are biases.

    ``projection`` is the linear layer of both products, W_z above W_c. All but it is one pass over memory.
    """

    _layer, _products = "mingru", ("gate", "input")


class MinLSTM(_Layer):
    """minLSTM (Feng et al., arXiv 2410.01201, section 3.2, with the candidate of its appendix B.3):

        f[t] = sigmoid(W_f x[t] + b_f),  i[t] = sigmoid(W_i x[t] + b_i),  c[t] = g(W_c x[t] + b_c)
        h[t] = (f[t] h[t-1] + i[t] c[t]) / (f[t] + i[t])

    g is that of ``MinGRU``, as are arguments and what runs where. ``projection`` is the linear layer of all products:
    W_f, W_i, W_c, one above the other.
    """

    _layer, _products = "minlstm", ("gate", "second_gate", "input")


class HGRN(_Layer):
    """The recurrence of HGRN (Qin et al., arXiv 2311.04823, section 3.2), real, without what follows it:

        f[t] = b + (1 - b) sigmoid(W_f x[t] + b_f),  c[t] = silu(W_c x[t] + b_c)
        h[t] = f[t] h[t-1] + (1 - f[t]) c[t]

    Args:
        lower_bound: b, the least that a step keeps: a number from 0 to 1. It is the buffer ``lower_bound``
            [hidden_size]; a network in which lower bounds are learned gives them to ``forward``.

    Other arguments and what runs where are those of ``MinGRU``. ``projection`` is the linear layer of both products, W_f
    above W_c.
    """

    _layer, _products = "hgrn", ("gate", "input")

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        lower_bound: float = 0.0,
        device: Any = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, device, dtype)
        if not 0 <= number("lower_bound", lower_bound) <= 1:
            raise FlashscanValueError(f"lower_bound is {lower_bound}; accepted are 0 to 1")
        bounds = torch.full((hidden_size,), float(lower_bound), device=device, dtype=dtype)
        self.register_buffer("lower_bound", bounds)

    def forward(
        self,
        input: Tensor,
        state: Tensor | None = None,
        *,
        lower_bound: Tensor | None = None,
        reverse: bool = False,
        seq_offsets: Offsets = None,
        reset: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """As ``MinGRU.forward``; ``lower_bound`` [hidden_size], differentiable, takes the place of the layer's own."""
        features("input", input, (3,), self.input_size)
        tensors(True, lower_bound=lower_bound)
        param = self.lower_bound if lower_bound is None else lower_bound
        return self._scan(input, state, param=param, reverse=reverse, seq_offsets=seq_offsets, reset=reset)


class QRNN(_Layer):
    """A quasi-recurrent layer (Bradbury et al., arXiv 1611.01576, section 2.1) with fo-pooling:

        z, f, o [t] = W [x[t], x[t-1], ..., x[t-window+1]] + b
        h[t] = sigmoid(f) h[t-1] + (1 - sigmoid(f)) tanh(z),  output[t] = sigmoid(o) h[t]

    Args:
        window: steps of the input that gates and candidates see; zeros before a sequence starts.

    Other arguments and what runs where are those of ``MinGRU``. ``projection`` is the linear layer of W: rows f, o, z,
    columns from the newest step to the oldest.
    """

    _layer, _products = "qrnn", ("gate", "output_gate", "input")

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        window: int = 2,
        device: Any = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        positive(window=window)
        super().__init__(input_size, hidden_size, bias, device, dtype)
        self.window = window
        if window > 1:
            self.projection = self._linear(window * input_size, bool(bias), device, dtype)

    def forward(
        self,
        input: Tensor,
        state: tuple[Tensor, Tensor] | Tensor | None = None,
        *,
        reverse: bool = False,
        seq_offsets: Offsets = None,
        reset: Tensor | None = None,
    ) -> tuple[Tensor, Any]:
        """As ``MinGRU.forward``; with a window of more than 1 the state is the pair of h and the last inputs, the newest
        first, [B, window - 1, input_size] or [N, ...]."""
        features("input", input, (3,), self.input_size)
        tensors(True, reset=reset)
        seq_offsets = as_offsets(seq_offsets, input)
        options = {"reverse": reverse, "seq_offsets": seq_offsets, "reset": reset}
        if self.window == 1:
            before: Any = state
            return self._scan(input, before, **options)
        h, past = with_past(state, input, self.window, seq_offsets)
        steps = Steps(1, flag("reverse", reverse), seq_offsets, None if reset is None else torch.ne(reset, 0).unsqueeze(2))
        seen, last = steps.window(input, past)
        output, h = self._scan(torch.cat(seen, -1), as_state(h, input), **options)
        return output, (h, last)
