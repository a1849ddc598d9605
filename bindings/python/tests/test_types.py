# SPDX-License-Identifier: Apache-2.0
"""The words that annotations accept are those that functions do, and programs get the types that annotations promise.

A program's lines that mypy has to refuse end with a comment that says so. Its functions ``scans`` and ``more`` are run too.
"""

from __future__ import annotations

import importlib
import subprocess
import sys
import types
from pathlib import Path
from typing import Any, Union, get_args, get_origin

import numpy as np
import pytest

from flashscan import _gated, _linear, _operator, _rnn, _types

TABLES = {
    "Layout": _linear.LAYOUTS,
    "NetworkLayout": _rnn.LAYOUTS,
    "GateForm": _linear.GATE_FORMS,
    "Cell": _rnn.CELLS,
    "Layer": _gated.LAYERS,
    "Decay": _gated.DECAYS,
    "Scale": _gated.SCALES,
    "Activation": _gated.ACTIVATIONS,
    "Epilogue": _gated.EPILOGUES,
    "OperatorName": _operator.NAMED,
}
ARRAYS = {
    "numpy": "import numpy as np\nimport numpy.typing as npt\nArray = npt.NDArray[np.float32]\nfrom flashscan import *\nfrom flashscan.signal import *",
    "torch": "import torch\nArray = torch.Tensor\nfrom flashscan.torch import *",
    "jax": "import jax\nArray = jax.Array\nfrom flashscan.jax import *",
}
SCANS = """
from typing import Any
from typing_extensions import assert_type

def scans(x: Array, A: Array, W: Array, Wx: Array, R: Array, ask: bool) -> None:
    assert_type(linear_scan(x, x, axis=1, gate_form="log"), Array)
    assert_type(linear_scan(x, x, layout="bct", return_final_state=True), tuple[Array, Array])
    assert_type(linear_scan(0.5, x, return_final_state=ask), Array | tuple[Array, Array])
    assert_type(gated_scan(x, x, layer="mingru", axis=1), Array)
    assert_type(gated_scan(x, x, decay="exp", scale="one_minus", return_final_state=True), tuple[Array, Array])
    assert_type(gated_scan(x, x, decay="exp", output_gate=x, epilogue="silu"), Array)
    assert_type(selective_scan(x, x, A, A, A, delta_softplus=True), Array)
    assert_type(selective_scan(x, x, A, A, A, return_final_state=True), tuple[Array, Array])
    assert_type(selective_scan(x, x, A, A, A, return_final_state=ask), Array | tuple[Array, Array])
    assert_type(rnn(Wx, R, None, "lstm", reverse=True), Array)
    assert_type(rnn(Wx, R, None, return_all_states=True, return_final_state=True), tuple[Array, Array])
    assert_type(affine_scan(W, x), Array)
    assert_type(affine_scan(W, x, reverse=True, return_final_state=True), tuple[Array, Array])
    assert_type(affine_scan(W, x, return_final_state=ask), Array | tuple[Array, Array])
    assert_type(prefix_scan(x, "max", axis=1), Array)
    assert_type(prefix_scan(x, "add", exclusive=True, return_final=True), tuple[Array, Array])
    assert_type(prefix_scan(x, "add", return_final=ask), Array | tuple[Array, Array])
    assert_type(reduce(x, "add"), Array)

def refused(x: Array, Wx: Array, R: Array) -> None:
    linear_scan(0.5, x, layout="tbc")  # refused
    linear_scan(0.5, x, gate_form="exp")  # refused
    linear_scan(0.5, x, revrese=True)  # refused
    gated_scan(x, x, layer="gru")  # refused
    selective_scan(x, x, x, x, x, delta_softplus="yes")  # refused
    rnn(Wx, R, None, "ltsm")  # refused
    linear_scan(0.5, x, return_final_state=True).shape  # refused
"""
MORE = {
    "numpy": """
def more(x: Array, A: Array, Wx: Array, R: Array, now: Array, state: Array, ask: bool) -> None:
    assert_type(linear_scan(0.5, x, out=x), Array)
    assert_type(prefix_scan(x, "max", return_final=True, out=x.copy()), tuple[Array, Array])
    assert_type(gated_scan(x.copy(), x, layer="mingru", axis=-2, out=x), Array)
    assert_type(selective_scan(x, x.copy(), A, A, A, out=x), Array)
    assert_type(linear_scan_backward(x, x, x), tuple[Array, Array, Array])
    output, reserve = gated_scan(x, x, decay="exp", output_gate=x, epilogue="silu", return_reserve=True)
    assert_type(output, Array)
    gated_scan_backward(x, x, reserve, x, decay="exp", output_gate=x, epilogue="silu")
    output, reserve = rnn(Wx, R, None, return_reserve=True)
    output, last, reserve = rnn(Wx, R, None, return_final_state=True, return_reserve=True)
    assert_type(rnn_backward(R, output, reserve, output), tuple[Array, Array, Array, Array])
    assert_type(last, Array)
    rnn(Wx, R, None, return_final_state=ask, return_reserve=ask)
    assert_type(linear_step(0.5, now, state), Array)

def indices(x: Array) -> None:
    assert_type(prefix_scan(x, "max", return_index=True), tuple[Array, Any])
    assert_type(prefix_scan(x, "min", return_index=True, return_final=True), tuple[Array, Any, Array])
    assert_type(reduce(x, "max", axis=1, return_index=True), tuple[Array, Any])
    prefix_scan(x, "add", return_index=True)  # refused
    reduce(x, "min", exclusive=True)  # refused

def filters(x: Array) -> None:
    assert_type(lfilter(x, x, x), Any)
    assert_type(lfilter(x, x, x, 1, x), tuple[Any, Any])
    assert_type(sosfilt(x, x, zi=x), tuple[Any, Any])
""",
    "torch": """
from flashscan import distributed
from flashscan.compat.mamba_ssm import selective_scan_fn

def more(x: Array, now: Array, state: Array) -> None:
    assert_type(linear_scan(0.5, x, seq_offsets=None), Array)
    assert_type(linear_step(0.5, now, state), Array)

def indices(x: Array) -> None:
    assert_type(prefix_scan(x, "max", return_index=True), tuple[Array, Array])
    assert_type(prefix_scan(x, "min", return_index=True, return_final=True), tuple[Array, Array, Array])
    assert_type(reduce(x, "max", axis=1, return_index=True), tuple[Array, Array])
    prefix_scan(x, "add", return_index=True)  # refused

def over_ranks(x: Array) -> None:
    assert_type(distributed.linear_scan(0.5, x, group=None), Array)
    assert_type(distributed.linear_scan(0.5, x, return_final_state=True), tuple[Array, Array | None])
    assert_type(distributed.gated_scan(x, x, layer="mingru", return_final_state=True), tuple[Array, Array | None])
    assert_type(distributed.prefix_scan(x, "add", return_final=True), tuple[Array, Array | None])
    distributed.linear_scan(0.5, x, seq_offsets=x)  # refused
    distributed.prefix_scan(x, "matmul")  # refused

def of_mamba(x: Array, ask: bool) -> None:
    assert_type(selective_scan_fn(x, x, x, x, x, delta_softplus=True), Array)
    assert_type(selective_scan_fn(x, x, x, x, x, return_last_state=True), tuple[Array, Array])
    assert_type(selective_scan_fn(x, x, x, x, x, return_last_state=ask), Array | tuple[Array, Array])
""",
    "jax": """
def more(now: Array, state: Array) -> None:
    assert_type(linear_step(0.5, now, state), tuple[Array, Array])

def refused_too(x: Array) -> None:
    linear_scan(0.5, x, out=x)  # refused
    gated_scan(x, x, layer="mingru", out=x)  # refused
""",
}
SHAPES = {"x": (2, 5, 3), "A": (3, 4), "W": (2, 5, 3, 3), "Wx": (2, 5, 4, 1, 3), "R": (4, 1, 3, 3)} | {"now": (2, 3), "state": (2, 3)}


@pytest.mark.parametrize("name", TABLES)
def test_annotations_have_the_words_of_the_tables(name):
    assert set(get_args(getattr(_types, name))) == set(TABLES[name])


def source(package: str) -> str:
    pytest.importorskip(package)
    return ARRAYS[package] + SCANS + MORE[package]


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("mypy")


@pytest.mark.parametrize("package", ARRAYS)
def test_programs_get_their_types_from_mypy(package, cache, tmp_path):
    pytest.importorskip("mypy")
    program = tmp_path / "program.py"
    program.write_text(source(package))
    options = ["--strict", "--follow-imports=silent", f"--cache-dir={cache}", "--python-executable", sys.executable]
    folder = Path(_types.__file__).parents[1]
    # mypy finds what is installed by itself, and refuses to be told where.
    path = {} if folder.name in ("site-packages", "dist-packages") else {"MYPYPATH": str(folder)}
    run = subprocess.run(
        [sys.executable, "-m", "mypy", *options, str(program)], capture_output=True, text=True, env={"PATH": "", **path}
    )
    found = {int(line.split(":")[1]) for line in run.stdout.splitlines() if ": error:" in line}
    lines = enumerate(program.read_text().splitlines(), 1)
    assert found == {number for number, line in lines if line.endswith("# refused")}, run.stdout + run.stderr


def is_of(value: Any, kind: Any) -> bool:
    if get_origin(kind) in (Union, types.UnionType):
        return any(is_of(value, each) for each in get_args(kind))
    if get_origin(kind) is tuple:
        kinds = get_args(kind)
        return isinstance(value, tuple) and len(value) == len(kinds) and all(map(is_of, value, kinds))
    return isinstance(value, get_origin(kind) or kind)


@pytest.mark.parametrize("package", ARRAYS)
@pytest.mark.parametrize("ask", [False, True])
def test_results_are_of_the_types(package, ask):
    def assert_type(value, kind):
        assert is_of(value, kind), f"{type(value)} for {kind}"

    names = {"assert_type": assert_type}
    exec(source(package).replace("from typing_extensions import assert_type", ""), names)
    module = importlib.import_module("jax.numpy" if package == "jax" else package)
    given = {name: module.asarray(np.full(shape, 0.5, np.float32)) for name, shape in SHAPES.items()} | {"ask": ask}
    for function in (names["scans"], names["more"]):
        function(**{name: given[name] for name in function.__code__.co_varnames[: function.__code__.co_argcount]})
