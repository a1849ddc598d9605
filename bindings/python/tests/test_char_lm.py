# SPDX-License-Identifier: Apache-2.0
"""The training example: its losses equal plain PyTorch's, and it learns, draws and writes."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from torch_support import DEVICES, need  # noqa: E402

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "char_lm.py"
if not EXAMPLE.exists():
    pytest.skip("the examples are in the repository alone", allow_module_level=True)
SMALL = ["--width=16", "--heads=2", "--blocks=1", "--batch=2", "--length=24", "--sample=20"]


@pytest.fixture(scope="module")
def example():
    spec = importlib.util.spec_from_file_location("char_lm", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("precision", [[], ["--double"]])
@pytest.mark.parametrize("layer", ["rglru", "mingru", "mamba", "slstm", "gru"])
@pytest.mark.parametrize("device", DEVICES)
def test_losses_equal_those_of_plain_torch(example, device, layer, precision):
    need(device)
    assert example.main(["--check", f"--layer={layer}", f"--device={device}", "--steps=30", *SMALL, *precision]) == 0


@pytest.mark.parametrize("layer", ["rglru", "mingru", "mamba", "slstm", "gru"])
@pytest.mark.parametrize("device", DEVICES)
def test_learns_a_text(example, device, layer, tmp_path, capsys):
    pytest.importorskip("matplotlib")
    need(device)
    text, curve = tmp_path / "text", tmp_path / "curve.png"
    text.write_text("the quick brown fox jumps over the lazy dog. " * 20)
    more = ["--lr=0.02", f"--text={text}", f"--plot={curve}"]
    assert example.main([f"--layer={layer}", f"--device={device}", "--steps=100", *SMALL, *more]) == 0
    bits = [float(text.split()[-1]) for text in capsys.readouterr().out.split(" bits/byte")[:-1]]
    assert bits[-1] < 2 < bits[0] and curve.stat().st_size > 1000
