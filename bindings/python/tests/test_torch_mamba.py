# SPDX-License-Identifier: Apache-2.0
"""Mamba's block: by its published equations, step by step, with states, packed sequences and resets."""

from __future__ import annotations

import flashscan
import flashscan.torch as ft
import pytest
from torch_support import DEVICES, Numbers, close, torch

pytestmark = pytest.mark.parametrize("device", DEVICES)
WIDTH = 6


def make(device, dtype=torch.float64, **options):
    numbers = Numbers(device)
    torch.manual_seed(1)
    return ft.Mamba(WIDTH, d_state=3, d_conv=3, dtype=dtype, **options).to(numbers.device), numbers


def by_formula(block, x, reset=None):
    """All outputs and the last h, from no state (arXiv 2312.00752, section 3.4)."""
    E, N, R = block.d_inner, block.d_state, block.dt_rank
    h, past, outputs = x.new_zeros(x.shape[0], E, N), [], []
    for t in range(x.shape[1]):
        if reset is not None:
            h = h.masked_fill(reset[:, t, None, None], 0)
            past = [each.masked_fill(reset[:, t, None], 0) for each in past]
        u, z = (x[:, t] @ block.in_proj.weight.T).chunk(2, -1)
        past = [u, *past][: block.d_conv]
        u = sum(each * block.conv1d.weight[:, 0, -1 - k] for k, each in enumerate(past)) + block.conv1d.bias
        u = u * torch.sigmoid(u)
        r, B, C = (u @ block.x_proj.weight.T).split((R, N, N), -1)
        delta = torch.log1p(torch.exp(r @ block.dt_proj.weight.T + block.dt_proj.bias))
        h = torch.exp(-delta[..., None] * torch.exp(block.A_log)) * h + (delta * u)[..., None] * B[:, None]
        y = ((h * C[:, None]).sum(-1) + block.D * u) * z * torch.sigmoid(z)
        outputs.append(y @ block.out_proj.weight.T)
    return torch.stack(outputs, 1), h


@pytest.mark.parametrize("with_resets", [False, True])
def test_by_the_published_equations(device, with_resets):
    block, numbers = make(device)
    x = numbers.uniform(2, 7, WIDTH, low=-2, high=2, grad=True)
    reset = numbers.uniform(2, 7) > 0.4 if with_resets else None
    output, (h, past) = block(x, reset=reset)
    want, last = by_formula(block, x, reset)
    close(output, want)
    close(h, last)
    assert past.shape == (2, 2, 2 * WIDTH)
    leaves = [x, *block.parameters()]
    for got, expected in zip(*(torch.autograd.grad(each.sin().sum(), leaves) for each in (output, want))):
        close(got, expected)


def test_a_sequence_cut_in_two_and_stepped(device):
    block, numbers = make(device)
    x = numbers.uniform(3, 9, WIDTH)
    whole, last = block(x)
    first, state = block(x[:, :4])
    second, final = block(x[:, 4:], state)
    close(torch.cat([first, second], 1), whole)
    for one, other in zip(final, last):
        close(one, other)
    reset = torch.zeros(3, 9, dtype=torch.bool, device=numbers.device)
    reset[1, 5] = True
    for resets, want in ((None, whole), (reset, block(x, reset=reset)[0])):
        state, steps = None, []
        for t in range(9):
            output, state = block.step(x[:, t], state, reset=None if resets is None else resets[:, t])
            steps.append(output)
        close(torch.stack(steps, 1), want)


def test_packed_sequences(device):
    block, numbers = make(device)
    x = numbers.uniform(1, 9, WIDTH)
    offsets = [0, 4, 4, 5, 9]
    packed, states = block(x, seq_offsets=offsets)
    again, later = block(x, states, seq_offsets=torch.tensor(offsets, device=numbers.device))
    for number, (first, end) in enumerate(zip(offsets, offsets[1:])):
        if first == end:
            continue
        output, last = block(x[:, first:end])
        close(packed[:, first:end], output)
        output, final = block(x[:, first:end], last)
        close(again[:, first:end], output)
        for alone, among, twice in zip(last, states, zip(final, later)):
            close(among[number : number + 1], alone)
            close(twice[1][number : number + 1], twice[0])


def test_the_state_dict_of_the_published_block(device):
    block, _ = make(device)
    shapes = {name: tuple(value.shape) for name, value in block.state_dict().items()}
    assert shapes == {
        "A_log": (12, 3),
        "D": (12,),
        "in_proj.weight": (24, 6),
        "conv1d.weight": (12, 1, 3),
        "conv1d.bias": (12,),
        "x_proj.weight": (7, 12),
        "dt_proj.weight": (12, 1),
        "dt_proj.bias": (12,),
        "out_proj.weight": (6, 12),
    }
    delta = torch.nn.functional.softplus(block.dt_proj.bias)
    assert 0.000999 <= delta.min() and delta.max() <= 0.1001


def test_bfloat16_and_autocast(device):
    block, numbers = make(device, torch.float32)
    x = numbers.uniform(3, 5, WIDTH, dtype=torch.float32)
    want, _ = block(x)
    with torch.autocast(device, dtype=torch.bfloat16):
        got, _ = block(x)
    close(got, want, torch.bfloat16)
    got.float().sum().backward()
    assert all(p.grad is not None and p.grad.dtype == p.dtype for p in block.parameters())
    low, state = block.to(torch.bfloat16)(x.to(torch.bfloat16))
    assert low.dtype == torch.bfloat16 and state[0].dtype == torch.float32
    close(low, want, torch.bfloat16)
    assert block.step(x[:, 0].to(torch.bfloat16), state)[0].dtype == torch.bfloat16


def test_errors(device):
    with pytest.raises(flashscan.FlashscanError, match="d_state is 0"):
        ft.Mamba(4, d_state=0)
    with pytest.raises(flashscan.FlashscanError, match="dt_min is 0.2"):
        ft.Mamba(4, dt_min=0.2)
    block, numbers = make(device)
    x = numbers.uniform(2, 3, WIDTH)
    with pytest.raises(flashscan.FlashscanError, match="input"):
        block(x[..., :4])
    with pytest.raises(flashscan.FlashscanError, match="state's inputs have shape"):
        block(x, (None, x[:, :1]))
