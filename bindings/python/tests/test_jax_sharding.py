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
    "gated": (lambda g, x: fj.gated_scan(g, x, layer="mingru"), (X, X), ((B, N, C),) * 2, True),
    "gated, epilogue": (
        lambda g, x, o: fj.gated_scan(g, x, layer="qrnn", output_gate=o, return_final_state=True),
        (X, X, X),
        ((B, N, C),) * 3,
        True,
    ),
    "selective": (
        lambda u, A, M: fj.selective_scan(u, u, A, M, M, delta_softplus=True),
        (X, -jnp.exp(normal(6, 2)), normal(4, 5, 2)),
        ((B, N, C), (C,), (B,)),
        True,
    ),
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


@pytest.mark.parametrize("case, check", [*((case, True) for case in CUT), ("linear, two ways", False), ("rnn", False)])
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


@pytest.mark.parametrize("case, check", [*((case, True) for case in cases_of_time()[0]), ("reverse, final", False)])
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
        for one, other in zip(jax.jit(over)(*arrays), scan(*arrays)):
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
    with pytest.raises(FlashscanNotImplementedError, match="axis_name is 'model'; accepted for rnn is None"):
        fj.rnn(normal(4, 5, 4, 2, 3), normal(4, 2, 3, 3), None, axis_name=C)
    with pytest.raises(FlashscanNotImplementedError, match="linear_scan with axis_name has no forward-mode derivatives"):
        run(lambda x: jax.jvp(lambda x: fj.linear_scan(0.5, x, axis_name=C), (x,), (x,))[1])


def several(*functions):
    return lambda *arrays, **over: [function(*arrays, **over) for function in functions]


def other_cases_of_time():
    """Function, arrays, which of their axes is time, how many results go with the first."""
    x, gate, state = normal(2, 4, 3, seed=1), normal(2, 4, 3, seed=2), normal(2, 3, seed=3)
    matrices, reset = normal(2, 4, 3, 3, seed=4) / 2, jnp.arange(8).reshape(2, 4) % 3 == 1
    number = lambda op, **o: lambda x, state, **over: fj.prefix_scan(x, op, axis=1, initial=state, return_final=True, **o, **over)
    return {
        "gated, first step": (
            lambda g, x, param, **over: fj.gated_scan(
                g, x, layer="rglru", input_gate=g, param=param, return_final_state=True, **over
            ),
            (gate, x, normal(3)),
            (1, 1, None),
            (1, None),
        ),
        "gated, epilogue": (
            lambda g, x, state, reset, **over: fj.gated_scan(
                g, x, state, layer="qrnn", output_gate=g, layout="bct", reverse=True, reset=reset > 0, **over
            ),
            (gate.swapaxes(1, 2), x.swapaxes(1, 2), state, reset.astype(float)),
            (2, 2, None, 1),
            2,
        ),
        "selective": (
            lambda u, A, M, state, reset, **over: fj.selective_scan(
                u, u, A, M, M, None, None, None, state, delta_softplus=True, reset=reset > 0, return_final_state=True, **over
            ),
            (x, -jnp.exp(normal(3, 2)), normal(2, 4, 2), normal(2, 3, 2), reset.astype(float)),
            (1, None, 1, None, 1),
            (1, None),
        ),
        "affine": (
            several(
                lambda W, b, state, **over: fj.affine_scan(W, b, state, return_final_state=True, **over),
                lambda W, b, state, **over: fj.affine_scan(W, b, reverse=True, **over),
                lambda W, b, state, **over: fj.prefix_scan(W, "matmul", exclusive=True, **over),
                lambda W, b, state, **over: fj.reduce(W, "matmul", reverse=True, **over),
            ),
            (matrices, x, state),
            (1, 1, None),
            [(1, None), 1, 1, None],
        ),
        "numbers": (
            several(
                number("add", reverse=True),
                number("mul"),
                number("max", exclusive=True),
                number("logaddexp", exclusive=True, reverse=True),
                lambda x, state, **over: fj.reduce(x, "logaddexp", axis=1, initial=state, **over),
                lambda x, state, **over: fj.reduce(x > 0, "xor", axis=1, **over),
            ),
            (x, state),
            (1, None),
            [(1, None)] * 4 + [None, None],
        ),
    }


@pytest.mark.parametrize("case", other_cases_of_time())
def test_time_of_other_scans_cut_in_shard_map(mesh, case):
    if not hasattr(jax, "shard_map"):
        pytest.skip("jax.shard_map needs 0.6.1")
    function, arrays, times, outs = other_cases_of_time()[case]
    spec = lambda time: PartitionSpec(*(() if time is None else (N,) * time + (C,)))
    over = jax.shard_map(
        lambda *arrays: function(*arrays, axis_name=C),
        mesh=mesh,
        in_specs=tuple(map(spec, times)),
        out_specs=jax.tree.map(spec, outs, is_leaf=lambda out: out is None),
        check_vma=case != "numbers",
    )
    close(jax.jit(over)(*arrays), function(*arrays))
    energy = lambda function: lambda *a: sum((o**2 * (1 + o.ndim)).sum() for o in jax.tree.leaves(function(*a)))
    places = tuple(range(len(arrays)))
    gradient, expected = (jax.grad(energy(each), places) for each in (over, function))
    if case != "gated, epilogue":
        close(jax.jit(gradient)(*arrays), expected(*arrays))
        return
    again = lambda gradient: jax.jit(jax.grad(lambda *a: sum(jnp.sin(g).sum() for g in gradient(*a)), places))
    close(again(gradient)(*arrays), again(expected)(*arrays))


def test_identities_as_operands_over_devices(mesh):
    """Gradients are those on one device where steps, all of a device's too, are what the operator does nothing with."""
    if not hasattr(jax, "shard_map"):
        pytest.skip("jax.shard_map needs 0.6.1")
    inf, line = jnp.inf, Mesh(mesh.devices.reshape(4), "t")
    x = jnp.array([[-inf] * 4 + [0.0, 1.0, 2.0, 3.0], [-inf, 0.0, -inf, -inf, 1.0, 1.0, -inf, 2.0], [-inf] * 8])
    weights = jnp.array([2.0, 0, 0, 0, 1, 1, 1, 1])
    function = several(
        lambda x, **over: fj.prefix_scan(x, "max", **over),
        lambda x, **over: fj.prefix_scan(x, "max", exclusive=True, reverse=True, **over),
        lambda x, **over: fj.prefix_scan(-x, "min", exclusive=True, **over),
        lambda x, **over: fj.prefix_scan(x, "logaddexp", **over),
        lambda x, **over: fj.reduce(x, "max", axis=1, **over)[:, None],
        lambda x, **over: fj.reduce(x, "logaddexp", axis=1, **over)[:, None],
    )
    along, everywhere = PartitionSpec(None, "t"), PartitionSpec()
    over = jax.shard_map(
        lambda x: function(x, axis_name="t"), mesh=line, in_specs=along, out_specs=[along] * 4 + [everywhere] * 2
    )
    total = lambda function: lambda x: sum((out * weights[: out.shape[1]]).sum() for out in function(x))
    close(jax.jit(jax.grad(total(over)))(x), jax.grad(total(function))(x))
    largest = lambda x: fj.reduce(x, "max", axis=1, axis_name="t")
    zeros = jax.jit(jax.shard_map(largest, mesh=line, in_specs=along, out_specs=everywhere))(-jnp.zeros((3, 8)))
    assert jnp.signbit(zeros).all()


@pytest.mark.parametrize("reverse", [False, True])
def test_equal_infinities_share_gradients_over_devices(mesh, reverse):
    if not hasattr(jax, "shard_map"):
        pytest.skip("jax.shard_map needs 0.6.1")
    inf, line = jnp.inf, Mesh(mesh.devices.reshape(4), "t")
    x = jnp.array([[-inf] * 8, [inf] * 8, [0.0, 1.0, -inf, inf, 1.0, inf, inf, -inf], [-inf] * 3 + [1.0, 2.0] + [-inf] * 3])
    state, weights = jnp.array([-inf, inf, 0.0, -inf]), jnp.array([2.0, 0.5, 0.25, 3, 1, 1, 1.5, 1])
    scan = lambda x, state, **o: fj.prefix_scan(x, "logaddexp", initial=state, reverse=reverse, return_final=True, **o)
    function = several(
        lambda x, state, **over: scan(x, state, **over),
        lambda x, state, **over: scan(x, state, exclusive=True, **over),
        lambda x, state, **over: scan(x, None, **over),
        lambda x, state, **over: fj.reduce(x, "logaddexp", axis=1, initial=state, reverse=reverse, **over),
    )
    along, everywhere = PartitionSpec(None, "t"), PartitionSpec()
    over = jax.shard_map(
        lambda x, state: function(x, state, axis_name="t"),
        mesh=line,
        in_specs=(along, everywhere),
        out_specs=[(along, everywhere)] * 3 + [everywhere],
    )
    close(jax.jit(over)(x, state), function(x, state))
    total = lambda function: lambda *a: sum((o * weights[: o.shape[-1]]).sum() for o in jax.tree.leaves(function(*a)))
    gradient, expected = (jax.grad(total(each), (0, 1)) for each in (over, function))
    close(jax.jit(gradient)(x, state), expected(x, state))
    again = lambda gradient: jax.grad(lambda *a: sum((g * g).sum() for g in gradient(*a)), (0, 1))
    close(jax.jit(again(gradient))(x, state), again(expected)(x, state))
