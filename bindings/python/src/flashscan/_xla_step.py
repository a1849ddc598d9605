# SPDX-License-Identifier: Apache-2.0
"""The steps of flashscan.jax. XLA updates the states in place where nothing else needs them."""

from __future__ import annotations

from typing import Any

import jax

from . import _rnn, _step
from . import _library as lib
from ._call import choose, flag, number, thread_count, words
from ._types import Activation, Cell, Decay, Epilogue, GateForm, Layer, Scale
from ._linear import GATE_FORMS
from ._xla import Family, call
from ._xla_partition import Axes
from ._xla_problem import Traced, arrays_of

Array = jax.Array
ArrayLike = Any


def _spec(traced: Traced, name: str) -> Any:
    return next((spec for spec in traced.specs if spec is not None and spec.name == name), None)


def _rows(traced: Traced) -> tuple[str, str]:
    """The axes of the batch and of the states' rows. Where rows are picked, both stay on a device."""
    return ("b", "b") if _spec(traced, "state_indices") is None else ("p", "r")


def _axes_elementwise(traced: Traced, options: tuple[Any, ...]) -> dict[int, Axes]:
    batch, row = _rows(traced)
    data = (lib.GATE, lib.INPUT, lib.OUTPUT, lib.SECOND_GATE, lib.INPUT_GATE, lib.OUTPUT_GATE)
    numbers: dict[int, Axes] = dict.fromkeys(data, (batch, "c")) | dict.fromkeys((lib.PARAM, lib.BIAS), ("c",))
    states = dict.fromkeys((lib.STATE_IN, lib.STATE_OUT), (row, "c"))
    return numbers | states | {lib.RESET: (batch,), lib.STATE_INDICES: (batch,)}


def _axes_selective(traced: Traced, options: tuple[Any, ...]) -> dict[int, Axes]:
    batch, row = _rows(traced)
    matrices = {lib.B: _spec(traced, "B").shape, lib.C: _spec(traced, "C").shape}
    # Groups are of neighbouring channels, which are then not cut.
    channels = "e" if any(len(shape) == 3 and shape[1] > 1 for shape in matrices.values()) else "c"
    numbers: dict[int, Axes] = dict.fromkeys((lib.INPUT, lib.OUTPUT, lib.DELTA, lib.OUTPUT_GATE), (batch, channels))
    numbers |= {lib.A: (channels, "k"), lib.D: (channels,), lib.BIAS: (channels,)}
    numbers |= {n: (batch, "g", "k") if len(shape) == 3 else (batch, "k") for n, shape in matrices.items()}
    states = dict.fromkeys((lib.STATE_IN, lib.STATE_OUT), (row, channels, "k"))
    return numbers | states | {lib.RESET: (batch,), lib.STATE_INDICES: (batch,)}


def _axes_rnn(traced: Traced, options: tuple[Any, ...]) -> dict[int, Axes]:
    batch, row = _rows(traced)
    states: dict[int, Axes] = dict.fromkeys((lib.STATE_IN, lib.STATE_OUT), ("s", row, "h", "d"))
    weights: dict[int, Axes] = {lib.WEIGHT: ("g", "h", "d", "e"), lib.BIAS: ("k", "h", "d")}
    data: dict[int, Axes] = {lib.INPUT: (batch, "g", "h", "d"), lib.OUTPUT: (batch, "h", "d")}
    return data | weights | states | {lib.RESET: (batch,), lib.STATE_INDICES: (batch,)}


def _family(name: str, kind: Any, axes: Any) -> Family:
    same = lambda options: options
    return Family(name, kind, None, same, same, lambda *_: None, axes)


LINEAR = _family("linear_step", _step._linear_call, _axes_elementwise)
GATED = _family("gated_step", _step._gated_call, _axes_elementwise)
SELECTIVE = _family("selective_step", _step._selective_call, _axes_selective)
RNN = _family("rnn_step", _step._rnn_call, _axes_rnn)


def _call(family: Family, arrays: list[Any], *options: Any) -> tuple[Array, Array]:
    output, state = call(family, arrays, options)
    return output, state


def linear_step(
    gate: ArrayLike,
    input: ArrayLike,
    state: ArrayLike,
    *,
    gate_form: GateForm = "value",
    state_indices: ArrayLike | None = None,
    reset: ArrayLike | None = None,
    threads: int = 0,
) -> tuple[Array, Array]:
    """One step of ``linear_scan``: h = a * state + input; arguments as in ``flashscan.linear_step``.

    ``input`` is [B, C]; ``gate`` broadcasts to it; ``state`` is [B, C], or with ``state_indices`` [B] (int32) a pool of
    states [rows, C], where -1 marks padding; ``reset`` is [B]. Returns h and the new state, or the pool with the rows of the
    batch updated. The pool is copied unless it is donated to ``jax.jit``, or the carry of a loop. An index that is no row
    of the pool fails when the program runs on the CPU, and is padding on a GPU. There are no derivatives.
    """
    choose("gate_form", gate_form, GATE_FORMS)
    arrays = arrays_of(_step._linear_call, gate, input, state, state_indices, reset)
    if arrays[0].ndim < 2:
        arrays[0] = arrays[0].reshape((1,) * (2 - arrays[0].ndim) + arrays[0].shape)
    return _call(LINEAR, arrays, gate_form, thread_count(threads))


def gated_step(
    gate: ArrayLike,
    input: ArrayLike,
    state: ArrayLike,
    *,
    layer: Layer | None = None,
    decay: Decay | None = None,
    scale: Scale = "one",
    activation: Activation = "none",
    epilogue: Epilogue = "none",
    second_gate: ArrayLike | None = None,
    input_gate: ArrayLike | None = None,
    output_gate: ArrayLike | None = None,
    param: ArrayLike | None = None,
    bias: ArrayLike | None = None,
    first_step: bool = False,
    decay_rate: float = 0.0,
    state_indices: ArrayLike | None = None,
    reset: ArrayLike | None = None,
    threads: int = 0,
) -> tuple[Array, Array]:
    """One step of ``gated_scan``; arguments as in ``flashscan.gated_step``.

    ``input`` and all gates are [B, C], ``param`` and ``bias`` [C]; ``state``, ``state_indices`` and ``reset`` are those of
    ``linear_step``. Returns the output and the new state or pool, as ``linear_step`` does.
    """
    words(True, layer=layer, decay=decay)
    words(scale=scale, activation=activation, epilogue=epilogue)
    extra = (second_gate, input_gate, output_gate, param, bias)
    arrays = arrays_of(_step._gated_call, gate, input, state, *extra, state_indices, reset)
    options = (layer, decay, scale, activation, epilogue, flag("first_step", first_step), number("decay_rate", decay_rate))
    return _call(GATED, arrays, *options, 0.0, "btc", False, thread_count(threads))


def selective_step(
    u: ArrayLike,
    delta: ArrayLike,
    A: ArrayLike,
    B: ArrayLike,
    C: ArrayLike,
    state: ArrayLike,
    D: ArrayLike | None = None,
    z: ArrayLike | None = None,
    delta_bias: ArrayLike | None = None,
    *,
    delta_softplus: bool = False,
    state_indices: ArrayLike | None = None,
    reset: ArrayLike | None = None,
    threads: int = 0,
) -> tuple[Array, Array]:
    """One step of ``selective_scan``; arguments as in ``flashscan.selective_step``.

    ``u``, ``delta`` and ``z`` are [B, C], ``B`` and ``C`` [B, N] or [B, G, N]; ``state`` is [B, C, N], or a pool
    [rows, C, N]; ``state_indices`` and ``reset`` are those of ``linear_step``. Returns y and the new state or pool, as
    ``linear_step`` does.
    """
    given = (u, delta, A, B, C, D, z, delta_bias, state, state_indices, reset)
    arrays = arrays_of(_step._selective_call, *given)
    return _call(SELECTIVE, arrays, flag("delta_softplus", delta_softplus), "btc", False, thread_count(threads))


def rnn_step(
    Wx: ArrayLike,
    R: ArrayLike,
    b: ArrayLike | None,
    state: ArrayLike,
    *,
    cell: Cell = "lstm",
    state_indices: ArrayLike | None = None,
    reset: ArrayLike | None = None,
    threads: int = 0,
) -> tuple[Array, Array]:
    """One step of ``rnn``; arguments as in ``flashscan.rnn_step``.

    ``Wx`` is [B, G, H, D]; ``state`` is [S, B, H, D], or a pool [S, rows, H, D]; ``state_indices`` and ``reset`` are those
    of ``linear_step``. Returns h, [B, H, D], and the new state or pool, as ``linear_step`` does.
    """
    choose("cell", cell, _rnn.CELLS)
    arrays = arrays_of(_step._rnn_call, Wx, R, b, state, state_indices, reset)
    return _call(RNN, arrays, cell, thread_count(threads))
