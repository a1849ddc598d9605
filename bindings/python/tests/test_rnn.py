# SPDX-License-Identifier: Apache-2.0
"""Recurrent networks through NumPy: against PyTorch's modules, finite differences, and bad input."""

from __future__ import annotations

import numpy as np
import pytest

import flashscan
from flashscan import rnn, rnn_backward
from flashscan._rnn import CELLS as _CELLS

CELLS = {cell: counts for cell, (_, *counts) in _CELLS.items()}


def arrays(rng, cell, outer, heads, dim, dtype=np.float64, rows=None):
    gates, biases, states = CELLS[cell]
    shapes = [(*outer, gates, heads, dim), (gates, heads, dim, dim), (biases, heads, dim)]
    x, weight, bias = (rng.uniform(-1, 1, shape).astype(dtype) for shape in shapes)
    state = rng.uniform(-1, 1, (states, rows or outer[0], heads, dim)).astype(dtype)
    if cell == "slstm":
        state[2] += 2
    return x, weight, bias, state


def torch_module(torch, cell, inputs, dim):
    torch.manual_seed(1)
    if cell == "lstm":
        return torch.nn.LSTM(inputs, dim, batch_first=True).double()
    if cell == "gru":
        return torch.nn.GRU(inputs, dim, batch_first=True).double()
    return torch.nn.RNN(inputs, dim, nonlinearity="relu" if cell == "elman_relu" else "tanh", batch_first=True).double()


def converted_bias(cell, ih, hh, dim):
    """The biases of a PyTorch module as ours; GRU's are those of r, z, n and of R_n h."""
    ih, hh = ih.reshape(-1, 1, dim), hh.reshape(-1, 1, dim)
    if cell != "gru":
        return ih + hh
    return np.concatenate([ih[:2] + hh[:2], ih[2:], hh[2:]])


@pytest.mark.parametrize("cell", ["lstm", "gru", "elman", "elman_relu"])
def test_equals_pytorch(cell):
    torch = pytest.importorskip("torch")
    batch, time, inputs, dim = 3, 17, 5, 11
    module = torch_module(torch, cell, inputs, dim)
    gates, biases, states = CELLS[cell]
    x = torch.randn(batch, time, inputs, dtype=torch.float64, requires_grad=True)
    initial = torch.randn(states, 1, batch, dim, dtype=torch.float64, requires_grad=True)
    given = (initial[0], initial[1]) if cell == "lstm" else initial[0]
    out, last = module(x, given)
    last = torch.stack(last) if cell == "lstm" else last[None]
    grad_out, grad_last = torch.randn_like(out), torch.randn_like(last)
    (out * grad_out).sum().add((last * grad_last).sum()).backward()

    w_ih, w_hh = module.weight_ih_l0.detach().numpy(), module.weight_hh_l0.detach().numpy()
    b_ih, b_hh = module.bias_ih_l0.detach().numpy(), module.bias_hh_l0.detach().numpy()
    wx = (x.detach().numpy() @ w_ih.T).reshape(batch, time, gates, 1, dim)
    weight, bias = w_hh.reshape(gates, 1, dim, dim), converted_bias(cell, b_ih, b_hh, dim)
    state = initial.detach().numpy().reshape(states, batch, 1, dim)
    output, final, reserve = rnn(wx, weight, bias, cell, state, return_final_state=True, return_reserve=True)
    np.testing.assert_allclose(output[:, :, 0], out.detach().numpy(), rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(final[:, :, 0], last.detach().numpy()[:, 0], rtol=1e-10, atol=1e-12)

    grad_x, grad_r, grad_b, grad_state = rnn_backward(
        weight,
        output,
        reserve,
        grad_out.numpy().reshape(output.shape),
        state,
        grad_last.numpy().reshape(state.shape),
        cell=cell,
    )
    flat = grad_x.reshape(batch, time, gates * dim)
    np.testing.assert_allclose(flat @ w_ih, x.grad.numpy(), rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(grad_r.reshape(w_hh.shape), module.weight_hh_l0.grad.numpy(), rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(grad_state[:, :, 0], initial.grad.numpy()[:, 0], rtol=1e-9, atol=1e-11)
    grad_ih, grad_hh = module.bias_ih_l0.grad.numpy(), module.bias_hh_l0.grad.numpy()
    np.testing.assert_allclose(grad_b[:gates].ravel(), grad_ih, rtol=1e-9, atol=1e-11)
    hh = grad_b[[0, 1, 3]] if cell == "gru" else grad_b
    np.testing.assert_allclose(hh.ravel(), grad_hh, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("options", [{}, {"reverse": True, "layout": "tbghd"}, {"seq_offsets": [0, 3, 3, 6]}])
@pytest.mark.parametrize("all_states", [False, True])
@pytest.mark.parametrize("cell", CELLS)
def test_gradients_by_finite_differences(cell, all_states, options):
    rng = np.random.default_rng(1)
    packed = "seq_offsets" in options
    outer = (1, 6) if packed else (6, 2) if options.get("layout") == "tbghd" else (2, 6)
    rows = 3 if packed else 2
    point = arrays(rng, cell, outer, 2, 3, rows=rows)
    x, weight, bias, state = point
    reset = rng.uniform(size=(1 if packed else 2, 6)) < 0.1
    common = {**options, "reset": reset}
    kinds = {"return_all_states": all_states, "return_final_state": True}
    output, final, reserve = rnn(x, weight, bias, cell, state, return_reserve=True, **kinds, **common)
    w, w_final = rng.normal(size=output.shape), rng.normal(size=final.shape)

    def loss(x, weight, bias, state):
        out, last = rnn(x, weight, bias, cell, state, **kinds, **common)
        return (w * out).sum() + (w_final * last).sum()

    gradients = rnn_backward(weight, output, reserve, w, state, w_final, cell=cell, all_states=all_states, **common)
    for which, gradient in enumerate(gradients):
        direction = rng.normal(size=point[which].shape)
        ahead, behind = list(point), list(point)
        ahead[which], behind[which] = point[which] + 1e-6 * direction, point[which] - 1e-6 * direction
        slope = (loss(*ahead) - loss(*behind)) / 2e-6
        assert (gradient * direction).sum() == pytest.approx(slope, rel=1e-6, abs=1e-7)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_narrow_dtypes(dtype):
    rng = np.random.default_rng(2)
    wanted = np.dtype(pytest.importorskip("ml_dtypes").bfloat16) if dtype == "bfloat16" else np.dtype(dtype)
    x, weight, bias, state = arrays(rng, "lstm", (2, 9), 1, 4, np.float32)
    out, last, _ = rnn(x.astype(wanted), weight, bias, "lstm", state, return_final_state=True, return_reserve=True)
    assert out.dtype == wanted and last.dtype == np.float32
    exact = rnn(x.astype(wanted).astype(np.float64), weight.astype(float), bias.astype(float), "lstm", state)
    np.testing.assert_allclose(out.astype(float), exact, atol=1e-6 if dtype == "float32" else 1e-2)


def test_tf32_is_for_gpus():
    x, weight, bias, _ = arrays(np.random.default_rng(3), "lstm", (2, 9), 1, 4, np.float32)
    out, reserve = rnn(x, weight, bias, return_reserve=True)
    allowed, other = rnn(x, weight, bias, return_reserve=True, allow_tf32=True)
    assert np.array_equal(out, allowed)
    gradients = rnn_backward(weight, allowed, other, np.ones_like(out), allow_tf32=True)
    for got, expected in zip(gradients, rnn_backward(weight, out, reserve, np.ones_like(out))):
        assert np.array_equal(got, expected)
    with pytest.raises(flashscan.FlashscanError, match="reserve was filled by another plan"):
        rnn_backward(weight, out, reserve, np.ones_like(out), allow_tf32=True)
    with pytest.raises(flashscan.FlashscanTypeError, match="allow_tf32 is 'yes'"):
        rnn(x, weight, bias, allow_tf32="yes")


X, R, B = np.ones((2, 5, 4, 1, 3)), np.ones((4, 1, 3, 3)), np.ones((4, 1, 3))
VALUE_ERRORS = {
    "Wx of four axes": (lambda: rnn(X[0], R, B), r"Wx has shape \(5, 4, 1, 3\)"),
    "gates": (lambda: rnn(X[:, :, :3], R, B), r"Wx has shape \(2, 5, 3, 1, 3\); accepted is \(2, 5, 4, 1, 3\)"),
    "R": (lambda: rnn(X, R, B, "gru"), r"R has shape \(4, 1, 3, 3\); accepted is \(3, 1, 3, 3\) for gru"),
    "b": (lambda: rnn(X, R, B[:3]), r"b has shape \(3, 1, 3\)"),
    "cell": (lambda: rnn(X, R, B, "rnn"), r"cell is 'rnn'; accepted are 'lstm', 'gru'"),
    "layout": (lambda: rnn(X, R, B, layout="btc"), r"layout is 'btc'"),
    "state": (lambda: rnn(X, R, B, "lstm", np.zeros((2, 3))), r"initial_state has shape \(2, 3\)"),
    "clip": (lambda: rnn(X, R, B, recurrent_clip=-1), r"recurrent_clip is -1"),
    "offsets with a batch": (lambda: rnn(X, R, B, seq_offsets=[0, 5]), r"with seq_offsets; accepted is a batch of 1"),
    "short reserve": (
        lambda: rnn_backward(R, np.ones((2, 5, 1, 3)), np.empty(0, np.uint8), np.ones((2, 5, 1, 3))),
        r"reserve has 0 bytes"
    ),
}


@pytest.mark.parametrize("case", VALUE_ERRORS)
def test_value_errors(case):
    call, message = VALUE_ERRORS[case]
    with pytest.raises(flashscan.FlashscanValueError, match=message):
        call()


def test_type_errors():
    with pytest.raises(flashscan.FlashscanTypeError, match="R is float64 and Wx is float32; accepted for R is float32"):
        rnn(X.astype(np.float32), R, B)
    with pytest.raises(flashscan.FlashscanTypeError, match="Wx has dtype complex128; accepted are float32, float64"):
        rnn(X + 0j, R + 0j, B + 0j)
    with pytest.raises(flashscan.FlashscanTypeError, match="b has dtype float32; accepted is float64"):
        rnn(X, R, B.astype(np.float32))
    with pytest.raises(flashscan.FlashscanTypeError, match="reserve is None"):
        rnn_backward(R, np.ones((2, 5, 1, 3)), None, np.ones((2, 5, 1, 3)))
