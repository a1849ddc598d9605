# SPDX-License-Identifier: Apache-2.0
"""flashscan.jax.gated_scan: NumPy's results, gradients by differences, jit, vmap, and what is refused."""

from __future__ import annotations

import functools

import numpy as np
import pytest

jax = pytest.importorskip("jax", minversion="0.6")
import jax.numpy as jnp  # noqa: E402
from jax.test_util import check_grads  # noqa: E402

import flashscan  # noqa: E402
import flashscan.jax as fj  # noqa: E402
from flashscan import _xla  # noqa: E402
from support import equals_of_host  # noqa: E402

jax.config.update("jax_enable_x64", True)

NEEDED = {
    "mingru": (),
    "minlstm": ("second_gate",),
    "hgrn": ("param",),
    "rglru": ("input_gate", "param"),
    "qrnn": ("output_gate",),
    "gilr": ("bias",),
}
CASES = {layer: ({"layer": layer}, names) for layer, names in NEEDED.items()}
CASES["parts"] = (
    {"decay": "softplus", "scale": "sqrt", "activation": "silu", "epilogue": "tanh_sigmoid", "decay_rate": 2.0},
    ("input_gate", "output_gate", "param", "bias"),
)
CASES["bct, reverse"] = ({"decay": "exp", "layout": "bct", "reverse": True}, ("bias",))
each_case = pytest.mark.parametrize("case", CASES)


def problem(case, batch=3, time=5, channels=2, dtype=np.float64):
    """A function of arrays, and those: a state, and what the layer needs."""
    options, names = CASES[case]
    rng = np.random.default_rng(3)
    shape = (batch, channels, time) if options.get("layout") == "bct" else (batch, time, channels)
    shapes = {"gate": shape, "input": shape, "initial_state": (batch, channels)}
    shapes.update({name: (channels,) if name in ("param", "bias") else shape for name in names})
    arrays = [(rng.random(of) - (1.5 if name == "gate" else 0)).astype(dtype) for name, of in shapes.items()]
    run = lambda package, *arrays, **more: package.gated_scan(
        **dict(zip(shapes, arrays)), **options, return_final_state=True, **more
    )
    return run, list(map(jnp.asarray, arrays)), list(shapes)


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


def as_where_arrays_are_cut(monkeypatch, cut):
    """Gradients of epilogues are computed apart where XLA may cut arrays, which is where JAX has several devices."""
    monkeypatch.setattr(_xla, "_is_cut_by_xla", lambda _: cut)


@each_case
def test_gradients(case, monkeypatch):
    as_where_arrays_are_cut(monkeypatch, True)
    run, arrays, _ = problem(case)
    check_grads(functools.partial(run, fj), arrays, 1, modes=["rev"], rtol=1e-5)
    total = lambda *arrays: sum(jnp.sin(each).sum() for each in run(fj, *arrays))
    places = tuple(range(len(arrays)))
    near(jax.jit(jax.grad(total, places))(*arrays), jax.grad(total, places)(*arrays))


@pytest.mark.parametrize("case", ["mingru", "rglru", "qrnn", "parts"])
def test_packed_sequences_and_resets(case, monkeypatch):
    as_where_arrays_are_cut(monkeypatch, False)
    run, arrays, names = problem(case, batch=1, time=9)
    rng = np.random.default_rng(4)
    more = {"seq_offsets": jnp.asarray([0, 4, 4, 8]), "reset": jnp.asarray(rng.random((1, 9)) < 0.3)}
    arrays[names.index("initial_state")] = jnp.asarray(rng.random((3, 2)))
    got = jax.jit(lambda *arrays: run(fj, *arrays, **more))(*arrays)
    near(tuple(map(np.asarray, got)), run(flashscan, *map(np.asarray, arrays), **jax.tree.map(np.asarray, more)))
    check_grads(lambda *arrays: run(fj, *arrays, **more), arrays, 1, modes=["rev"], rtol=1e-5)


@each_case
def test_vmap(case, monkeypatch):
    """Of single entries: the batch; the gradient of vmap is its gradient, and those of entries add up to it."""
    as_where_arrays_are_cut(monkeypatch, False)
    run, arrays, names = problem(case)
    axes = tuple(None if name in ("param", "bias") else 0 for name in names)
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


def test_vmap_of_parameters_makes_calls_one_after_another():
    run, arrays, names = problem("hgrn")
    place = names.index("param")
    bounds = jnp.stack([arrays[place], arrays[place] / 2])
    call = lambda param: run(fj, *arrays[:place], param)
    near(jax.vmap(call)(bounds), jax.tree.map(lambda *each: jnp.stack(each), *map(call, bounds)))


def test_jacobian_of_an_epilogue(monkeypatch):
    """Only the gradient of the output is mapped, not what the forward pass has kept."""
    as_where_arrays_are_cut(monkeypatch, False)
    run, arrays, _ = problem("qrnn", batch=1, time=4)
    output = lambda gate: run(fj, gate, *arrays[1:])[0]
    near(jax.jacrev(output)(arrays[0]), jax.jacfwd(output)(arrays[0]))


def test_only_the_gradients_that_are_asked_for():
    run, arrays, _ = problem("mingru")
    jaxpr = jax.make_jaxpr(jax.grad(lambda x: run(fj, arrays[0], x, arrays[2])[0].sum()))(arrays[1])
    calls = [equation for equation in jaxpr.jaxpr.eqns if equation.primitive.name == "flashscan"]
    assert [len(call.outvars) for call in calls] == [2, 1]


@pytest.mark.parametrize("shape, axis", [((2, 3, 5, 4), 2), ((3, 6), -1), ((6, 3), 0)])
def test_any_axis(shape, axis):
    rng, place = np.random.default_rng(6), axis % len(shape)
    draw = lambda of: rng.standard_normal(of)
    arrays = [*map(draw, (shape, shape, np.delete(shape, place), shape, shape[place + 1 :]))]
    reset = rng.random(shape[: place + 1]) < 0.3
    options = {"layer": "rglru", "axis": axis, "reset": reset}

    def run(package, gate, x, state, input_gate, param):
        more = {"input_gate": input_gate, "param": param, "return_final_state": True}
        return package.gated_scan(gate, x, state, **more, **options)

    ours = functools.partial(run, fj)
    want = run(flashscan, *arrays)
    near(tuple(map(np.asarray, jax.jit(ours)(*arrays))), want)
    got = jax.vjp(ours, *map(jnp.asarray, arrays))[1]((jnp.asarray(arrays[1]), jnp.asarray(want[1])))
    gradients = flashscan.gated_scan_backward(
        arrays[0], arrays[1], want[0], arrays[1], arrays[2], want[1], input_gate=arrays[3], param=arrays[4], **options
    )
    near(got, tuple(gradients[name] for name in ("gate", "input", "initial_state", "input_gate", "param")))
    with pytest.raises(flashscan.FlashscanValueError, match="layout is 'bct' with axis"):
        fj.gated_scan(*arrays[:2], layer="mingru", axis=axis, layout="bct")
    with pytest.raises(flashscan.FlashscanValueError, match="input_gate has shape"):
        run(fj, *arrays[:3], arrays[3][:1], arrays[4])


def test_what_is_refused():
    arrays = problem("mingru")[1]
    for words, call in {
        "layer is 'gru'": lambda: fj.gated_scan(arrays[0], arrays[1], layer="gru"),
        "gate has shape": lambda: fj.gated_scan(arrays[0][0], arrays[1], layer="mingru"),
        "second_gate is None; accepted with layer 'minlstm'": lambda: fj.gated_scan(
            arrays[0], arrays[1], layer="minlstm"
        ),
        "layer is 1; accepted is text": lambda: fj.gated_scan(arrays[0], arrays[1], layer=1),
    }.items():
        with pytest.raises(flashscan.FlashscanError, match=words):
            call()
