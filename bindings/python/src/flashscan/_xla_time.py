# SPDX-License-Identifier: Apache-2.0
"""The state before each step of a scan, which derivatives multiply by, on JAX arrays."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp

Array = jax.Array


@dataclass(frozen=True)
class Steps:
    """Steps along the axis ``time``, counted from the front. An initial state is of the shape without that axis, or, where
    sequences are packed, has a row for each of them in its place."""

    time: int
    reverse: bool
    seq_offsets: Any = None

    def before(self, states: Array, initial: Any) -> Array:
        """The state before each step, of the shape of ``states``, those after each step; 0 where ``initial`` is None."""
        rows = self._shape_of_rows(states)
        return self._moved(states, jnp.zeros(rows, states.dtype) if initial is None else initial.reshape(rows))

    def before_from(self, states: Array, first: Array) -> Array:
        """``before`` with ``first``, which broadcasts, at the first step of every row and sequence."""
        return self._moved(states, jnp.broadcast_to(first, self._shape_of_rows(states)))

    def _shape_of_rows(self, states: Array) -> tuple[int, ...]:
        rows = 1 if self.seq_offsets is None else self.seq_offsets.shape[0] - 1
        return (*states.shape[: self.time], rows, *states.shape[self.time + 1 :])

    def _moved(self, states: Array, rows: Array) -> Array:
        """``rows`` are the states before rows or packed sequences, along the axis of time."""
        length, rows = states.shape[self.time], rows.astype(states.dtype)
        if length == 0:
            return states
        if self.seq_offsets is None:
            kept = jax.lax.slice_in_dim(states, *((1, length) if self.reverse else (0, length - 1)), axis=self.time)
            return jnp.concatenate((kept, rows) if self.reverse else (rows, kept), self.time)
        offsets, steps = self.seq_offsets, jnp.arange(length)
        sequence = self.sequence(length)
        first = offsets[jnp.minimum(sequence + 1, offsets.shape[0] - 1)] - 1 if self.reverse else offsets[sequence]
        places = jnp.where(steps == first, length + sequence, steps + (1 if self.reverse else -1))
        return jnp.take(jnp.concatenate((states, rows), self.time), places, self.time, mode="clip")

    def after(self, states: Array, initial: Array) -> Array:
        """The last of ``states`` of each row or packed sequence; ``initial`` of those that have no step."""
        length = states.shape[self.time]
        if length == 0:
            return initial
        if self.seq_offsets is None:
            return jax.lax.index_in_dim(states, 0 if self.reverse else length - 1, self.time, keepdims=False)
        offsets = self.seq_offsets
        places = jnp.clip(offsets[:-1] if self.reverse else offsets[1:] - 1, 0, length - 1)
        last = jnp.take(states, places, self.time).reshape(initial.shape)
        empty = (offsets[1:] == offsets[:-1]).reshape(-1, *(1,) * (initial.ndim - 1))
        return jnp.where(empty, initial, last)

    def firsts(self, length: int) -> Array:
        """[length]: whether a step is the first of a row or of a sequence."""
        rows = 1 if self.seq_offsets is None else self.seq_offsets.shape[0] - 1
        return replace(self, time=0).before(jnp.zeros(length, bool), jnp.ones(rows, bool))

    def sequence(self, length: int) -> Array:
        """[length]: the packed sequence of each step, the number of sequences behind the last."""
        return jnp.searchsorted(self.seq_offsets[1:], jnp.arange(length), side="right")

    def within(self, states: Array) -> Array:
        """``states``, 0 behind the last packed sequence."""
        if self.seq_offsets is None:
            return states
        length = states.shape[self.time]
        here = (jnp.arange(length) < self.seq_offsets[-1]).reshape(-1, *(1,) * (states.ndim - 1 - self.time))
        return jnp.where(here, states, 0)
