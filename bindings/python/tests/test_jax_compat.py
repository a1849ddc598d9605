# SPDX-License-Identifier: Apache-2.0
"""flashscan.compat on JAX arrays."""

from __future__ import annotations

import numpy as np
import pytest

jax = pytest.importorskip("jax", minversion="0.6")
import jax.numpy as jnp  # noqa: E402

import flashscan  # noqa: E402
from flashscan.compat.recurrentgemma import linear_scan  # noqa: E402


@pytest.mark.parametrize("reverse", [False, True])
def test_recurrentgemma_linear_scan(reverse):
    rng = np.random.default_rng(0)
    x, a, h0 = (jnp.asarray(rng.random(shape), jnp.float32) for shape in ((2, 7, 3), (7, 3), (2, 3)))

    def theirs(x, a, h0):
        def step(h, now):
            h = now[0] * h + now[1]
            return h, h

        each = jnp.moveaxis(jnp.broadcast_to(a, x.shape), 1, 0), jnp.moveaxis(x, 1, 0)
        last, steps = jax.lax.scan(step, h0, each, reverse=reverse)
        return jnp.moveaxis(steps, 0, 1), last

    ours = lambda x, a, h0: linear_scan(x, a, h0, reverse=reverse, acc_float_dtype=jnp.float32, pallas_max_seq_block_size=64)
    total = lambda function: lambda *arrays: sum(jnp.sin(each).sum() for each in function(*arrays))
    for got, want in zip(ours(x, a, h0), theirs(x, a, h0)):
        np.testing.assert_allclose(got, want, rtol=1e-5)
    found, wanted = (jax.jit(jax.grad(total(function), (0, 1, 2)))(x, a, h0) for function in (ours, theirs))
    for got, want in zip(found, wanted):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
    with pytest.raises(flashscan.FlashscanValueError, match="as if they were swapped"):
        ours(a, x, h0)


def test_recurrentgemma_sums_in_float64():
    x, a = jnp.full((1, 3, 2), 1, jnp.float32), jnp.full((3, 2), 0.5, jnp.float32)
    before = jax.config.jax_enable_x64
    try:
        jax.config.update("jax_enable_x64", False)
        with pytest.raises(flashscan.FlashscanValueError, match="accepted is float32 without jax_enable_x64"):
            linear_scan(x, a, acc_float_dtype=jnp.float64)
        jax.config.update("jax_enable_x64", True)
        y, last = linear_scan(x, a, acc_float_dtype=jnp.float64)
    finally:
        jax.config.update("jax_enable_x64", before)
    assert y.dtype == jnp.float32 and last.dtype == jnp.float64
    np.testing.assert_array_equal(y[0, :, 0], [1, 1.5, 1.75])
