# SPDX-License-Identifier: Apache-2.0
"""flashscan.signal on tensors: NumPy's numbers, gradients with respect to everything, what decides the data type."""

from __future__ import annotations

import numpy as np
import pytest

import flashscan
from flashscan import signal
from signal_support import SECTIONS, TRANSFER_FUNCTIONS, normal
from torch_support import DEVICES, close, need, supported, torch

pytestmark = [
    pytest.mark.parametrize("device", DEVICES),
    pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning"),  # PyTorch's own, in forward mode
    pytest.mark.filterwarnings("ignore:Attempting to run cuBLAS"),  # PyTorch's own, in a thread of its gradients
]


@pytest.fixture
def tensor(device):
    where = need(device)
    return lambda values, grad=True: torch.tensor(np.asarray(values), device=where).requires_grad_(grad)


def check(function, *inputs, fast=False):
    """Every element of the Jacobian by differences, or all of them along one random direction."""
    supported(lambda: function(*inputs))
    assert torch.autograd.gradcheck(function, inputs, check_forward_ad=True, fast_mode=fast)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex128])
@pytest.mark.parametrize("case", ["butter 4", "more zeros than poles", "no poles", "integrator"])
def test_numbers_are_those_of_numpy(tensor, case, dtype):
    b, a = (np.asarray(each).astype(dtype) for each in TRANSFER_FUNCTIONS[case])
    x, zi = normal(2, 100, dtype=dtype), normal(2, max(len(a), len(b)) - 1, dtype=dtype, seed=1)
    got = supported(lambda: signal.lfilter(*map(tensor, (b, a, x)), zi=tensor(zi)))
    for one, other in zip(got, signal.lfilter(b, a, x, zi=zi)):
        assert isinstance(one, torch.Tensor) and one.cpu().detach().numpy().dtype == other.dtype
        parts = lambda array: torch.view_as_real(array) if array.is_complex() else array
        close(parts(one), parts(torch.from_numpy(other)))


@pytest.mark.parametrize("axis", [0, 1])
def test_sections_are_those_of_numpy(tensor, axis):
    sos, x = SECTIONS["butter 5"], normal(60, 70)
    zi = normal(3, *((2, 70) if axis == 0 else (60, 2)), seed=1)
    got = supported(lambda: signal.sosfilt(tensor(sos), tensor(x), axis, tensor(zi)))
    for one, other in zip(got, signal.sosfilt(sos, x, axis, zi)):
        close(one, torch.from_numpy(other))
    for padtype in ("odd", "even", "constant", None):
        close(
            signal.sosfiltfilt(tensor(sos), tensor(x), axis, padtype),
            torch.from_numpy(signal.sosfiltfilt(sos, x, axis, padtype)),
        )
    close(signal.sosfilt_zi(tensor(sos)), torch.from_numpy(signal.sosfilt_zi(sos)))


@pytest.mark.parametrize("length", [3, 75])
@pytest.mark.parametrize("case", ["two poles, scaled", "butter 4", "a double pole"])
def test_gradients_of_lfilter(tensor, case, length):
    b, a = map(np.asarray, TRANSFER_FUNCTIONS[case])
    zi = normal(2, max(len(a), len(b)) - 1, seed=1)
    given = map(tensor, (b, a, normal(2, length), zi))
    check(lambda *given: signal.lfilter(*given[:3], zi=given[3]), *given, fast=length > 3)


def test_gradients_of_more_zeros_than_poles(tensor):
    for length in (5, 40):
        given = map(tensor, (normal(5), [1.5, 0.4], normal(2, length), normal(2, 4)))
        check(lambda b, a, x, zi: signal.lfilter(b, a, x, zi=zi), *given, fast=length > 5)


def test_gradients_of_complex_filters(tensor):
    x = normal(2, 40, dtype=np.complex128)
    check(signal.lfilter, tensor([0.3 + 0.1j, 0.2]), tensor([1, -0.6 + 0.3j, 0.2j]), tensor(x))
    check(signal.lfilter, tensor([0.3, 0.2]), tensor([1, -0.6, 0.2]), tensor(x))


def test_gradients_of_sections(tensor):
    sos, x = SECTIONS["butter 5"], normal(2, 50)
    check(lambda *given: signal.sosfilt(*given[:2], zi=given[2]), *map(tensor, (sos, x, normal(3, 2, 2, seed=1))))
    check(lambda sos, x: signal.sosfiltfilt(sos, x, padlen=7), tensor(sos), tensor(x))
    check(signal.sosfilt_zi, tensor(sos))


MEANS = [{}, {"adjust": False}, {"ignore_na": True}, {"adjust": False, "ignore_na": True}]
WAYS = {"com": 0.7, "span": 3.0, "halflife": 2.0, "alpha": 0.4}


def means(tensor, way, options, time=20):
    """A function of values and of how fast weights decay, the values, and NumPy's result."""
    x = normal(time, 2)
    missing = np.random.default_rng(1).random(x.shape) < 0.3
    missing[0, 0], missing[0, 1] = True, False
    holes = tensor(np.where(missing, np.nan, 0.0), grad=False)
    result = lambda x, value: torch.nan_to_num(signal.ewm_mean(x + holes, **{way: value}, **options))
    return result, x, np.nan_to_num(signal.ewm_mean(np.where(missing, np.nan, x), **{way: WAYS[way]}, **options))


@pytest.mark.parametrize("options", MEANS)
@pytest.mark.parametrize("way", WAYS)
def test_means(tensor, way, options):
    result, x, want = means(tensor, way, options)
    close(result(tensor(x), tensor(WAYS[way])), torch.from_numpy(want))


@pytest.mark.parametrize("way, options", list(zip(WAYS, MEANS)))
def test_gradients_of_means(tensor, way, options):
    result, x, _ = means(tensor, way, options, 8)
    check(result, tensor(x), tensor(WAYS[way]))


def test_tensors_decide_the_data_type(tensor):
    sos, x = SECTIONS["butter 5"], tensor(normal(2, 90, dtype=np.float32))
    y = signal.sosfilt(sos[::-1], x)  # of NumPy, in float64
    assert y.dtype == torch.float32
    want = flashscan.signal.sosfilt(sos[::-1], x.detach().cpu().numpy().astype(np.float64))
    close(y, torch.from_numpy(want))
    assert signal.lfilter([1.0], [1, -0.5], x).dtype == torch.float32
    assert signal.lfilter([1j], [1, -0.5], x).dtype == torch.complex64
    assert signal.sosfilt(tensor(sos), x).dtype == torch.float64
    assert signal.ewm_mean(x, com=tensor(0.5)).dtype == torch.float32
    assert signal.lfilter([1.0], tensor([1, -0.5]), normal(30)).dtype == torch.float64


def test_gradients_of_float32(tensor):
    sos, x = tensor(SECTIONS["butter 5"].astype(np.float32)), tensor(normal(2, 90, dtype=np.float32))
    signal.sosfilt(sos, x).square().sum().backward()
    wide = tensor(sos.detach().cpu().double()), tensor(x.detach().cpu().double())
    signal.sosfilt(*wide).square().sum().backward()
    for one, other in zip((sos, x), wide):
        assert one.grad.dtype == torch.float32
        close(one.grad, other.grad, torch.float32)


def test_autocast_does_not_concern_filters(tensor, device):
    x = tensor(normal(2, 90, dtype=np.float32), grad=False)
    want = signal.sosfilt(SECTIONS["butter 5"], x)
    with torch.autocast(device, dtype=torch.bfloat16):
        assert torch.equal(signal.sosfilt(SECTIONS["butter 5"], x), want)


def test_a_filter_is_learned(tensor):
    """The quickstart's problem: the pole of a filter from a signal before and after."""
    x = tensor(normal(1, 400), grad=False)
    wanted = signal.lfilter([1.0], [1.0, -0.9], x)
    pole = tensor(0.5)
    optimizer = torch.optim.Adam([pole], lr=0.05)
    for _ in range(150):
        optimizer.zero_grad()
        y = signal.lfilter([1.0], torch.stack([torch.ones_like(pole), -pole]), x)
        (y - wanted).square().mean().backward()
        optimizer.step()
    assert abs(pole.item() - 0.9) < 1e-3


def test_refusals(tensor):
    x = tensor(normal(30))
    for call, words in (
        (lambda: signal.lfilter([1.0], [1.0], x.half()), "the data type is float16, from x torch.float16, b float64"),
        (lambda: signal.lfilter([1.0], [1.0], x.long()), "the data type is int64"),
        (lambda: signal.lfilter([1.0], tensor([0.0, 1.0]).cpu(), x.cpu()), r"a has a\[0\] 0"),
        (lambda: signal.ewm_mean(x.cpu(), alpha=torch.tensor(2.0)), "alpha is 2.0"),
        (lambda: signal.sosfilt(SECTIONS["butter 5"], x.detach().to("meta"), zi=tensor(np.ones((3, 2)))), "zi is on"),
    ):
        with pytest.raises(flashscan.FlashscanError, match=words):
            call()
