# SPDX-License-Identifier: Apache-2.0
"""flashscan.jax.selective_scan: NumPy's results, gradients by differences, jit, vmap, sharded arrays."""

from __future__ import annotations

import functools

import numpy as np
import pytest

jax = pytest.importorskip("jax", minversion="0.6")
import jax.numpy as jnp  # noqa: E402
from jax.test_util import check_grads  # noqa: E402

import flashscan  # noqa: E402
import flashscan.jax as fj  # noqa: E402
from support import equals_of_host  # noqa: E402

jax.config.update("jax_enable_x64", True)

# Options, shapes of B and C for (batch, time, channels, states), what else is given.
STEPS = lambda b, t, c, n: (b, t, n)
GROUPS = lambda b, t, c, n: (b, t, 2, n)
CONSTANT = lambda b, t, c, n: (c, n)
CASES = {
    "of steps": ({"delta_softplus": True}, STEPS, STEPS, ("D", "z", "delta_bias", "initial_state")),
    "groups": ({"reverse": True}, GROUPS, GROUPS, ("initial_state",)),
    "constant": ({}, CONSTANT, CONSTANT, ("D",)),
    "constant C": ({"delta_softplus": True}, STEPS, CONSTANT, ("z",)),
    "bct": (
        {"layout": "bct", "delta_softplus": True},
        lambda b, t, c, n: (b, n, t),
        lambda b, t, c, n: (b, n, t),
        ("z", "initial_state"),
    ),
}
each_case = pytest.mark.parametrize("case", CASES)
SHARED = ("A", "D", "delta_bias")


def problem(case, batch=3, time=5, channels=4, states=2, dtype=np.float64, rows=None):
    """A function of arrays, those, and their names."""
    options, shape_of_b, shape_of_c, more = CASES[case]
    rng = np.random.default_rng(3)
    sizes = (batch, time, channels, states)
    data = (batch, channels, time) if options.get("layout") == "bct" else (batch, time, channels)
    shapes = {"u": data, "delta": data, "A": (channels, states), "B": shape_of_b(*sizes), "C": shape_of_c(*sizes)}
    of = {"z": data, "initial_state": (rows or batch, channels, states)}
    shapes |= {name: of.get(name, (channels,)) for name in more}
    wide = np.float64 if dtype == np.float64 else np.float32
    wides = {"A", "D", "delta_bias", "initial_state"} | {n for n in "BC" if len(shapes[n]) == 2}
    arrays = []
    for name, shape in shapes.items():
        values = rng.random(shape) if name == "delta" else rng.standard_normal(shape)
        values = -np.abs(values) if name == "A" else values
        arrays.append(jnp.asarray(values.astype(wide if name in wides else dtype)))
    run = lambda package, *arrays, **more: package.selective_scan(
        **dict(zip(shapes, arrays)), **options, return_final_state=True, **more
    )
    return run, arrays, list(shapes)


def near(actual, expected):
    assert jax.tree.structure(actual) == jax.tree.structure(expected)
    for one, other in zip(jax.tree.leaves(actual), jax.tree.leaves(expected)):
        assert one.shape == other.shape and one.dtype == other.dtype
        np.testing.assert_allclose(one, other, rtol=1e-11, atol=1e-12)


@each_case
def test_equals_numpy(case):
    for dtype in (np.float64, np.float32, jnp.bfloat16):
        run, arrays, _ = problem(case, time=70, dtype=dtype)
        ours = functools.partial(run, fj)
        want = run(flashscan, *map(np.asarray, arrays))
        for results in (ours(*arrays), jax.jit(ours)(*arrays)):
            for got, expected in zip(results, want):
                equals_of_host(got, expected)


@each_case
def test_gradients(case):
    run, arrays, _ = problem(case)
    check_grads(functools.partial(run, fj), arrays, 1, modes=["rev"], rtol=1e-5)
    total = lambda *arrays: sum(jnp.sin(each).sum() for each in run(fj, *arrays))
    places = tuple(range(len(arrays)))
    near(jax.jit(jax.grad(total, places))(*arrays), jax.grad(total, places)(*arrays))


def test_a_loop_of_lax():
    run, arrays, names = problem("of steps")
    u, delta, A, B, C, D, z, bias, h = arrays

    def loop(u, delta, A, B, C, D, z, bias, h):
        def step(h, x):
            u, delta, B, C = x
            d = jax.nn.softplus(delta + bias)
            h = jnp.exp(d[..., None] * A) * h + (d * u)[..., None] * B[:, None]
            return h, (h * C[:, None]).sum(-1) + D * u

        h, y = jax.lax.scan(step, h, jax.tree.map(lambda a: jnp.moveaxis(a, 1, 0), (u, delta, B, C)))
        return jnp.moveaxis(y, 0, 1) * jax.nn.silu(z), h

    near(run(fj, *arrays), loop(*arrays))
    total = lambda function: lambda *arrays: sum(jnp.sin(each).sum() for each in function(*arrays))
    places = tuple(range(9))
    near(jax.grad(total(functools.partial(run, fj)), places)(*arrays), jax.grad(total(loop), places)(*arrays))


def test_complex_matrices():
    rng = np.random.default_rng(5)
    u, delta = (jnp.asarray(rng.random((2, 6, 3))) for _ in range(2))
    A = jnp.asarray(-rng.random((3, 2)) + 1j * rng.random((3, 2)))
    B, C = (jnp.asarray(rng.standard_normal((3, 2)) + 1j * rng.standard_normal((3, 2))) for _ in range(2))
    near(np.asarray(fj.selective_scan(u, delta, A, B, C)), flashscan.selective_scan(*map(np.asarray, (u, delta, A, B, C))))
    check_grads(fj.selective_scan, (u, delta, A, B, C), 1, modes=["rev"], rtol=1e-5)


def test_packed_sequences_and_resets():
    run, arrays, _ = problem("of steps", batch=1, time=9, rows=3)
    rng = np.random.default_rng(4)
    more = {"seq_offsets": jnp.asarray([0, 4, 4, 8]), "reset": jnp.asarray(rng.random((1, 9)) < 0.3)}
    got = jax.jit(lambda *arrays: run(fj, *arrays, **more))(*arrays)
    near(tuple(map(np.asarray, got)), run(flashscan, *map(np.asarray, arrays), **jax.tree.map(np.asarray, more)))
    check_grads(lambda *arrays: run(fj, *arrays, **more), arrays, 1, modes=["rev"], rtol=1e-5)


@each_case
def test_vmap(case):
    """Of single entries: the batch; the gradient of vmap is its gradient, and those of entries add up to it."""
    run, arrays, names = problem(case)
    axes = tuple(None if name in SHARED or array.ndim == 2 else 0 for name, array in zip(names, arrays))
    alone = lambda *arrays: jax.tree.map(
        lambda out: out[0], run(fj, *(a if axis is None else a[None] for a, axis in zip(arrays, axes)))
    )
    mapped = jax.vmap(alone, in_axes=axes)
    near(jax.jit(mapped)(*arrays), run(fj, *arrays))
    squares = lambda function: lambda *arrays: sum(jnp.square(out).sum() for out in function(*arrays))
    places = tuple(range(len(arrays)))
    expected = jax.grad(squares(functools.partial(run, fj)), places)(*arrays)
    near(jax.grad(squares(mapped), places)(*arrays), expected)
    each = jax.vmap(jax.grad(squares(alone), places), in_axes=axes)(*arrays)
    near(tuple(g.sum(0) if axis is None else g for g, axis in zip(each, axes)), expected)
