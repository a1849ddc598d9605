# SPDX-License-Identifier: Apache-2.0
"""The recurrence as its definition reads, one step at a time in double precision."""

from __future__ import annotations

import numpy as np


def wide(array):
    array = np.asarray(array)
    return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)


def gate_value(g, form):
    """The factor a and its derivative with respect to g."""
    if form == "value":
        return g, np.ones_like(g)
    if form == "log":
        return np.exp(g), np.exp(g)
    a = 1 / (1 + np.exp(-g))
    return a, a * (1 - a)


def _orders(shape, layout, reverse, offsets):
    """(row, state row, steps in the order of computation) of every sequence."""
    time = shape[1] if layout == "btc" else shape[2]
    spans = [(b, b, 0, time) for b in range(shape[0])]
    if offsets is not None:
        spans = [(0, n, offsets[n], offsets[n + 1]) for n in range(len(offsets) - 1)]
    return [(b, n, list(range(lo, hi))[:: -1 if reverse else 1]) for b, n, lo, hi in spans]


def _btc(array, layout):
    return array if layout == "btc" else np.swapaxes(array, 1, 2)


def sum_to(array, shape):
    """Sums over the axes along which `shape` was broadcast."""
    array = array.sum(axis=tuple(range(array.ndim - len(shape))))
    return array.sum(axis=tuple(i for i, n in enumerate(shape) if n == 1 and array.shape[i] != 1), keepdims=True)


def scan(gate, input, state=None, *, layout="btc", gate_form="value", reverse=False, seq_offsets=None, reset=None):
    x = _btc(wide(input), layout)
    a = _btc(np.broadcast_to(gate_value(wide(gate), gate_form)[0], np.shape(input)), layout)
    rows = x.shape[0] if seq_offsets is None else len(seq_offsets) - 1
    kind = np.result_type(x, a)
    last = np.zeros((rows, x.shape[2]), kind) if state is None else wide(state).astype(kind)
    h = np.zeros(x.shape, kind)
    for b, n, steps in _orders(np.shape(input), layout, reverse, seq_offsets):
        for t in steps:
            carried = 0 if reset is not None and reset[b, t] else a[b, t] * last[n]
            h[b, t] = last[n] = carried + x[b, t]
    return _btc(h, layout), last


def backward(gate, output, grad_output, state=None, grad_state=None, *, layout="btc", gate_form="value", reverse=False,
             seq_offsets=None, reset=None):  # fmt: skip
    h, dh = _btc(wide(output), layout), _btc(wide(grad_output), layout)
    value, derivative = gate_value(wide(gate), gate_form)
    a = _btc(np.broadcast_to(value, np.shape(output)), layout)
    da = _btc(np.broadcast_to(derivative, np.shape(output)), layout)
    rows = h.shape[0] if seq_offsets is None else len(seq_offsets) - 1
    zeros = np.zeros((rows, h.shape[2]), h.dtype)
    first = zeros if state is None else wide(state)
    carry = zeros.copy() if grad_state is None else wide(grad_state).astype(h.dtype)
    dx, dg = np.zeros_like(h), np.zeros_like(h)
    for b, n, steps in _orders(np.shape(output), layout, reverse, seq_offsets):
        for i in reversed(range(len(steps))):
            t = steps[i]
            g = dx[b, t] = dh[b, t] + carry[n]
            if reset is not None and reset[b, t]:
                carry[n] = 0
                continue
            before = h[b, steps[i - 1]] if i > 0 else first[n]
            dg[b, t] = g * np.conj(before * da[b, t])
            carry[n] = np.conj(a[b, t]) * g
    dg = _btc(dg, layout)
    if np.asarray(gate).dtype.kind != "c":
        dg = dg.real
    return sum_to(dg, np.shape(gate)), _btc(dx, layout), carry
