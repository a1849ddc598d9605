# SPDX-License-Identifier: Apache-2.0
"""The examples of a recurrent policy and of a server: what they compare is equal, and they learn, write and draw."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from torch_support import DEVICES, need  # noqa: E402

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
if not EXAMPLES.exists():
    pytest.skip("the examples are in the repository alone", allow_module_level=True)
POLICY = ["--environments=32", "--steps=20", "--longest=6", "--width=16"]
SERVE = ["--width=16", "--blocks=2", "--prompts=12", "--batch=4", "--rows=6", "--share=5", "--longest=20"]


@pytest.fixture
def example(monkeypatch):
    """Imports an example by its name."""
    monkeypatch.syspath_prepend(str(EXAMPLES))
    for name in ("char_lm", "recurrent_policy", "serve"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return importlib.import_module


@pytest.mark.parametrize("layer", ["mingru", "hgrn", "rglru", "mamba"])
@pytest.mark.parametrize("device", DEVICES)
def test_the_policy_equals_itself_in_a_loop(example, device, layer):
    need(device)
    more = ["--check", "--double", "--updates=3", f"--layer={layer}", f"--device={device}"]
    assert example("recurrent_policy").main([*POLICY, *more]) == 0


@pytest.mark.parametrize("device", DEVICES)
def test_the_policy_learns(example, device, tmp_path, capsys):
    pytest.importorskip("matplotlib")
    need(device)
    curve = tmp_path / "curve.png"
    more = ["--layer=rglru", "--updates=60", "--lr=0.02", f"--device={device}", f"--plot={curve}"]
    assert example("recurrent_policy").main([*POLICY, *more]) == 0
    means = [float(line.split("mean return ")[1].split()[0]) for line in capsys.readouterr().out.splitlines()[:-1]]
    assert means[0] < 0.6 and means[-1] > 0.8 and curve.stat().st_size > 1000


@pytest.mark.parametrize("device", DEVICES)
def test_answers_of_a_pool_are_those_of_sequences_alone(example, device):
    need(device)
    assert example("serve").main([*SERVE, "--check", "--double", "--steps=2", f"--device={device}"]) == 0


def test_the_server_draws_and_writes(example, tmp_path, capsys):
    pytest.importorskip("matplotlib")
    text, curve = tmp_path / "text", tmp_path / "slots.png"
    text.write_text("the quick brown fox jumps over the lazy dog. " * 20)
    assert example("serve").main([*SERVE, "--steps=2", f"--text={text}", f"--plot={curve}"]) == 0
    assert "12/12 answers" in capsys.readouterr().out and curve.stat().st_size > 1000
