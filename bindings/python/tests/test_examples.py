# SPDX-License-Identifier: Apache-2.0
"""The examples of a recurrent policy, of a server and of a context cut over processes: what they compare is equal, and they
learn, write and draw."""

from __future__ import annotations

import importlib
import os
import re
import socket
import subprocess
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


def test_a_context_over_processes_gives_the_losses_of_one(tmp_path):
    if not (torch.distributed.is_available() and getattr(torch.distributed, "is_gloo_available", lambda: True)()):
        pytest.skip("PyTorch has no gloo")
    text = tmp_path / "text"
    text.write_text("the quick brown fox jumps over the lazy dog. " * 20)
    options = ["--context-parallel", "--check", "--double", "--layer=mingru", "--steps=4", "--length=25"]
    command = [sys.executable, EXAMPLES / "char_lm.py", *options, "--width=16", "--batch=2", f"--text={text}"]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    # The processes are started as torchrun starts them; Debian's release of PyTorch cannot run torchrun.
    group = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "OMP_NUM_THREADS": "1"}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    started = [subprocess.Popen(command, env={**os.environ, **group, "RANK": str(rank)}, **pipes) for rank in range(2)]
    (output, errors), (silent, _) = (process.communicate() for process in started)
    assert [process.returncode for process in started] == [0, 0] and silent == "", errors
    losses = re.findall(r"^(losses|windows cut over 2 processes): (.*)$", output, re.MULTILINE)
    assert [name for name, _ in losses] == ["losses", "windows cut over 2 processes"]
    one, two = ([float(loss) for loss in values.split(", ")] for _, values in losses)
    assert len(set(one)) == 3 and max(abs(a - b) for a, b in zip(one, two)) <= 2e-9


def test_a_context_is_cut_by_torchrun_and_for_layers_of_one_kind(example, monkeypatch, capsys):
    monkeypatch.delenv("RANK", raising=False)
    for layer, words in (("mingru", "for the processes of torchrun"), ("slstm", "accepted with --context-parallel")):
        with pytest.raises(SystemExit):
            example("char_lm").main(["--context-parallel", f"--layer={layer}"])
        assert words in capsys.readouterr().err
