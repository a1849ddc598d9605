# SPDX-License-Identifier: Apache-2.0
"""The state before each step of a scan, which tangents and second derivatives multiply by."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from ._types import Tensor


@dataclass(frozen=True)
class Steps:
    """Steps along the axis ``time``. An initial state is of the shape without that axis, or, where sequences are
    packed, has a row for each of them in its place."""

    time: int
    reverse: bool
    seq_offsets: Tensor | None = None
    reset: Tensor | None = None  # of a shape that broadcasts to that of the states

    @property
    def _packed(self) -> Tensor:
        assert self.seq_offsets is not None
        return self.seq_offsets

    def before(self, states: Tensor, initial: Tensor | None) -> Tensor:
        """The state before each step, of the shape of ``states``, those after each step."""
        if self.seq_offsets is None:
            before = self._shifted(states, initial)
        else:
            before = torch.cat(self._with_rows(states, initial), self.time).index_select(
                self.time, self._places(states)
            )
        return before if self.reset is None else before.masked_fill(self.reset, 0)

    def after(self, states: Tensor, initial: Tensor | None) -> Tensor:
        """The last of ``states`` of each row or packed sequence; ``initial`` of those that have no step."""
        length = states.shape[self.time]
        if self.seq_offsets is None:
            if length > 0:
                return torch.select(states, self.time, 0 if self.reverse else length - 1)
            return states.sum(self.time) if initial is None else initial
        offsets = self.seq_offsets.long()
        rows, shape = offsets.shape[0] - 1, states.shape[self.time + 1 :]
        initial = states.new_zeros((rows, *shape)) if initial is None else initial
        if length == 0:
            return initial
        places = (offsets[:-1] if self.reverse else offsets[1:] - 1).clamp(0, length - 1)
        last = states.index_select(self.time, places).reshape(rows, *shape)
        empty = (offsets[1:] == offsets[:-1]).reshape(rows, *(1 for _ in shape))
        return torch.where(empty, initial, last)

    def window(self, input: Tensor, past: tuple[Tensor, ...]) -> tuple[list[Tensor], Tensor]:
        """What each step sees of the input, from its own on to the oldest, ``past`` before the first step; and what the
        next call sees before its first step, side by side behind the rows, the newest first."""
        seen, last = [input], []
        for earlier in past:
            last.append(self.after(seen[-1], earlier))
            seen.append(self.before(seen[-1], earlier))
        return seen, torch.stack(last, 1) if last else input.new_zeros((input.shape[0], 0, input.shape[2]))

    def adjoint(self, gradient: Tensor) -> tuple[Tensor, Tensor]:
        """The gradients of both arguments of ``before``, given that of its result."""
        if self.reset is not None:
            gradient = gradient.masked_fill(self.reset, 0)
        length = gradient.shape[self.time]
        if self.seq_offsets is not None:
            rows = self.seq_offsets.shape[0] - 1
            shape = list(gradient.shape)
            shape[self.time] = length + rows + 1
            total = gradient.new_zeros(shape).index_add(self.time, self._places(gradient), gradient)
            initial = total.narrow(self.time, length, rows)
            return total.narrow(self.time, 0, length), initial.reshape(rows, *gradient.shape[self.time + 1 :])
        if length == 0:
            return gradient, gradient.sum(self.time)
        first, rest = (length - 1, 0) if self.reverse else (0, 1)
        zero = torch.zeros_like(gradient.narrow(self.time, 0, 1))
        kept = gradient.narrow(self.time, rest, length - 1)
        states = torch.cat((zero, kept) if self.reverse else (kept, zero), self.time)
        return states, gradient.select(self.time, first)

    def _shifted(self, states: Tensor, initial: Tensor | None) -> Tensor:
        length = states.shape[self.time]
        if length == 0:
            return states
        zero = torch.zeros_like(states.narrow(self.time, 0, 1))
        first = zero if initial is None else initial.unsqueeze(self.time)
        rest = states.narrow(self.time, 1 if self.reverse else 0, length - 1)
        return torch.cat((rest, first) if self.reverse else (first, rest), self.time)

    def _with_rows(self, states: Tensor, initial: Tensor | None) -> list[Tensor]:
        """The states, those before packed sequences, and a zero."""
        shape = list(states.shape)
        shape[self.time] = self._packed.shape[0] - 1
        rows = states.new_zeros(shape) if initial is None else initial.reshape(shape)
        shape[self.time] = 1
        return [states, rows, states.new_zeros(shape)]

    def _places(self, states: Tensor) -> Tensor:
        """Where, in ``_with_rows``, the state before each step is."""
        length, offsets = states.shape[self.time], self._packed.long()
        sequences = offsets.shape[0] - 1
        steps = torch.arange(length, device=offsets.device)
        sequence = torch.searchsorted(offsets[1:].contiguous(), steps, right=True)
        if self.reverse:
            first, before = offsets[torch.add(sequence, 1).clamp_max(sequences)] - 1, steps + 1
        else:
            first, before = offsets[sequence], torch.sub(steps, 1).clamp_min(0)
        return torch.where((steps == first) | (sequence == sequences), length + sequence, before)
