# SPDX-License-Identifier: Apache-2.0
"""Selective scans against a loop over time in NumPy, and their gradients against finite differences."""

from __future__ import annotations

import numpy as np
import pytest

from flashscan import FlashscanTypeError, FlashscanValueError, linear_scan, selective_scan, selective_scan_backward


def loop(u, delta, A, B, C, D=None, z=None, delta_bias=None, initial_state=None, delta_softplus=False):
    """[B, T, C] throughout; B and C are [C, N], [B, T, N] or [B, T, G, N]."""
    batch, steps, channels = u.shape
    h = np.zeros((batch, channels, A.shape[1]), A.dtype) if initial_state is None else initial_state.copy()
    d = delta if delta_bias is None else delta + delta_bias
    if delta_softplus:
        d = np.log1p(np.exp(d))

    def of_step(matrix, t):
        if matrix.ndim == 2:
            return matrix
        one = matrix[:, t] if matrix.ndim == 4 else matrix[:, t, None]
        return np.repeat(one, channels // one.shape[1], axis=1)

    out = np.empty_like(u)
    for t in range(steps):
        h = np.exp(d[:, t, :, None] * A) * h + (d * u)[:, t, :, None] * of_step(B, t)
        y = (of_step(C, t) * h).sum(-1)
        out[:, t] = 2 * y.real if np.iscomplexobj(y) else y
    if D is not None:
        out += D * u
    return (out if z is None else out * z / (1 + np.exp(-z))), h


def arrays(matrices="step", dtype=np.float64, complex_=False, shape=(2, 9, 4), states=3, groups=2):
    rng = np.random.default_rng(5)
    batch, steps, channels = shape
    normal = lambda *axes: rng.standard_normal(axes)
    numbers = (lambda *axes: normal(*axes) + 1j * normal(*axes)) if complex_ else normal
    A = -np.exp(normal(channels, states)) + (1j * normal(channels, states) if complex_ else 0)
    matrix = {"constant": (channels, states), "step": (batch, steps, states), "groups": (batch, steps, groups, states)}
    kind = (np.complex64 if dtype == np.float32 else np.complex128) if complex_ else dtype
    given = dict(
        u=normal(*shape), delta=normal(*shape), A=A.astype(kind), B=numbers(*matrix[matrices]).astype(kind),
        C=numbers(*matrix[matrices]).astype(kind), D=normal(channels), z=normal(*shape), delta_bias=normal(channels),
    )  # fmt: skip
    return {name: value if np.iscomplexobj(value) else value.astype(dtype) for name, value in given.items()}


@pytest.mark.parametrize("complex_", [False, True])
@pytest.mark.parametrize("matrices", ["constant", "step", "groups"])
def test_it_is_the_loop(matrices, complex_):
    given = arrays(matrices, complex_=complex_)
    state = np.random.default_rng(1).standard_normal((2, 4, 3)).astype(given["A"].dtype)
    for more in ({}, {"initial_state": state, "delta_softplus": True}):
        expected, final = loop(**given, **more)
        y, last = selective_scan(**given, **more, return_final_state=True)
        np.testing.assert_allclose(y, expected, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(last, final, rtol=1e-12, atol=1e-12)
    given = {name: given[name] for name in ("u", "delta", "A", "B", "C")}
    np.testing.assert_allclose(selective_scan(**given), loop(**given)[0], rtol=1e-12, atol=1e-12)


def test_it_is_a_composition_of_linear_scan():
    given = arrays("step")
    d = np.logaddexp(0, given["delta"] + given["delta_bias"])[..., None]
    decay, entry = np.exp(d * given["A"]), d * given["u"][..., None] * given["B"][:, :, None]
    h, final = (
        each.reshape(*each.shape[:-1], 4, 3)
        for each in linear_scan(decay.reshape(2, 9, 12), entry.reshape(2, 9, 12), return_final_state=True)
    )
    z = given["z"]
    expected = ((h * given["C"][:, :, None]).sum(-1) + given["D"] * given["u"]) * z / (1 + np.exp(-z))
    y, last = selective_scan(**given, delta_softplus=True, return_final_state=True)
    np.testing.assert_allclose(y, expected, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(last, final, rtol=1e-12, atol=1e-12)


def test_time_may_be_innermost():
    given = arrays("groups", np.float32)
    expected = selective_scan(**given, delta_softplus=True)
    turned = {name: np.moveaxis(value, 1, -1) for name, value in given.items() if value.ndim > 2}
    for contiguous in (False, True):
        here = {name: np.ascontiguousarray(value) if contiguous else value for name, value in turned.items()}
        y = selective_scan(**{**given, **here}, delta_softplus=True, layout="bct")
        np.testing.assert_array_equal(np.moveaxis(y, -1, 1), expected)


def test_reads_slices_of_a_projection():
    given = arrays("step", np.float32)
    fused = np.random.default_rng(2).standard_normal((2, 9, 10)).astype(np.float32)
    given["B"], given["C"] = fused[..., 2:5], fused[..., 5:8]
    expected = selective_scan(**{**given, "B": given["B"].copy(), "C": given["C"].copy()})
    np.testing.assert_array_equal(selective_scan(**given), expected)


def test_packed_sequences_and_resets():
    given = arrays("step", shape=(1, 9, 4))
    offsets = np.array([0, 4, 4, 9])
    y, last = selective_scan(**given, seq_offsets=offsets, return_final_state=True)
    reset = np.zeros((1, 9), bool)
    reset[0, 4] = True
    np.testing.assert_allclose(selective_scan(**given, reset=reset), y, rtol=1e-12)
    for row, (begin, end) in enumerate(zip(offsets, offsets[1:])):
        part = {name: value[:, begin:end] if value.ndim == 3 else value for name, value in given.items()}
        expected, final = loop(**part)
        np.testing.assert_allclose(y[:, begin:end], expected, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(last[row], final[0], rtol=1e-12, atol=1e-12)


def test_one_step_at_a_time_gives_the_sequence():
    given = arrays("step", np.float32)
    whole, final = selective_scan(**given, return_final_state=True)
    state = None
    for t in range(9):
        step = {name: value[:, t : t + 1] if value.ndim == 3 else value for name, value in given.items()}
        y, state = selective_scan(**step, initial_state=state, return_final_state=True)
        np.testing.assert_array_equal(y[:, 0], whole[:, t])
    np.testing.assert_array_equal(state, final)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_softplus_far_from_zero(dtype):
    delta = np.array([-100, -87, -30, -1e-3, 0, 19.9, 20.1, 30, 87, 100, 1e4], dtype)[None, None]
    ones, column = np.ones_like(delta), np.ones((11, 1), dtype)
    given = (ones, delta, -column, column, column)  # of one step, whose output is its size
    close = dict(rtol=4 * np.finfo(dtype).eps, atol=np.finfo(dtype).tiny)
    expected = np.logaddexp(0, delta.astype(np.float64))
    np.testing.assert_allclose(selective_scan(*given, delta_softplus=True), expected, **close)
    slopes = selective_scan_backward(*given, grad_output=ones, delta_softplus=True)["delta"]
    np.testing.assert_allclose(slopes, 1 / (1 + np.exp(-delta.astype(np.float64))), **close)


@pytest.mark.parametrize("complex_", [False, True])
@pytest.mark.parametrize("matrices", ["constant", "groups"])
def test_gradients_are_finite_differences(matrices, complex_):
    given = arrays(matrices, complex_=complex_, shape=(2, 4, 2), states=2)
    rng = np.random.default_rng(3)
    given["initial_state"] = rng.standard_normal((2, 2, 2)).astype(given["A"].dtype)
    grad, grad_state = rng.standard_normal((2, 4, 2)), rng.standard_normal((2, 2, 2)).astype(given["A"].dtype)
    gradients = selective_scan_backward(**given, grad_output=grad, grad_final_state=grad_state, delta_softplus=True)

    def loss():
        y, last = selective_scan(**given, delta_softplus=True, return_final_state=True)
        return (y * grad).sum() + (last * grad_state.conj()).real.sum()

    for name, value in given.items():
        assert gradients[name].shape == value.shape and gradients[name].dtype == value.dtype
        for place in np.ndindex(value.shape):
            slope, kept = 0, value[place]
            for part in (1, 1j)[: 2 if np.iscomplexobj(value) else 1]:
                value[place] = kept + 1e-6 * part
                above = loss()
                value[place] = kept - 1e-6 * part
                slope = slope + part * (above - loss()) / 2e-6
                value[place] = kept
            assert abs(gradients[name][place] - slope) < 1e-6 * (1 + abs(slope)), (name, place)


def test_gradients_of_what_is_not_given_are_none():
    given = arrays()
    for name in ("D", "z", "delta_bias"):
        del given[name]
    gradients = selective_scan_backward(**given, grad_output=given["u"])
    assert gradients["D"] is gradients["z"] is gradients["delta_bias"] is None
    assert gradients["initial_state"].shape == (2, 4, 3)


@pytest.mark.parametrize(
    "change, error, words",
    [
        ({"A": np.zeros((5, 3))}, FlashscanValueError, ["A has shape (5, 3)", "(4, N)"]),
        ({"A": np.zeros((4, 3), np.float32)}, FlashscanTypeError, ["A has dtype float32", "float64"]),
        ({"A": np.zeros((4, 300)), "B": np.zeros((4, 300)), "C": np.zeros((4, 300))}, FlashscanValueError, ["A has shape (4, 300); accepted is (4, N) with N from 1 to 256"]),
        ({"B": np.zeros((2, 9, 4))}, FlashscanValueError, ["B has shape (2, 9, 4)", "(2, 9, 3)"]),
        ({"B": np.zeros((2, 9, 3, 3)), "C": np.zeros((4, 3))}, FlashscanValueError, ["B has 3 groups; accepted are divisors of 4"]),
        ({"B": np.zeros((2, 9, 4, 3)), "C": np.zeros((2, 9, 2, 3))}, FlashscanValueError, ["B has 4 groups", "C has 2"]),
        ({"C": np.zeros((2, 9, 3), np.float32)}, FlashscanTypeError, ["C has dtype float32"]),
        ({"delta": np.zeros((2, 9, 5))}, FlashscanValueError, ["delta has shape"]),
        ({"D": np.zeros(3)}, FlashscanValueError, ["D has shape (3,)"]),
        ({"u": np.zeros((2, 9))}, FlashscanValueError, ["u has shape (2, 9)", "3 axes"]),
        ({"layout": "cbt"}, FlashscanValueError, ["layout is 'cbt'"]),
        ({"delta_softplus": "yes"}, FlashscanTypeError, ["delta_softplus is 'yes'"]),
    ],
)
def test_bad_arguments_are_named(change, error, words):
    with pytest.raises(error) as caught:
        selective_scan(**{**arrays(), **change})
    for word in words:
        assert word in str(caught.value)
