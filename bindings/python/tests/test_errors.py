# SPDX-License-Identifier: Apache-2.0
"""What bad input gets: an exception that names the argument, what it is and what is accepted."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

import flashscan
from flashscan import _library, _linear, linear_scan, linear_scan_backward

X = np.ones((2, 5, 3), np.float32)
G = np.full((2, 5, 3), 0.5, np.float32)
ROW = np.ones((1, 5, 3), np.float32)

VALUE_ERRORS = {
    "input of two axes": (lambda: linear_scan(0.5, X[0]), r"input has shape \(5, 3\)"),
    "gate of another shape": (lambda: linear_scan(G[:, :4], X), r"gate has shape \(2, 4, 3\).*\(2, 5, 3\)"),
    "gate of four axes": (lambda: linear_scan(G[None], X), r"gate has shape \(1, 2, 5, 3\)"),
    "gate larger than the input": (lambda: linear_scan(G, ROW), r"gate has shape"),
    "layout": (lambda: linear_scan(G, X, layout="tbc"), r"layout is 'tbc'; accepted are 'btc', 'bct'"),
    "gate form": (lambda: linear_scan(G, X, gate_form="exp"), r"gate_form is 'exp'"),
    "state": (lambda: linear_scan(G, X, np.zeros((3, 2))), r"initial_state has shape \(3, 2\); accepted is \(2, 3\)"),
    "reset": (lambda: linear_scan(G, X, reset=np.zeros((2, 4), bool)), r"reset has shape \(2, 4\).*\(2, 5\)"),
    "threads": (lambda: linear_scan(G, X, threads=-1), r"threads is -1"),
    "offsets of two axes": (lambda: linear_scan(0.5, ROW, seq_offsets=[[0, 5]]), r"seq_offsets has shape \(1, 2\)"),
    "no sequence": (lambda: linear_scan(0.5, ROW, seq_offsets=[0]), r"seq_offsets has shape \(1,\)"),
    "offsets with a batch": (lambda: linear_scan(0.5, X, seq_offsets=[0, 5]), r"input has shape \(2, 5, 3\) with seq_offsets"),
    "offsets not from 0": (lambda: linear_scan(0.5, ROW, seq_offsets=[1, 5]), r"seq_offsets\[0\] is 1; accepted is 0"),
    "offsets that decrease": (lambda: linear_scan(0.5, ROW, seq_offsets=[0, 3, 2]), r"seq_offsets\[2\] is 2, less than seq_offsets\[1\] = 3"),
    "offsets past the end": (lambda: linear_scan(0.5, ROW, seq_offsets=[0, 6]), r"seq_offsets\[1\] is 6"),
    "gradient of another shape": (lambda: linear_scan_backward(G, X, X[:1]), r"grad_output has shape \(1, 5, 3\)"),
    "gradient of a state": (lambda: linear_scan_backward(G, X, X, None, np.zeros(3)), r"grad_final_state has shape"),
}
TYPE_ERRORS = {
    "integers": (lambda: linear_scan(0.5, X.astype(np.int32)), r"input has dtype int32; accepted are float32"),
    "long double": (lambda: linear_scan(0.5, X.astype(np.longdouble)), r"input has dtype"),
    "other byte order": (lambda: linear_scan(0.5, X.astype(">f4")), r"input has dtype >f4"),
    "integer gate": (lambda: linear_scan(G.astype(np.int64), X), r"gate has dtype int64"),
    "complex state": (lambda: linear_scan(G, X, np.zeros((2, 3), complex)), r"initial_state has dtype complex128"),
    "wide gate": (
        lambda: linear_scan(G.astype(float), X),
        r"gate is float64 and input is float32; accepted for gate is",
    ),
    "complex number": (lambda: linear_scan(1j, X), r"gate is complex128 and input is float32"),
    "dates": (lambda: linear_scan(0.5, X.astype("M8[s]")), r"input has dtype datetime64"),
    "masked array": (lambda: linear_scan(0.5, np.ma.masked_array(X, X > 0)), r"masked.*accepted are arrays without a mask"),
    "reset": (lambda: linear_scan(G, X, reset=np.zeros((2, 5))), r"reset has dtype float64; accepted are bool and"),
    "offsets": (lambda: linear_scan(0.5, ROW, seq_offsets=[0.0, 5.0]), r"seq_offsets has dtype float64"),
    "threads": (lambda: linear_scan(G, X, threads=1.5), r"threads is 1.5"),
    "gradient": (lambda: linear_scan_backward(G, X, X.astype(float)), r"grad_output has dtype float64.*float32"),
}


@pytest.mark.parametrize("case", VALUE_ERRORS)
def test_value_errors(case):
    call, message = VALUE_ERRORS[case]
    with pytest.raises(flashscan.FlashscanValueError, match=message) as caught:
        call()
    assert isinstance(caught.value, ValueError) and isinstance(caught.value, flashscan.FlashscanError)
    assert 10 <= caught.value.status <= 19


@pytest.mark.parametrize("case", TYPE_ERRORS)
def test_type_errors(case):
    call, message = TYPE_ERRORS[case]
    with pytest.raises(flashscan.FlashscanTypeError, match=message) as caught:
        call()
    assert isinstance(caught.value, TypeError) and isinstance(caught.value, flashscan.FlashscanError)


def test_calls_and_plans_are_cached_and_dropped():
    calls = _linear.forward.cached
    calls.cache_clear()
    _library.plan.cache_clear()
    for _ in range(3):
        linear_scan(G, X)
    assert (calls.cache_info().misses, calls.cache_info().hits) == (1, 2)
    assert (_library.plan.cache_info().misses, _library.plan.cache_info().hits) == (1, 0)
    most = calls.cache_info().maxsize
    for time in range(1, most + 10):
        linear_scan(0.5, np.zeros((1, time, 1)))
    assert calls.cache_info().currsize == most == _library.plan.cache_info().currsize


def import_with(path):
    environment = {**os.environ, "FLASHSCAN_LIBRARY": path}
    code = "import flashscan; print(flashscan.__version__)"
    return subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=60)


def test_environment_names_the_library():
    loaded = import_with(_library._library._name)
    assert loaded.returncode == 0 and loaded.stdout.strip() == flashscan.__version__
    missing = import_with("/nowhere/libflashscan.so")
    assert missing.returncode != 0 and "ImportError: flashscan: /nowhere/libflashscan.so" in missing.stderr
