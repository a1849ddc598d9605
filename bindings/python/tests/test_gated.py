# SPDX-License-Identifier: Apache-2.0
"""Gated layers against compositions of NumPy and linear_scan, and their gradients against finite differences."""

from __future__ import annotations

import numpy as np
import pytest

from flashscan import FlashscanValueError, gated_scan, gated_scan_backward, linear_scan


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def positive(x):
    return np.where(x >= 0, x + 0.5, sigmoid(x))


# Each layer's a, v, and scale of a, from its arrays.
LAYERS = {
    "mingru": lambda g, x, **_: (sigmoid(-g), positive(x), lambda a: 1 - a),
    "minlstm": lambda g, x, second_gate, **_: (
        sigmoid(g) / (sigmoid(g) + sigmoid(second_gate)),
        positive(x),
        lambda a: 1 - a,
    ),
    "hgrn": lambda g, x, param, **_: (param + (1 - param) * sigmoid(g), x * sigmoid(x), lambda a: 1 - a),
    "rglru": lambda g, x, input_gate, param, **_: (
        np.exp(-8 * np.log1p(np.exp(param)) * sigmoid(g)),
        x * sigmoid(input_gate),
        lambda a: np.sqrt(1 - a * a),
    ),
    "qrnn": lambda g, x, **_: (sigmoid(g), np.tanh(x), lambda a: 1 - a),
    "gilr": lambda g, x, **_: (sigmoid(g), np.tanh(x), lambda a: 1 - a),
}
EXTRA = {
    "minlstm": ("second_gate",),
    "hgrn": ("param",),
    "rglru": ("input_gate", "param"),
    "qrnn": ("output_gate",),
}


def arrays(layer, shape=(2, 11, 3), channels=3):
    rng = np.random.default_rng(7)
    gate, x = rng.standard_normal(shape), rng.standard_normal(shape)
    extra = {name: rng.random(channels) if name == "param" else rng.standard_normal(shape) for name in EXTRA.get(layer, ())}
    return gate, x, extra


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("layout", ["btc", "bct"])
def test_layers_are_compositions(layer, layout):
    gate, x, extra = arrays(layer)
    a, v, scale = LAYERS[layer](gate, x, **extra)
    m = scale(a)
    if layer == "rglru":
        m[:, 0] = 1
    expected, final = linear_scan(a, m * v, return_final_state=True)
    if layer == "qrnn":
        expected = expected * sigmoid(extra["output_gate"])

    def turned(array):
        return array.swapaxes(1, 2) if layout == "bct" and array.ndim == 3 else array

    got, last = gated_scan(
        turned(gate),
        turned(x),
        layer=layer,
        layout=layout,
        return_final_state=True,
        **{name: turned(array) for name, array in extra.items()},
    )
    np.testing.assert_allclose(turned(got), expected, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(last, final, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("layer", LAYERS)
def test_gradients_are_those_of_differences(layer):
    gate, x, extra = arrays(layer, (1, 5, 2), 2)
    given = {"gate": gate, "input": x, "initial_state": np.array([[0.3, -0.4]]), "bias": np.array([0.1, 0.2]), **extra}
    weights = np.random.default_rng(3).standard_normal(x.shape)
    hides = layer == "qrnn"
    result = gated_scan(**given, layer=layer, return_reserve=hides)
    gradients = gated_scan_backward(
        gate,
        x,
        result[1] if hides else result,
        weights,
        layer=layer,
        **{name: array for name, array in given.items() if name not in ("gate", "input")},
    )
    for name, array in given.items():
        expected = np.empty_like(array)
        for i in np.ndindex(array.shape):
            step = np.zeros_like(array)
            step[i] = 1e-6
            above, below = (
                gated_scan(**{**given, name: array + sign * step}, layer=layer) for sign in (1, -1)
            )
            expected[i] = ((above - below) * weights).sum() / 2e-6
        np.testing.assert_allclose(gradients[name], expected, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("layer", LAYERS)
def test_one_step_at_a_time_gives_the_sequence(layer):
    gate, x, extra = arrays(layer)
    gate, x, extra = np.float32(gate), np.float32(x), {name: np.float32(array) for name, array in extra.items()}
    state = np.full((2, 3), 0.5, np.float32)
    whole, final = gated_scan(gate, x, layer=layer, initial_state=state, return_final_state=True, **extra)
    for t in range(11):
        step = {name: array[:, t : t + 1] if array.ndim == 3 else array for name, array in extra.items()}
        now = slice(t, t + 1)
        y, state = gated_scan(gate[:, now], x[:, now], layer=layer, initial_state=state, return_final_state=True, **step)
        np.testing.assert_array_equal(y[:, 0], whole[:, t])
    np.testing.assert_array_equal(state, final)


def test_parts_packed_and_resets():
    gate, x, _ = arrays("gilr", (1, 9, 2), 2)
    offsets, reset = np.array([0, 4, 9]), np.zeros((1, 9), bool)
    reset[0, 6] = True
    got = gated_scan(gate, x, decay="sigmoid", scale="one_minus", first_step=True, seq_offsets=offsets, reset=reset)
    a = sigmoid(gate)
    m = 1 - a
    m[0, [0, 4, 6]] = 1
    expected = linear_scan(a, m * x, seq_offsets=offsets, reset=reset)
    np.testing.assert_allclose(got, expected, rtol=1e-12)


def test_mistakes_are_refused_by_name():
    gate, x, _ = arrays("gilr")
    for words, options in {
        "decay is None": {},
        "layer is 'gru'": {"layer": "gru"},
        "scale is 'sqrt' with layer 'gilr', which says what its parts are; accepted is 'one'": {"layer": "gilr", "scale": "sqrt"},
        "param is an array; accepted with layer 'gilr' is None": {"layer": "gilr", "param": np.zeros(3)},
        "input_gate is an array; accepted with layer 'gilr' is None": {"layer": "gilr", "input_gate": x},
        "output_gate is an array; accepted with decay 'value' and epilogue 'none' is None": {"decay": "value", "output_gate": x},
        "input has shape .2, 11, 3. with seq_offsets; accepted is a batch of 1": {"layer": "gilr", "seq_offsets": [0, 11]},
        "input_gate is None; accepted with layer 'rglru' are arrays": {"layer": "rglru", "param": np.zeros(3)},
        "input_gate has shape": {"decay": "value", "input_gate": x[:, 1:]},
        "param has shape": {"layer": "hgrn", "param": np.zeros(4)},
        "return_reserve is True": {"layer": "gilr", "return_reserve": True},
    }.items():
        with pytest.raises(FlashscanValueError, match=words):
            gated_scan(gate, x, **options)


def test_wide_layers_are_their_channels():
    # As many numbers as are stored past the caches, whose steps are not whole lines apart.
    rng = np.random.default_rng(3)
    gate, x = rng.standard_normal((2, 1, 1024, 3000)).astype(np.float32)
    y = gated_scan(gate, x, layer="mingru")
    gradients = gated_scan_backward(gate, x, y, y, layer="mingru")
    part = (0, slice(None), slice(1500, 1564))
    one = [np.ascontiguousarray(a[part])[None] for a in (gate, x)]
    expected = gated_scan(*one, layer="mingru")
    np.testing.assert_allclose(y[part], expected[0], rtol=1e-6, atol=1e-6)
    for name, narrow in gated_scan_backward(*one, expected, expected, layer="mingru").items():
        if name in ("gate", "input"):
            np.testing.assert_allclose(gradients[name][part], narrow[0], rtol=1e-5, atol=1e-5)
