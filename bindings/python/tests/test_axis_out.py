# SPDX-License-Identifier: Apache-2.0
"""Time at any axis of arrays of any rank, and results that are written to the caller's arrays."""

from __future__ import annotations

import re

import numpy as np
import pytest
import reference

import flashscan
from flashscan import (
    FlashscanError,
    gated_scan,
    gated_scan_backward,
    linear_scan,
    linear_scan_backward,
    prefix_scan,
    reduce,
    selective_scan,
)

# (input, axis, gate): gates broadcast as wholes and along parts of what is before and behind time.
CASES = {
    "time alone": ((9,), 0, (9,)),
    "time first": ((9, 4), 0, (4,)),
    "time last": ((3, 9), -1, (3, 1)),
    "rows of three axes": ((2, 3, 4, 9), 3, (2, 1, 4, 9)),
    "in the middle": ((2, 3, 7, 4, 2), 2, (2, 3, 7, 4, 2)),
    "all of the batch": ((2, 3, 7, 4), 2, (7, 4)),
    "a part of the batch": ((2, 3, 7, 4), -2, (3, 1, 4)),
    "parts of batch and channels": ((2, 3, 7, 4, 2), 2, (2, 1, 1, 1, 2)),
    "a number": ((2, 7, 3, 1), 1, ()),
    "no rows": ((2, 0, 7, 3), 2, (2, 1, 1, 1)),
    "no steps": ((2, 3, 0, 2), 2, (3, 1, 1)),
}


def three(array, place):
    """[batch, time, channels], as the reference wants arrays."""
    shape = array.shape
    return array.reshape(int(np.prod(shape[:place])), shape[place], int(np.prod(shape[place + 1 :])))


def drawn(case, dtype=np.float64):
    shape, axis, gate_shape = CASES[case]
    rng, place = np.random.default_rng(1), axis % len(shape)
    state_shape = shape[:place] + shape[place + 1 :]
    gate, x, state = rng.uniform(0.2, 0.9, gate_shape), rng.standard_normal(shape), rng.standard_normal(state_shape)
    reset = rng.uniform(size=shape[: place + 1]) < 0.2
    return place, gate.astype(dtype), x.astype(dtype), state.astype(dtype), reset


@pytest.mark.parametrize("case", CASES)
def test_any_axis(case):
    place, gate, x, state, reset = drawn(case)
    full, rows = np.broadcast_to(gate, x.shape), three(x, place).shape[::2]
    flat = three(full, place), three(x, place), state.reshape(rows)
    options = {"reverse": True, "reset": reset.reshape(rows[0], -1) if x.size else np.zeros((rows[0], x.shape[place]))}
    out, last = linear_scan(gate, x, state, axis=CASES[case][1], reverse=True, reset=reset, return_final_state=True)
    want, want_last = reference.scan(*flat, **options)
    np.testing.assert_allclose(out, want.reshape(x.shape), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(last, want_last.reshape(state.shape), rtol=1e-12, atol=1e-12)
    gradients = linear_scan_backward(gate, out, x, state, last, axis=CASES[case][1], reverse=True, reset=reset)
    wanted = reference.backward(flat[0], want, flat[1], flat[2], want_last, **options)
    wanted = reference.sum_to(wanted[0].reshape(x.shape), gate.shape), *wanted[1:]
    for got, want, like in zip(gradients, wanted, (gate, x, state)):
        np.testing.assert_allclose(got, np.reshape(want, like.shape), rtol=1e-11, atol=1e-11)
        assert got.shape == like.shape


@pytest.mark.parametrize("view", ["turned", "every other step", "backwards in memory"])
def test_views_along_an_axis_equal_their_copies(view):
    place, gate, x, state, _ = drawn("in the middle")
    turned = {
        "turned": lambda a: np.ascontiguousarray(a.T).T,
        "every other step": lambda a: np.repeat(a, 2, axis=place)[:, :, ::2],
        "backwards in memory": lambda a: a[:, ::-1].copy()[:, ::-1],
    }[view]
    got = linear_scan(turned(gate), turned(x), state, axis=place)
    np.testing.assert_allclose(got, linear_scan(gate, x, state, axis=place), rtol=1e-12)


def test_packed_along_an_axis():
    rng = np.random.default_rng(2)
    gate, x, states = rng.uniform(0, 1, (9, 1, 2)), rng.standard_normal((1, 9, 3, 2)), rng.standard_normal((2, 3, 2))
    out, last = linear_scan(gate, x, states, axis=1, seq_offsets=[0, 4, 7], return_final_state=True)
    full = np.broadcast_to(gate, x.shape)
    for n, (begin, end) in enumerate(((0, 4), (4, 7))):
        want, state = linear_scan(full[:, begin:end], x[:, begin:end], states[n : n + 1], axis=1, return_final_state=True)
        np.testing.assert_allclose(out[:, begin:end], want, rtol=1e-12)
        np.testing.assert_allclose(last[n : n + 1], state, rtol=1e-12)
    assert not out[:, 7:].any() and last.shape == (2, 3, 2)


@pytest.mark.parametrize("autograd", [False, True])
@pytest.mark.parametrize("case", ["time last", "in the middle", "parts of batch and channels"])
def test_any_axis_of_tensors(case, autograd):
    torch = pytest.importorskip("torch")
    place, *arrays, reset = drawn(case)
    gate, x, state, reset = map(torch.from_numpy, (*arrays, reset))
    numpy = [np.asarray(array) for array in (*arrays, reset)]
    want = linear_scan(*numpy[:3], axis=place, reset=numpy[3], return_final_state=True)
    wanted = linear_scan_backward(numpy[0], want[0], numpy[1], numpy[2], want[1], axis=place, reset=numpy[3])
    if autograd:
        import flashscan.torch as ft

        leaves = [each.clone().requires_grad_() for each in (gate, x, state)]
        results = ft.linear_scan(*leaves, axis=place, reset=reset, return_final_state=True)
        gradients = torch.autograd.grad(results, leaves, (x, results[1].detach()))
    else:
        results = linear_scan(gate, x, state, axis=place, reset=reset, return_final_state=True)
        gradients = linear_scan_backward(gate, results[0], x, state, results[1], axis=place, reset=reset)
    for got, expected in zip((*results, *gradients), (*want, *wanted)):
        np.testing.assert_allclose(got.detach().numpy(), expected, rtol=1e-12, atol=1e-12)


def test_an_axis_of_narrow_tensors_sums_gradients_of_gates_in_float32():
    torch = pytest.importorskip("torch")
    x = torch.ones(1, 300, 2, 1, dtype=torch.bfloat16)
    gate = torch.zeros(1, 1, 2, 1, dtype=torch.bfloat16).expand(1, 1, 2, 1)
    gradient = linear_scan_backward(gate, x, x, axis=2)[0]
    assert gradient.dtype == torch.bfloat16 and gradient.flatten().tolist() == [0.0, 300.0]


EXTRA = {"mingru": (), "minlstm": ("second_gate",), "rglru": ("input_gate", "param"), "qrnn": ("output_gate", "bias")}
# A case of a gated layer, and what else its call has.
GATED_CASES = [
    *(("in the middle", layer, {}) for layer in EXTRA),
    ("time alone", "rglru", {}),
    ("time first", "minlstm", {"reverse": True}),
    ("time last", "qrnn", {"reset": True}),
    ("no rows", "rglru", {}),
    ("all of the batch", "qrnn", {"reverse": True, "reset": True}),
]


def drawn_layer(case, layer):
    """The arguments of a layer, and the same as [batch, time, channels]."""
    place, _, x, state, reset = drawn(case)
    rng, behind = np.random.default_rng(7), x.shape[place + 1 :]
    given = {"gate": rng.standard_normal(x.shape), "input": x, "initial_state": state, "reset": reset}
    given |= {n: rng.uniform(size=behind if n in ("param", "bias") else x.shape) for n in EXTRA[layer]}
    rows, channels = three(x, place).shape[::2]
    flat = {n: a.reshape(channels) if n in ("param", "bias") else a for n, a in given.items()}
    flat |= {n: three(a, place) for n, a in given.items() if a.shape == x.shape}
    flat |= {"initial_state": state.reshape(rows, channels), "reset": reset.reshape(rows, x.shape[place])}
    return place, given, flat


@pytest.mark.parametrize("case, layer, options", GATED_CASES)
def test_any_axis_of_gated_layers(case, layer, options):
    place, given, flat = drawn_layer(case, layer)
    if "reset" not in options:
        del given["reset"], flat["reset"]
    x, more = given["input"], {"layer": layer, "reverse": options.get("reverse", False)}
    asked = {"return_final_state": True, "return_reserve": layer == "qrnn"}
    want = gated_scan(**flat, **more, **asked)
    got = gated_scan(**given, **more, **asked, axis=place - x.ndim)
    np.testing.assert_array_equal(got[0], want[0].reshape(x.shape))
    np.testing.assert_array_equal(got[1], want[1].reshape(given["initial_state"].shape))
    states = [results[2 if layer == "qrnn" else 0] for results in (want, got)]
    wanted = gated_scan_backward(states=states[0], grad_output=flat["input"], grad_final_state=want[1], **flat, **more)
    gradients = gated_scan_backward(states=states[1], grad_output=x, grad_final_state=got[1], **given, **more, axis=place)
    assert wanted.keys() == gradients.keys()
    for name, gradient in gradients.items():
        if name in given:
            assert gradient.shape == given[name].shape
            np.testing.assert_array_equal(gradient, wanted[name].reshape(gradient.shape))
        else:
            assert gradient is None


def test_packed_gated_layers_along_an_axis():
    rng = np.random.default_rng(2)
    gate, x, states = rng.standard_normal((1, 9, 3, 2)), rng.standard_normal((1, 9, 3, 2)), rng.standard_normal((2, 3, 2))
    out, last = gated_scan(gate, x, states, layer="gilr", axis=1, seq_offsets=[0, 4, 7], return_final_state=True)
    for n, (begin, end) in enumerate(((0, 4), (4, 7))):
        part = gate[:, begin:end], x[:, begin:end], states[n : n + 1]
        want, state = gated_scan(*part, layer="gilr", axis=1, return_final_state=True)
        np.testing.assert_allclose(out[:, begin:end], want, rtol=1e-12)
        np.testing.assert_allclose(last[n : n + 1], state, rtol=1e-12)
    assert not out[:, 7:].any() and last.shape == (2, 3, 2)


@pytest.mark.parametrize("autograd", [False, True])
@pytest.mark.parametrize("layer", EXTRA)
def test_any_axis_of_gated_layers_of_tensors(layer, autograd):
    torch = pytest.importorskip("torch")
    place, given, _ = drawn_layer("in the middle", layer)
    options = {"layer": layer, "axis": place, "return_final_state": True}
    want, reset = gated_scan(**given, **options), torch.from_numpy(given.pop("reset"))
    tensors = {name: torch.from_numpy(array).clone().requires_grad_(autograd) for name, array in given.items()}
    if not autograd:
        got = gated_scan(**tensors, reset=reset, **options)
    else:
        import flashscan.torch as ft

        got = ft.gated_scan(**tensors, reset=reset, **options)
        found = torch.autograd.grad(got, list(tensors.values()), (tensors["input"].detach(), got[1].detach()))
        asked = {"layer": layer, "axis": place, "reset": reset.numpy()}
        hides = layer == "qrnn"
        states = gated_scan(**given, **asked, return_reserve=hides)
        wanted = gated_scan_backward(
            states=states[1] if hides else states, grad_output=given["input"], grad_final_state=want[1], **given, **asked
        )
        for name, gradient in zip(tensors, found):
            np.testing.assert_allclose(gradient.numpy(), wanted[name], rtol=1e-11, atol=1e-12)
    for one, other in zip(got, want):
        np.testing.assert_array_equal(one.detach().numpy(), other)


OUTS = {
    "dense": lambda x: np.empty_like(x),
    "half of a buffer": lambda x: np.zeros((*x.shape[:-1], 2 * x.shape[-1]), x.dtype)[..., : x.shape[-1]],
    "turned": lambda x: np.zeros(x.shape[::-1], x.dtype).T,
    "in place": lambda x: x,
}


@pytest.mark.parametrize("package", ["numpy", "torch"])
@pytest.mark.parametrize("layout", ["btc", "bct"])
@pytest.mark.parametrize("kind", OUTS)
def test_out_of_linear_scan(kind, layout, package):
    rng = np.random.default_rng(3)
    gate, x = rng.uniform(0, 1, (2, 1, 5)), rng.standard_normal((2, 9, 5))
    want, last = linear_scan(gate, x, layout=layout, return_final_state=True)
    out, made = OUTS[kind](x), lambda array: array
    if package == "torch":
        made = pytest.importorskip("torch").from_numpy
    given = made(out)
    results = linear_scan(made(gate), given if out is x else made(x), layout=layout, out=given, return_final_state=True)
    assert results[0] is given
    np.testing.assert_allclose(out, want, rtol=1e-12)
    np.testing.assert_allclose(np.asarray(results[1]), last, rtol=1e-12)


SELECTIVE = {"A": (5, 4), "B": (2, 9, 4), "C": (5, 4), "D": (5,), "z": (2, 9, 5), "delta": (2, 9, 5)}


@pytest.mark.parametrize("package", ["numpy", "torch"])
@pytest.mark.parametrize("layout", ["btc", "bct"])
@pytest.mark.parametrize("kind", OUTS)
@pytest.mark.parametrize("family", ["mingru", "qrnn", "selective"])
def test_out_of_layers(family, kind, layout, package):
    rng, options = np.random.default_rng(3), {"layout": layout, "return_final_state": True}
    x, lead = rng.standard_normal((2, 9, 5)), "u" if family == "selective" else "input"
    shapes = SELECTIVE if family == "selective" else {name: (2, 9, 5) for name in ("gate", *EXTRA[family]) if name != "bias"}
    given = {name: -rng.uniform(0.1, 1, shape) for name, shape in shapes.items()}
    if layout == "bct":
        x = x.swapaxes(1, 2).copy()
        given = {name: array.swapaxes(1, 2).copy() if array.ndim == 3 else array for name, array in given.items()}
    if family != "selective":
        options["layer"] = family
    scan = selective_scan if family == "selective" else gated_scan
    want, last = scan(**{lead: x}, **given, **options)
    out, made = OUTS[kind](x), lambda array: array
    if package == "torch":
        made = pytest.importorskip("torch").from_numpy
    into = made(out)
    given = {name: made(array) for name, array in given.items()}
    results = scan(**{lead: into if out is x else made(x)}, **given, **options, out=into)
    assert results[0] is into
    np.testing.assert_allclose(out, want, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(np.asarray(results[1]), last, rtol=1e-12)


def test_out_of_gated_layers_goes_with_all_they_return():
    _, given, flat = drawn_layer("in the middle", "qrnn")
    options = {"layer": "qrnn", "return_final_state": True, "return_reserve": True}
    want = gated_scan(**flat, **options)
    out = np.empty_like(given["input"])
    got = gated_scan(**given, **options, axis=2, out=out)
    assert len(got) == 3 and got[0] is out
    np.testing.assert_array_equal(three(out, 2), want[0])
    np.testing.assert_array_equal(got[1].ravel(), want[1].ravel())
    np.testing.assert_array_equal(got[2][64:], want[2][64:])  # what comes first names the plan
    assert gated_scan(given["gate"], given["input"], layer="mingru", axis=2, out=out) is out


@pytest.mark.parametrize("case", ["time first", "in the middle", "rows of three axes"])
def test_out_along_an_axis(case):
    place, gate, x, state, reset = drawn(case)
    want = linear_scan(gate, x, state, axis=place, reset=reset)
    out = np.zeros((*x.shape[:-1], x.shape[-1] + 3), x.dtype)[..., : x.shape[-1]]
    if len(x.shape[place + 1 :]) > 1:
        out = np.empty_like(x)
    assert linear_scan(gate, x, state, axis=place, reset=reset, out=out) is out
    np.testing.assert_allclose(out, want, rtol=1e-12, atol=1e-13)


def test_out_keeps_the_steps_behind_the_last_sequence():
    x, out = np.ones((1, 6, 2)), np.full((1, 6, 2), 7.0)
    assert linear_scan(0.5, x, seq_offsets=[0, 2, 4], out=out) is out
    np.testing.assert_array_equal(out[0, :, 0], [1, 1.5, 1, 1.5, 7, 7])


@pytest.mark.parametrize("op", ["add", "max", np.maximum])
def test_out_of_operators(op):
    x = np.random.default_rng(4).standard_normal((1, 8, 2))
    out, total = np.empty_like(x), np.empty((1, 2))
    result, last = prefix_scan(x, op, axis=1, return_final=True, out=out)
    assert result is out and reduce(x, op, axis=1, out=total) is total
    np.testing.assert_array_equal(out, prefix_scan(x, op, axis=1))
    np.testing.assert_array_equal(total, reduce(x, op, axis=1))
    np.testing.assert_array_equal(last, total)


X = np.ones((2, 5, 3))
WIDE = np.zeros((2, 7, 3))
READ_ONLY = np.frombuffer(np.zeros(30).tobytes()).reshape(2, 5, 3)
OVERLAPPING = np.lib.stride_tricks.as_strided(np.zeros(99), (2, 5, 3), (8, 24, 8), writeable=True)
REFUSED = {
    "shape": (lambda: linear_scan(0.5, X, out=np.zeros((2, 5, 4))), "out has shape (2, 5, 4); accepted is (2, 5, 3)"),
    "dtype": (lambda: linear_scan(0.5, X, out=np.zeros((2, 5, 3), "f4")), "out has dtype float32; accepted is float64"),
    "no array": (lambda: linear_scan(0.5, X, out=[[[0.0]]]), "out is a builtins.list; accepted is numpy.ndarray"),
    "read only": (lambda: linear_scan(0.5, X, out=READ_ONLY), "out has strides (120, 24, 8) in bytes and cannot be"),
    "backwards": (lambda: linear_scan(0.5, X, out=np.zeros((2, 5, 3))[:, ::-1]), "out has strides (120, -24, 8)"),
    "overlapping itself": (lambda: linear_scan(0.5, X, out=OVERLAPPING), "out has strides (8, 24, 8)"),
    "shifted": (lambda: linear_scan(0.5, WIDE[:, :5], out=WIDE[:, 2:]), "input and out overlap"),
    "gate": (lambda: linear_scan(WIDE[:, :5], X, out=WIDE[:, :5]), "gate and out overlap"),
    "shape of a layer": (
        lambda: gated_scan(X, X, layer="gilr", out=np.zeros((2, 5, 4))),
        "out has shape (2, 5, 4); accepted is (2, 5, 3)",
    ),
    "list for a layer": (lambda: gated_scan(X, X, layer="gilr", out=[0.0]), "out is a builtins.list; accepted is numpy.ndarray"),
    "gate of a layer": (lambda: gated_scan(X, X.copy(), layer="gilr", out=X), "gate and out overlap"),
    "selective, shifted": (
        lambda: selective_scan(WIDE[:, :5], X, -X[0, :3], -X[0, :3], X[0, :3], out=WIDE[:, 2:]),
        "u and out overlap",
    ),
    "columns apart": (
        lambda: linear_scan(0.5, np.ones((5, 3, 2)), axis=0, out=np.zeros((5, 3, 4))[..., :2]),
        "out has shape (5, 3, 2) and strides (96, 32, 8); accepted with axis 0",
    ),
    "scan of gaps": (lambda: prefix_scan(X, "add", out=np.zeros((2, 5, 6))[..., :3]), "accepted are dense arrays"),
    "scan in place": (lambda: prefix_scan(X, "add", out=X), "x and out overlap; no argument"),
    "reduce": (lambda: reduce(X, "add", out=np.zeros((2, 5, 3))), "out has shape (2, 5, 3); accepted is (2, 5)"),
    "layer of an axis": (
        lambda: gated_scan(X, X, layer="gilr", axis=0, out=np.zeros((2, 5, 6))[..., :3]),
        "out has shape (2, 5, 3) and strides (240, 48, 8); accepted with axis 0",
    ),
    "axis and layout of a layer": (lambda: gated_scan(X, X, layer="gilr", axis=1, layout="bct"), "layout is 'bct' with axis"),
    "gate of a layer along an axis": (
        lambda: gated_scan(X[:1], X, layer="gilr", axis=0),
        "gate has shape (1, 5, 3); accepted is (2, 5, 3)",
    ),
    "bias along an axis": (
        lambda: gated_scan(X, X, layer="gilr", bias=np.ones(3), axis=0),
        "bias has shape (3,); accepted is (5, 3)",
    ),
    "input along an axis": (lambda: gated_scan(X, None, layer="gilr", axis=0), "input is None; accepted are arrays"),
    "gate missing along an axis": (lambda: gated_scan(None, X, layer="gilr", axis=0), "gate is None; accepted are arrays"),
    "axis and layout": (lambda: linear_scan(0.5, X, axis=1, layout="bct"), "layout is 'bct' with axis"),
    "no such axis": (lambda: linear_scan(0.5, X, axis=3), "axis is 3 for an array of 3 axes; accepted are -3 to 2"),
    "no axes": (lambda: linear_scan(0.5, np.array(1.0), axis=0), "axis is 0 for an array of 0 axes"),
    "gate of an axis": (lambda: linear_scan(np.ones((5, 2)), X, axis=1), "gate has shape (5, 2); accepted are shapes"),
    "state of an axis": (lambda: linear_scan(0.5, X, np.ones(3), axis=1), "initial_state has shape (3,)"),
    "reset of an axis": (lambda: linear_scan(0.5, X, axis=0, reset=np.ones((2, 5), bool)), "reset has shape (2, 5)"),
    "packed rows": (lambda: linear_scan(0.5, X, axis=1, seq_offsets=[0, 5]), "accepted are extents of 1 before axis 1"),
    "grad_output": (lambda: linear_scan_backward(0.5, X, X[:1], axis=1), "grad_output has shape (1, 5, 3)"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusals_name_the_argument(case):
    call, words = REFUSED[case]
    with pytest.raises(FlashscanError, match=re.escape(words)):
        call()


def test_tensors_that_lie_elsewhere_are_no_out():
    torch = pytest.importorskip("torch")
    with pytest.raises(FlashscanError, match="out is a numpy.ndarray; accepted is torch.Tensor"):
        linear_scan(0.5, torch.ones(1, 2, 3), out=np.zeros((1, 2, 3), np.float32))
    with pytest.raises(FlashscanError, match="out is a torch.Tensor; accepted is numpy.ndarray"):
        flashscan.prefix_scan(X, "add", out=torch.zeros(2, 5, 3))
