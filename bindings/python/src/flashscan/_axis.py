# SPDX-License-Identifier: Apache-2.0
"""Arrays of any rank with time at some axis, as the arrays [batch, time, channels] that linear recurrences and gated layers
take.

The axes before that of time are the batch, those behind it the channels: arrays that are dense, and all others whose
strides allow it, are looked at as they lie. NumPy's, PyTorch's and JAX's functions all go through here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from . import _foreign
from ._call import Kind, known_arrays, space_of
from ._errors import FlashscanTypeError, FlashscanValueError
from ._operator import axis_of


def check_layout(layout: Any) -> None:
    if layout != "btc":
        raise FlashscanValueError(f"layout is {layout!r} with axis; accepted beside axis is the default, 'btc'")


def _checked(name: str, array: Any, shape: tuple[int, ...]) -> Any:
    given = tuple(getattr(array, "shape", ()))
    if given != shape:
        raise FlashscanValueError(f"{name} has shape {given}; accepted is {shape}")
    return array


def _joins(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether neighbouring axes are one axis of a single stride."""
    steps = [(n, step) for n, step in zip(shape, strides) if n != 1]
    return 0 in shape or all(outer == n * inner for (_, outer), (n, inner) in zip(steps, steps[1:]))


class TimeAxis:
    """The axis of time of arrays of a shape, and what the arrays beside them look like."""

    def __init__(self, name: str, axis: Any, shape: Sequence[int], seq_offsets: Any = None) -> None:
        self.shape = tuple(shape)
        self.place = place = axis_of(axis, None, len(self.shape), 0)
        self.groups = slice(0, place), slice(place, place + 1), slice(place + 1, None)
        front, behind = self.shape[:place], self.shape[place + 1 :]
        if seq_offsets is not None:
            if math.prod(front) != 1:
                raise FlashscanValueError(
                    f"{name} has shape {self.shape} with seq_offsets; accepted are extents of 1 before axis {place}"
                )
            offsets = tuple(getattr(seq_offsets, "shape", ()))
            if len(offsets) != 1 or offsets[0] < 2:
                raise FlashscanValueError(
                    f"seq_offsets has shape {offsets}; accepted is (number of sequences + 1,) with one sequence at least"
                )
            front = (offsets[0] - 1,)
        self.state_shape = front + behind
        self.channels_shape = behind
        self._state = math.prod(front), math.prod(behind)

    def _three(self, shape: Sequence[int]) -> tuple[int, ...]:
        return tuple(math.prod(shape[group]) for group in self.groups)

    def data(self, name: str, array: Any) -> Any:
        return _checked(name, array, self.shape).reshape(self._three(self.shape))

    def into(self, name: str, array: Any, strides: Sequence[int]) -> Any:
        """An array that is written where it lies."""
        _checked(name, array, self.shape)
        if not all(_joins(self.shape[group], strides[group]) for group in self.groups):
            raise FlashscanValueError(
                f"{name} has shape {self.shape} and strides {tuple(strides)}; accepted with axis {self.place} are strides "
                "by which the axes before it are one axis, and those behind it, as in dense arrays"
            )
        return array.reshape(self._three(self.shape))

    def _gate_shape(self, gate: Any) -> tuple[int, ...]:
        """The shape of a gate that is broadcast along all axes of the batch or of the channels, or along none."""
        given = (1,) * (len(self.shape) - len(gate.shape)) + tuple(gate.shape)
        if len(given) != len(self.shape) or any(n not in (1, m) for n, m in zip(given, self.shape)):
            raise FlashscanValueError(
                f"gate has shape {tuple(gate.shape)}; accepted are shapes that broadcast to the other array's, {self.shape}"
            )
        groups = [(given[group], self.shape[group]) for group in self.groups]
        return tuple(n for few, all_ in groups for n in (all_ if any(m != 1 for m in few) else few))

    def gate(self, gate: Any, expand: Callable[[Any, tuple[int, ...]], Any]) -> Any:
        """Whatever broadcasts to the arrays, numbers among them; ``expand(array, shape)`` broadcasts it."""
        if not getattr(gate, "shape", ()):
            return gate
        shape = self._gate_shape(gate)
        return expand(gate, shape).reshape(self._three(shape))

    def gate_gradient(self, gradient: Any, gate: Any, sum_over: Callable[[Any, tuple[int, ...]], Any]) -> Any:
        """The opposite; ``sum_over(array, axes)`` keeps these axes with an extent of 1."""
        if not getattr(gate, "shape", ()):
            return gradient
        shape = self._gate_shape(gate)
        given = (1,) * (len(shape) - len(gate.shape)) + tuple(gate.shape)
        axes = tuple(i for i, (n, m) in enumerate(zip(given, shape)) if n != m)
        gradient = gradient.reshape(shape)
        return (sum_over(gradient, axes) if axes else gradient).reshape(tuple(gate.shape))

    def state(self, name: str, state: Any) -> Any:
        """[*batch, *channels], or [sequences, *channels]."""
        return None if state is None else _checked(name, state, self.state_shape).reshape(self._state)

    def reset(self, reset: Any) -> Any:
        """[*batch, time]."""
        if reset is None:
            return None
        return _checked("reset", reset, self.shape[: self.place + 1]).reshape(self._three(self.shape)[:2])

    def channels(self, name: str, array: Any) -> Any:
        """[*channels]."""
        return _checked(name, array, self.channels_shape).reshape(self._state[1])

    def view(self, name: str, array: Any) -> Any:
        """What the argument of that name is for a scan. Gates are of the shape of the arrays, as those of gated layers."""
        if array is None or name in ("seq_offsets", "out"):
            return array
        if name == "reset":
            return self.reset(array)
        if name in ("initial_state", "grad_final_state"):
            return self.state(name, array)
        return self.channels(name, array) if name in ("param", "bias") else self.data(name, array)

    def results(self, output: Any, *states: Any) -> list[Any]:
        return [output.reshape(self.shape), *(state.reshape(self.state_shape) for state in states)]


def along(
    kind: Kind, arrays: Sequence[Any], layout: Any, axis: Any, call: Callable[[Any, TimeAxis, dict[str, Any]], list[Any]]
) -> list[Any]:
    """``call(space, time, given)``, with the ``arrays`` of ``kind`` by their names as arrays of one space, and the axis of time
    of the one that leads."""
    check_layout(layout)
    lead, name = kind.lead, kind.names[kind.lead]
    if arrays[lead] is None:
        raise FlashscanTypeError(f"{name} is None; accepted are arrays")
    if space_of(arrays[lead]) is None:
        return _foreign.call(lambda known: along(kind, known, layout, axis, call), arrays, lead)
    space, known = known_arrays(kind.names, arrays, lead)
    given = dict(zip(kind.names, known))
    time = TimeAxis(name, axis, given[name].shape, given["seq_offsets"])
    if given.get("out") is not None:
        given["out"] = time.into("out", given["out"], space.spec(space.signature_getter()(given["out"])).strides)
    return call(space, time, given)
