# SPDX-License-Identifier: Apache-2.0
"""Layers in the manner of torch.nn.LSTM, with heads."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Union

import torch
from torch import nn
from torch.nn import functional

from .._call import choose, flag, integer, number
from .._errors import FlashscanTypeError, FlashscanValueError, naming
from .._rnn import CELLS
from .._types import Cell
from ._projection import enter, leave, projected
from ._rnn import rnn
from ._sequences import Input, as_tensor, gathered
from ._torch_parameters import module_of, take_parameters
from ._types import Offsets, Tensor, as_offsets, positive, product, tensors

if TYPE_CHECKING:
    from typing_extensions import Self

State = Union[Tensor, tuple[Tensor, ...]]
_rnn = naming(rnn, initial_state="hx")


class Recurrent(nn.Module):
    """What LSTM, GRU, MGU, Elman and SLSTM have in common: layers whose units are cut into heads, which do not see each
    other's state.

    Args:
        input_size: features of the input.
        hidden_size: features of the output, a multiple of ``num_heads``.
        num_layers: layers, each on the output of the one before.
        bias: whether there are biases.
        batch_first: the input is [B, T, input_size], not [T, B, input_size].
        dropout: probability of dropping an element between layers, in training.
        bidirectional: a second direction, from the last step to the first, beside the first.
        num_heads: H; each head has its own recurrent weights, [hidden_size / H] squared for each gate.
        recurrent_clip: the limit, in backward, of each element of the gradient through the recurrent weights at every
            step; 0 for none.
        allow_tf32: on a GPU the factors of float32 recurrent products may be rounded to tf32 where that is faster.

    Parameters of layer k, with suffix ``_reverse`` in the second direction, for G gates and D = hidden_size / H:
        weight_ih_lk: [G * hidden_size, features of the layer's input]
        weight_hh_lk: [G, H, D, D] (out, in)
        bias_lk: [G, H, D]; [4, H, D] for GRU: r, z, n and that of the recurrent product of n

    ``load_state_dict`` takes the parameters of torch.nn's layers as well where there is one head; their two biases
    become one.
    """

    cell: Cell
    proj_size = 0

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        *,
        num_heads: int = 1,
        recurrent_clip: float = 0.0,
        allow_tf32: bool = False,
        device: Any = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        positive(input_size=input_size, hidden_size=hidden_size, num_layers=num_layers, num_heads=num_heads)
        if not 0 <= number("dropout", dropout) <= 1:
            raise FlashscanValueError(f"dropout is {dropout}; accepted are 0 to 1")
        bias, batch_first = flag("bias", bias), flag("batch_first", batch_first)
        bidirectional, recurrent_clip = flag("bidirectional", bidirectional), number("recurrent_clip", recurrent_clip)
        if hidden_size % num_heads:
            raise FlashscanValueError(f"num_heads is {num_heads}; accepted are divisors of hidden_size, {hidden_size}")
        if self.proj_size and (num_heads > 1 or not 0 < self.proj_size < hidden_size):
            raise FlashscanValueError(
                f"proj_size is {self.proj_size}; accepted are 0, and with one head less than hidden_size, {hidden_size}"
            )
        self.input_size, self.hidden_size, self.num_layers, self.bias = input_size, hidden_size, num_layers, bias
        self.batch_first, self.dropout, self.bidirectional = batch_first, float(dropout), bidirectional
        self.num_heads, self.recurrent_clip = num_heads, recurrent_clip
        self.allow_tf32 = flag("allow_tf32", allow_tf32)
        _, gates, biases, self._states = CELLS[self.cell]
        heads, dim = num_heads, hidden_size // num_heads
        for layer in range(num_layers):
            inputs = input_size if layer == 0 else self._features * (2 if bidirectional else 1)
            shapes: dict[str, tuple[int, ...] | None] = {
                "weight_ih": (gates * hidden_size, inputs),
                "weight_hh": (gates, heads, dim, self.proj_size or dim),
                "bias": (biases, heads, dim) if bias else None,
            }
            if self.proj_size:
                shapes["weight_hr"] = (self.proj_size, hidden_size)
            for name, shape in shapes.items():
                for suffix in self._suffixes(layer):
                    value = None if shape is None else nn.Parameter(torch.empty(shape, device=device, dtype=dtype))
                    self.register_parameter(name + suffix, value)
        self.reset_parameters()

    @property
    def _features(self) -> int:
        """Of the output in one direction."""
        return self.proj_size or self.hidden_size

    def _suffixes(self, layer: int) -> list[str]:
        return [f"_l{layer}"] + ([f"_l{layer}_reverse"] if self.bidirectional else [])

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *args: Any) -> None:
        take_parameters(self, state_dict, prefix)
        base: Any = super()
        base._load_from_state_dict(state_dict, prefix, *args)

    def flatten_parameters(self) -> None:
        """Does nothing: torch.nn's layers want their weights in one piece of memory, these do not."""

    def reset_parameters(self) -> None:
        """Uniform within one over the root of hidden_size, recurrent weights of the units of a head, as torch.nn's."""
        for name, parameter in self.named_parameters():
            units = parameter.shape[-1] if name.startswith("weight_hh") else self.hidden_size
            nn.init.uniform_(parameter, -1 / math.sqrt(units), 1 / math.sqrt(units))

    def extra_repr(self) -> str:
        text = f"{self.input_size}, {self.hidden_size}, num_layers={self.num_layers}, num_heads={self.num_heads}"
        return text + f", batch_first={self.batch_first}, bidirectional={self.bidirectional}"

    def _initial(self, hx: State | None, rows: int, batched: bool) -> list[Tensor] | None:
        """One tensor [layers and directions, rows, width] for each state of the cell."""
        if hx is None:
            return None
        states = [hx] if isinstance(hx, Tensor) else hx
        if not isinstance(states, (list, tuple)) or not all(isinstance(each, Tensor) for each in states):
            raise FlashscanTypeError(f"hx is {hx!r}; accepted are a tensor, or a tuple of tensors, or None")
        for each in states:
            tensors(hx=each)
        if len(states) != self._states:
            raise FlashscanValueError(f"hx has {len(states)} tensors; accepted are {self._states} for {self.cell}")
        depth = self.num_layers * (2 if self.bidirectional else 1)
        for number, each in enumerate(states):
            width = self.hidden_size if number else self._features
            accepted = (depth, rows, width) if batched else (depth, width)
            if tuple(each.shape) != accepted:
                raise FlashscanValueError(f"hx has shape {tuple(each.shape)}; accepted is {accepted}")
        return list(states) if batched else [each.unsqueeze(1) for each in states]

    def _direction(
        self, x: Tensor, suffix: str, states: list[Tensor] | None, offsets: Tensor | None, reset: Tensor | None
    ) -> tuple[Tensor, list[Tensor]]:
        """The output [.., .., features] and the final states [B, width] of one layer in one direction."""
        weight, reverse = getattr(self, "weight_hh" + suffix), suffix.endswith("_reverse")
        gates, heads, dim = weight.shape[:3]
        Wx = product(getattr(self, "weight_ih" + suffix), x).unflatten(-1, (gates, heads, dim))
        projection = getattr(self, "weight_hr" + suffix) if self.proj_size else None
        first = states
        if projection is not None and states is not None:
            Wx = enter(Wx, weight, states[0], offsets, 1 if self.batch_first else 0, reverse)
            first = [torch.zeros_like(states[1]), states[1]]
        initial = None if first is None else torch.stack(first).unflatten(-1, (heads, dim))
        output, final = _rnn(
            Wx,
            weight if projection is None else projected(weight, projection),
            getattr(self, "bias" + suffix),
            self.cell,
            initial,
            layout="btghd" if self.batch_first else "tbghd",
            reverse=reverse,
            return_final_state=True,
            recurrent_clip=self.recurrent_clip,
            allow_tf32=self.allow_tf32,
            seq_offsets=offsets,
            reset=reset,
        )
        output, finals = output.flatten(-2), list(final.flatten(-2).unbind(0))
        if projection is not None:
            output = functional.linear(output, projection)
            finals[0] = leave(finals[0], projection, None if states is None else states[0], offsets, x.numel() > 0)
        return output, finals

    def forward(
        self,
        input: Input,
        hx: State | None = None,
        *,
        lengths: Tensor | list[int] | None = None,
        seq_offsets: Offsets = None,
        reset: Tensor | None = None,
    ) -> tuple[Any, State]:
        """Runs the layers.

        Args:
            input: [T, B, input_size], or [B, T, input_size] with ``batch_first``, or [T, input_size] without a batch,
                or a ``torch.nn.utils.rnn.PackedSequence``.
            hx: the states before the first step, for each state of the cell [layers * directions, B, hidden_size]: a
                tensor, or a tuple of h c for LSTM and h c n m for SLSTM; zeros if not given.
            lengths: [B], the steps of each sequence, 0 to T; those after them are padding, of which nothing is read,
                and the output is 0 there.
            seq_offsets: N + 1 offsets of sequences packed along time; B is 1 then, and N stands for B in states.
            reset: bool or uint8 [B, T]; all states are 0 before a step where it is not 0.

        Returns:
            ``(output, hx)``: [T, B, directions * hidden_size], or as the input is laid out, and the states after the
            last step, of ``hx``'s shapes, in float32 for 16-bit data.
        """
        if reset is not None and self.proj_size:
            raise FlashscanValueError("reset is given; accepted with proj_size is None")
        if seq_offsets is None:
            way = gathered(input, lengths, reset, self.input_size, self.batch_first)
            if way is not None:
                output, last = self._layers(way.x, way.sorted(hx), True, way.seq_offsets, way.reset)
                return way.back(output), way.unsorted(last)
        elif lengths is not None:
            raise FlashscanValueError("lengths is given; accepted with seq_offsets is None")
        input = as_tensor(input)
        batched = input.dim() == 3
        if input.dim() not in (2, 3) or input.shape[-1] != self.input_size:
            raise FlashscanValueError(
                f"input has shape {tuple(input.shape)}; accepted are 2 or 3 axes, the last of {self.input_size}"
            )
        axis = 0 if self.batch_first else 1
        x = input if batched else input.unsqueeze(axis)
        output, last = self._layers(x, hx, batched, as_offsets(seq_offsets, input), reset)
        return (output if batched else output.squeeze(axis)), last

    def _layers(
        self, x: Tensor, hx: State | None, batched: bool, seq_offsets: Tensor | None, reset: Tensor | None
    ) -> tuple[Tensor, State]:
        rows = x.shape[0 if self.batch_first else 1] if seq_offsets is None else seq_offsets.numel() - 1
        states = self._initial(hx, rows, batched)
        finals: list[list[Tensor]] = []
        for layer in range(self.num_layers):
            if layer and self.dropout:
                x = functional.dropout(x, self.dropout, self.training)
            outputs = []
            for suffix in self._suffixes(layer):
                before = None if states is None else [state[len(finals)] for state in states]
                output, final = self._direction(x, suffix, before, seq_offsets, reset)
                outputs.append(output)
                finals.append(final)
            x = outputs[0] if len(outputs) == 1 else torch.cat(outputs, -1)
        last = tuple(torch.stack([final[number] for final in finals]) for number in range(self._states))
        if not batched:
            last = tuple(each.squeeze(1) for each in last)
        return x, last[0] if self._states == 1 else last

    def to_torch(self) -> nn.RNNBase:
        """A torch.nn.LSTM, GRU or RNN with these parameters that computes the same; one head."""
        return module_of(self)

    @classmethod
    def _converted(cls, module: nn.RNNBase, **options: Any) -> Self:
        weight: Any = module.weight_hh_l0
        layer = cls(
            module.input_size,
            module.hidden_size,
            module.num_layers,
            module.bias,
            module.batch_first,
            module.dropout,
            module.bidirectional,
            device=weight.device,
            dtype=weight.dtype,
            **options,
        )
        layer.load_state_dict(module.state_dict())
        return layer.train(module.training)


class LSTM(Recurrent):
    """Layers of an LSTM network, with the arguments and parameters of ``Recurrent``. States are h and c.

    With ``proj_size`` P, and one head, output and h are ``weight_hr_lk`` [P, hidden_size] times h, as in torch.nn.LSTM;
    ``weight_hh_lk`` is [G, 1, D, P] and the network is run as one whose recurrent weights are the products of the two.
    """

    cell: Cell = "lstm"

    def __init__(self, *args: Any, proj_size: int = 0, **options: Any) -> None:
        self.proj_size = integer("proj_size", proj_size)
        super().__init__(*args, **options)

    @classmethod
    def from_torch(cls, module: nn.LSTM) -> LSTM:
        """A copy of a torch.nn.LSTM that computes the same; its two biases become one."""
        _expect(module, nn.LSTM)
        return cls._converted(module, proj_size=module.proj_size)


class GRU(Recurrent):
    """Layers of a GRU network, with the arguments and parameters of ``Recurrent``. The state is h.

    With ``reset_after=False`` the reset gate acts on the state before the recurrent product of n, not on the product;
    there are 3 biases then.
    """

    def __init__(self, *args: Any, reset_after: bool = True, **options: Any) -> None:
        self.cell = "gru" if flag("reset_after", reset_after) else "gru_reset_before"
        super().__init__(*args, **options)

    @classmethod
    def from_torch(cls, module: nn.GRU) -> GRU:
        """A copy of a torch.nn.GRU that computes the same; its biases of r and of z become one each."""
        _expect(module, nn.GRU)
        return cls._converted(module)


class MGU(Recurrent):
    """Layers of minimal gated units (Zhou et al., arXiv 1603.09420), with the arguments and parameters of ``Recurrent``.
    The state is h.
    """

    cell: Cell = "mgu"


class Elman(Recurrent):
    """Layers of an Elman network, with the arguments and parameters of ``Recurrent``. The state is h; ``nonlinearity`` is
    "tanh" or "relu".
    """

    def __init__(self, *args: Any, nonlinearity: str = "tanh", **options: Any) -> None:
        self.cell = choose("nonlinearity", nonlinearity, {"tanh": "elman", "relu": "elman_relu"})
        super().__init__(*args, **options)

    @classmethod
    def from_torch(cls, module: nn.RNN) -> Elman:
        """A copy of a torch.nn.RNN that computes the same; its two biases become one."""
        _expect(module, nn.RNN)
        return cls._converted(module, nonlinearity=module.nonlinearity)


class SLSTM(Recurrent):
    """Layers of an sLSTM network (Beck et al., arXiv 2405.04517), with the arguments and parameters of ``Recurrent``.
    States are h, c, n and m.
    """

    cell: Cell = "slstm"


def _expect(module: Any, kind: type) -> None:
    if not isinstance(module, kind):
        raise FlashscanTypeError(f"module is a {type(module).__name__}; accepted is torch.nn.{kind.__name__}")


def from_torch(module: nn.RNNBase) -> LSTM | GRU | Elman:
    """A copy of a torch.nn.LSTM, GRU or RNN that computes the same on flashscan."""
    if isinstance(module, nn.LSTM):
        return LSTM.from_torch(module)
    if isinstance(module, nn.GRU):
        return GRU.from_torch(module)
    if isinstance(module, nn.RNN):
        return Elman.from_torch(module)
    raise FlashscanTypeError(f"module is a {type(module).__name__}; accepted are torch.nn.LSTM, GRU and RNN")
