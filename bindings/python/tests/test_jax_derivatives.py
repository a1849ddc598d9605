# SPDX-License-Identifier: Apache-2.0
"""Tangents and second derivatives of flashscan.jax's scans against differences of values and of first gradients."""

from __future__ import annotations

import functools

import numpy as np
import pytest

jax = pytest.importorskip("jax", minversion="0.6")
import jax.numpy as jnp  # noqa: E402

import flashscan.jax as fj  # noqa: E402

jax.config.update("jax_enable_x64", True)

_rng = np.random.default_rng(0)
OFFSETS = np.array([0, 3, 3, 5])  # no arrays of JAX are made while tests are collected


def normal(*shape, imaginary=False):
    values = _rng.standard_normal(shape)
    return values + 1j * _rng.standard_normal(shape) if imaginary else values


def matrix_products(x, W, state):
    return (
        fj.affine_scan(W, x, state, seq_offsets=OFFSETS, return_final_state=True),
        fj.affine_scan(W, x, reverse=True),
        fj.prefix_scan(
            W[0, :, None], "matmul", exclusive=True, reverse=True, initial=W[0, :3, None], seq_offsets=OFFSETS, axis=0
        ),
    )


def of_numbers(x, state):
    scan = functools.partial(fj.prefix_scan, x, axis=1, initial=state, seq_offsets=OFFSETS, return_final=True)
    nothing = jnp.full((1, 2, 2), -jnp.inf)
    tied = jnp.concatenate((nothing, jnp.repeat(x, 2, axis=1), nothing), 1)
    return (
        fj.prefix_scan(tied, "max", axis=1)[:, 2:],
        fj.prefix_scan(tied, "logaddexp", axis=1)[:, 2:],
        scan(op="add", exclusive=True),
        scan(op="mul", exclusive=True, reverse=True),
        scan(op="max"),
        fj.reduce(x, "logaddexp", axis=1),
        fj.reduce(x, "mul", axis=1),
    )


def layer(gate, x, param, state=None, **options):
    return fj.gated_scan(gate, x, state, input_gate=x, param=param, return_final_state=True, **options)


PARTS = {"decay": "lower_bound", "scale": "sqrt", "activation": "positive", "epilogue": "tanh_sigmoid"}
PARTS["sqrt_slope_limit"] = 30.0
CASES = {
    "linear": (
        functools.partial(
            fj.linear_scan, gate_form="logit", reverse=True, reset=np.arange(5)[None] == 2, return_final_state=True
        ),
        (normal(5, 1), normal(1, 5, 2), normal(1, 2)),
    ),
    "linear, packed": (
        functools.partial(fj.linear_scan, seq_offsets=OFFSETS, return_final_state=True),
        (normal(1, 6, 2) / 2, normal(1, 6, 2, imaginary=True), normal(3, 2)),
    ),
    "matrices": (matrix_products, (normal(1, 5, 2), normal(1, 5, 2, 2), normal(3, 2))),
    "numbers": (of_numbers, (normal(1, 5, 2), normal(3, 2))),
    "rglru": (functools.partial(layer, layer="rglru"), (normal(2, 4, 2), normal(2, 4, 2), normal(2))),
    "mingru, first step": (
        lambda g, x: fj.gated_scan(g, x, layer="mingru", first_step=True, return_final_state=True),
        (normal(2, 4, 2), normal(2, 4, 2)),
    ),
    "parts, packed": (
        lambda g, x, p, s: layer(g, x, jax.nn.sigmoid(p), s, **PARTS, output_gate=g, seq_offsets=OFFSETS),
        (normal(1, 6, 2), normal(1, 6, 2), normal(2), normal(3, 2)),
    ),
    "selective": (
        lambda u, A, M, D, s: fj.selective_scan(
            u, u, -jnp.exp(A), M, M, D, u, D, s, delta_softplus=True, layout="bct", return_final_state=True
        ),
        (normal(1, 4, 5), normal(4, 2), normal(1, 2, 2, 5), normal(4), normal(1, 4, 2)),
    ),
    "selective, complex": (
        lambda u, A, M: fj.selective_scan(u, u, A, M, M, seq_offsets=OFFSETS, reverse=True),
        (normal(1, 6, 2), normal(2, 2, imaginary=True), normal(2, 2, imaginary=True)),
    ),
}


FORWARD = ("linear", "selective")


@pytest.mark.parametrize("case", CASES)
def test_tangents_and_second_derivatives(case):
    function, arrays = CASES[case]
    arrays = jax.tree.map(jnp.asarray, arrays)
    energy = lambda *a: sum((jnp.abs(o) ** 2).sum() for o in jax.tree.leaves(function(*a)))
    gradient = jax.grad(energy, tuple(range(len(arrays))))
    along = jax.tree.map(lambda a: normal(*a.shape, imaginary=jnp.iscomplexobj(a)), arrays)
    dot = lambda one, other: sum((a * b).sum().real for a, b in zip(one, other))

    @jax.jit
    def derivatives(*arrays):
        tangent = jax.jvp(energy, arrays, along)[1]
        # Further ones by either mode; the other one takes the same rules.
        if case in FORWARD:
            return tangent, jax.jvp(gradient, arrays, along)[1]
        return tangent, jax.grad(lambda *a: dot(gradient(*a), along), range(len(arrays)))(*arrays)

    tangent, second = derivatives(*arrays)
    compiled, step = jax.jit(gradient), 1e-5
    ahead, behind = (compiled(*(a + by * v for a, v in zip(arrays, along))) for by in (step, -step))
    for found, high, low in zip(second, ahead, behind):
        tolerance = 1e-6 * float(jnp.abs(found).max())
        np.testing.assert_allclose(found, (high - low) / (2 * step), rtol=0, atol=tolerance)
    np.testing.assert_allclose(tangent, dot(compiled(*arrays), along), rtol=1e-11)


@pytest.mark.parametrize("op, sign", [("max", 1), ("logaddexp", 1), ("min", -1), ("mul", -1)])
def test_first_steps_are_what_they_are_given(op, sign):
    """Also where the first number is the operator's identity, or infinite."""
    x = sign * jnp.array([-jnp.inf, 0.0, 1.0])
    scan = lambda x: fj.prefix_scan(x, op)
    tangent = jax.jvp(scan, (x,), (jnp.ones(3),))[1]
    np.testing.assert_array_equal(tangent[: 1 if op == "mul" else 3], 1)
    if op != "mul":
        np.testing.assert_allclose(jax.jacfwd(scan)(x), jax.jacrev(scan)(x), rtol=1e-12)


@pytest.mark.parametrize("scan", [fj.prefix_scan, fj.reduce])
def test_jacobian_of_what_gradients_do_not_read(scan):
    """That of a sum is mapped along the gradient of the output alone, not along the operand, whose shape is read."""
    x = jnp.asarray(normal(2, 3))
    function = lambda x: scan(x, "add", axis=1)
    np.testing.assert_array_equal(jax.jacrev(function)(x), jax.jacfwd(function)(x))


@pytest.mark.parametrize("shape", [(2, 3, 0), (2, 0, 3)])
def test_derivatives_of_nothing(shape):
    z, state = jnp.ones(shape), jnp.ones((2, shape[2]))
    scan = lambda z, state: fj.prefix_scan(z, "mul", axis=1, initial=state)
    assert jax.jvp(scan, (z, state), (z, state))[1].shape == shape
    second = jax.eval_shape(jax.hessian(lambda *arrays: scan(*arrays).sum(), (0, 1)), z, state)
    assert second[1][0].shape == (*state.shape, *shape)
