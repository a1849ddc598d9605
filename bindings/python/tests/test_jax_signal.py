# SPDX-License-Identifier: Apache-2.0
"""flashscan.signal on JAX's arrays: NumPy's numbers, gradients, and what jit and vmap promise."""

from __future__ import annotations

import functools

import numpy as np
import pytest

jax = pytest.importorskip("jax", minversion="0.6")
import jax.numpy as jnp  # noqa: E402
from jax.test_util import check_grads  # noqa: E402

import flashscan  # noqa: E402
from flashscan import signal  # noqa: E402
from signal_support import SECTIONS, TRANSFER_FUNCTIONS, normal  # noqa: E402
from test_jax import device, where_supported  # noqa: E402, F401

jax.config.update("jax_enable_x64", True)

check_gradients = functools.partial(check_grads, order=1, modes=["rev"], rtol=1e-5, eps=1e-6)


@pytest.fixture(autouse=True)
def supported(device):  # noqa: F811
    with where_supported(device):
        yield


def close(got, want, tolerance=1e-12):
    assert isinstance(got, jax.Array) and got.shape == want.shape and got.dtype == want.dtype
    np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance * (1 + np.abs(want).max()))


@pytest.mark.parametrize("dtype", [np.float32, np.complex128])
@pytest.mark.parametrize("case", ["butter 4", "more zeros than poles", "no poles"])
def test_numbers_are_those_of_numpy(case, dtype):
    b, a = (np.asarray(each).astype(dtype) for each in TRANSFER_FUNCTIONS[case])
    x, zi = normal(2, 100, dtype=dtype), normal(2, max(len(a), len(b)) - 1, dtype=dtype, seed=1)
    got = signal.lfilter(*map(jnp.asarray, (b, a, x)), zi=jnp.asarray(zi))
    for one, other in zip(got, signal.lfilter(b, a, x, zi=zi)):
        close(one, other, 1e-5 if dtype == np.float32 else 1e-12)


def test_jit():
    b, a = TRANSFER_FUNCTIONS["butter 4"]
    x, zi = normal(2, 100), normal(2, 4, seed=1)
    for one, other in zip(jax.jit(signal.lfilter)(b, a, x, zi=zi), signal.lfilter(b, a, x, zi=zi)):
        close(one, other)


@pytest.mark.parametrize("axis", [0, 1])
def test_sections_are_those_of_numpy(axis):
    sos, x = SECTIONS["butter 5"], normal(60, 70)
    zi = normal(3, *((2, 70) if axis == 0 else (60, 2)), seed=1)
    for one, other in zip(signal.sosfilt(sos, jnp.asarray(x), axis, zi), signal.sosfilt(sos, x, axis, zi)):
        close(one, other)
    for padtype in ("odd", None):
        close(signal.sosfiltfilt(sos, jnp.asarray(x), axis, padtype), signal.sosfiltfilt(sos, x, axis, padtype))
    close(signal.sosfilt_zi(jnp.asarray(sos)), signal.sosfilt_zi(sos))


def test_gradients_by_finite_differences():
    b, a = map(jnp.asarray, TRANSFER_FUNCTIONS["butter 4"])
    x, zi = jnp.asarray(normal(2, 50)), jnp.asarray(normal(2, 4, seed=1))
    check_gradients(lambda b, a, x, zi: signal.lfilter(b, a, x, zi=zi), (b, a, x, zi))
    check_gradients(signal.lfilter, (jnp.asarray(normal(9)), a, x))
    sos = jnp.asarray(SECTIONS["butter 5"])
    check_gradients(lambda sos, x, zi: signal.sosfilt(sos, x, zi=zi), (sos, x, jnp.asarray(normal(3, 2, 2, seed=1))))
    check_gradients(lambda sos, x: signal.sosfiltfilt(sos, x, padlen=7), (sos, x))


@pytest.mark.parametrize(
    "way, value, options",
    [("com", 0.7, {}), ("span", 3.0, {"adjust": False}), ("halflife", 2.0, {"ignore_na": True}), ("alpha", 0.4, {})],
)
def test_means(way, value, options):
    x = normal(20, 2)
    missing = np.random.default_rng(1).random(x.shape) < 0.3
    missing[0] = [True, False]
    holes = np.where(missing, np.nan, 0.0)
    result = lambda x, value: jnp.nan_to_num(signal.ewm_mean(x + holes, **{way: value}, **options))
    close(result(jnp.asarray(x), value), np.nan_to_num(signal.ewm_mean(x + holes, **{way: value}, **options)))
    check_gradients(jax.jit(result), (jnp.asarray(x), jnp.asarray(value)))


def test_filters_are_mapped():
    sos, x = SECTIONS["butter 5"], normal(3, 2, 90)
    want = np.stack([signal.sosfilt(sos * scale, each) for scale, each in zip((1, 2, 3), x)])
    many = jnp.stack([jnp.asarray(sos) * scale for scale in (1, 2, 3)])
    close(jax.vmap(signal.sosfilt)(many, jnp.asarray(x)), want)
    close(jax.vmap(lambda x: signal.sosfilt(sos, x))(jnp.asarray(x)), signal.sosfilt(sos, x))


def test_gradients_of_mapped_filters():
    sos, x = jnp.asarray(SECTIONS["butter 1"]), jnp.asarray(normal(3, 90))
    loss = lambda sos, x: jnp.square(signal.sosfilt(sos, x)).sum()
    got = jax.vmap(jax.grad(loss), (None, 0))(sos, x)
    close(got, np.stack([jax.grad(loss)(sos, each) for each in x]))


def test_jax_arrays_decide_the_data_type():
    x = jnp.asarray(normal(2, 90, dtype=np.float32))
    sos = SECTIONS["butter 5"]
    y = signal.sosfilt(sos, x)
    assert y.dtype == np.float32
    close(y, signal.sosfilt(sos, np.asarray(x, np.float64)).astype(np.float32), 1e-6)
    assert signal.lfilter([1j], [1, -0.5], x).dtype == np.complex64
    assert signal.sosfilt(jnp.asarray(sos), x).dtype == np.float64
    assert signal.ewm_mean(x, com=0.5).dtype == np.float32


def test_without_float64():
    """Everything is in float32 then, and the gradients too."""
    jax.config.update("jax_enable_x64", False)
    try:
        sos, x = SECTIONS["butter 5"], normal(2, 90)
        given = jnp.asarray(sos), jnp.asarray(x)
        close(signal.sosfilt(*given), signal.sosfilt(sos, x).astype(np.float32), 1e-5)
        gradient = jax.grad(lambda sos, x: jnp.square(signal.sosfilt(sos, x)).mean())(*given)
        assert gradient.dtype == np.float32 and bool(jnp.isfinite(gradient).all())
    finally:
        jax.config.update("jax_enable_x64", True)


def test_tangents():
    x, sos = jnp.asarray(normal(60)), jnp.asarray(SECTIONS["butter 5"])
    y, tangent = jax.jvp(lambda x: signal.sosfilt(sos, x), (x,), (x,))
    np.testing.assert_allclose(tangent, y, rtol=1e-12, atol=1e-12)  # filters are linear in the signal


def test_refusals(device):  # noqa: F811
    x, sos = jnp.asarray(normal(60)), jnp.asarray(SECTIONS["butter 5"])
    for call, words in (
        (lambda: jax.jit(signal.sosfiltfilt)(sos, x), "padlen is None, .* traced; accepted is a number"),
        (lambda: signal.lfilter([1.0], [1.0], x.astype(jnp.bfloat16)), "the data type is bfloat16"),
        (lambda: jax.jit(signal.lfilter)(sos, sos, x), r"b has shape \(3, 6\)"),
        (lambda: signal.lfilter([1.0], jnp.zeros(2), x), r"a has a\[0\] 0"),
    )[: 4 if device == "cpu" else 3]:  # numbers on a GPU are not looked at
        with pytest.raises(flashscan.FlashscanError, match=words):
            call()
