# SPDX-License-Identifier: Apache-2.0
"""Callers of torch.nn.LSTM, GRU and RNN bring these along: their parameters, PackedSequence, lengths, and PyTorch's
compilers and transforms."""

from __future__ import annotations

import flashscan
import flashscan.torch as ft
import pytest
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from torch_support import DEVICES, Numbers, close, needs_compile, torch

pytestmark = pytest.mark.parametrize("device", DEVICES)

F64 = torch.float64
KINDS = {
    "lstm": (nn.LSTM, ft.LSTM, {}),
    "gru": (nn.GRU, ft.GRU, {}),
    "tanh": (nn.RNN, ft.Elman, {}),
    "relu": (nn.RNN, ft.Elman, {"nonlinearity": "relu"}),
    "projection": (nn.LSTM, ft.LSTM, {"proj_size": 3}),
    "no bias": (nn.GRU, ft.GRU, {"bias": False}),
}
LENGTHS = [4, 9, 1, 6]


def pair(device, name, **more):
    """A layer of torch.nn and ours with its parameters, of two layers in both directions."""
    numbers = Numbers(device)
    torch.manual_seed(3)
    theirs, ours, options = KINDS[name]
    options = {**options, "num_layers": 2, "bidirectional": True, **more}
    theirs, ours = (kind(5, 7, dtype=F64, **options).to(numbers.device) for kind in (theirs, ours))
    ours.load_state_dict(theirs.state_dict())
    return numbers, theirs, ours


def states_of(numbers, layer, rows):
    widths = [getattr(layer, "proj_size", 0) or 7] + ([7] if isinstance(layer, nn.LSTM) else [])
    states = tuple(numbers.uniform(4, rows, width) for width in widths)
    return states if len(states) > 1 else states[0]


def listed(states):
    return list(states) if isinstance(states, tuple) else [states]


@pytest.mark.parametrize("name", KINDS)
def test_state_dicts_go_both_ways(device, name):
    numbers, theirs, ours = pair(device, name)
    x = numbers.uniform(6, 4, 5)
    hx = states_of(numbers, theirs, 4)
    back = ours.to_torch()
    assert type(back) is type(theirs)
    fresh = type(theirs)(5, 7, dtype=F64, num_layers=2, bidirectional=True, **KINDS[name][2]).to(numbers.device)
    fresh.load_state_dict(back.state_dict())
    again = type(ours)(5, 7, dtype=F64, num_layers=2, bidirectional=True, **KINDS[name][2]).to(numbers.device)
    again.load_state_dict(ours.state_dict())
    want, last = theirs(x, hx)
    for layer in (ours, back, fresh, again):
        output, final = layer(x, hx=hx)
        close(output, want)
        for got, expected in zip(listed(final), listed(last)):
            close(got, expected)
    before = {key: value.clone() for key, value in ours.state_dict().items()}
    assert ours.flatten_parameters() is None
    assert all(torch.equal(value, before[key]) for key, value in ours.state_dict().items())


def test_within_a_module_that_is_loaded(device):
    numbers, theirs, _ = pair(device, "lstm")
    net = nn.ModuleDict({"rnn": ft.LSTM(5, 7, 2, bidirectional=True, dtype=F64)}).to(numbers.device)
    net.load_state_dict({f"rnn.{name}": value for name, value in theirs.state_dict().items()})
    x = numbers.uniform(3, 2, 5)
    close(net["rnn"](x)[0], theirs(x)[0])
    with pytest.raises(RuntimeError, match="(?s)Missing key.*rnn.bias_l0.*Unexpected key.*rnn.bias_ih_l0"):
        broken = {f"rnn.{name}": value for name, value in theirs.state_dict().items() if name != "bias_hh_l0"}
        net.load_state_dict(broken)


@pytest.mark.parametrize("enforce_sorted", [False, True])
@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("name", KINDS)
def test_packed_sequences_are_those_of_torch(device, name, batch_first, enforce_sorted):
    numbers, theirs, ours = pair(device, name, batch_first=batch_first)
    lengths = sorted(LENGTHS, reverse=True) if enforce_sorted else LENGTHS
    x = numbers.uniform(9, 4, 5, grad=True)
    for hx in (None, states_of(numbers, theirs, 4)):
        results = []
        for layer in (theirs, ours):
            packed = pack_padded_sequence(x, lengths, enforce_sorted=enforce_sorted)
            output, last = layer(packed, hx)
            assert torch.equal(output.batch_sizes, packed.batch_sizes)
            padded, sizes = pad_packed_sequence(output)
            assert sizes.tolist() == lengths
            loss = padded.sin().sum() + sum(each.cos().sum() for each in listed(last))
            results.append([padded, *listed(last), *torch.autograd.grad(loss, [x, layer.weight_ih_l0])])
        for want, got in zip(*results):
            close(got, want)


@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("name", KINDS)
def test_lengths_are_packed_sequences(device, name, batch_first):
    numbers, _, ours = pair(device, name, batch_first=batch_first)
    theirs = ours.to_torch()
    x, hx = numbers.uniform(9, 4, 5), states_of(numbers, theirs, 4)
    packed = pack_padded_sequence(x, LENGTHS, enforce_sorted=False)
    want, last = theirs(packed, hx)
    want = pad_packed_sequence(want, batch_first)[0]
    step = torch.arange(9, device=numbers.device)[:, None, None]
    spoiled = torch.where(step < torch.tensor(LENGTHS, device=numbers.device)[:, None], x, float("nan"))
    for lengths in (LENGTHS, torch.tensor(LENGTHS), torch.tensor(LENGTHS, device=numbers.device, dtype=torch.int32)):
        output, final = ours(spoiled.transpose(0, 1) if batch_first else spoiled, hx, lengths=lengths)
        close(output, want)
        for got, expected in zip(listed(final), listed(last)):
            close(got, expected)


@pytest.mark.parametrize("name", ["lstm", "projection"])
def test_sequences_without_steps_keep_their_states(device, name):
    numbers, theirs, ours = pair(device, name)
    hx = states_of(numbers, theirs, 3)
    output, last = ours(numbers.uniform(4, 3, 5), hx, lengths=[0, 4, 0])
    assert not output[:, [0, 2]].any() and output[:, 1].all()
    for got, want in zip(last, hx):
        # Those of the second layer too: a layer without steps changes nothing.
        close(got[:, [0, 2]], want[:, [0, 2]])
    for got, want in zip(ours(numbers.uniform(0, 3, 5), hx)[1], hx):
        close(got, want)


def test_resets_of_padded_sequences(device):
    numbers = Numbers(device)
    layer = ft.LSTM(5, 7, batch_first=True, dtype=F64).to(numbers.device)
    x = numbers.uniform(2, 6, 5)
    reset = torch.zeros(2, 6, dtype=torch.bool, device=numbers.device)
    reset[1, 2] = True
    output, _ = layer(x, lengths=[3, 6], reset=reset)
    close(output[0, :3], layer(x[:1, :3])[0][0])
    close(output[1], layer(x[1:], reset=reset[1:])[0][0])


@pytest.mark.filterwarnings("ignore")  # PyTorch's own while it compiles
@needs_compile
@pytest.mark.parametrize("batched", [True, False])
@pytest.mark.parametrize("name", KINDS)
def test_compile_keeps_the_graph(device, name, batched):
    numbers, _, ours = pair(device, name)
    rows = (4,) if batched else ()
    torch._dynamo.reset()
    compiled = torch.compile(ours, fullgraph=True, dynamic=True, backend="aot_eager")
    for steps in (3, 6):
        x = numbers.uniform(steps, *rows, 5, grad=True)
        results = []
        for layer in (ours, compiled):
            output, last = layer(x)
            loss = output.sin().sum() + sum(each.cos().sum() for each in listed(last))
            results.append([output, *listed(last), *torch.autograd.grad(loss, [x, *ours.parameters()])])
        for want, got in zip(*results):
            close(got, want)


@pytest.mark.filterwarnings("ignore")
@needs_compile
@pytest.mark.parametrize("name", KINDS)
def test_export_with_any_number_of_steps(device, name):
    numbers, theirs, ours = pair(device, name, batch_first=True)
    hx = states_of(numbers, theirs, 2)
    time = torch.export.Dim("time", min=2)
    shapes = {"input": {1: time}, "hx": ({},) * len(hx) if isinstance(hx, tuple) else {}}
    program = torch.export.export(ours, (numbers.uniform(2, 5, 5), hx), dynamic_shapes=shapes).module()
    for steps in (2, 9):
        x = numbers.uniform(2, steps, 5)
        (got, last), (want, expected) = program(x, hx), ours(x, hx)
        close(got, want)
        for one, other in zip(listed(last), listed(expected)):
            close(one, other)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.skipif(not hasattr(torch, "func"), reason="torch.func needs 2.0")
@pytest.mark.parametrize("name", KINDS)
def test_gradients_of_each_sample(device, name):
    from torch.func import functional_call, grad, vmap

    numbers, _, ours = pair(device, name, num_layers=1)
    x, values = numbers.uniform(3, 6, 5), {key: value.detach() for key, value in ours.named_parameters()}
    loss = grad(lambda values, x: functional_call(ours, values, (x,))[0].sin().sum())
    together = vmap(loss, (None, 0))(values, x)
    for number in range(3):
        for key, want in loss(values, x[number]).items():
            close(together[key][number], want)


def test_mistakes_are_named(device):
    numbers = Numbers(device)
    layer = ft.LSTM(5, 7).to(numbers.device)
    x = numbers.uniform(9, 2, 5, dtype=torch.float32)
    packed = pack_padded_sequence(x, [9, 3])
    value, kind = flashscan.FlashscanValueError, flashscan.FlashscanTypeError
    for error, call, message in (
        (value, lambda: layer(x, lengths=[3]), r"lengths is torch.int64 of shape \(1,\); .* integers of shape \(2,\)"),
        (value, lambda: layer(x, lengths=[3, 10]), "lengths has 10; accepted are 0 to 9"),
        (value, lambda: layer(x, lengths=[-1, 9]), "lengths has -1; accepted are 0 to 9"),
        (kind, lambda: layer(x, lengths=[0.5, 1.0]), r"lengths is \[0.5, 1.0\]; accepted are"),
        (value, lambda: layer(x, lengths=torch.ones(2)), "lengths is torch.float32"),
        (kind, lambda: layer(x, lengths="all"), "lengths is 'all'"),
        (value, lambda: layer(x[:, 0], lengths=[9]), r"input has shape \(9, 5\); accepted with lengths are 3 axes"),
        (value, lambda: layer(packed, lengths=[9, 3]), "lengths is given; accepted with a PackedSequence is None"),
        (value, lambda: layer(packed, reset=x[..., 0].T > 0), "reset is given; accepted with a PackedSequence is None"),
        (value, lambda: layer(x[:, :1], lengths=[9], seq_offsets=[0, 9]), "lengths is given; accepted with seq_offsets"),
        (value, lambda: layer(x, lengths=[9, 3], reset=x[..., 0] > 0), r"reset has shape \(9, 2\); accepted is \(2, 9\)"),
        (value, lambda: layer(pack_padded_sequence(x[..., :4], [9, 3])), "input has 4 features; accepted are 5"),
        (value, lambda: ft.LSTM(5, 7, proj_size=7), "proj_size is 7; accepted are 0, .* less than hidden_size, 7"),
        (value, lambda: ft.LSTM(5, 8, num_heads=2, proj_size=3), "proj_size is 3; accepted are 0, and with one head"),
        (value, lambda: ft.LSTM(5, 8, num_heads=2).to_torch(), "num_heads is 2; accepted is 1"),
        (value, lambda: ft.SLSTM(5, 8).to_torch(), "cell is slstm; accepted are those of torch.nn: lstm, gru"),
    ):
        with pytest.raises(error, match=message):
            call()
    projected = ft.LSTM(5, 7, proj_size=3).to(numbers.device)
    with pytest.raises(value, match="reset is given; accepted with proj_size is None"):
        projected(x, reset=x[..., 0].T > 0)
