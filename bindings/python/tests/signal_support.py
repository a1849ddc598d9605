# SPDX-License-Identifier: Apache-2.0
"""Filters and signals that the tests of every package share, and what rounding can do to a filter's output."""

from __future__ import annotations

import numpy as np
import pytest

scipy_signal = pytest.importorskip("scipy.signal")

# Narrow filters, whose poles lie close to each other and to 1, lose digits; all of them are told by their coefficients.
TRANSFER_FUNCTIONS = {
    "a gain": ([0.7], [2.0]),
    "one pole": ([0.3], [1, -0.9]),
    "integrator": ([1.0], [1, -1]),
    "resonator on the circle": ([1.0], [1, -2 * np.cos(0.3), 1]),
    "unstable": ([1.0], [1, -1.01]),
    "two poles, scaled": ([0.4, 0.2, 0.1], [2, -0.6, 0.8]),
    "a double pole": ([1.0, 1.0], [1, -1.8, 0.81]),
    "butter 4": scipy_signal.butter(4, 0.3),
    "narrow butter 4": scipy_signal.butter(4, 0.01),
    "butter 8": scipy_signal.butter(8, 0.1),
    "elliptic 7": scipy_signal.ellip(7, 1, 60, 0.4),
    "poles at 0": ([1.0, 2.0, 3.0], [1, 0, 0, 0]),
    "a comb": ([1.0], [1, *[0.0] * 15, -0.9]),
    "32 poles": ([1.0], np.poly(0.9 * np.exp(2j * np.pi * np.arange(32) / 32)).real),
    "more zeros than poles": (np.cos(np.arange(40.0)), [2, 0.3, 0.1]),
    "no poles": (np.cos(np.arange(9.0)), [2.0]),
    "many taps": (np.cos(np.arange(1500.0)) / 30, [1, -0.5]),
}
SECTIONS = {
    "butter 1": scipy_signal.butter(1, 0.2, output="sos"),
    "butter 5": scipy_signal.butter(5, 0.2, output="sos"),
    "narrow low-pass": scipy_signal.butter(8, 0.001, output="sos"),
    "high-pass": scipy_signal.butter(4, 0.01, "highpass", output="sos"),
    "narrow band-pass": scipy_signal.butter(8, [0.01, 0.011], "bandpass", output="sos"),
    "elliptic 20, two groups": scipy_signal.ellip(20, 0.1, 80, 0.25, output="sos"),
}


def absolute_sum(b, a, steps):
    """How much larger than an error at every step its sum in the output can be."""
    impulse = np.zeros(steps)
    impulse[0] = 1
    return np.abs(scipy_signal.lfilter(b, a, impulse)).sum()


def rounding(b, a, x, y, zi=0.0):
    """What rounding at every step can do to y: each step rounds len(a) + len(b) terms and their sums, and its error
    goes through 1 / a as a signal does."""
    b, a = np.asarray(b) / a[0], np.asarray(a) / a[0]
    size = np.abs(b).sum() * np.abs(x).max() + np.abs(a).sum() * np.abs(y).max() + np.abs(zi).max(initial=0)
    return 2 * (len(a) + len(b)) * np.finfo(x.dtype).eps * size * absolute_sum([1.0], a, x.shape[-1])


def rounding_of_sections(sos, x, zi=None, entering=0.0):
    """The same of sections one after the other with states zi [sections, ..., 2], of which the first gets errors of
    size ``entering``: of the output, and of the states after the last step."""
    zi = np.zeros((len(sos), *x.shape[:-1], 2)) if zi is None else zi
    of_states = 0.0
    for section, state in zip(sos, zi):
        b, a = section[:3], section[3:]
        y, _ = scipy_signal.lfilter(b, a, x, zi=state)
        leaving = entering * absolute_sum(b, a, x.shape[-1]) + rounding(b, a, x, y, state)
        of_states = max(of_states, np.abs(b).sum() * entering + np.abs(a).sum() * leaving)
        x, entering = y, leaving
    return entering, of_states


def normal(*shape, dtype=np.float64, seed=0):
    rng = np.random.default_rng(seed)
    values = rng.standard_normal(shape)
    return (values + 1j * rng.standard_normal(shape) if np.dtype(dtype).kind == "c" else values).astype(dtype)


def within(got, want, bound):
    got, want = np.asarray(got), np.asarray(want)
    assert got.shape == want.shape and got.dtype == want.dtype
    assert np.isfinite(want).all() and np.abs(got - want).max(initial=0) <= bound


def with_extent(shape, axis, extent):
    shape = list(shape)
    shape[axis] = extent
    return tuple(shape)
