# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import flashscan
from flashscan import _info
from flashscan import _library as lib


def test_info_names_version_backends_and_kernels():
    done = subprocess.run([sys.executable, "-m", "flashscan", "info"], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == f"flashscan {flashscan.__version__}" and lines[1].startswith("library ")
    assert lines[2].startswith("built ") and "baseline" in lines[2]
    assert any(line.startswith("cpu: ") for line in lines) and any(line.startswith("cuda: ") for line in lines)
    for problem in ("linear [8, 1024, 256] f32", "lstm [16, 256, 4, 1, 256] bf16", "matmul [8, 1024, 16, 16] f32"):
        assert any(line.strip().startswith(problem) and len(line.split()) > 7 for line in lines)


def test_build_info():
    build = lib.build_info()
    assert lib.version_text(build["version"]) == flashscan.__version__
    sets = build["cpu_instruction_sets"].split()
    assert "baseline" in sets and build["cpu_instruction_set"] in sets
    assert (build["cuda_unusable"] == "") == (flashscan.device_count() > 0)
    assert (build["cuda_toolkit"] == 0) == (build["cuda_architectures"] == "")


def build_of(monkeypatch, **fields):
    build = {**lib.build_info(), **fields}
    monkeypatch.setattr(lib, "build_info", lambda: build)


def test_info_says_why_no_gpu_can_be_used(monkeypatch):
    build_of(monkeypatch, cuda_toolkit=13000, cuda_architectures="80 90a-real", cuda_unusable="there is no driver")
    monkeypatch.setattr(_info, "device_count", lambda backend="cuda": int(backend == "cpu"))
    lines = _info.info().splitlines()
    assert lines[2].endswith("and CUDA 13.0 for 80 90a-real, which needs a driver of CUDA 13.0 or newer")
    assert lines[-1] == "cuda: there is no driver"


def test_info_of_a_build_without_cuda(monkeypatch):
    build_of(monkeypatch, cuda_toolkit=0, cuda_architectures="", cpu_instruction_sets="baseline avx2")
    assert _info.info().splitlines()[2] == "built for the CPU (baseline avx2), without CUDA"


def test_info_tells_that_two_packages_share_the_folder(monkeypatch):
    names = {"flashscan": ["flashscan", "flashscan-cu12"]}
    monkeypatch.setattr(_info.importlib.metadata, "packages_distributions", lambda: names)
    assert "flashscan and flashscan-cu12 are installed" in _info.info().splitlines()[3]


def test_prefix():
    if not (Path(flashscan.__file__).parent / "include").is_dir():
        with pytest.raises(FileNotFoundError, match="installed without the library"):
            _info.prefix()
        return
    done = subprocess.run([sys.executable, "-m", "flashscan", "prefix"], capture_output=True, text=True, timeout=60)
    folder = Path(done.stdout.strip())
    assert (folder / "include" / "flashscan" / "flashscan.h").is_file()
    assert (folder / "lib" / "libflashscan.so").read_text().startswith("INPUT(libflashscan.so.")


def test_device_count():
    assert flashscan.device_count("cpu") == 1
    assert flashscan.device_count() >= 0
    with pytest.raises(flashscan.FlashscanValueError, match="backend is 'tpu'; accepted are 'cpu', 'cuda'"):
        flashscan.device_count("tpu")
