# SPDX-License-Identifier: Apache-2.0
"""flashscan.torch's layers: beside torch.nn's, and beside their formulas step by step."""

from __future__ import annotations

import flashscan
import flashscan.torch as ft
import pytest
from torch import nn
from torch_support import DEVICES, Numbers, close, torch

pytestmark = pytest.mark.parametrize("device", DEVICES)

F64 = torch.float64
LAYERS = {
    "lstm": (nn.LSTM, {}),
    "gru": (nn.GRU, {}),
    "tanh": (nn.RNN, {}),
    "relu": (nn.RNN, {"nonlinearity": "relu"}),
    "two layers": (nn.LSTM, {"num_layers": 2}),
    "both directions": (nn.LSTM, {"num_layers": 2, "bidirectional": True, "batch_first": True}),
    "gru, both directions": (nn.GRU, {"num_layers": 2, "bidirectional": True}),
    "no bias": (nn.GRU, {"bias": False, "batch_first": True}),
    "projection": (nn.LSTM, {"num_layers": 2, "bidirectional": True, "proj_size": 4}),
}


@pytest.mark.parametrize("batched", [True, False])
@pytest.mark.parametrize("layer", LAYERS)
def test_from_torch_computes_the_same(device, layer, batched):
    numbers = Numbers(device)
    torch.manual_seed(1)
    kind, options = LAYERS[layer]
    theirs = kind(5, 7, dtype=F64, **options).to(numbers.device)
    ours = ft.from_torch(theirs)
    assert type(ours).__name__ == {"LSTM": "LSTM", "GRU": "GRU", "RNN": "Elman"}[kind.__name__]
    depth = options.get("num_layers", 1) * (2 if options.get("bidirectional") else 1)
    shape, rows = (4, 3, 5) if options.get("batch_first") else (3, 4, 5), (4,)
    if not batched:
        shape, rows = (3, 5), ()
    x = numbers.uniform(*shape, grad=True)
    widths = [options.get("proj_size", 7), 7] if kind is nn.LSTM else [7]
    state = [numbers.uniform(depth, *rows, width, grad=True) for width in widths]
    given = tuple(state) if kind is nn.LSTM else state[0]
    for start in (None, given):
        results = []
        for module in (theirs, ours):
            output, last = module(x, start)
            last = list(last) if kind is nn.LSTM else [last]
            leaves = [x, *(state if start is not None else []), module.weight_ih_l0, module.weight_hh_l0]
            loss = output.sin().sum() + sum(each.cos().sum() for each in last)
            gradients = list(torch.autograd.grad(loss, leaves))
            gradients[-1] = gradients[-1].reshape(-1, widths[0])
            results.append([output, *last, *gradients])
        for want, got in zip(*results):
            close(got, want)


def test_mistakes_are_named(device):
    Numbers(device)
    with pytest.raises(flashscan.FlashscanTypeError, match="module is a Linear; accepted are torch.nn.LSTM"):
        ft.from_torch(nn.Linear(2, 2))
    with pytest.raises(flashscan.FlashscanTypeError, match="module is a GRU; accepted is torch.nn.LSTM"):
        ft.LSTM.from_torch(nn.GRU(2, 2))
    with pytest.raises(flashscan.FlashscanValueError, match="num_heads is 3; accepted are divisors of hidden_size, 8"):
        ft.SLSTM(4, 8, num_heads=3)
    with pytest.raises(flashscan.FlashscanValueError, match="nonlinearity is 'sin'"):
        ft.Elman(2, 2, nonlinearity="sin")
    layer = ft.LSTM(4, 8).to(device)
    with pytest.raises(flashscan.FlashscanValueError, match=r"input has shape \(3, 2, 5\).*the last of 4"):
        layer(torch.zeros(3, 2, 5, device=device))
    with pytest.raises(flashscan.FlashscanValueError, match="hx has 1 tensors; accepted are 2 for lstm"):
        layer(torch.zeros(3, 2, 4, device=device), torch.zeros(1, 2, 8, device=device))


def step_of(cell, raw_of, states):
    """One step of a cell on [B, H, D] states; ``raw_of(gate)`` is W x + b and R h apart."""
    sigmoid, tanh = torch.sigmoid, torch.tanh
    raw = lambda gate: sum(raw_of(gate, states[0]))
    if cell == "lstm":
        c = sigmoid(raw(1)) * states[1] + sigmoid(raw(0)) * tanh(raw(2))
        return [sigmoid(raw(3)) * tanh(c), c]
    if cell == "slstm":
        _, c, n, m = states
        i, f = raw(0), nn.functional.logsigmoid(raw(1)) + m
        top = torch.where(n == 0, i, torch.maximum(i, f))
        c = torch.exp(f - top) * c + torch.exp(i - top) * tanh(raw(2))
        n = torch.exp(f - top) * n + torch.exp(i - top)
        n = n.clamp_min(1)
        return [sigmoid(raw(3)) * c / n, c, n, top]
    if cell == "mgu":
        f = sigmoid(raw(0))
        return [(1 - f) * states[0] + f * tanh(sum(raw_of(1, f * states[0])))]
    r, z = sigmoid(raw(0)), sigmoid(raw(1))
    product, recurrent = raw_of(2, r * states[0])
    return [(1 - z) * tanh(product + recurrent) + z * states[0]]


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("heads", [1, 2, 4])
@pytest.mark.parametrize("cell", ["lstm", "slstm", "gru_reset_before", "mgu"])
def test_heads_by_their_formula(device, cell, heads, bidirectional):
    numbers = Numbers(device)
    options = {"num_heads": heads, "bidirectional": bidirectional, "dtype": F64}
    layer = {
        "lstm": lambda: ft.LSTM(3, 8, **options),
        "slstm": lambda: ft.SLSTM(3, 8, **options),
        "gru_reset_before": lambda: ft.GRU(3, 8, reset_after=False, **options),
        "mgu": lambda: ft.MGU(3, 8, **options),
    }[cell]().to(numbers.device)
    x = numbers.uniform(5, 2, 3)
    output, last = layer(x)
    last = last if isinstance(last, tuple) else (last,)
    parts, finals = [], []
    for suffix in layer._suffixes(0):
        weight, bias = getattr(layer, "weight_hh" + suffix), getattr(layer, "bias" + suffix)
        Wx = (x @ getattr(layer, "weight_ih" + suffix).T).reshape(5, 2, -1, heads, 8 // heads)
        states = [Wx.new_zeros(2, heads, 8 // heads) for _ in last]
        steps = {}
        for t in reversed(range(5)) if suffix.endswith("reverse") else range(5):
            raw_of = lambda g, h, t=t: (Wx[t, :, g] + bias[g], torch.einsum("bhd,hed->bhe", h, weight[g]))
            states = step_of(cell, raw_of, states)
            steps[t] = states[0].flatten(-2)
        parts.append(torch.stack([steps[t] for t in range(5)]))
        finals.append([state.flatten(-2) for state in states])
    close(output, torch.cat(parts, -1))
    for number, got in enumerate(last):
        close(got, torch.stack([final[number] for final in finals]))


@pytest.mark.parametrize("kind", [ft.LSTM, ft.GRU, ft.MGU, ft.Elman, ft.SLSTM])
def test_a_sequence_cut_in_two_is_carried_on(device, kind):
    numbers = Numbers(device)
    layer = kind(4, 6, 2, num_heads=2, batch_first=True, dtype=F64).to(numbers.device)
    x = numbers.uniform(3, 9, 4)
    whole, last = layer(x)
    first, state = layer(x[:, :4])
    second, final = layer(x[:, 4:], state)
    close(torch.cat([first, second], 1), whole)
    for got, want in zip(final, last):
        close(got, want)


@pytest.mark.parametrize("kind", [ft.LSTM, ft.SLSTM])
def test_packed_sequences_and_resets(device, kind):
    numbers = Numbers(device)
    layer = kind(4, 6, batch_first=True, dtype=F64).to(numbers.device)
    x = numbers.uniform(1, 9, 4)
    packed, states = layer(x, seq_offsets=[0, 4, 9])
    reset = torch.zeros(1, 9, dtype=torch.bool, device=numbers.device)
    reset[0, 4] = True
    close(layer(x, reset=reset)[0], packed)
    for number, part in enumerate((x[:, :4], x[:, 4:])):
        output, last = layer(part)
        close(packed[:, :4] if number == 0 else packed[:, 4:], output)
        for got, want in zip(states, last):
            close(got[:, number : number + 1], want)


def test_dropout_is_of_training(device):
    numbers = Numbers(device)
    layer = ft.GRU(4, 6, 2, dropout=0.5).to(numbers.device)
    x = numbers.uniform(5, 3, 4, dtype=torch.float32)
    assert not torch.equal(layer(x)[0], layer(x)[0])
    layer.eval()
    assert torch.equal(layer(x)[0], layer(x)[0])


@pytest.mark.parametrize("heads", [1, 3])
def test_rglru_by_its_formula(device, heads):
    numbers = Numbers(device)
    layer = ft.RGLRU(6, heads, dtype=F64).to(numbers.device)
    assert 0.9 <= (torch.sigmoid(layer.Lambda) ** 8).min() <= (torch.sigmoid(layer.Lambda) ** 8).max() <= 0.999
    layer.gate_bias.data.uniform_(-1, 1)
    x, state = numbers.uniform(2, 7, 6, grad=True), numbers.uniform(2, 6, grad=True)
    output, last = layer(x, state)
    blocks = [torch.block_diag(*layer.gate_weight[gate]) for gate in range(2)]
    gates = [torch.sigmoid(x @ blocks[gate].T + layer.gate_bias[gate].flatten()) for gate in range(2)]
    a = torch.sigmoid(layer.Lambda) ** (8 * gates[0])
    h, steps = state, []
    for t in range(7):
        h = a[:, t] * h + torch.sqrt(1 - a[:, t] ** 2) * (gates[1][:, t] * x[:, t])
        steps.append(h)
    want = torch.stack(steps, 1)
    close(output, want)
    close(last, h)
    leaves = [x, state, *layer.parameters()]
    for got, expected in zip(*(torch.autograd.grad(each.sin().sum(), leaves) for each in (output, want))):
        close(got, expected)


def test_linear_recurrence_by_its_formula(device):
    numbers = Numbers(device)
    layer = ft.LinearRecurrence(5, 4, dtype=F64).to(numbers.device)
    x, state = numbers.uniform(2, 7, 5, grad=True), numbers.uniform(2, 4, grad=True)
    output, last = layer(x, state)
    a, value = layer.projection(x).chunk(2, -1)
    h, steps = state, []
    for t in range(7):
        h = torch.sigmoid(a[:, t]) * h + (1 - torch.sigmoid(a[:, t])) * value[:, t]
        steps.append(h)
    want = torch.stack(steps, 1)
    close(output, want)
    close(last, h)
    leaves = [x, state, *layer.parameters()]
    for got, expected in zip(*(torch.autograd.grad(each.sin().sum(), leaves) for each in (output, want))):
        close(got, expected)


@pytest.mark.parametrize("make", [lambda: ft.LSTM(6, 6), lambda: ft.SLSTM(6, 6, num_heads=2), lambda: ft.RGLRU(6)])
def test_modules_in_bfloat16_and_autocast(device, make):
    numbers = Numbers(device)
    layer = make().to(numbers.device)
    x = numbers.uniform(5, 3, 6, dtype=torch.float32)
    want = layer(x)[0]
    with torch.autocast(device, dtype=torch.bfloat16):
        got = layer(x)[0]
    close(got, want, torch.bfloat16)
    got.float().sum().backward()
    assert all(p.grad is not None and p.grad.dtype == p.dtype for p in layer.parameters())
    low = layer.to(torch.bfloat16)(x.to(torch.bfloat16))[0]
    assert low.dtype == torch.bfloat16
    close(low, want)


def test_modules_train(device):
    """An Elman network learns a delay of one step."""
    numbers = Numbers(device)
    torch.manual_seed(0)
    layer, head = ft.Elman(1, 16).to(numbers.device), nn.Linear(16, 1).to(numbers.device)
    optimizer = torch.optim.Adam([*layer.parameters(), *head.parameters()], lr=0.02)
    losses = []
    for _ in range(60):
        x = numbers.uniform(12, 8, 1, dtype=torch.float32)
        loss = (head(layer(x)[0])[1:] - x[:-1]).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.1 * losses[0]


def test_state_dicts_are_loaded(device):
    numbers = Numbers(device)
    one, other = (ft.SLSTM(4, 6, 2, num_heads=2).to(numbers.device) for _ in range(2))
    other.load_state_dict(one.state_dict())
    x = numbers.uniform(5, 3, 4, dtype=torch.float32)
    assert torch.equal(one(x)[0], other(x)[0])


STATES = {
    "of a deeper net": ((4, 5, 3), None),
    "of a shallower net": ((1, 5, 3), None),
    "of another batch": ((2, 1, 3), None),
    "of other units": ((2, 5, 4), None),
    "without a batch": ((2, 3), None),
    "for a batch": ((2, 5, 3), (7, 3)),
}


@pytest.mark.parametrize("kind", [ft.LSTM, ft.GRU])
@pytest.mark.parametrize("case", STATES)
def test_initial_states_of_other_shapes_are_refused(device, kind, case):
    shape, unbatched = STATES[case]
    numbers = Numbers(device)
    layer = kind(3, 3, num_layers=2, device=numbers.device)
    x, state = (numbers.uniform(*size, dtype=torch.float32) for size in (unbatched or (7, 5, 3), shape))
    accepted = (2, 3) if unbatched else (2, 5, 3)
    with pytest.raises(flashscan.FlashscanValueError) as caught:
        layer(x, (state, state) if kind is ft.LSTM else state)
    assert f"hx has shape {shape}; accepted is {accepted}" in str(caught.value)
