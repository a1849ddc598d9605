# SPDX-License-Identifier: Apache-2.0
"""The mirrors of structs and constants against the pins of the C tests and the header, and loading in a forked process."""

from __future__ import annotations

import ctypes
import re
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from flashscan import _library as lib
from flashscan import _operator

ROOT = Path(__file__).resolve().parents[3]
STRUCTS = {
    "build": lib.Build,
    "comm": lib.Comm,
    "options": lib.Options,
    "strides": lib.Strides,
    "linear_desc": lib.LinearDesc,
    "rnn_desc": lib.RnnDesc,
    "operator_desc": lib.OperatorDesc,
    "gated_desc": lib.GatedDesc,
    "selective_desc": lib.SelectiveDesc,
    "custom_operator": lib.CustomOperator,
}
FAMILIES = ("DTYPE_", "BACKEND_", "ARG_", "")  # whose enumerators have names without their family here


@pytest.mark.parametrize("name", STRUCTS)
def test_structs_are_those_of_the_header(name):
    layout, mirror = (ROOT / "tests/abi/layout.c").read_text(), STRUCTS[name]
    pins = re.findall(rf"^PIN_FIELD\(flashscan_{name}, (\w+), (\d+)\);", layout, re.MULTILINE)
    ours = {field[0]: getattr(mirror, field[0]).offset for field in mirror._fields_}
    assert {"struct_size": 0, **{field: int(offset) for field, offset in pins}} == {"struct_size": 0, **ours}
    (size,) = re.findall(rf"sizeof\(flashscan_{name}\) [>=]= (\d+)", layout)
    assert ctypes.sizeof(mirror) == int(size)


def test_arguments_are_packed_as_the_header_has_them():
    layout = (ROOT / "tests/abi/layout.c").read_text()
    pins = [int(offset) for offset in re.findall(r"^PIN_FIELD\(flashscan_arg, \w+, (\d+)\);", layout, re.MULTILINE)]
    form = lib.ARG_ID + 2 * lib.ARG_WORD
    assert pins == [struct.calcsize(form[:length]) for length in range(4)]
    assert struct.calcsize(form) == 24


def test_constants_are_those_of_the_header():
    header = (ROOT / "include/flashscan/flashscan.h").read_text()
    theirs = {name: int(number, 0) for name, number in re.findall(r"\bFLASHSCAN_(\w+) =\s+(\w+)", header)}
    ours = {name: value for name, value in vars(lib).items() if name.isupper() and isinstance(value, int)}
    del ours["BOOL"], ours["LAST_CALLER_MISTAKE"]
    found = {name: [theirs[family + name] for family in FAMILIES if family + name in theirs] for name in ours}
    assert found == {name: [value] for name, value in ours.items()}


def test_operators_are_all_of_the_header():
    header = (ROOT / "include/flashscan/flashscan.h").read_text()
    theirs = {name.lower(): int(number) for name, number in re.findall(r"\bFLASHSCAN_OPERATOR_(\w+) = (\d+)\b", header)}
    flags = [name for name in theirs if name.startswith("flag_")]
    for name in flags:
        del theirs[name]
    assert {**_operator.NAMED, "affine": _operator.AFFINE, "custom": _operator.CUSTOM} == theirs


FORKS = """
import os, signal, torch
torch.ones(5_000_000).sin()  # by PyTorch's threads
if os.fork() == 0:
    signal.alarm(30)
    import numpy, flashscan
    ones = numpy.ones((4, 1000, 64))
    assert flashscan.linear_scan(0.5, ones)[0, -1, 0] == 2
    os._exit(0)
raise SystemExit(os.wait()[1])
"""


def test_a_process_that_was_forked_after_other_threads_of_openmp_ran():
    pytest.importorskip("torch")
    assert subprocess.run([sys.executable, "-c", FORKS], timeout=60).returncode == 0
