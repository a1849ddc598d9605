# SPDX-License-Identifier: Apache-2.0
"""RGLRU with weights in the layouts of recurrentgemma and of Hugging Face, against the equations that both publish."""

from __future__ import annotations

import flashscan
import flashscan.torch as ft
import pytest
from torch_support import DEVICES, Numbers, close, torch

pytestmark = pytest.mark.parametrize("device", DEVICES)

HEADS, DIM = 3, 4
NAMES = {
    "recurrentgemma": ("a_param", "a_gate.w", "a_gate.b", "input_gate.w", "input_gate.b"),
    "transformers": (
        "recurrent_param",
        "recurrent_gate_weight",
        "recurrent_gate_bias",
        "input_gate_weight",
        "input_gate_bias",
    ),
}
each_layout = pytest.mark.parametrize("layout", NAMES)


def weights(numbers, layout):
    shapes = ((HEADS * DIM,), (HEADS, DIM, DIM), (HEADS, DIM), (HEADS, DIM, DIM), (HEADS, DIM))
    values = [numbers.uniform(*shape) for shape in shapes]
    values[0] = values[0] - 4  # softplus(p) near 0.02: what is trained keeps most of the state
    return dict(zip(NAMES[layout], values))


class BoundedRoot(torch.autograd.Function):
    """A square root whose derivative is at most 1000."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.sqrt(x)

    @staticmethod
    def backward(ctx, gradient):
        return gradient / torch.sqrt(torch.clip(4 * ctx.saved_tensors[0], min=1e-6))


def published(values, x, positions, cache):
    """One step after the other, in float64: gates by blocks, h = a h + m (gate x) with a = 0 and m = 1 where the position
    is 0."""
    p, a_weight, a_bias, x_weight, x_bias = values
    heads = x.reshape(*x.shape[:2], HEADS, DIM)
    gate_a, gate_x = (
        torch.sigmoid(torch.einsum("bthi,hij->bthj", heads, weight) + bias).flatten(2)
        for weight, bias in ((a_weight, a_bias), (x_weight, x_bias))
    )
    log_a = -8 * gate_a * torch.nn.functional.softplus(p)
    starts = (positions == 0)[..., None]
    m = torch.where(starts, torch.ones_like(log_a), BoundedRoot.apply(1 - torch.exp(2 * log_a)))
    a = torch.exp(log_a) * ~starts
    h, steps = torch.zeros_like(x[:, 0]) if cache is None else cache, []
    for t in range(x.shape[1]):
        h = a[:, t] * h + m[:, t] * (gate_x[:, t] * x[:, t])
        steps.append(h)
    return torch.stack(steps, 1), h


@pytest.mark.parametrize("start", ["fresh", "documents", "cache", "late"])
@each_layout
def test_the_published_equations(device, layout, start):
    numbers = Numbers(device)
    made = weights(numbers, layout)
    layer = ft.RGLRU.from_recurrentgemma({f"block.{name}": value for name, value in made.items()}, "block.")
    assert layer.gate_weight.dtype == torch.float64 and layer.num_heads == HEADS
    x = numbers.uniform(2, 9, HEADS * DIM, grad=True)
    positions = torch.arange(9, device=numbers.device).repeat(2, 1)
    cache = numbers.uniform(2, HEADS * DIM, grad=True) if start == "cache" else None
    if start == "documents":
        positions[1, 4:] -= 4
    if start in ("cache", "late"):
        positions += 7
    leaves = {name: value.clone().requires_grad_() for name, value in made.items()}
    want, last = published(list(leaves.values()), x, positions, cache)
    state = x.new_zeros(2, HEADS * DIM) if start == "late" else cache
    got, final = layer(x, state, reset=positions == 0)
    close(got, want)
    close(final, last)
    if start == "fresh":
        close(layer(x)[0], want)
    inputs = [x] if cache is None else [x, cache]
    expected = torch.autograd.grad(want.sin().sum() + last.sum(), [*leaves.values(), *inputs])
    found = torch.autograd.grad(got.sin().sum() + final.sum(), [layer.Lambda, layer.gate_weight, layer.gate_bias, *inputs])
    p, a_weight, a_bias, x_weight, x_bias, *others = expected
    theirs = [-p, torch.stack([a_weight, x_weight]).transpose(-1, -2), torch.stack([a_bias, x_bias]), *others]
    for one, other in zip(found, theirs):
        close(one, other)
    steps, state = [], state
    for t in range(9):
        output, state = layer.step(x[:, t], state, reset=positions[:, t] == 0)
        steps.append(output)
    close(torch.stack(steps, 1), want)


@each_layout
def test_load_state_dict_takes_their_names(device, layout):
    numbers = Numbers(device)
    made = weights(numbers, layout)
    layer = ft.RGLRU(HEADS * DIM, HEADS, dtype=torch.float64).to(numbers.device)
    block = torch.nn.ModuleDict({"rg_lru": layer})
    given = {f"rg_lru.{name}": value for name, value in made.items()}
    names = list(given)
    block.load_state_dict(given)
    assert list(given) == names  # the caller's dictionary stays as it was
    x = numbers.uniform(2, 5, HEADS * DIM)
    close(layer(x)[0], ft.RGLRU.from_recurrentgemma(made)(x)[0])
    again = ft.RGLRU.from_recurrentgemma(made)
    again.load_state_dict(layer.state_dict())
    assert torch.equal(again(x)[0], layer(x)[0])


def test_what_is_missing_is_named(device):
    numbers = Numbers(device)
    made = weights(numbers, "transformers")
    del made["input_gate_bias"]
    with pytest.raises(flashscan.FlashscanValueError, match="state_dict has no input_gate_bias; accepted"):
        ft.RGLRU.from_recurrentgemma(made)
    with pytest.raises(RuntimeError, match="input_gate_bias|Missing"):
        ft.RGLRU(HEADS * DIM, HEADS).load_state_dict(made)
    with pytest.raises(flashscan.FlashscanValueError, match="state_dict has no x.a_param, x.a_gate.w"):
        ft.RGLRU.from_recurrentgemma(weights(numbers, "recurrentgemma"), "x.")
    with pytest.raises(flashscan.FlashscanTypeError, match="state_dict is a list"):
        ft.RGLRU.from_recurrentgemma([])
