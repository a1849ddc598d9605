# SPDX-License-Identifier: Apache-2.0
"""The signatures of fla's HGRN, of scans in log space and of recurrentgemma's linear_scan, by what they document."""

from __future__ import annotations

import flashscan
import pytest
from flashscan.compat import fla, heinsen, recurrentgemma
from torch_support import DEVICES, Numbers, close, torch

pytestmark = pytest.mark.parametrize("device", DEVICES)


def loop(gate, x, state):
    steps = []
    for t in range(x.shape[1]):
        state = gate[:, t] * state + x[:, t]
        steps.append(state)
    return torch.stack(steps, 1), state


def gradients_agree(got, want, leaves):
    for one, other in zip(got, want):
        close(one, other)
    total = lambda results: sum(each.sin().sum() for each in results)
    found, expected = (torch.autograd.grad(total(results), leaves) for results in (got, want))
    for one, other in zip(found, expected):
        close(one, other)


@pytest.mark.parametrize("function", [fla.fused_recurrent_hgrn, fla.chunk_hgrn])
@pytest.mark.parametrize("with_state", [False, True])
def test_fla_hgrn(device, function, with_state):
    numbers = Numbers(device)
    x, g = numbers.uniform(2, 7, 3, grad=True), numbers.uniform(2, 7, 3, low=-3, high=0, grad=True)
    state = numbers.uniform(2, 3, grad=True) if with_state else None
    want = loop(torch.exp(g), x, torch.zeros_like(x[:, 0]) if state is None else state)
    got = function(x, g, initial_state=state, output_final_state=True)
    gradients_agree(got, want, [x, g] if state is None else [x, g, state])
    output, nothing = function(x, g, state)
    assert nothing is None and torch.equal(output, got[0])


def test_fla_hgrn_of_packed_sequences(device):
    numbers = Numbers(device)
    x, g, state = numbers.uniform(1, 7, 3), numbers.uniform(1, 7, 3, low=-3, high=0), numbers.uniform(2, 3)
    offsets = torch.tensor([0, 3, 7], device=numbers.device)
    output, last = fla.fused_recurrent_hgrn(x, g, state, True, cu_seqlens=offsets)
    for number, (first, end) in enumerate(((0, 3), (3, 7))):
        want, final = loop(torch.exp(g[:, first:end]), x[:, first:end], state[number : number + 1])
        close(output[:, first:end], want)
        close(last[number : number + 1], final)
    with pytest.raises(flashscan.FlashscanValueError, match=r"g has shape \(3,\); accepted is x's, \(1, 7, 3\)"):
        fla.chunk_hgrn(x, g[0, 0])
    low = fla.chunk_hgrn(x.bfloat16(), g.float())[0]
    assert low.dtype == torch.bfloat16
    close(low, fla.chunk_hgrn(x, g)[0])


def test_heinsen_associative_scan_log(device):
    numbers = Numbers(device)
    coeffs, values = (numbers.uniform(2, 7, 3, low=-3, high=1, grad=True) for _ in range(2))
    got = heinsen.heinsen_associative_scan_log(coeffs, values)
    a_star = coeffs.cumsum(1)
    want = (a_star + (values - a_star).logcumsumexp(1)).exp()
    gradients_agree([got], [want], [coeffs, values])
    gone = coeffs.detach().clone()
    gone[:, 3] = -torch.inf  # a coefficient of 0
    got = heinsen.heinsen_associative_scan_log(gone, values)
    close(got, loop(torch.exp(gone), torch.exp(values), torch.zeros_like(gone[:, 0]))[0])
    with pytest.raises(flashscan.FlashscanValueError, match="log_coeffs has shape"):
        heinsen.heinsen_associative_scan_log(coeffs[:, 1:], values)


@pytest.mark.parametrize("front", [(), (2,), (2, 3)])
def test_heinsen_sequence(device, front):
    numbers = Numbers(device)
    coeffs, values = numbers.uniform(*front, 6), numbers.uniform(*front, 7)
    want = [values[..., 0]]
    for t in range(6):
        want.append(coeffs[..., t] * want[-1] + values[..., t + 1])
    want = torch.stack(want, -1)
    log = lambda tensor: tensor.to(torch.complex128).log()
    got = heinsen.compute_in_parallel(log(coeffs), log(values))
    assert got.dtype == torch.float64
    close(got, want)
    positive = [values.abs()[..., 0]]
    for t in range(6):
        positive.append(coeffs.abs()[..., t] * positive[-1] + values.abs()[..., t + 1])
    for function in (heinsen.compute_in_parallel, heinsen.compute_in_parallel_special_case):
        close(function(coeffs.abs().log(), values.abs().log()), torch.stack(positive, -1))
    close(heinsen.compute_in_parallel(log(coeffs[..., :0]), log(values[..., :1])), values[..., :1])
    with pytest.raises(flashscan.FlashscanValueError, match=r"accepted are \[..., T\] and \[..., T \+ 1\]"):
        heinsen.compute_in_parallel(log(values), log(values))


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("axes", [3, 2, 1])
def test_recurrentgemma_linear_scan(device, axes, reverse):
    numbers = Numbers(device)
    x, h0 = numbers.uniform(2, 7, 3, grad=True), numbers.uniform(2, 3, grad=True)
    a = numbers.uniform(*(2, 7, 3)[3 - axes :], low=0, grad=True)
    turn = (lambda tensor: tensor.flip(1)) if reverse else (lambda tensor: tensor)
    steps, last = loop(turn(a.expand(2, 7, 3)), turn(x), h0)
    got = recurrentgemma.linear_scan(x, a, h0, reverse=reverse, acc_float_dtype=torch.float32, unroll=4)
    gradients_agree(got, (turn(steps), last), [x, a, h0])
    close(recurrentgemma.linear_scan(x=x[:, :1], a=torch.ones_like(x[:, :1]))[0], x[:, :1])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_recurrentgemma_sums_in_float64(device, dtype):
    numbers = Numbers(device)
    x, a, h0 = numbers.uniform(2, 400, 3), numbers.uniform(400, 3, low=0.99), numbers.uniform(2, 3)
    x, a, h0 = x.to(dtype), a.float() if dtype == torch.bfloat16 else a.to(dtype), h0.float()
    got, last = recurrentgemma.linear_scan(x, a, h0, acc_float_dtype=torch.float64)
    steps, final = loop(a.double().expand(2, 400, 3), x.double(), h0.double())
    assert got.dtype == dtype and last.dtype == torch.float64
    close(last, final)
    close(got, steps.to(dtype))


def test_recurrentgemma_refuses_what_it_cannot_obey(device):
    numbers = Numbers(device)
    x, a = numbers.uniform(2, 7, 3), numbers.uniform(7, 3)
    swapped = r"x has shape \(7, 3\) and a has shape \(2, 7, 3\), as if they were swapped; the input x .* comes first"
    for words, call in {
        swapped: lambda: recurrentgemma.linear_scan(a, x),
        r"x has shape \(3,\) and a has shape \(2, 7, 3\), as if": lambda: recurrentgemma.linear_scan(a[0], x),
        r"a has shape \(2, 6, 3\); accepted are \[B, T, D\]": lambda: recurrentgemma.linear_scan(x, x[:, :6]),
        r"x has shape \(7, 3\) and a has shape \(7, 3\); accepted": lambda: recurrentgemma.linear_scan(a, a),
        "a is 0.5; accepted are arrays": lambda: recurrentgemma.linear_scan(x, 0.5),
        "sharding_spec is given": lambda: recurrentgemma.linear_scan(x, a, sharding_spec=1),
        r"acc_float_dtype is bfloat16; accepted are float32 and float64": lambda: recurrentgemma.linear_scan(x, a, acc_float_dtype=torch.bfloat16),
        "has no argument gate": lambda: recurrentgemma.linear_scan(x, a, gate=1),
    }.items():
        with pytest.raises(flashscan.FlashscanError, match=words):
            call()
