# SPDX-License-Identifier: Apache-2.0
"""flashscan.jax on arrays that are spread over devices: cut along the batch and channels; along time refused, or in
shard_map with axis_name."""

from __future__ import annotations

import numpy as np
import pytest

jax = pytest.importorskip("jax", minversion="0.6")
import jax.numpy as jnp  # noqa: E402
from jax.sharding import Mesh, NamedSharding, PartitionSpec  # noqa: E402

import flashscan.jax as fj  # noqa: E402
from flashscan import FlashscanNotImplementedError, FlashscanValueError  # noqa: E402

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
        (fj.linear_scan, (X[:, :4], X[:, :4]), ((), (N, B)), "flashscan.jax.linear_scan: .* sharded along its axis 1.* in jax.shard_map with axis_name"),
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


def cases_of_time():
    x, gate, state = normal(2, 12, 3, seed=1), normal(2, 12, 3, seed=2), normal(2, 3, seed=3)
    reset = jnp.arange(24).reshape(2, 12) % 9 == 4
    complex_ = lambda a: a + 1j * jnp.flip(a, 0)
    turned = lambda *arrays: [a.swapaxes(1, 2) for a in arrays]
    data, n = (B, C), (B, C, N)
    return {
        "plain": (dict(), (gate / 2, x), (n, n)),
        "state": (dict(), (gate, x, state), (n, n, (B,))),
        "reverse, final": (dict(reverse=True, return_final_state=True), (gate, x, state), (n, n, (B,))),
        "log, bct": (dict(layout="bct", gate_form="log"), turned(gate - 1, x), ((B, N, C),) * 2),
        "logit, shared gate": (dict(gate_form="logit", return_final_state=True), (gate[:1, :1], x), ((), n)),
        "resets": (dict(reverse=True, reset=reset), (gate, x, state), (n, n, (B,))),
        "complex": (dict(return_final_state=True), (complex_(gate), complex_(x), complex_(state)), (n, n, (B,))),
        "bfloat16": (dict(return_final_state=True), (gate.astype(jnp.bfloat16), x.astype(jnp.bfloat16)), (n, n)),
    }, data


@pytest.mark.parametrize("check", [True, False])
@pytest.mark.parametrize("case", cases_of_time()[0])
def test_time_cut_in_shard_map(mesh, case, check):
    if not hasattr(jax, "shard_map"):
        pytest.skip("jax.shard_map needs 0.6.1")
    cases, data = cases_of_time()
    options, arrays, specs = cases[case]
    resets = [options.pop("reset")] if "reset" in options else []
    final = options.get("return_final_state")
    partition = lambda spec: PartitionSpec(*spec)
    out = specs[-1 if len(specs) == 2 else 1]
    out = (partition(out), PartitionSpec(B)) if final else partition(out)

    def scan(*arrays, **more):
        reset = arrays[len(specs)] if resets else None
        return fj.linear_scan(*arrays[: len(specs)], reset=reset, **options, **more)

    given = (*map(partition, specs), *(partition(data) for _ in resets))
    over = jax.shard_map(
        lambda *arrays: scan(*arrays, axis_name=C), mesh=mesh, in_specs=given, out_specs=out, check_vma=check
    )
    if case == "bfloat16":  # sums in another order, rounded
        for one, other in zip(over(*arrays), scan(*arrays)):
            np.testing.assert_allclose(one.astype(float), other.astype(float), rtol=1e-2, atol=1e-2)
        return
    compiled = jax.jit(over).lower(*arrays, *resets).compile()
    assert compiled.as_text().count(" all-gather(") == 1
    close(compiled(*arrays, *resets), scan(*arrays, *resets))
    energy = lambda function: lambda *a: sum((jnp.abs(o) ** 2 * (1 + o.ndim)).sum() for o in jax.tree.leaves(function(*a)))
    places = tuple(range(len(arrays)))
    gradients = jax.jit(jax.grad(energy(over), places))(*arrays, *resets)
    close(gradients, jax.grad(energy(scan), places)(*arrays, *resets))


def test_what_axis_name_refuses(mesh):
    if not hasattr(jax, "shard_map"):
        pytest.skip("jax.shard_map needs 0.6.1")
    with pytest.raises(FlashscanValueError, match="axis_name is 'time'; accepted are axes of the mesh"):
        fj.linear_scan(0.5, X, axis_name="time")
    spec = PartitionSpec(None, C)
    run = lambda function: jax.shard_map(function, mesh=mesh, in_specs=spec, out_specs=spec)(X[:1, :4])
    with pytest.raises(FlashscanValueError, match="seq_offsets is given with axis_name"):
        run(lambda x: fj.linear_scan(0.5, x, seq_offsets=jnp.array([0, 2]), axis_name=C))
    with pytest.raises(FlashscanValueError, match="gate has shape"):
        run(lambda x: fj.linear_scan(x[:, :, :2], x, axis_name=C))
    twice = jax.grad(lambda x: jax.grad(lambda x: run_sum(mesh, x))(x).sum())
    with pytest.raises(FlashscanNotImplementedError, match="linear_scan was differentiated twice"):
        twice(X[:1, :4])


def run_sum(mesh, x):
    spec = PartitionSpec(None, C)
    scan = lambda x: fj.linear_scan(x, x, axis_name=C)
    return jax.shard_map(scan, mesh=mesh, in_specs=spec, out_specs=spec)(x).sum()
