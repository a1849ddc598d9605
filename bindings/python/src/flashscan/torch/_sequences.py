# SPDX-License-Identifier: Apache-2.0
"""Sequences of different lengths as torch.nn has them, padded or in a PackedSequence, packed along time and back."""

from __future__ import annotations

from typing import Any, NamedTuple, Union

import torch
from torch.nn.utils.rnn import PackedSequence

from .._errors import FlashscanTypeError, FlashscanValueError
from ._types import Tensor, tensors

Input = Union[Tensor, PackedSequence]


class Packed(NamedTuple):
    """``place`` says where each step of ``x`` was in the first axis of ``flat``."""

    given: Input
    x: Tensor  # [1, steps, features], or [steps, 1, features]
    seq_offsets: Tensor
    reset: Tensor | None
    place: Tensor
    batch_first: bool

    def sorted(self, hx: Any) -> Any:
        """States in the order of the sequences."""
        return self._in_order(hx, self.given.sorted_indices if isinstance(self.given, PackedSequence) else None)

    def unsorted(self, hx: Any) -> Any:
        return self._in_order(hx, self.given.unsorted_indices if isinstance(self.given, PackedSequence) else None)

    @staticmethod
    def _in_order(hx: Any, order: Tensor | None) -> Any:
        if hx is None or order is None:
            return hx
        if isinstance(hx, (list, tuple)):
            return tuple(Packed._in_order(each, order) for each in hx)
        return hx.index_select(1, order) if isinstance(hx, Tensor) and hx.dim() == 3 else hx

    def back(self, output: Tensor) -> Input:
        steps = output.squeeze(0 if self.batch_first else 1)
        if isinstance(self.given, PackedSequence):
            data = torch.empty_like(steps).index_copy(0, self.place, steps)
            return PackedSequence(data, *self.given[1:])
        axes = self.given.shape[:2]
        padded = steps.new_zeros((axes[0] * axes[1], steps.shape[-1])).index_copy(0, self.place, steps)
        return as_tensor(padded.unflatten(0, axes))


def as_tensor(input: Any) -> Tensor:
    """An input that is no PackedSequence."""
    if not isinstance(input, Tensor):
        raise FlashscanTypeError(f"input is a {type(input).__name__}; accepted are a tensor or a PackedSequence")
    tensors(input=input)
    return input


def gathered(given: Any, lengths: Any, reset: Tensor | None, features: int, batch_first: bool) -> Packed | None:
    """None where the sequences are of one length."""
    if isinstance(given, PackedSequence):
        if lengths is not None or reset is not None:
            name = "lengths" if lengths is not None else "reset"
            raise FlashscanValueError(f"{name} is given; accepted with a PackedSequence is None")
        flat, (place, sizes) = given.data, _places_of(given)
    elif lengths is not None:
        if as_tensor(given).dim() != 3:
            raise FlashscanValueError(f"input has shape {tuple(given.shape)}; accepted with lengths are 3 axes")
        place, sizes = _places_in_batch(given, lengths, batch_first)
        flat = given.flatten(0, 1)
    else:
        return None
    if flat.shape[-1] != features:
        raise FlashscanValueError(f"input has {flat.shape[-1]} features; accepted are {features}")
    if reset is not None:
        reset = _reset_of(reset, given, batch_first).flatten()[place][None]
    x = flat.index_select(0, place).unsqueeze(0 if batch_first else 1)
    offsets = torch.cat([sizes.new_zeros(1), sizes.cumsum(0)])
    return Packed(given, x, offsets, reset, place, batch_first)


def _places_of(given: PackedSequence) -> tuple[Tensor, Tensor]:
    """Of step t of sequence n, sequence by sequence: steps of all sequences that have so many lie together."""
    sizes = given.batch_sizes.to(given.data.device)
    first = sizes.cumsum(0) - sizes
    number = torch.arange(int(given.batch_sizes[0]), device=sizes.device)[:, None]
    some = number < sizes
    return (first + number)[some], some.sum(1)


def _places_in_batch(given: Tensor, lengths: Any, batch_first: bool) -> tuple[Tensor, Tensor]:
    batch, time = (given.shape[0], given.shape[1]) if batch_first else (given.shape[1], given.shape[0])
    if not isinstance(lengths, Tensor) and not (
        isinstance(lengths, (list, tuple)) and all(isinstance(each, int) for each in lengths)
    ):
        raise FlashscanTypeError(f"lengths is {lengths!r}; accepted are a tensor, or a sequence of integers")
    sizes = torch.as_tensor(lengths, device=given.device)
    if sizes.is_floating_point() or tuple(sizes.shape) != (batch,):
        raise FlashscanValueError(
            f"lengths is {sizes.dtype} of shape {tuple(sizes.shape)}; accepted are integers of shape {(batch,)}"
        )
    if batch and not (0 <= int(sizes.min()) and int(sizes.max()) <= time):
        wrong = sizes[(sizes < 0) | (sizes > time)][0]
        raise FlashscanValueError(f"lengths has {int(wrong)}; accepted are 0 to {time}")
    step = torch.arange(time, device=given.device)
    place = torch.arange(batch * time, device=given.device)
    place = place.reshape(batch, time) if batch_first else place.reshape(time, batch).T
    return place[step < sizes[:, None]], sizes.long()


def _reset_of(reset: Any, given: Tensor, batch_first: bool) -> Tensor:
    """[B, T] as the axes of the input are."""
    accepted = tuple(given.shape[:2]) if batch_first else (given.shape[1], given.shape[0])
    if not isinstance(reset, Tensor) or tuple(reset.shape) != accepted:
        found = tuple(reset.shape) if isinstance(reset, Tensor) else f"of a {type(reset).__name__}"
        raise FlashscanValueError(f"reset has shape {found}; accepted is {accepted}")
    return reset if batch_first else reset.T
