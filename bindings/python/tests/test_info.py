# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import subprocess
import sys

import pytest

import flashscan


def test_info_names_version_backends_and_kernels():
    done = subprocess.run([sys.executable, "-m", "flashscan", "info"], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == f"flashscan {flashscan.__version__}" and lines[1].startswith("library ")
    assert any(line.startswith("cpu: ") for line in lines) and any(line.startswith("cuda: ") for line in lines)
    for problem in ("linear [8, 1024, 256] f32", "lstm [16, 256, 4, 1, 256] bf16", "matmul [8, 1024, 16, 16] f32"):
        assert any(line.strip().startswith(problem) and len(line.split()) > 7 for line in lines)


def test_device_count():
    assert flashscan.device_count("cpu") == 1
    assert flashscan.device_count() >= 0
    with pytest.raises(flashscan.FlashscanValueError, match="backend is 'tpu'; accepted are 'cpu', 'cuda'"):
        flashscan.device_count("tpu")
