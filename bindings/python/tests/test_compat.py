# SPDX-License-Identifier: Apache-2.0
"""Other packages' signatures, by the formulas that they document."""

from __future__ import annotations

import types

import flashscan
import pytest
from flashscan.compat import accelerated_scan, flashrnn, sequential_scan, torch_parallel_scan
from flashscan.compat.accelerated_scan import complex as complex_scan
from flashscan.compat.accelerated_scan import ref, scalar, warp
from torch_support import DEVICES, Numbers, close, supported, torch

pytestmark = pytest.mark.parametrize("device", DEVICES)


def gradients_agree(got, want, leaves):
    weight = torch.linspace(-1, 1, got.numel(), dtype=want.dtype, device=got.device).reshape(got.shape)
    close(got, want)
    expected = torch.autograd.grad((want * weight).sum(), leaves, retain_graph=True)
    for one, other in zip(torch.autograd.grad((got * weight.to(got.dtype)).sum(), leaves, retain_graph=True), expected):
        close(one, other, got.dtype)


def recurrence(gate, x, axis):
    """h[t] = gate[t] h[t-1] + x[t] from h[-1] = 0."""
    steps = [x.select(axis, 0) + 0 * gate.select(axis, 0)]
    for t in range(1, x.shape[axis]):
        steps.append(gate.select(axis, t) * steps[-1] + x.select(axis, t))
    return torch.stack(steps, axis)


@pytest.mark.parametrize("time", [1, 7, 32, 100])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_accelerated_scan(device, dtype, time):
    numbers = Numbers(device)
    gates, tokens = (numbers.uniform(2, 3, time, low=0, dtype=dtype, grad=True) for _ in range(2))
    got = accelerated_scan.scan(gates, tokens)
    assert got.dtype == dtype and got.shape == (2, 3, time)
    gradients_agree(got, recurrence(gates.double(), tokens.double(), 2), (gates, tokens))


@pytest.mark.parametrize("tokens_dtype", [torch.complex128, torch.float64, torch.complex64, torch.float32], ids=str)
def test_accelerated_scan_of_complex_gates(device, tokens_dtype):
    numbers = Numbers(device)
    single = tokens_dtype in (torch.complex64, torch.float32)
    gates = numbers.uniform(2, 3, 7, dtype=torch.complex64 if single else torch.complex128, grad=True)
    tokens = numbers.uniform(2, 3, 7, dtype=tokens_dtype, grad=True)
    precision = torch.float32 if single else torch.float64
    leaves = (gates, tokens)
    got = complex_scan.scan(forget=gates, inputs=tokens)
    assert got.dtype == gates.dtype and torch.equal(got, accelerated_scan.scan(gates, tokens))
    want = recurrence(gates.to(torch.complex128), tokens.to(torch.complex128), 2)
    close(got, want, precision)
    expected = torch.autograd.grad(want.abs().square().sum(), leaves)
    for one, other, leaf in zip(torch.autograd.grad(got.abs().square().sum(), leaves), expected, leaves):
        assert one.dtype == leaf.dtype
        close(one, other, precision)


@pytest.mark.parametrize("time", [1, 7, 32])
def test_accelerated_scan_by_its_modules(device, time):
    numbers = Numbers(device)
    gates, tokens = (numbers.uniform(2, 3, time, low=0, grad=True) for _ in range(2))
    want = recurrence(gates, tokens, 2)
    back = recurrence(gates.flip(2), tokens.flip(2), 2).flip(2)
    for got, wanted in (
        (warp.scan(gates=gates, tokens=tokens), want),
        (warp.scan_forward(gates, tokens, reverse=True), back),
        (scalar.scan(forget=gates, inputs=tokens), want),
        (ref.scan(gates=gates, tokens=tokens), want),
        (ref.scan(gates, tokens, torch.mul, torch.add, torch.zeros_like, torch.ones_like, False), want),
        (ref.scan(gates, tokens, reverse=True), back),
    ):
        gradients_agree(got, wanted, (gates, tokens))


def test_accelerated_scan_refuses_what_it_cannot_obey(device):
    numbers = Numbers(device)
    gates, tokens = (numbers.uniform(2, 3, 7) for _ in range(2))
    value, kind = flashscan.FlashscanValueError, flashscan.FlashscanTypeError
    for error, call, words in (
        (value, lambda: ref.scan(gates, tokens, mul=torch.matmul), "mul is .*matmul.*; accepted is torch.mul"),
        (value, lambda: ref.scan(gates, tokens, add=torch.logaddexp), "add is .*; accepted is torch.add"),
        (value, lambda: ref.scan(gates, tokens, zeros_like=torch.ones_like), "zeros_like is .*; accepted is"),
        (value, lambda: ref.scan(gates, tokens, ones_like=torch.zeros_like), "ones_like is .*; accepted is"),
        (kind, lambda: ref.scan(gates, tokens, reverse="yes"), "reverse is 'yes'; accepted are True and False"),
        (kind, lambda: scalar.scan(gates, [1.0]), "inputs is a list; accepted are tensors"),
        (kind, lambda: complex_scan.scan(gates.to(torch.complex64), tokens), "forget is torch.complex64 and inputs is"),
    ):
        with pytest.raises(error, match=words):
            call()


@pytest.mark.parametrize("name", ["scan", "scan_cu", "scan_cu_single", "scan_tr"])
def test_sequential_scan(device, name):
    numbers = Numbers(device)
    alpha, beta = (numbers.uniform(2, 9, 5, low=0, grad=True) for _ in range(2))
    gradients_agree(getattr(sequential_scan, name)(alpha, beta), recurrence(alpha, beta, 1), (alpha, beta))


def folded(x, function, dim):
    steps = [x.select(dim, 0)]
    for t in range(1, x.shape[dim]):
        steps.append(function(steps[-1], x.select(dim, t)))
    return torch.stack(steps, dim)


FUNCTIONS = {
    "sum": torch.add,
    "product": torch.mul,
    "logaddexp": torch.logaddexp,
    "maximum": torch.maximum,
    "own sum": lambda left, right: left + right,
    "gated pairs": lambda left, right: torch.stack(
        [left[..., 0] * right[..., 0], left[..., 1] * right[..., 0] + right[..., 1]], -1
    ),
}


@pytest.mark.parametrize("time", [1, 2, 13])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_torch_parallel_scan(device, name, time):
    function = FUNCTIONS[name]
    x = Numbers(device).uniform(3, time, 4, 2, grad=True)
    for dim in (1, -3):
        want = folded(x, function, 1)
        got = supported(lambda dim=dim: torch_parallel_scan.prefix_scan(x, function, dim=dim))
        gradients_agree(got, want, [x])
        gradients_agree(torch_parallel_scan.reduce_scan(x, function, dim=dim), want[:, -1], [x])


@pytest.mark.parametrize("function", [torch.matmul, lambda left, right: left @ right])
@pytest.mark.parametrize("shape, dim", [((11, 3, 3), -3), ((2, 11, 3, 3), 1), ((11, 2, 3, 3), 0)])
def test_torch_parallel_scan_of_matrices(device, function, shape, dim):
    x = Numbers(device).uniform(*shape, grad=True)
    got = supported(lambda: torch_parallel_scan.prefix_scan(x, function, dim, 0))
    gradients_agree(got, folded(x, torch.matmul, dim), [x])


def test_torch_parallel_scan_of_integers(device):
    x = torch.arange(12).reshape(3, 4).to(Numbers(device).device)
    got = supported(lambda: torch_parallel_scan.prefix_scan(x, torch.add, dim=1))
    assert got.dtype == torch.int64 and torch.equal(got, x.cumsum(1))
    assert torch.equal(torch_parallel_scan.reduce_scan(x, torch.maximum, dim=0), x[-1])


CELLS = {"lstm": (4, 4, 4, 2), "gru": (3, 3, 4, 1), "elman": (1, 1, 1, 1), "slstm": (4, 4, 4, 4)}


def their_step(function, wx, product, bias, states):
    """One step in FlashRNN's orders of gates; ``product`` is R h."""
    sigmoid, tanh, h = torch.sigmoid, torch.tanh, states[0]
    if function == "elman":
        return [tanh(wx[0] + product[0] + bias[0])]
    if function == "gru":
        r = sigmoid(wx[0] + product[1] + bias[1])
        z = sigmoid(wx[1] + product[2] + bias[2])
        n = tanh(wx[2] + bias[3] + r * (product[0] + bias[0]))
        return [z * h + (1 - z) * n]
    i, f, z, o = (wx[gate] + product[gate] + bias[gate] for gate in range(4))
    if function == "lstm":
        c = sigmoid(f) * states[1] + sigmoid(i) * tanh(z)
        return [sigmoid(o) * tanh(c), c]
    _, c, n, m = states
    decay = torch.nn.functional.logsigmoid(f) + m
    top = torch.where(n == 0, i, torch.maximum(i, decay))
    enters, stays = torch.exp(i - top), torch.exp(decay - top)
    c, n = stays * c + enters * tanh(z), torch.clamp_min(stays * n + enters, 1)
    return [sigmoid(o) * c / n, c, n, top]


def their_network(function, Wx, R, b, states):
    states, steps = list(states.squeeze(2)), []
    for t in range(Wx.shape[1]):
        product = torch.einsum("bhp,ghdp->gbhd", states[0], R)
        states = their_step(function, Wx[:, t].transpose(0, 1), product, b[:, None], states)
        steps.append(torch.stack(states))
    return torch.stack(steps, 2), torch.stack(states).unsqueeze(2)


@pytest.mark.parametrize("with_states", [False, True])
@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16"])
@pytest.mark.parametrize("function", CELLS)
def test_flashrnn(device, function, dtype, with_states):
    numbers = Numbers(device)
    inputs, recurrent, biases, count = CELLS[function]
    kind = getattr(torch, dtype)
    shapes = [(2, 7, inputs, 2, 4), (recurrent, 2, 4, 4), (biases, 2, 4), (count, 2, 1, 2, 4)]
    Wx, R, b, states = (numbers.uniform(*shape).to(kind) for shape in shapes)
    if function == "slstm":
        states[2] += 2
    leaves = [tensor.requires_grad_() for tensor in ((Wx, R, b, states) if with_states else (Wx, R, b))]
    given = states if with_states else None
    got, last = flashrnn.flashrnn(Wx, R, b, given, function, dtype=dtype, backend="vanilla")
    assert got.dtype == last.dtype == kind and last.shape == (count, 2, 1, 2, 4)
    start = states if with_states else torch.zeros_like(states)
    want, want_last = their_network(function, *(tensor.double() for tensor in (Wx, R, b, start)))
    gradients_agree(got, want, leaves)
    gradients_agree(last, want_last, leaves)


def test_flashrnn_converts_and_clips(device):
    numbers = Numbers(device)
    Wx, R, b = (numbers.uniform(*shape, grad=True) for shape in ((2, 7, 1, 2, 4), (1, 2, 4, 4), (1, 2, 4)))
    assert flashrnn.flashrnn(Wx, R, b, function="elman")[0].dtype == torch.bfloat16
    plain = flashrnn.flashrnn(Wx, R, b, function="elman", dtype="float64")[0]
    config = types.SimpleNamespace(gradient_recurrent_clipval=1e-3)
    clipped = flashrnn.flashrnn(Wx, R, b, function="elman", config=config, dtype="float64")[0]
    close(clipped, plain)
    one, other = (torch.autograd.grad(each.sum(), Wx)[0] for each in (plain, clipped))
    assert not torch.allclose(one, other)
    for options, words in (
        ({"function": "rnn"}, "function is 'rnn'"),
        ({"backend": "tpu"}, "backend is 'tpu'"),
        ({"dtype": "int8"}, "dtype is 'int8'"),
        ({"config": types.SimpleNamespace(gradient_recurrent_cut=True)}, "gradient_recurrent_cut is True"),
    ):
        with pytest.raises(flashscan.FlashscanValueError, match=words):
            flashrnn.flashrnn(Wx, R, b, **{"function": "elman", **options})


def test_flashrnn_obeys_its_config(device):
    numbers = Numbers(device)
    Wx, R, b = (numbers.uniform(*shape) for shape in ((2, 7, 4, 2, 4), (4, 2, 4, 4), (4, 2, 4)))
    config = types.SimpleNamespace(function="slstm", backend="vanilla", dtype="float32", dtype_w=None, dtype_a="float32")
    got, last = flashrnn.flashrnn(Wx, R, b, config=config)
    want, want_last = flashrnn.flashrnn(Wx, R, b, function="slstm", dtype="float32")
    assert got.dtype == torch.float32 and got.shape[0] == 4
    assert torch.equal(got, want) and torch.equal(last, want_last)
    wide = types.SimpleNamespace(dtype=torch.bfloat16, dtype_a="float32", dtype_g=torch.float32)
    assert flashrnn.flashrnn(Wx, R, b, config=wide, dtype="float32")[0].dtype == torch.bfloat16


@pytest.mark.parametrize(
    "settings, words",
    [
        ({"function": "rnn"}, "config.function is 'rnn'; accepted are 'lstm'"),
        ({"backend": "tpu"}, "config.backend is 'tpu'; accepted are 'vanilla'"),
        ({"dtype": "int8"}, "config.dtype is 'int8'; accepted are 'bfloat16'"),
        ({"forward_clipval": 1.0}, "config.forward_clipval is 1.0; accepted is"),
        ({"dtype": "float32", "dtype_r": "bfloat16"}, "config.dtype_r is 'bfloat16'; accepted are 'float32'"),
        ({"dtype_b": "float32"}, "config.dtype_b is 'float32'; accepted are 'bfloat16'"),
        ({"dtype_s": torch.float32}, "config.dtype_s is torch.float32; accepted are 'bfloat16'"),
        ({"dtype_a": "float64"}, "config.dtype_a is 'float64'; accepted are 'bfloat16', 'float32'"),
        ({"dtype_acc": "float16"}, "config.dtype_acc is 'float16'; accepted are 'bfloat16', 'float32'"),
        ({"gradient_recurrent_cut": True}, "config.gradient_recurrent_cut is True; accepted is what is off"),
        ({"constants": {"alpha": 2.0}}, "config.constants is .*; accepted is what is off"),
        ({"input_shape": "TBGHD"}, "config.input_shape is 'TBGHD'; accepted is 'BTGHD'"),
        ({"recurrent_shape": "HPGD"}, "config.recurrent_shape is 'HPGD'; accepted is 'GHDP'"),
        ({"bias_shape": "HGD"}, "config.bias_shape is 'HGD'; accepted is 'GHD'"),
        ({"output_shape": "STBHD"}, "config.output_shape is 'STBHD'; accepted is 'SBTHD'"),
        ({"trainable_r": False}, "config.trainable_r is False; accepted is True"),
        ({"trainable_b": [True, False]}, r"config.trainable_b is \[True, False\]; accepted is True"),
        ({"num_heads": 4}, "config.num_heads is 4; accepted is 2, which Wx has"),
        ({"head_dim": 8}, "config.head_dim is 8; accepted is 4, which Wx has"),
        ({"initial_val": [0.0]}, "config.initial_val has 1 numbers; accepted are 2 for 'lstm'"),
    ],
)
def test_flashrnn_refuses_what_it_cannot_obey(device, settings, words):
    numbers = Numbers(device)
    Wx, R, b = (numbers.uniform(*shape) for shape in ((2, 7, 4, 2, 4), (4, 2, 4, 4), (4, 2, 4)))
    for kind in (types.SimpleNamespace, flashrnn.FlashRNNConfig):
        with pytest.raises(flashscan.FlashscanValueError, match=words):
            flashrnn.flashrnn(Wx, R, b, config=kind(**settings))
    with pytest.raises(flashscan.FlashscanTypeError, match="config is a dict"):
        flashrnn.flashrnn(Wx, R, b, config=settings)


def test_flashrnn_config_goes_before_the_arguments(device):
    numbers = Numbers(device)
    Wx, R, b = (numbers.uniform(*shape) for shape in ((2, 7, 4, 2, 4), (4, 2, 4, 4), (4, 2, 4)))
    plain = flashrnn.FlashRNNConfig()
    assert (plain.function, plain.backend, plain.dtype) == ("lstm", "cuda_fused", "bfloat16")
    got, last = flashrnn.flashrnn(Wx, R, b, function="slstm", backend="none", dtype="none", config=plain)
    want, want_last = flashrnn.flashrnn(Wx, R, b, function="lstm", dtype="bfloat16")
    assert got.dtype == torch.bfloat16 and torch.equal(got, want) and torch.equal(last, want_last)
    # An object of FlashRNN's has these values where nothing was asked for.
    nothing = {"gradient_recurrent_cut": False, "gradient_recurrent_clipval": None, "forward_clipval": None}
    nothing.update(constants={}, simple_agg=True, hidden_dim=-1, num_heads=-1, head_dim=-1, num_states=4, batch_size=8)
    nothing.update(input_shape="BTGHD", output_shape="SBTHD", recurrent_shape="GHDP", bias_shape="GHD")
    nothing.update(dtype_acc="float32", trainable_r=[True] * 4, trainable_b=True, initial_val=0.0)
    for dtype in ("bfloat16", "float32", "float64"):
        config = flashrnn.FlashRNNConfig(function="slstm", backend="cuda", dtype=dtype, **nothing)
        want = flashrnn.flashrnn(Wx, R, b, function="slstm", dtype=dtype)[0]
        assert torch.equal(flashrnn.flashrnn(Wx, R, b, config=config)[0], want)
    with pytest.raises(flashscan.FlashscanTypeError, match="has no setting layers; accepted are function"):
        flashrnn.FlashRNNConfig(layers=2)


@pytest.mark.parametrize("value", [0.25, [0.5, -0.25], (0, 1)])
def test_flashrnn_config_gives_initial_states(device, value):
    numbers = Numbers(device)
    Wx, R, b = (numbers.uniform(*shape) for shape in ((2, 7, 4, 2, 4), (4, 2, 4, 4), (4, 2, 4)))
    config = flashrnn.FlashRNNConfig(dtype="float64", initial_val=value)
    h, c = (value, value) if isinstance(value, float) else value
    states = torch.stack([torch.full((2, 1, 2, 4), each, dtype=torch.float64) for each in (h, c)]).to(Wx.device)
    got, last = flashrnn.flashrnn(Wx, R, b, config=config)
    want, want_last = their_network("lstm", Wx, R, b, states)
    close(got, want)
    close(last, want_last)
    given = numbers.uniform(2, 2, 1, 2, 4)
    close(flashrnn.flashrnn(Wx, R, b, given, config=config)[0], their_network("lstm", Wx, R, b, given)[0])
