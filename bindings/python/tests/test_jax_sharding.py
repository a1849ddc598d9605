# SPDX-License-Identifier: Apache-2.0
"""flashscan.jax on arrays that are spread over devices: cut along the batch and channels, refused along time."""

from __future__ import annotations

import numpy as np
import pytest

jax = pytest.importorskip("jax", minversion="0.6")
import jax.numpy as jnp  # noqa: E402
from jax.sharding import Mesh, NamedSharding, PartitionSpec  # noqa: E402

import flashscan.jax as fj  # noqa: E402

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_num_cpu_devices", 4)  # before any test has asked for devices


@pytest.fixture(scope="module")
def mesh():
    if not jax.config.jax_use_shardy_partitioner:
        pytest.skip("calls are cut by Shardy alone")
    devices = jax.devices("cpu")
    if len(devices) < 4:
        pytest.skip("JAX had made its one CPU device before")
    with jax.default_device(devices[0]):
        yield Mesh(np.array(devices[:4]).reshape(2, 2), ("data", "model"))


def normal(*shape, seed=0):
    return jnp.asarray(np.random.default_rng(seed).standard_normal(shape))


def squares(function):
    return lambda *arrays: sum((out**2).sum() for out in jax.tree.leaves(function(*arrays)))


def close(got, want):
    for one, other in zip(jax.tree.leaves(got), jax.tree.leaves(want)):
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-10)


B, C, N = "data", "model", None
X, STATE, GATE = normal(4, 5, 6), normal(4, 6), normal(6)
# Function, arrays, how they are sharded, whether gradients can be cut.
CUT = {
    "linear": (fj.linear_scan, (X / 2, X, STATE), ((B,), (B,), (B,)), True),
    "linear, two ways": (fj.linear_scan, (X / 2, X, STATE), ((B, N, C), (B, N, C), (B, C)), True),
    "linear, shared gate": (
        lambda g, x: fj.linear_scan(g, x, gate_form="logit", return_final_state=True),
        (GATE, X),
        ((), (B, N, C)),
        True,
    ),
    "linear, bct, only x": (
        lambda g, x: fj.linear_scan(g, x, layout="bct"),
        (X.reshape(4, 6, 5)[:1, :, :1], X.reshape(4, 6, 5)),
        ((), (B, C)),
        True,
    ),
    "linear, packed": (
        lambda x: fj.linear_scan(0.5, x, seq_offsets=jnp.array([0, 2, 4])),
        (X[:1],),
        ((N, N, C),),
        True,
    ),
    "add": (lambda x: fj.prefix_scan(x, "add", axis=1), (X,), ((B, N, C),), True),
    "mul": (lambda x: fj.prefix_scan(x, "mul", axis=1, exclusive=True, return_final=True), (X,), ((B, N, C),), True),
    "reduce": (lambda x: fj.reduce(x, "logaddexp", axis=1), (X,), ((B, N, C),), True),
    "matmul": (lambda x: fj.prefix_scan(x, "matmul"), (normal(4, 5, 2, 2),), ((B,),), True),
    "affine": (fj.affine_scan, (normal(4, 5, 2, 2) / 2, normal(4, 5, 2)), ((B,), (B,)), True),
    "rnn": (
        lambda Wx, R: fj.rnn(Wx, R, None, return_final_state=True),
        (normal(4, 5, 4, 2, 3), normal(4, 2, 3, 3)),
        ((B, N, N, C), ()),
        False,
    ),
}


def put(mesh, arrays, specs):
    return [jax.device_put(a, NamedSharding(mesh, PartitionSpec(*spec))) for a, spec in zip(arrays, specs)]


def check_cut(function, arrays, given):
    compiled = jax.jit(function).lower(*given).compile()
    program = compiled.as_text()
    assert "all-gather" not in program and "all-to-all" not in program and "flashscan" in program
    close(compiled(*given), function(*arrays))


@pytest.mark.parametrize("case", CUT)
def test_jit_gathers_nothing(mesh, case):
    function, arrays, specs, gradients = CUT[case]
    given = put(mesh, arrays, specs)
    check_cut(function, arrays, given)
    gradient = jax.grad(squares(function), tuple(range(len(arrays))))
    if gradients:
        check_cut(gradient, arrays, given)
        return
    with pytest.raises(Exception, match="flashscan.jax.rnn: its gradients are not cut where arrays are sharded"):
        jax.jit(gradient)(*given)
    close(jax.jit(gradient)(*put(mesh, arrays, [()] * len(arrays))), gradient(*arrays))


@pytest.mark.parametrize(
    "function, arrays, specs, words",
    [
        (fj.linear_scan, (X[:, :4], X[:, :4]), ((), (N, B)), "flashscan.jax.linear_scan: .* sharded along its axis 1"),
        (
            lambda x: fj.reduce(x, "add", axis=0),
            (X,),
            ((B,),),
            "flashscan.jax.prefix_scan: .* sharded along its axis 0",
        ),
        (fj.affine_scan, (normal(4, 4, 2, 2), X[:, :4, :2]), ((N, B), ()), "flashscan.jax.affine_scan: .* by data"),
    ],
)
def test_time_is_not_cut(mesh, function, arrays, specs, words):
    with pytest.raises(Exception, match=words):
        jax.jit(function)(*put(mesh, arrays, specs))


@pytest.mark.parametrize("case", CUT)
@pytest.mark.parametrize("check", [True, False])
def test_shard_map_and_gradients(mesh, case, check):
    if not hasattr(jax, "shard_map"):
        pytest.skip("jax.shard_map needs 0.6.1")
    function, arrays, specs, _ = CUT[case]
    if "two ways" in case or any(C in spec for spec in specs):
        specs = [tuple(axis if axis == B else N for axis in spec) for spec in specs]
    out = jax.tree.map(lambda _: PartitionSpec(*(B if any(B in spec for spec in specs) else N,)), function(*arrays))
    if case == "rnn":
        out = (PartitionSpec(B), PartitionSpec(N, B))
    partition = tuple(PartitionSpec(*spec) for spec in specs)
    mapped = jax.shard_map(function, mesh=mesh, in_specs=partition, out_specs=out, check_vma=check)
    close(jax.jit(mapped)(*arrays), function(*arrays))
    places = tuple(range(len(arrays)))
    close(jax.jit(jax.grad(squares(mapped), places))(*arrays), jax.grad(squares(function), places)(*arrays))
