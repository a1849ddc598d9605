# SPDX-License-Identifier: Apache-2.0
"""The layers around gated_scan: by their published equations, step by step, with states, packed sequences and resets."""

from __future__ import annotations

import flashscan
import flashscan.torch as ft
import pytest
from torch_support import DEVICES, Numbers, close, needs_compile, torch

pytestmark = pytest.mark.parametrize("device", DEVICES)

F64 = torch.float64
WIDTH = 6
LAYERS = {
    "mingru": lambda **options: ft.MinGRU(WIDTH, 4, **options),
    "minlstm": lambda **options: ft.MinLSTM(WIDTH, 4, **options),
    "hgrn": lambda **options: ft.HGRN(WIDTH, 4, lower_bound=0.3, **options),
    "rglru": lambda **options: ft.RGLRU(WIDTH, 2, **options),
    "qrnn": lambda **options: ft.QRNN(WIDTH, 4, **options),
    "qrnn, one step": lambda **options: ft.QRNN(WIDTH, 4, window=1, **options),
    "qrnn, three steps": lambda **options: ft.QRNN(WIDTH, 4, window=3, **options),
}
each_layer = pytest.mark.parametrize("kind", LAYERS)


def make(kind, device, dtype=F64):
    numbers = Numbers(device)
    torch.manual_seed(1)
    layer = LAYERS[kind](dtype=dtype).to(numbers.device)
    if kind == "rglru":
        layer.gate_bias.data.uniform_(-1, 1)
    return layer, numbers


def positive(v):
    return torch.where(v >= 0, v + 0.5, torch.sigmoid(v))


def one_step(kind, layer, seen, h, starts):
    """h and the output after one step, by the equations; ``seen`` are the inputs from the newest on."""
    sigmoid = torch.sigmoid
    if kind == "rglru":
        x = seen[0]
        r, i = (
            sigmoid(x @ torch.block_diag(*weight).T + bias.flatten())
            for weight, bias in zip(layer.gate_weight, layer.gate_bias)
        )
        a = sigmoid(layer.Lambda) ** (layer.c * r)
        h = torch.where(starts, i * x, a * h + torch.sqrt(1 - a**2) * (i * x))
        return h, h
    products = torch.cat(seen, -1) @ layer.projection.weight.T + layer.projection.bias
    if kind == "mingru":
        z, c = products.chunk(2, -1)
        h = (1 - sigmoid(z)) * h + sigmoid(z) * positive(c)
    elif kind == "minlstm":
        f, i, c = products.chunk(3, -1)
        h = (sigmoid(f) * h + sigmoid(i) * positive(c)) / (sigmoid(f) + sigmoid(i))
    elif kind == "hgrn":
        f, c = products.chunk(2, -1)
        f = 0.3 + 0.7 * sigmoid(f)
        h = f * h + (1 - f) * c * sigmoid(c)
    else:
        f, o, z = products.chunk(3, -1)
        h = sigmoid(f) * h + (1 - sigmoid(f)) * torch.tanh(z)
        return h, sigmoid(o) * h
    return h, h


def by_formula(kind, layer, x, reset=None):
    """All outputs and the last h, from no state."""
    window = getattr(layer, "window", 1)
    h = x.new_zeros(x.shape[0], WIDTH if kind == "rglru" else 4)
    past, outputs = [torch.zeros_like(x[:, 0])] * (window - 1), []
    for t in range(x.shape[1]):
        starts = torch.full((x.shape[0], 1), t == 0, device=x.device)
        if reset is not None:
            starts = starts | reset[:, t, None]
            h, past = h.masked_fill(starts, 0), [each.masked_fill(starts, 0) for each in past]
        h, output = one_step(kind, layer, [x[:, t], *past], h, starts)
        past = [x[:, t], *past][: window - 1]
        outputs.append(output)
    return torch.stack(outputs, 1), h


def h_of(state):
    return state[0] if isinstance(state, tuple) else state


@pytest.mark.parametrize("with_resets", [False, True])
@each_layer
def test_by_the_published_equations(device, kind, with_resets):
    layer, numbers = make(kind, device)
    x = numbers.uniform(2, 7, WIDTH, low=-2, high=2, grad=True)
    reset = numbers.uniform(2, 7) > 0.4 if with_resets else None
    output, state = layer(x, reset=reset)
    want, last = by_formula(kind, layer, x, reset)
    close(output, want)
    close(h_of(state), last)
    leaves = [x, *layer.parameters()]
    for got, expected in zip(*(torch.autograd.grad(each.sin().sum(), leaves) for each in (output, want))):
        close(got, expected)


@each_layer
def test_gradients_of_the_state_by_differences(device, kind):
    layer, numbers = make(kind, device)
    x = numbers.uniform(2, 3, WIDTH, grad=True)
    _, state = layer(numbers.uniform(2, 4, WIDTH))
    states = [each.detach().requires_grad_() for each in (state if isinstance(state, tuple) else (state,))]

    def run(x, *states):
        output, state = layer(x, states[0] if len(states) == 1 else states)
        return output, *(state if isinstance(state, tuple) else (state,))

    assert torch.autograd.gradcheck(run, (x, *states))


@each_layer
def test_a_sequence_cut_in_two_and_stepped(device, kind):
    layer, numbers = make(kind, device)
    x = numbers.uniform(3, 9, WIDTH)
    whole, last = layer(x)
    first, state = layer(x[:, :4])
    second, final = layer(x[:, 4:], state)
    close(torch.cat([first, second], 1), whole)
    reset = torch.zeros(3, 9, dtype=torch.bool, device=numbers.device)
    reset[1, 5] = True
    restarted, _ = layer(x, reset=reset)
    for resets, want in ((None, whole), (reset, restarted)):
        state, steps = None, []
        for t in range(9):
            now = None if resets is None else resets[:, t]
            output, state = layer.step(x[:, t], state, reset=now)
            steps.append(output)
        close(torch.stack(steps, 1), want)
        if resets is None:
            close(h_of(state), h_of(last))
    close(h_of(final), h_of(last))
    if isinstance(last, tuple):
        close(final[1], last[1])


@pytest.mark.parametrize("reverse", [False, True])
@each_layer
def test_packed_sequences(device, kind, reverse):
    layer, numbers = make(kind, device)
    x = numbers.uniform(1, 9, WIDTH)
    spans = [(0, 4), (4, 4), (4, 5), (5, 9)]
    offsets = torch.tensor([0, 4, 4, 5, 9], device=numbers.device)
    packed, states = layer(x, seq_offsets=offsets, reverse=reverse)
    again, later = layer(x, states, seq_offsets=[0, 4, 4, 5, 9], reverse=reverse)
    for number, (first, end) in enumerate(spans):
        if first == end:
            continue
        output, last = layer(x[:, first:end], reverse=reverse)
        close(packed[:, first:end], output)
        close(h_of(states)[number : number + 1], h_of(last))
        output, last = layer(x[:, first:end], last, reverse=reverse)
        close(again[:, first:end], output)
        close(h_of(later)[number : number + 1], h_of(last))
        if isinstance(last, tuple):
            close(later[1][number : number + 1], last[1])
    if not reverse:
        reset = torch.zeros(1, 9, dtype=torch.uint8, device=numbers.device)
        reset[0, 4] = reset[0, 5] = 1
        close(layer(x, reset=reset)[0], packed)


@each_layer
def test_no_steps_pass_the_state_through(device, kind):
    layer, numbers = make(kind, device)
    _, state = layer(numbers.uniform(2, 5, WIDTH))
    output, same = layer(numbers.uniform(2, 0, WIDTH), state)
    assert output.shape[:2] == (2, 0)
    for one, other in zip(*((each if isinstance(each, tuple) else (each,)) for each in (same, state))):
        assert torch.equal(one, other)


@each_layer
def test_state_dicts_bfloat16_and_autocast(device, kind):
    layer, numbers = make(kind, device, torch.float32)
    other = LAYERS[kind](dtype=torch.float32).to(numbers.device)
    other.load_state_dict(layer.state_dict())
    x = numbers.uniform(3, 5, WIDTH, dtype=torch.float32)
    want, _ = layer(x)
    assert torch.equal(other(x)[0], want)
    with torch.autocast(device, dtype=torch.bfloat16):
        got, _ = layer(x)
    close(got, want, torch.bfloat16)
    got.float().sum().backward()
    assert all(p.grad is not None and p.grad.dtype == p.dtype for p in layer.parameters())
    low, state = layer.to(torch.bfloat16)(x.to(torch.bfloat16))
    assert low.dtype == torch.bfloat16 and h_of(state).dtype == torch.float32
    close(low, want)
    assert layer.step(x[:, 0].to(torch.bfloat16), state)[0].dtype == torch.bfloat16


@pytest.mark.filterwarnings("ignore")  # PyTorch's own while it compiles
@needs_compile
@each_layer
def test_compile_keeps_the_graph(device, kind):
    layer, numbers = make(kind, device)
    x = numbers.uniform(2, 5, WIDTH, grad=True)
    want, _ = layer(x)
    expected = torch.autograd.grad(want.sum(), [x, *layer.parameters()])
    torch._dynamo.reset()
    got, _ = torch.compile(lambda x: layer(x), fullgraph=True, backend="aot_eager")(x)
    close(got, want)
    for one, other in zip(torch.autograd.grad(got.sum(), [x, *layer.parameters()]), expected):
        close(one, other)


def test_learned_lower_bounds(device):
    layer, numbers = make("hgrn", device)
    x, bound = numbers.uniform(2, 5, WIDTH), numbers.uniform(4, low=0.1, high=0.9, grad=True)
    assert torch.autograd.gradcheck(lambda bound: layer(x, lower_bound=bound)[0], bound)
    close(layer(x, lower_bound=torch.full_like(bound, 0.3))[0], layer(x)[0])


def test_mistakes_are_named(device):
    Numbers(device)
    layer = ft.QRNN(3, 4).to(device)
    x = torch.zeros(2, 5, 3, device=device)
    for words, call in {
        r"input has shape \(2, 3\).*3 axes": lambda: layer(x[:, 0]),
        r"input has shape \(2, 5, 3\); accepted are 2 axes": lambda: layer.step(x),
        "state is a Tensor; accepted is a pair of tensors": lambda: layer(x, x[:, 0]),
        r"state's inputs have shape \(2, 3\); accepted is \(2, 1, 3\)": lambda: layer(x, (x[:, 0], x[:, 0])),
        "window is 0": lambda: ft.QRNN(3, 4, window=0),
        "lower_bound is 1.5": lambda: ft.HGRN(3, 4, lower_bound=1.5),
        "hidden_size is 0": lambda: ft.MinGRU(3, 0),
        "sqrt_slope_limit is -1": lambda: ft.RGLRU(4, sqrt_slope_limit=-1),
        "c is 0": lambda: ft.RGLRU(4, c=0),
    }.items():
        with pytest.raises(flashscan.FlashscanError, match=words):
            call()
