# SPDX-License-Identifier: Apache-2.0
"""flashscan.torch's cells beside torch.nn's."""

from __future__ import annotations

import inspect

import flashscan
import flashscan.torch as ft
import pytest
from torch import nn
from torch_support import DEVICES, Numbers, close, needs_compile, torch

pytestmark = pytest.mark.parametrize("device", DEVICES)

KINDS = {
    "lstm": (nn.LSTMCell, ft.LSTMCell, {}),
    "gru": (nn.GRUCell, ft.GRUCell, {}),
    "tanh": (nn.RNNCell, ft.RNNCell, {}),
    "relu": (nn.RNNCell, ft.RNNCell, {"nonlinearity": "relu"}),
    "no bias": (nn.GRUCell, ft.GRUCell, {"bias": False}),
    "no bias, lstm": (nn.LSTMCell, ft.LSTMCell, {"bias": False}),
}


def pair(device, name, dtype=torch.float64):
    """A cell of torch.nn and ours with its parameters."""
    numbers = Numbers(device)
    torch.manual_seed(3)
    theirs, ours, options = KINDS[name]
    theirs, ours = (kind(5, 7, device=numbers.device, dtype=dtype, **options) for kind in (theirs, ours))
    ours.load_state_dict(theirs.state_dict())
    return numbers, theirs, ours


def states_of(numbers, cell, *rows, dtype=torch.float64):
    states = tuple(numbers.uniform(*rows, 7, dtype=dtype, grad=True) for _ in range(1 + isinstance(cell, nn.LSTMCell)))
    return states if len(states) > 1 else states[0]


def listed(states):
    return list(states) if isinstance(states, tuple) else [states]


def loss(states):
    return sum(each.sin().sum() for each in listed(states))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("rows", [(), (4,), (1,), (0,)])
@pytest.mark.parametrize("name", KINDS)
def test_results_and_gradients_are_those_of_torch(device, name, rows, dtype):
    numbers, theirs, ours = pair(device, name, dtype)
    x, hx = numbers.uniform(*rows, 5, dtype=dtype, grad=True), states_of(numbers, theirs, *rows, dtype=dtype)
    for given in (None, hx):
        results = []
        for cell in (theirs, ours):
            after = cell(x, given)
            assert isinstance(after, tuple) == isinstance(theirs, nn.LSTMCell)
            assert all(each.shape == (*rows, 7) and each.dtype == dtype for each in listed(after))
            leaves = [x, *(listed(hx) if given is not None else []), *cell.parameters()]
            # Without a state before the step nothing depends on weight_hh.
            gradients = torch.autograd.grad(loss(after), leaves, allow_unused=True)
            gradients = [torch.zeros_like(leaf) if each is None else each for each, leaf in zip(gradients, leaves)]
            results.append([*listed(after), *gradients])
        assert len(results[0]) == len(results[1])
        for want, got in zip(*results):
            close(got, want)


@pytest.mark.parametrize("name", KINDS)
def test_parameters_and_arguments_are_those_of_torch(device, name):
    numbers, theirs, ours = pair(device, name)
    shapes = [{key: tuple(value.shape) for key, value in cell.state_dict().items()} for cell in (theirs, ours)]
    assert shapes[0] == shapes[1] and shapes[0]["weight_hh"][1] == 7
    names = [list(inspect.signature(type(cell)).parameters) for cell in (theirs, ours)]
    assert names[0] == names[1]
    assert repr(ours) == repr(theirs)
    fresh = type(theirs)(5, 7, dtype=torch.float64, **KINDS[name][2]).to(numbers.device)
    fresh.load_state_dict(ours.state_dict())
    x = numbers.uniform(4, 5)
    close(listed(ours(x))[0], listed(fresh(x))[0])
    torch.manual_seed(9)
    theirs.reset_parameters()
    torch.manual_seed(9)
    ours.reset_parameters()
    for got, want in zip(ours.parameters(), theirs.parameters()):
        assert torch.equal(got, want)


@pytest.mark.parametrize("name", ["lstm", "gru", "relu"])
def test_steps_make_the_layer(device, name):
    numbers, theirs, ours = pair(device, name)
    kind = {"lstm": ft.LSTM, "gru": ft.GRU, "relu": ft.Elman}[name]
    layer = kind(5, 7, dtype=torch.float64, **KINDS[name][2]).to(numbers.device)
    layer.load_state_dict({key + "_l0": value for key, value in ours.state_dict().items()})
    x, state, steps = numbers.uniform(6, 4, 5), None, []
    for each in x:
        state = ours(each, state)
        steps.append(listed(state)[0])
    output, last = layer(x)
    close(torch.stack(steps), output)
    for got, want in zip(listed(state), listed(last)):
        close(got, want[0])


@pytest.mark.parametrize("name", ["lstm", "gru", "tanh"])
def test_16_bits_and_autocast(device, name):
    numbers, theirs, ours = pair(device, name, torch.bfloat16)
    x = numbers.uniform(4, 5, dtype=torch.bfloat16)
    after = listed(ours(x, ours(x)))
    want = theirs.double()
    want = listed(want(x.double(), want(x.double())))
    assert all(each.dtype == torch.bfloat16 for each in after)
    for got, expected in zip(after, want):
        close(got, expected)
    ours = ours.float()
    with torch.autocast(numbers.device.type, dtype=torch.bfloat16):
        after = listed(ours(x.float(), ours(x.float())))
    assert all(each.dtype == torch.bfloat16 for each in after)
    for got, expected in zip(after, want):
        close(got, expected)


@pytest.mark.filterwarnings("ignore")  # PyTorch's own while it compiles
@needs_compile
@pytest.mark.parametrize("name", ["lstm", "gru", "relu"])
def test_compile_keeps_the_graph(device, name):
    numbers, _, ours = pair(device, name)
    x, hx = numbers.uniform(4, 5, grad=True), states_of(numbers, KINDS[name][0](1, 1), 4)
    body = lambda x, hx: ours(x.sin(), ours(x, hx))
    torch._dynamo.reset()
    leaves = [x, *listed(hx), *ours.parameters()]
    results = []
    for function in (body, torch.compile(body, fullgraph=True, backend="aot_eager")):
        after = function(x, hx)
        results.append([*listed(after), *torch.autograd.grad(loss(after), leaves)])
    for want, got in zip(*results):
        close(got, want)


def test_mistakes_are_named(device):
    numbers = Numbers(device)
    lstm, gru = ft.LSTMCell(5, 7).to(numbers.device), ft.GRUCell(5, 7).to(numbers.device)
    x, h = (numbers.uniform(4, width, dtype=torch.float32) for width in (5, 7))
    value, kind = flashscan.FlashscanValueError, flashscan.FlashscanTypeError
    for error, call, message in (
        (value, lambda: lstm(x[:, :3]), r"input has shape \(4, 3\); accepted are 1 or 2 axes, the last of 5"),
        (value, lambda: lstm(x[None]), r"input has shape \(1, 4, 5\); accepted are 1 or 2 axes"),
        (kind, lambda: gru([1.0]), "input is a list; accepted are tensors"),
        (value, lambda: gru(x, h[:1]), r"hx has shape \(1, 7\); accepted is \(4, 7\)"),
        (value, lambda: gru(x[0], h[:1]), r"hx has shape \(1, 7\); accepted is \(7,\)"),
        (value, lambda: lstm(x, (h, h[:, :5])), r"hx has shape \(4, 5\); accepted is \(4, 7\)"),
        (kind, lambda: lstm(x, h), "hx is a Tensor; accepted are a tuple of two tensors, h and c, or None"),
        (kind, lambda: lstm(x, (h,)), "hx is a tuple; accepted are a tuple of two tensors"),
        (kind, lambda: gru(x, (h, h)), "hx is a tuple; accepted are a tensor or None"),
        (value, lambda: ft.LSTMCell(0, 7), "input_size is 0; accepted are 1"),
        (value, lambda: ft.RNNCell(5, 7, nonlinearity="gelu"), "nonlinearity is 'gelu'; accepted are"),
        (kind, lambda: ft.GRUCell(5, 7, bias="no"), "bias is 'no'"),
    ):
        with pytest.raises(error, match=message):
            call()
