# SPDX-License-Identifier: Apache-2.0
"""How each function of flashscan.jax is batched and cut: where a mapped axis goes, and what the axes are called."""

from __future__ import annotations

from typing import Any

from . import _affine, _gated, _linear, _operator, _rnn, _selective
from . import _library as lib
from ._xla import Family, Fold
from ._xla_partition import Axes
from ._xla_problem import Traced


def _fold_linear(traced: Traced, options: tuple[Any, ...], mapped: set[int], results: set[int]) -> Fold | None:
    gate, batch = traced.specs[0].shape, traced.specs[1].shape[0]
    apart = lib.GATE in mapped or lib.GRAD | lib.GATE in results
    shared = gate[0] == 1 and not (apart and batch == 1)
    if traced.packed or (shared and apart):
        return None
    return Fold(options, lambda number: None if shared and number == lib.GATE else 0, True)


def _fold_rnn(traced: Traced, options: tuple[Any, ...], mapped: set[int], results: set[int]) -> Fold | None:
    if traced.packed or traced.backward or mapped & {lib.WEIGHT, lib.BIAS} or lib.RESERVE in results:
        return None
    _, _, layout, _, all_states, *_ = options
    batch = 1 if layout == "tbghd" else 0
    axes = {lib.INPUT: batch, lib.OUTPUT: batch + bool(all_states), lib.RESET: 0, lib.STATE_IN: 1, lib.STATE_OUT: 1}
    return Fold(options, axes.get, True)


def _fold_gated(traced: Traced, options: tuple[Any, ...], mapped: set[int], results: set[int]) -> Fold | None:
    """RESERVE has no axis and names its plan, and what a batch shares is summed over all of it."""
    shared = {lib.PARAM, lib.BIAS}
    kept = lib.RESERVE in results or any(number == lib.RESERVE for number, _, _ in traced.reads)
    if traced.packed or kept or shared & mapped or {lib.GRAD | number for number in shared} & results:
        return None
    return Fold(options, lambda number: None if number in shared else 0, True)


def _fold_selective(traced: Traced, options: tuple[Any, ...], mapped: set[int], results: set[int]) -> Fold | None:
    """What a batch shares is summed over all of it: B and C too where they are constant."""
    constant = {n for n, spec in ((lib.B, traced.specs[3]), (lib.C, traced.specs[4])) if len(spec.shape) == 2}
    shared = {lib.A, lib.D, lib.BIAS, *constant}
    if traced.packed or shared & mapped or {lib.GRAD | number for number in shared} & results:
        return None
    return Fold(options, lambda number: None if number in shared else 0, True)


def _fold_in_front(traced: Traced, options: tuple[Any, ...], mapped: set[int], results: set[int]) -> Fold | None:
    return None if traced.packed else Fold(options, lambda number: 0, False)


def _fold_operator(traced: Traced, options: tuple[Any, ...], mapped: set[int], results: set[int]) -> Fold | None:
    *front, axis, reverse, threads = options
    behind = axis if axis is None or axis < 0 else axis + 1
    return _fold_in_front(traced, (*front, behind, reverse, threads), mapped, results)


def _axes_linear(traced: Traced, options: tuple[Any, ...]) -> dict[int, Axes]:
    data = ("b", "t", "c") if options[0 if traced.backward else 1] == "btc" else ("b", "c", "t")
    numbers: dict[int, Axes] = dict.fromkeys((lib.INPUT, lib.OUTPUT, lib.GATE), data)
    return numbers | _axes_of_states(traced, ("b",), ("c",)) | {lib.RESET: ("b", "t")}


def _axes_gated(traced: Traced, options: tuple[Any, ...]) -> dict[int, Axes]:
    data = ("b", "t", "c") if options[8 if traced.backward else 10] == "btc" else ("b", "c", "t")
    gates = (lib.GATE, lib.SECOND_GATE, lib.INPUT_GATE, lib.OUTPUT_GATE)
    numbers: dict[int, Axes] = dict.fromkeys((lib.INPUT, lib.OUTPUT, *gates), data)
    numbers |= dict.fromkeys((lib.PARAM, lib.BIAS), ("c",))
    return numbers | _axes_of_states(traced, ("b",), ("c",)) | {lib.RESET: ("b", "t"), lib.RESERVE: ("r",)}


def _axes_selective(traced: Traced, options: tuple[Any, ...]) -> dict[int, Axes]:
    steps_last = options[1 if traced.backward else 2] == "bct"
    matrices = {lib.B: traced.specs[3].shape, lib.C: traced.specs[4].shape}
    # Groups are of neighbouring channels, which are then not cut.
    grouped = any(len(shape) == 4 and shape[1 if steps_last else 2] > 1 for shape in matrices.values())
    channels = "e" if grouped else "c"
    data = ("b", channels, "t") if steps_last else ("b", "t", channels)

    def of_matrix(shape: tuple[int, ...]) -> Axes:
        if len(shape) == 2:
            return channels, "k"
        inner = ("g", "k") if len(shape) == 4 else ("k",)
        return ("b", *inner, "t") if steps_last else ("b", "t", *inner)

    numbers: dict[int, Axes] = dict.fromkeys((lib.INPUT, lib.OUTPUT, lib.DELTA, lib.OUTPUT_GATE), data)
    numbers |= {lib.A: (channels, "k"), lib.D: (channels,), lib.BIAS: (channels,)}
    numbers |= {number: of_matrix(shape) for number, shape in matrices.items()}
    return numbers | _axes_of_states(traced, ("b",), (channels, "k")) | {lib.RESET: ("b", "t")}


def _axes_of_states(traced: Traced, front: Axes, behind: Axes) -> dict[int, Axes]:
    states = (*(("n",) if traced.packed else front), *behind)
    return {lib.STATE_IN: states, lib.STATE_OUT: states, lib.SEQ_OFFSETS: ("o",)}


def _axes_operator(traced: Traced, options: tuple[Any, ...]) -> dict[int, Axes]:
    op, *_, mode, axis, _, _ = options
    ndim, inner = len(traced.specs[0].shape), ("d", "e") if op == "matmul" else ()
    place = _operator.axis_of(axis, -1 - len(inner), ndim, len(inner))
    front = tuple(f"b{i}" for i in range(place))
    behind = (*(f"c{i}" for i in range(ndim - place - 1 - len(inner))), *inner)
    reduced = mode == _operator.REDUCTION
    states = _axes_of_states(traced, front, behind)
    data = (*front, "t", *behind)
    return {lib.INPUT: data, lib.OUTPUT: states[lib.STATE_IN] if reduced else data, **states}


def _axes_affine(traced: Traced, options: tuple[Any, ...]) -> dict[int, Axes]:
    front = tuple(f"b{i}" for i in range(len(traced.specs[0].shape) - 3))
    data = (*front, "t", "d")
    return {lib.INPUT: data, lib.OUTPUT: data, lib.GATE: (*data, "e"), **_axes_of_states(traced, front, ("d",))}


def _axes_rnn(traced: Traced, options: tuple[Any, ...]) -> dict[int, Axes]:
    _, layout, _, all_states, *_ = options if traced.backward else options[1:]
    outer = ("b", "t") if layout == "btghd" else ("t", "b")
    states = _axes_of_states(traced, ("b",), ("h", "d"))
    for each in (lib.STATE_IN, lib.STATE_OUT):
        states[each] = ("s", *states[each])
    output = (*(("s",) if all_states else ()), *outer, "h", "d")
    weights = {lib.WEIGHT: ("g", "h", "d", "e"), lib.BIAS: ("k", "h", "d"), lib.RESERVE: ("r",), lib.RESET: ("b", "t")}
    return {lib.INPUT: (*outer, "g", "h", "d"), lib.OUTPUT: output, **states, **weights}


def _same(options: tuple[Any, ...]) -> tuple[Any, ...]:
    return options


LINEAR = Family("linear_scan", _linear.forward, _linear.backward, lambda o: o[1:], _same, _fold_linear, _axes_linear)
AFFINE = Family("affine_scan", _affine.forward, _affine.backward, lambda o: o[1:], _same, _fold_in_front, _axes_affine)
OPERATOR = Family(
    "prefix_scan",
    _operator.forward,
    _operator.backward,
    lambda o: (o[0], *o[2:]),
    _same,
    _fold_operator,
    _axes_operator,
)
# Options: final, cell, layout, reverse, all_states, training, recurrent_clip, allow_tf32, threads.
RNN = Family(
    "rnn",
    _rnn.forward,
    _rnn.backward,
    lambda o: (*o[1:5], True, *o[6:]),
    lambda o: (*o[:5], True, *o[6:]),
    _fold_rnn,
    _axes_rnn,
)
# Options: final, reserve, layer, decay, scale, activation, epilogue, first_step, decay_rate, sqrt_slope_limit, layout,
# reverse, threads.
GATED = Family(
    "gated_scan",
    _gated.forward,
    _gated.backward,
    lambda o: o[2:],
    lambda o: (o[0], _gated.hides_state(o[2], o[6]), *o[2:]),
    _fold_gated,
    _axes_gated,
)
# Options: final, delta_softplus, layout, reverse, threads.
SELECTIVE = Family(
    "selective_scan", _selective.forward, _selective.backward, lambda o: o[1:], _same, _fold_selective, _axes_selective
)
