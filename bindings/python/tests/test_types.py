# SPDX-License-Identifier: Apache-2.0
"""The words that annotations accept are those that functions do, and programs are checked by them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import get_args

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
PROGRAM = """
import numpy as np
from flashscan import gated_scan, linear_scan, prefix_scan, rnn

x = np.ones((2, 5, 3), np.float32)
linear_scan(0.5, x, axis=1, gate_form="log", out=x)
prefix_scan(x, "max", axis=1)
linear_scan(0.5, x, layout="tbc")
linear_scan(0.5, x, gate_form="exp")
gated_scan(x, x, layer="gru")
rnn(x, x, None, "ltsm")
"""


@pytest.mark.parametrize("name", TABLES)
def test_annotations_have_the_words_of_the_tables(name):
    assert set(get_args(getattr(_types, name))) == set(TABLES[name])


def test_wrong_words_are_found_by_mypy(tmp_path):
    pytest.importorskip("mypy")
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    options = ["--strict", "--follow-imports=silent", f"--cache-dir={tmp_path}", "--python-executable", sys.executable]
    run = subprocess.run(
        [sys.executable, "-m", "mypy", *options, str(program)],
        capture_output=True,
        text=True,
        env={"MYPYPATH": str(Path(_types.__file__).parents[1]), "PATH": ""},
    )
    found = [int(line.split(":")[1]) for line in run.stdout.splitlines() if ": error:" in line]
    assert found == [8, 9, 10, 11], run.stdout + run.stderr
