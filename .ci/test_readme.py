# SPDX-License-Identifier: Apache-2.0
"""Runs the examples of README.md as a reader would: against build/cpu, and with the installed Python package.

JAX_PYTHON names the interpreter of an environment with JAX, for the examples that import it.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text()
LIBRARY = ROOT / "build" / "cpu" / "src"


def blocks(language):
    found = re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    assert found, f"README.md has no {language} example"
    return found


def run(*command, **environment):
    environment = {**os.environ, **environment}
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def compile_and_run(code, source, *compiler):
    source.write_text(code)
    program = source.with_suffix("")
    link = [f"-L{LIBRARY}", "-lflashscan", f"-Wl,-rpath,{LIBRARY}"]
    run(*compiler, "-Wall", "-Wextra", "-Wpedantic", "-Werror", f"-I{ROOT / 'include'}", source, "-o", program, *link)
    assert run(program) == expected_after(code)


@pytest.mark.parametrize("code", blocks("c"))
def test_c(code, tmp_path):
    compile_and_run(code, tmp_path / "example.c", "cc", "-std=c99")


@pytest.mark.parametrize("code", blocks("cpp"))
def test_cpp(code, tmp_path):
    compile_and_run(code, tmp_path / "example.cpp", "c++", "-std=c++17")


@pytest.mark.parametrize("code", blocks("rust"))
def test_rust(code, tmp_path):
    crate = ROOT / "bindings" / "rust" / "flashscan"
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "main.rs").write_text(code)
    package = '[package]\nname = "example"\nversion = "0.0.0"\nedition = "2021"\n'
    (tmp_path / "Cargo.toml").write_text(f'{package}[dependencies]\nflashscan = {{ path = "{crate}" }}\n')
    manifest = str(tmp_path / "Cargo.toml")
    target = os.environ.get("CARGO_TARGET_DIR", str(tmp_path / "target"))
    run("cargo", "run", "--offline", "--manifest-path", manifest, FLASHSCAN_LIB_DIR=str(LIBRARY), CARGO_TARGET_DIR=target)


@pytest.mark.parametrize("code", blocks("julia"))
def test_julia(code, tmp_path):
    (tmp_path / "example.jl").write_text(code)
    project = ROOT / "bindings" / "julia" / "FlashScan"
    run("julia", f"--project={project}", str(tmp_path / "example.jl"), FLASHSCAN_LIB_DIR=str(LIBRARY))


@pytest.mark.parametrize("code", blocks("python"))
def test_python(code, tmp_path):
    (tmp_path / "example.py").write_text(code)
    python = os.environ.get("JAX_PYTHON", sys.executable) if "import jax" in code else sys.executable
    run(python, str(tmp_path / "example.py"))


def expected_after(code):
    """The output that a `text` block right after the example shows."""
    rest = README[README.index(code) + len(code) :]
    match = re.match(r"```\s*```text\n(.*?)^```$", rest, re.MULTILINE | re.DOTALL)
    assert match, "the example must be followed by a text block with its output"
    return match.group(1)


def test_commands_name_presets_that_exist():
    presets = run("cmake", "--list-presets=workflow", "-S", str(ROOT))
    named = re.findall(r"cmake --workflow --preset (\w+)", README)
    assert "quickstart" in named and all(f'"{preset}"' in presets for preset in named)
