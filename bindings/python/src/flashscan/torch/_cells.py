# SPDX-License-Identifier: Apache-2.0
"""One step of a network with the parameters of torch.nn's LSTMCell, GRUCell and RNNCell."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from .._call import choose, flag
from .._errors import FlashscanTypeError, FlashscanValueError, naming
from .._rnn import CELLS
from .._types import Cell
from ._rnn import rnn
from ._torch_parameters import one_bias, one_head
from ._types import Tensor, features, positive, product

_rnn = naming(rnn, initial_state="hx")


class _Cell(nn.RNNCellBase):
    """The base of all cells has the parameters of torch.nn's, and calls ``rnn`` with one step."""

    cell: Cell

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None, dtype: torch.dtype | None = None
    ) -> None:
        positive(input_size=input_size, hidden_size=hidden_size)
        gates = CELLS[self.cell][1]
        super().__init__(input_size, hidden_size, flag("bias", bias), num_chunks=gates, device=device, dtype=dtype)

    def _step(self, input: Tensor, states: list[Tensor] | None) -> list[Tensor]:
        """The states after the step, of the input's dtype as torch.nn's are."""
        features("input", input, (1, 2), self.input_size)
        rows = input.shape[:-1]
        for each in states or ():
            if each.shape != (*rows, self.hidden_size):
                accepted = (*rows, self.hidden_size)
                raise FlashscanValueError(f"hx has shape {tuple(each.shape)}; accepted is {accepted}")
        R = one_head(self.weight_hh)
        Wx = product(self.weight_ih, input).reshape(-1, 1, *R.shape[:3])
        initial = None if states is None else torch.stack(states).reshape(len(states), -1, *R.shape[1:3])
        bias = one_bias(self, self.bias_ih, self.bias_hh) if self.bias else None
        output, last = _rnn(Wx, R, bias, self.cell, initial, return_final_state=True)
        return [state.reshape(*rows, self.hidden_size).to(output.dtype) for state in last]


class _CellOfOneState(_Cell):
    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        """One step.

        Args:
            input: [B, input_size], or [input_size] without a batch.
            hx: h before the step, [B, hidden_size] or [hidden_size]; zeros if not given.

        Returns:
            h after the step, of ``hx``'s shape and the input's dtype.
        """
        if hx is not None and not isinstance(hx, Tensor):
            raise FlashscanTypeError(f"hx is a {type(hx).__name__}; accepted are a tensor or None")
        return self._step(input, None if hx is None else [hx])[0]


class LSTMCell(_Cell):
    """torch.nn.LSTMCell: one step of an LSTM, with its arguments, parameters and gradients; state dicts load both ways.

    Steps that are known beforehand take one call of ``LSTM`` or ``rnn``, which is faster than a call for each of them.

    Args:
        input_size, hidden_size: features of the input and of the states.
        bias: whether there are biases.

    Parameters: weight_ih [4 * hidden_size, input_size], weight_hh [4 * hidden_size, hidden_size], and bias_ih and
    bias_hh [4 * hidden_size].
    """

    cell: Cell = "lstm"

    def forward(self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, Tensor]:
        """One step.

        Args:
            input: [B, input_size], or [input_size] without a batch.
            hx: h and c before the step, each [B, hidden_size] or [hidden_size]; zeros if not given.

        Returns:
            h and c after the step, of ``hx``'s shapes and the input's dtype.
        """
        pair = hx is None or (isinstance(hx, (list, tuple)) and len(hx) == 2)
        if not pair or not all(isinstance(each, Tensor) for each in hx or ()):
            accepted = "a tuple of two tensors, h and c, or None"
            raise FlashscanTypeError(f"hx is a {type(hx).__name__}; accepted are {accepted}")
        h, c = self._step(input, None if hx is None else list(hx))
        return h, c


class GRUCell(_CellOfOneState):
    """torch.nn.GRUCell: one step of a GRU, as ``LSTMCell`` is of an LSTM. There are 3 gates, and the state is h."""

    cell: Cell = "gru"


class RNNCell(_CellOfOneState):
    """torch.nn.RNNCell: one step of an Elman network, as ``LSTMCell`` is of an LSTM. There is 1 gate, the state is h,
    and ``nonlinearity`` is "tanh" or "relu".
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        device: Any = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        self.cell = choose("nonlinearity", nonlinearity, {"tanh": "elman", "relu": "elman_relu"})
        super().__init__(input_size, hidden_size, bias, device, dtype)
        self.nonlinearity = nonlinearity
