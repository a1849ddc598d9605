# SPDX-License-Identifier: Apache-2.0
"""The golden cases on arrays of every package: by the functions and their ``_backward``s, and by PyTorch's autograd."""

from __future__ import annotations

import importlib

import numpy as np
import pytest

import flashscan
from flashscan import _library as lib
from flashscan import _rnn
from golden import CELLS, RUNS, Golden
from support import supported


class Numpy:
    def make(self, values, dtype):
        if dtype == "bfloat16":
            pytest.importorskip("ml_dtypes")
        return values.astype(dtype)

    def wide(self, array):
        return array.astype(np.complex128)


class Torch:
    def __init__(self, device):
        self.torch, self.device = pytest.importorskip("torch"), device
        if device == "cuda" and not (self.torch.cuda.is_available() and lib.device_count(lib.CUDA)):
            pytest.skip("no CUDA device, or a library without CUDA")

    def make(self, values, dtype):
        return self.torch.from_numpy(np.ascontiguousarray(values)).to(self.device, getattr(self.torch, dtype))

    def wide(self, tensor):
        return tensor.detach().cpu().to(self.torch.complex128).resolve_conj().numpy()


class Cupy:
    def __init__(self):
        self.cupy = pytest.importorskip("cupy")

    def make(self, values, dtype):
        if dtype == "bfloat16":
            pytest.skip("not every CuPy has bfloat16")
        return self.cupy.asarray(values.astype(dtype))

    def wide(self, array):
        return array.get().astype(np.complex128)


PACKAGES = {
    "numpy-cpu": Numpy,
    "torch-cpu": lambda: Torch("cpu"),
    "torch-cuda": lambda: Torch("cuda"),
    "cupy-cuda": Cupy,
}


@pytest.fixture(params=PACKAGES)
def arrays(request):
    return PACKAGES[request.param]()


@pytest.mark.parametrize("case, run", RUNS)
def test_functions(arrays, case, run):
    golden = Golden(case, run, arrays.make)
    more = {"return_reserve": True} if golden.incoming and (golden.family == "rnn" or golden.hides_state) else {}
    results = supported(lambda: golden.forward(flashscan, golden.operands, **more))
    golden.check(golden.named(map(arrays.wide, results)), golden.wanted)
    if golden.incoming:
        found = golden.backward(flashscan, results)
        found = {name: arrays.wide(array) for name, array in found.items() if array is not None}
        golden.check(found, golden.wanted_gradients)


@pytest.mark.parametrize("case, run", RUNS)
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_autograd(device, case, run):
    arrays = Torch(device)
    golden = Golden(case, run, arrays.make)
    for tensor in golden.operands.values():
        tensor.requires_grad_(golden.incoming is not None)
    results = supported(lambda: golden.forward(importlib.import_module("flashscan.torch"), golden.operands))
    golden.check(golden.named(map(arrays.wide, results)), golden.wanted)
    if golden.incoming:
        grads = arrays.torch.autograd.grad(results, list(golden.operands.values()), list(golden.incoming.values()))
        golden.check(dict(zip(golden.operands, map(arrays.wide, grads))), golden.wanted_gradients)


def test_cells_are_those_of_the_library():
    theirs = {cell["name"]: tuple(cell[field] for field in ("number", "gates", "biases", "states")) for cell in CELLS}
    assert theirs == _rnn.CELLS
