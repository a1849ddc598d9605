# SPDX-License-Identifier: Apache-2.0
"""CuPy's arrays: NumPy's numbers, on the caller's stream, nothing copied. The golden cases are in test_golden.py."""

from __future__ import annotations

import time

import numpy as np
import pytest

import flashscan
from flashscan import _library as lib
from support import supported

cupy = pytest.importorskip("cupy")
if not (cupy.cuda.is_available() and lib.device_count(lib.CUDA)):
    pytest.skip("no CUDA device, or a library without CUDA", allow_module_level=True)

TOLERANCE = {"float16": 3e-3, "float32": 1e-5, "complex64": 1e-5}


def numbers(seed, shape, dtype="float64"):
    rng = np.random.default_rng(seed)
    values = rng.uniform(-0.9, 0.9, shape)
    return (values + 1j * rng.uniform(-0.3, 0.3, shape) if dtype.startswith("complex") else values).astype(dtype)


def check(got, want):
    """Results on CuPy's arrays against those of the same call on NumPy's; both may be several."""
    pairs = zip(got, want) if isinstance(got, (tuple, list)) else [(got, want)]
    for one, other in pairs:
        assert isinstance(one, cupy.ndarray) and one.dtype == other.dtype and one.shape == other.shape
        close = TOLERANCE.get(one.dtype.name, 1e-12)
        np.testing.assert_allclose(one.get(), other, rtol=close, atol=close * (1 + abs(other).max(initial=0)))


@pytest.fixture(params=["default", "own"])
def stream(request):
    """Tests run on both streams; one of their own does not wait for the default one."""
    with cupy.cuda.Stream.null if request.param == "default" else cupy.cuda.Stream(non_blocking=True) as stream:
        yield stream
        stream.synchronize()


@pytest.mark.parametrize("layout", ["btc", "bct"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "complex64", "complex128"])
def test_linear(stream, dtype, layout):
    gate, x, grad = (numbers(seed, (2, 300, 5), dtype) for seed in range(3))
    states = numbers(3, (2, 5 if layout == "btc" else 300), "float32" if dtype == "float16" else dtype)
    call = lambda *arrays: flashscan.linear_scan(*arrays, layout=layout, return_final_state=True)
    want = call(gate, x, states)
    got = call(*map(cupy.asarray, (gate, x, states)))
    check(got, want)
    arrays = gate, want[0], grad, states, want[1]
    want = flashscan.linear_scan_backward(*arrays, layout=layout)
    check(flashscan.linear_scan_backward(*map(cupy.asarray, arrays), layout=layout), want)


def test_packed_sequences_and_resets(stream):
    gate, x = numbers(0, (1, 20, 3)), numbers(1, (1, 20, 3))
    offsets, reset = np.array([0, 7, 15], np.int32), numbers(2, (1, 20)) < -0.5
    want = flashscan.linear_scan(gate, x, seq_offsets=offsets, reset=reset)
    for given in (cupy.asarray(offsets), [0, 7, 15]):
        got = flashscan.linear_scan(*map(cupy.asarray, (gate, x)), seq_offsets=given, reset=cupy.asarray(reset))
        check(got, want)


@pytest.mark.parametrize("cell, gates, biases", [("lstm", 4, 4), ("gru", 3, 4), ("elman", 1, 1), ("slstm", 4, 4)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_rnn(stream, dtype, cell, gates, biases):
    shapes = [(2, 9, gates, 2, 8), (gates, 2, 8, 8), (biases, 2, 8)]
    Wx, R, b = (numbers(seed, shape, dtype) for seed, shape in enumerate(shapes))
    grad = numbers(4, (2, 9, 2, 8), dtype)
    call = lambda *arrays: flashscan.rnn(*arrays, cell, return_final_state=True, return_reserve=True)
    out, last, reserve = call(Wx, R, b)
    *got, kept = call(*map(cupy.asarray, (Wx, R, b)))
    check(got, (out, last))
    want = flashscan.rnn_backward(R, out, reserve, grad, cell=cell)
    check(flashscan.rnn_backward(cupy.asarray(R), got[0], kept, cupy.asarray(grad), cell=cell), want)


@pytest.mark.parametrize("op", ["add", "mul", "min", "max", "logaddexp", "matmul"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_operators(stream, dtype, op):
    x, grad = (numbers(seed, (2, 70, 3, 3), dtype) for seed in range(2))
    want = flashscan.prefix_scan(x, op, axis=1)
    got = flashscan.prefix_scan(cupy.asarray(x), op, axis=1)
    check(got, want)
    check(flashscan.reduce(cupy.asarray(x), op, axis=1), flashscan.reduce(x, op, axis=1))
    want = flashscan.prefix_scan_backward(x, op, grad, want, axis=1)[0]
    check(flashscan.prefix_scan_backward(cupy.asarray(x), op, cupy.asarray(grad), got, axis=1)[0], want)


def test_affine(stream):
    W, b = numbers(0, (2, 40, 3, 3)) / 2, numbers(1, (2, 40, 3))
    want = flashscan.affine_scan(W, b)
    got = flashscan.affine_scan(*map(cupy.asarray, (W, b)))
    check(got, want)
    check(flashscan.affine_scan_backward(*map(cupy.asarray, (W, want, b)))[:2], flashscan.affine_scan_backward(W, want, b)[:2])


@pytest.mark.parametrize("reverse", [False, True])
def test_functions(stream, reverse):
    x = numbers(0, (2, 13, 3, 3)) / 2
    given, product = cupy.asarray(x), lambda left, right: left @ right
    want = flashscan.prefix_scan(x, "matmul", reverse=reverse)
    check(supported(lambda: flashscan.prefix_scan(given, product, axis=1, reverse=reverse)), want)


def test_device_code(stream):
    code = """extern "C" __device__ void larger(const void* lhs, const void* rhs, void* out) {
        const double l = *(const double*)lhs, r = *(const double*)rhs;
        *(double*)out = l > r ? l : r;
    }"""
    x = numbers(0, (3, 50))
    got = supported(lambda: flashscan.prefix_scan(cupy.asarray(x), flashscan.CudaOperator(code, "larger"), axis=1))
    check(got, np.maximum.accumulate(x, axis=1))


class Allocations(cupy.cuda.MemoryHook):
    """The sizes of what CuPy's pool is asked for."""

    name = "allocations"

    def __init__(self):
        self.sizes = []

    def malloc_preprocess(self, *, size, **_):
        self.sizes.append(size)


def test_nothing_is_copied(stream):
    both = cupy.asarray(numbers(0, (2, 64, 32), "float32"))
    gate, x = both[..., :16], both[..., 16:].transpose(0, 2, 1).transpose(0, 2, 1)  # halves of one product
    Wx, R, b = (cupy.asarray(numbers(1, shape, "float32")) for shape in ((2, 5, 4, 1, 8), (4, 1, 8, 8), (4, 1, 8)))
    for call in (lambda: flashscan.linear_scan(gate, x), lambda: flashscan.rnn(Wx, R, b)):
        before, inputs = call(), both.get()
        with Allocations() as made:
            out = call()
        assert made.sizes[0] == out.nbytes and len(made.sizes) <= 2  # the output and scratch
        np.testing.assert_array_equal(out.get(), before.get())
        np.testing.assert_array_equal(both.get(), inputs)


def test_calls_are_enqueued_on_the_current_stream():
    gate, x = cupy.full((1, 4096, 64), 0.9, np.float32), cupy.ones((1, 4096, 64), np.float32)
    want = flashscan.linear_scan(gate, x).get()
    with cupy.cuda.Stream(non_blocking=True) as stream:
        late = cupy.empty_like(x)
        late[...] = x
        flashscan.linear_scan(gate, late)  # so that memory and kernels are there
        late.fill(0)
        stream.synchronize()
        stream.launch_host_func(time.sleep, 0.2)
        late[...] = x
        got = flashscan.linear_scan(gate, late)
        assert not stream.done
        stream.synchronize()
    np.testing.assert_array_equal(got.get(), want)


def test_beside_torch(stream):
    torch = pytest.importorskip("torch")
    gate, x = numbers(0, (2, 9, 3)), numbers(1, (2, 9, 3))
    want = flashscan.linear_scan(gate, x)
    got = flashscan.linear_scan(torch.from_numpy(gate).cuda(), cupy.asarray(x))
    check(got, want)
    stream.synchronize()
    back = torch.from_dlpack(got)
    assert back.data_ptr() == got.data.ptr == got.__cuda_array_interface__["data"][0]
    other = flashscan.linear_scan(cupy.asarray(gate), back)
    assert isinstance(other, torch.Tensor) and other.is_cuda


def test_mistakes_are_named():
    x = cupy.ones((2, 5, 3))
    with pytest.raises(flashscan.FlashscanTypeError, match="input has dtype int32; accepted are float32"):
        flashscan.linear_scan(0.5, x.astype(np.int32))
    with pytest.raises(flashscan.FlashscanValueError, match="gate has shape"):
        flashscan.linear_scan(x[:, :2], x)
    with pytest.raises(flashscan.FlashscanValueError, match="threads"):
        flashscan.linear_scan(0.5, x, threads=2)


def test_filters(stream):
    pytest.importorskip("scipy.signal")
    from flashscan import signal
    from signal_support import SECTIONS, normal

    sos, x, zi = SECTIONS["butter 5"], normal(3, 200), normal(3, 3, 2, seed=1)
    given = cupy.asarray(sos), cupy.asarray(x)
    check(supported(lambda: signal.sosfilt(*given, zi=cupy.asarray(zi))), signal.sosfilt(sos, x, zi=zi))
    check(signal.sosfiltfilt(*given), signal.sosfiltfilt(sos, x))
    check(signal.lfilter(normal(9), [1, -0.5], given[1]), signal.lfilter(normal(9), [1, -0.5], x))
    check(signal.ewm_mean(given[1], com=0.5), signal.ewm_mean(x, com=0.5))
