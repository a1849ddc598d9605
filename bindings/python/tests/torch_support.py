# SPDX-License-Identifier: Apache-2.0
"""What the tests on tensors share. A test that takes ``device`` runs on the CPU and, where there is one, on a GPU."""

from __future__ import annotations

import pytest

from flashscan import _library as lib
from support import supported  # noqa: F401, for the tests

torch = pytest.importorskip("torch")

DEVICES = ["cpu", "cuda"]
needs_compile = pytest.mark.skipif(not hasattr(torch.library, "register_autograd"), reason="torch.compile needs 2.4")


def need(device):
    """Skips where the library or PyTorch has no such device."""
    if device == "cuda" and not (torch.cuda.is_available() and lib.device_count(lib.CUDA)):
        pytest.skip("no CUDA device, or a library without CUDA")
    return torch.device(device, 0) if device == "cuda" else torch.device(device)


class Numbers:
    """Tensors of random numbers, the same on every device."""

    def __init__(self, device, seed=0):
        self.device, self.generator = need(device), torch.Generator().manual_seed(seed)

    def uniform(self, *shape, low=-1.0, high=1.0, dtype=torch.float64, grad=False):
        real = torch.float64
        values = torch.empty(shape, dtype=real).uniform_(low, high, generator=self.generator)
        if dtype.is_complex:
            values = torch.complex(values, torch.empty(shape, dtype=real).uniform_(-0.3, 0.3, generator=self.generator))
        return values.to(self.device, dtype).requires_grad_(grad)


def close(got, want, dtype=None):
    """Equal within what a few dozen steps in ``dtype`` lose."""
    dtype = dtype or got.dtype
    tolerance = {torch.bfloat16: 3e-2, torch.float16: 4e-3, torch.float32: 1e-5}.get(dtype, 1e-10)
    wide = torch.complex128 if got.is_complex() else torch.float64
    got, want = got.detach().cpu().to(wide), want.detach().cpu().to(wide)
    assert got.shape == want.shape
    scale = 1 + want.abs().max().item() if want.numel() else 1
    torch.testing.assert_close(got, want, rtol=tolerance, atol=tolerance * scale)
