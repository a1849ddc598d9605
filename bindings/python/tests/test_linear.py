# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import itertools
import threading

import ml_dtypes
import numpy as np
import pytest
import reference

from flashscan import linear_scan, linear_scan_backward

# (dtype, gate dtype): the library's closed table.
DTYPES = [
    (np.float32, np.float32),
    (np.float64, np.float64),
    (np.float16, np.float16),
    (np.float16, np.float32),
    (ml_dtypes.bfloat16, ml_dtypes.bfloat16),
    (ml_dtypes.bfloat16, np.float32),
    (np.complex64, np.complex64),
    (np.complex64, np.float32),
    (np.complex128, np.complex128),
    (np.complex128, np.float64),
]
LAYOUTS = ["btc", "bct"]
FORMS = ["value", "log", "logit"]


def normal(rng, shape, dtype):
    values = rng.standard_normal(shape)
    if np.dtype(dtype).kind == "c":
        values = values + 1j * rng.standard_normal(shape)
    return values.astype(dtype)


def gates(rng, shape, dtype, form):
    """Gates whose factors lie inside the unit circle."""
    if form == "logit":
        return normal(rng, shape, dtype)
    radius, angle = rng.uniform(0.3, 0.98, shape), rng.uniform(-3, 3, shape)
    if form == "log":
        return (np.log(radius) + (1j * angle if np.dtype(dtype).kind == "c" else 0)).astype(dtype)
    return (radius * (np.exp(1j * angle) if np.dtype(dtype).kind == "c" else 1)).astype(dtype)


def extents(layout, batch, time, channels):
    return (batch, time, channels) if layout == "btc" else (batch, channels, time)


def assert_close(actual, expected, dtype):
    """One rounding to `dtype` on top of what accumulating in float32 or float64 loses over these few steps."""
    assert actual.dtype == np.dtype(dtype) and actual.shape == expected.shape
    eps = float(ml_dtypes.finfo(np.dtype(dtype)).eps)
    single = 2e-6 if np.dtype(dtype) not in (np.dtype(np.float64), np.dtype(np.complex128)) else 1e-14
    scale = 1 + np.abs(expected).max(initial=0)
    np.testing.assert_allclose(reference.wide(actual), expected, rtol=eps, atol=single * 10 * scale)


def state_dtype(dtype):
    return np.float32 if np.dtype(dtype).itemsize == 2 else dtype


def check_both(rng, gate, x, state=None, **options):
    """Forward and backward with a final state and its gradient, against the reference."""
    states = state_dtype(x.dtype)
    out, last = linear_scan(gate, x, state, return_final_state=True, **options)
    expected, expected_last = reference.scan(gate, x, state, **options)
    assert_close(out, expected, x.dtype)
    assert_close(last, expected_last, states)

    grad_out, grad_last = normal(rng, x.shape, x.dtype), normal(rng, last.shape, states)
    got = linear_scan_backward(gate, out, grad_out, state, grad_last, **options)
    want = reference.backward(gate, out, grad_out, state, grad_last, **options)
    assert_close(got[0], want[0], np.asarray(gate).dtype)
    assert_close(got[1], want[1], x.dtype)
    assert_close(got[2], want[2], states)


@pytest.mark.parametrize("with_state", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype, gate_dtype", DTYPES)
def test_dtypes(dtype, gate_dtype, layout, reverse, with_state):
    rng = np.random.default_rng(1)
    shape = extents(layout, 2, 19, 5)
    state = normal(rng, (2, 5), state_dtype(dtype)) if with_state else None
    gate = gates(rng, shape, gate_dtype, "value")
    check_both(rng, gate, normal(rng, shape, dtype), state, layout=layout, reverse=reverse)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex64, np.complex128])
def test_gate_forms(dtype, layout, form):
    rng = np.random.default_rng(2)
    shape = extents(layout, 3, 17, 4)
    gate, x, state = gates(rng, shape, dtype, form), normal(rng, shape, dtype), normal(rng, (3, 4), dtype)
    check_both(rng, gate, x, state, layout=layout, gate_form=form)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("kept", list(itertools.product([False, True], repeat=3)))
def test_gate_broadcast_over_any_axes(kept, layout, form):
    rng = np.random.default_rng(3)
    shape = extents(layout, 3, 11, 4)
    gate = gates(rng, tuple(n if keep else 1 for n, keep in zip(shape, kept)), np.float64, form)
    check_both(rng, gate, normal(rng, shape, np.float64), None, layout=layout, gate_form=form)


@pytest.mark.parametrize("shape", [(), (1,), (4,), (11, 1), (11, 4), (1, 4)])
def test_gate_of_fewer_axes(shape):
    rng = np.random.default_rng(4)
    check_both(rng, gates(rng, shape, np.float32, "value"), normal(rng, (3, 11, 4), np.float32))


def test_number_as_gate_takes_the_input_dtype():
    rng = np.random.default_rng(5)
    x = normal(rng, (2, 9, 3), np.float32)
    out = linear_scan(0.5, x)
    assert_close(out, reference.scan(0.5, x)[0], np.float32)
    grad_gate, _, _ = linear_scan_backward(0.5, out, x)
    assert grad_gate.shape == () and grad_gate.dtype == np.float32


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("flags", [np.bool_, np.uint8])
def test_reset(flags, layout, reverse):
    rng = np.random.default_rng(6)
    shape = extents(layout, 2, 23, 3)
    reset = (rng.uniform(size=(2, 23)) < 0.2).astype(flags)
    reset[0, 0] = reset[1, -1] = 1
    gate, x, state = gates(rng, shape, np.float64, "value"), normal(rng, shape, np.float64), np.ones((2, 3))
    check_both(rng, gate, x, state, layout=layout, reverse=reverse, reset=reset)


def test_nan_stops_at_a_reset():
    x = np.ones((1, 6, 1), np.float32)
    x[0, 1] = np.nan
    out = linear_scan(0.5, x, reset=np.array([[0, 0, 0, 1, 0, 0]], np.uint8))[0, :, 0]
    assert np.isnan(out[1:3]).all() and np.isfinite(out[[0, 3, 4, 5]]).all()


@pytest.mark.parametrize("with_reset", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("kind", [np.int32, np.int64, list])
def test_packed_sequences(kind, layout, reverse, with_reset):
    rng = np.random.default_rng(7)
    shape, offsets = extents(layout, 1, 30, 3), [0, 4, 4, 19, 28]
    gate, x, state = gates(rng, shape, np.float64, "value"), normal(rng, shape, np.float64), normal(rng, (4, 3), float)
    reset = rng.uniform(size=(1, 30)) < 0.2 if with_reset else None
    given = offsets if kind is list else np.array(offsets, kind)
    check_both(rng, gate, x, state, layout=layout, reverse=reverse, seq_offsets=given, reset=reset)


def test_packed_sequences_with_broadcast_gate():
    rng = np.random.default_rng(8)
    gate, x = gates(rng, (1, 1, 3), np.float64, "logit"), normal(rng, (1, 20, 3), np.float64)
    check_both(rng, gate, x, None, gate_form="logit", seq_offsets=np.array([0, 7, 20]))


@pytest.mark.parametrize("shape", [(0, 5, 3), (2, 0, 3), (2, 5, 0), (1, 1, 1)])
@pytest.mark.parametrize("gate_shape", [None, (1, 1, 1)])
def test_empty_and_single(shape, gate_shape):
    rng = np.random.default_rng(9)
    gate = gates(rng, gate_shape or shape, np.float32, "value")
    state = normal(rng, (shape[0], shape[2]), np.float32)
    check_both(rng, gate, normal(rng, shape, np.float32), state)


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64"])
@pytest.mark.parametrize("form", ["value", "log", "logit"])
def test_one_step_at_a_time_gives_the_sequence(dtype, form):
    if dtype == "complex64" and form == "logit":
        pytest.skip("complex gates have no logits")
    rng = np.random.default_rng(3)
    gate, x = rng.uniform(-1, 1, (2, 9, 5)).astype(dtype), rng.uniform(-1, 1, (2, 9, 5)).astype(dtype)
    state = rng.uniform(-1, 1, (2, 5)).astype(dtype)
    whole, final = linear_scan(gate, x, state, gate_form=form, return_final_state=True)
    for t in range(9):
        now = slice(t, t + 1)
        y, state = linear_scan(gate[:, now], x[:, now], state, gate_form=form, return_final_state=True)
        np.testing.assert_array_equal(y[:, 0], whole[:, t])
    np.testing.assert_array_equal(state, final)


def test_state_passes_through_when_there_are_no_steps():
    state = np.arange(6, dtype=np.float32).reshape(2, 3)
    _, last = linear_scan(0.5, np.zeros((2, 0, 3), np.float32), state, return_final_state=True)
    np.testing.assert_array_equal(last, state)


def test_final_state_carries_on():
    rng = np.random.default_rng(10)
    gate, x = gates(rng, (2, 20, 3), np.float64, "value"), normal(rng, (2, 20, 3), np.float64)
    whole = linear_scan(gate, x)
    head, state = linear_scan(gate[:, :8], x[:, :8], return_final_state=True)
    tail = linear_scan(gate[:, 8:], x[:, 8:], state)
    np.testing.assert_allclose(np.concatenate([head, tail], axis=1), whole, rtol=1e-13)


VIEWS = {
    "half of a fused projection": lambda a: np.concatenate([a, a + 1], axis=2)[:, :, : a.shape[2]],
    "transposed": lambda a: np.ascontiguousarray(np.swapaxes(a, 1, 2)).swapaxes(1, 2),
    "batch last": lambda a: np.ascontiguousarray(np.moveaxis(a, 0, 2)).transpose(2, 0, 1),
    "every other step": lambda a: np.repeat(a, 2, axis=1)[:, ::2],
    "backwards in memory": lambda a: np.ascontiguousarray(a[:, ::-1])[:, ::-1],
    "field of a record": lambda a: np.rec.fromarrays([np.zeros(a.shape, np.int16), a], names="tag,value").value,
    "read only": lambda a: np.frombuffer(a.tobytes(), a.dtype).reshape(a.shape),
    "fortran": np.asfortranarray,
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("view", VIEWS)
def test_views_equal_their_copies(view, layout):
    rng = np.random.default_rng(11)
    shape = extents(layout, 3, 12, 4)
    arrays = [gates(rng, shape, np.float64, "value"), normal(rng, shape, np.float64), normal(rng, shape, np.float64)]
    gate, x, grad = arrays
    gate_view, x_view, grad_view = (VIEWS[view](array) for array in arrays)
    before = [array.copy() for array in (gate_view, x_view, grad_view)]
    out = linear_scan(gate, x, layout=layout)
    # Other strides may be another kernel's, whose rounding differs.
    np.testing.assert_allclose(linear_scan(gate_view, x_view, layout=layout), out, rtol=1e-12, atol=1e-13)
    expected = linear_scan_backward(gate, out, grad, layout=layout)
    got = linear_scan_backward(gate_view, VIEWS[view](out), grad_view, layout=layout)
    for one, other in zip(got, expected):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-13)
    for array, copy in zip((gate_view, x_view, grad_view), before):
        np.testing.assert_array_equal(array, copy)


def test_repeated_elements():
    """Arrays of stride 0, of which numpy.broadcast_to makes some that look dense to the library."""
    rng = np.random.default_rng(12)
    x = normal(rng, (2, 9, 3), np.float64)
    for small in (np.array(0.7), rng.uniform(size=3), rng.uniform(size=(9, 1)), rng.uniform(size=(2, 1, 1))):
        gate = np.broadcast_to(small, x.shape)
        np.testing.assert_allclose(linear_scan(gate, x), linear_scan(gate.copy(), x), rtol=1e-12, atol=1e-13)
        full = linear_scan_backward(gate, x, x)[0]
        assert full.shape == x.shape
    constant = np.broadcast_to(np.float64(2), x.shape)
    np.testing.assert_allclose(linear_scan(0.5, constant), linear_scan(0.5, constant.copy()), rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
@pytest.mark.parametrize("gate_shape", [(2, 7, 3), (3,), (7, 1), ()])
def test_gradients_by_finite_differences(gate_shape, dtype, reverse, form):
    rng = np.random.default_rng(13)
    options = {"gate_form": form, "reverse": reverse, "reset": rng.uniform(size=(2, 7)) < 0.15}
    gate, x = np.asarray(gates(rng, gate_shape, dtype, form)), normal(rng, (2, 7, 3), dtype)
    state = normal(rng, (2, 3), dtype)
    w, w_last = normal(rng, x.shape, dtype), normal(rng, state.shape, dtype)

    def loss(gate, x, state):
        out, last = linear_scan(gate, x, state, return_final_state=True, **options)
        return (np.vdot(w, out) + np.vdot(w_last, last)).real

    out = linear_scan(gate, x, state, **options)
    gradients = linear_scan_backward(gate, out, w, state, w_last, **options)
    point = [gate, x, state]
    for which, gradient in enumerate(gradients):
        direction = np.asarray(normal(rng, point[which].shape, dtype))
        ahead, behind = list(point), list(point)
        ahead[which], behind[which] = point[which] + 1e-6 * direction, point[which] - 1e-6 * direction
        slope = (loss(*ahead) - loss(*behind)) / 2e-6
        assert np.vdot(gradient, direction).real == pytest.approx(slope, rel=1e-6, abs=1e-7)


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_number_of_threads(threads):
    rng = np.random.default_rng(14)
    gate, x = gates(rng, (2, 300, 5), np.float64, "value"), normal(rng, (2, 300, 5), np.float64)
    assert_close(linear_scan(gate, x, threads=threads), reference.scan(gate, x)[0], np.float64)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_long_sequence(layout):
    rng = np.random.default_rng(16)
    shape = extents(layout, 1, 40_000, 2)
    check_both(rng, gates(rng, shape, np.float64, "value"), normal(rng, shape, np.float64), None, layout=layout)


def test_calls_from_many_threads_give_the_same_bits():
    rng = np.random.default_rng(15)
    # More shapes than the plan cache holds, so that plans are dropped while others run.
    cases = [(gates(rng, (1, n, 2), np.float32, "value"), normal(rng, (1, n, 2), np.float32)) for n in range(1, 301)]
    expected = [linear_scan(gate, x, threads=1) for gate, x in cases]
    failures = []

    def work(start):
        try:
            for i in range(len(cases)):
                gate, x = cases[(i + start) % len(cases)]
                np.testing.assert_array_equal(linear_scan(gate, x, threads=1), expected[(i + start) % len(cases)])
        except Exception as error:
            failures.append(error)

    workers = [threading.Thread(target=work, args=(37 * i,)) for i in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not failures
