# SPDX-License-Identifier: Apache-2.0
"""Arrays of other packages than NumPy: the same numbers, results of the same package, on the current stream."""

from __future__ import annotations

import threading

import flashscan
import numpy as np
import pytest
from flashscan import _library as lib
from support import supported

DEVICES = ["cpu", "cuda"]
NARROW = ["bfloat16", "float16"]


@pytest.fixture
def torch():
    return pytest.importorskip("torch")


def on(torch, device, *arrays, dtype=None):
    """Tensors of NumPy arrays; skips where there is no such device."""
    if device == "cuda" and not (torch.cuda.is_available() and lib.device_count(lib.CUDA)):
        pytest.skip("no CUDA device, or a library without CUDA")
    kind = None if dtype is None else getattr(torch, dtype)
    tensors = [torch.from_numpy(np.array(array)).to(device=device, dtype=kind) for array in arrays]
    return tensors[0] if len(arrays) == 1 else tensors


def wide(tensor):
    kind = "complex128" if tensor.is_complex() else "float64"
    return tensor.cpu().resolve_conj().to(getattr(__import__("torch"), kind)).numpy()


def assert_close(got, want, dtype, rounded=None):
    """What rounding to ``rounded``, else ``dtype``, and sums in f32 or f64 lose over a few dozen steps."""
    tolerance = {"bfloat16": 2e-2, "float16": 3e-3, "float32": 3e-6, "complex64": 3e-6}.get(rounded or dtype, 1e-12)
    assert str(got.dtype).endswith(dtype) and tuple(got.shape) == np.shape(want)
    np.testing.assert_allclose(wide(got), want, rtol=tolerance, atol=tolerance * (1 + np.abs(want).max(initial=0)))


def numbers(rng, shape, dtype):
    values = rng.uniform(-0.9, 0.9, shape)
    return values + 1j * rng.uniform(-0.3, 0.3, shape) if dtype.startswith("complex") else values


@pytest.mark.parametrize("layout", ["btc", "bct"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "float16", "complex64", "complex128"])
@pytest.mark.parametrize("device", DEVICES)
def test_linear(torch, device, dtype, layout):
    rng = np.random.default_rng(1)
    gate, x, grad = (on(torch, device, numbers(rng, (2, 17, 5), dtype), dtype=dtype) for _ in range(3))
    channels = 5 if layout == "btc" else 17
    states = {"bfloat16": "float32", "float16": "float32"}.get(dtype, dtype)
    state = on(torch, device, numbers(rng, (2, channels), dtype), dtype=states)
    out, last = flashscan.linear_scan(gate, x, state, layout=layout, return_final_state=True)
    assert isinstance(out, torch.Tensor) and out.device == x.device
    given = [wide(tensor) for tensor in (gate, x, state)]
    want, want_last = flashscan.linear_scan(*given, layout=layout, return_final_state=True)
    assert_close(out, want, dtype)
    assert_close(last, want_last, states)
    got = flashscan.linear_scan_backward(gate, out, grad, state, last, layout=layout)
    want = flashscan.linear_scan_backward(given[0], wide(out), wide(grad), given[2], wide(last), layout=layout)
    for one, other, kind in zip(got, want, (dtype, dtype, states)):
        assert_close(one, other, kind)


@pytest.mark.parametrize("device", DEVICES)
def test_views_are_read_in_place(torch, device):
    rng = np.random.default_rng(2)
    both = on(torch, device, rng.uniform(0, 1, (3, 9, 8)))
    gate, x = both[..., :4], both[..., 4:]
    got = flashscan.linear_scan(gate, x)
    np.testing.assert_allclose(wide(got), flashscan.linear_scan(wide(gate), wide(x)), rtol=1e-12)
    turned = on(torch, device, rng.uniform(0, 1, (3, 4, 9))).transpose(1, 2)
    want = flashscan.linear_scan(wide(gate), wide(turned))
    np.testing.assert_allclose(wide(flashscan.linear_scan(gate, turned)), want, rtol=1e-12)
    lazy = on(torch, device, numbers(rng, (3, 9, 4), "complex128")).conj()
    want = flashscan.linear_scan(0.5, wide(lazy))
    np.testing.assert_allclose(wide(flashscan.linear_scan(0.5, lazy)), want, rtol=1e-12)


@pytest.mark.parametrize("device", DEVICES)
def test_packed_and_reset(torch, device):
    rng = np.random.default_rng(3)
    gate, x = rng.uniform(0, 1, (2, 1, 20, 3))
    reset = rng.uniform(size=(1, 20)) < 0.2
    want = flashscan.linear_scan(gate, x, seq_offsets=[0, 7, 15], reset=reset)
    tensors = on(torch, device, gate, x)
    for offsets in ([0, 7, 15], on(torch, device, np.array([0, 7, 15], np.int32))):
        got = flashscan.linear_scan(*tensors, seq_offsets=offsets, reset=on(torch, device, reset))
        np.testing.assert_allclose(wide(got), want, rtol=1e-12)


@pytest.mark.parametrize("cell, gates, biases, states", [("lstm", 4, 4, 2), ("gru", 3, 4, 1), ("slstm", 4, 4, 4)])
@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16"])
@pytest.mark.parametrize("device", DEVICES)
def test_rnn(torch, device, dtype, cell, gates, biases, states):
    rng = np.random.default_rng(4)
    shapes = [(2, 9, gates, 2, 8), (gates, 2, 8, 8), (biases, 2, 8)]
    x, R, b = (on(torch, device, rng.uniform(-0.5, 0.5, shape), dtype=dtype) for shape in shapes)
    grad = on(torch, device, rng.uniform(-1, 1, (2, 9, 2, 8)), dtype=dtype)
    call = lambda x, R, b: flashscan.rnn(x, R, b, cell, return_final_state=True, return_reserve=True)
    out, last, reserve = supported(lambda: call(x, R, b))
    want, want_last, want_reserve = call(wide(x), wide(R), wide(b))
    assert_close(out, want, dtype)
    # With 16-bit data kernels may round the factors of products.
    assert_close(last, want_last, "float32" if dtype == "bfloat16" else dtype, rounded=dtype)
    got = flashscan.rnn_backward(R, out, reserve, grad, cell=cell)
    again = flashscan.rnn_backward(R, out, reserve, grad, cell=cell)
    expected = flashscan.rnn_backward(wide(R), want, want_reserve, wide(grad), cell=cell)
    for one, other, same in zip(got, expected, again):
        assert_close(one, other, str(one.dtype)[6:], rounded=dtype)
        assert torch.equal(one, same)


@pytest.mark.parametrize("op", ["add", "mul", "min", "max", "logaddexp", "matmul"])
@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16"])
@pytest.mark.parametrize("device", DEVICES)
def test_operators(torch, device, dtype, op):
    rng = np.random.default_rng(5)
    shape = (2, 13, 3, 3) if op == "matmul" else (2, 13, 3)
    x = on(torch, device, rng.uniform(-0.6, 1, shape), dtype=dtype)
    grad = on(torch, device, rng.uniform(-1, 1, shape), dtype=dtype)
    out = supported(lambda: flashscan.prefix_scan(x, op, axis=1))
    assert_close(out, flashscan.prefix_scan(wide(x), op, axis=1), dtype)
    assert torch.equal(flashscan.reduce(x, op, axis=1), out[:, -1])
    got = flashscan.prefix_scan_backward(x, op, grad, out, axis=1)[0]
    want = flashscan.prefix_scan_backward(wide(x), op, wide(grad), wide(out), axis=1)[0]
    assert_close(got, want, dtype)


@pytest.mark.parametrize("device", DEVICES)
def test_affine(torch, device):
    rng = np.random.default_rng(6)
    W, b = rng.uniform(-0.5, 0.5, (2, 11, 3, 3)), rng.uniform(-1, 1, (2, 11, 3))
    tensors = on(torch, device, W, b)
    out = supported(lambda: flashscan.affine_scan(*tensors))
    assert_close(out, flashscan.affine_scan(W, b), "float64")
    got = flashscan.affine_scan_backward(tensors[0], out, tensors[1])
    want = flashscan.affine_scan_backward(W, wide(out), b)
    for one, other in zip(got[:2], want[:2]):
        assert_close(one, other, "float64")


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("dtype", ["float64", "bfloat16"])
@pytest.mark.parametrize("device", DEVICES)
def test_functions_on_tensors(torch, device, dtype, reverse):
    x = on(torch, device, np.random.default_rng(7).uniform(-0.5, 0.5, (2, 13, 3, 3)), dtype=dtype)

    def product(left, right):
        assert left.device == x.device and left.dtype == x.dtype
        return left @ right

    got = supported(lambda: flashscan.prefix_scan(x, product, axis=1, reverse=reverse))
    assert_close(got, flashscan.prefix_scan(wide(x), "matmul", reverse=reverse), dtype)
    assert torch.equal(flashscan.reduce(x, product, axis=1, reverse=reverse), got[:, 0 if reverse else -1])


def test_current_stream(torch):
    gate, x = on(torch, "cuda", np.full((1, 4096, 256), 0.9), np.ones((1, 4096, 256)), dtype="float32")
    want = flashscan.linear_scan(gate, x)
    torch.cuda.synchronize()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        late = torch.zeros_like(x)
        flashscan.linear_scan(gate, late)  # so that memory of this stream is there
        stream.synchronize()
        torch.cuda._sleep(50_000_000)
        late.copy_(x)
        got = flashscan.linear_scan(gate, late)
        assert not stream.query()
    stream.synchronize()
    assert torch.equal(got, want)


def test_other_threads_run_beside_a_call():
    x = np.random.default_rng(12).uniform(-0.1, 0.1, (64, 256, 256))
    worker = threading.Thread(target=flashscan.prefix_scan, args=(x, "matmul"), kwargs={"threads": 1})
    worker.start()
    rounds = 0
    while worker.is_alive():
        rounds += 1
    assert rounds > 1000


class Behind:
    """An array of a package that nobody knows."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


class WithNamespace(Behind):
    def __array_namespace__(self):
        return self

    def from_dlpack(self, array):
        return WithNamespace(np.from_dlpack(array))


class WithInterface:
    def __init__(self, tensor, stream=None):
        self.tensor = tensor
        self.__cuda_array_interface__ = {**tensor.__cuda_array_interface__, "version": 3, "stream": stream}


def test_dlpack_of_other_packages():
    gate, x = np.random.default_rng(8).uniform(0, 1, (2, 2, 9, 3))
    want = flashscan.linear_scan(gate, x)
    got = flashscan.linear_scan(gate, Behind(x))
    assert isinstance(got, np.ndarray)
    np.testing.assert_array_equal(got, want)
    gate.flags.writeable = False
    got = flashscan.linear_scan(gate, Behind(x), reset=np.zeros((2, 9), bool))
    np.testing.assert_array_equal(got, want)
    gate.flags.writeable = True
    got = flashscan.linear_scan(Behind(gate), WithNamespace(x))
    assert isinstance(got, WithNamespace)
    np.testing.assert_array_equal(got.array, want)
    got = flashscan.prefix_scan(Behind(x), "add", axis=1)
    np.testing.assert_array_equal(got, flashscan.prefix_scan(x, "add", axis=1))
    with pytest.raises(flashscan.FlashscanTypeError, match="x is a Behind"):
        flashscan.prefix_scan(Behind(x), np.add, axis=1)


@pytest.mark.parametrize("stream", [None, "legacy", "other"])
def test_cuda_array_interface(torch, stream):
    gate, x = on(torch, "cuda", *np.random.default_rng(9).uniform(0, 1, (2, 2, 9, 3)))
    other = torch.cuda.Stream()
    torch.cuda.synchronize()
    number = {None: None, "legacy": 1, "other": other.cuda_stream}[stream]
    got = flashscan.linear_scan(WithInterface(gate, number), WithInterface(x, number))
    torch.cuda.synchronize()
    assert torch.equal(torch.as_tensor(got, device="cuda"), flashscan.linear_scan(gate, x))


def test_dlpack_on_a_gpu(torch):
    gate, x = on(torch, "cuda", *np.random.default_rng(11).uniform(0, 1, (2, 2, 9, 3)))
    want = flashscan.linear_scan(gate, x)
    made = lambda: torch.cuda.memory_stats()["allocation.all.allocated"]
    before = made()
    got = flashscan.linear_scan(Behind(gate), Behind(x))
    assert made() - before <= 2  # the output and scratch
    assert torch.equal(torch.as_tensor(got, device="cuda"), want)


def test_mistakes_are_named(torch):
    x = torch.ones(2, 5, 3)
    with pytest.raises(flashscan.FlashscanTypeError, match="requires grad.*flashscan.torch"):
        flashscan.linear_scan(0.5, x.requires_grad_())
    with torch.no_grad():
        flashscan.linear_scan(0.5, x)
    x = x.detach()
    with pytest.raises(flashscan.FlashscanTypeError, match="input has dtype torch.int32; accepted are float32"):
        flashscan.linear_scan(0.5, x.int())
    with pytest.raises(flashscan.FlashscanValueError, match="device meta; accepted are cpu and cuda"):
        flashscan.linear_scan(0.5, x.to("meta"))
    with pytest.raises(flashscan.FlashscanTypeError, match="layout torch.sparse_coo; accepted is torch.strided"):
        flashscan.linear_scan(0.5, x.to_sparse())
    with pytest.raises(flashscan.FlashscanTypeError, match="initial has dtype torch.float32; accepted are those that convert to torch.int32"):
        flashscan.prefix_scan(torch.ones(3, dtype=torch.int32), "add", initial=0.5)
    with pytest.raises(flashscan.FlashscanTypeError, match="initial_state has dtype torch.complex64"):
        flashscan.linear_scan(0.5, x, torch.zeros(2, 3, dtype=torch.complex64))
    with pytest.raises(flashscan.FlashscanValueError, match=r"seq_offsets\[1\] is 6"):
        flashscan.linear_scan(0.5, x[:1], seq_offsets=[0, 6])


def test_tensors_on_different_devices(torch):
    x = on(torch, "cuda", np.ones((2, 5, 3)))
    with pytest.raises(flashscan.FlashscanValueError, match="gate is on cpu; accepted is cuda:0, as input is"):
        flashscan.linear_scan(x.cpu(), x)
