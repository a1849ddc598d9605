# SPDX-License-Identifier: Apache-2.0
"""The golden cases that the tests of every binding share, as calls of this package; tests/golden/README.md has the format."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

_FILE = json.loads((Path(__file__).resolve().parents[3] / "tests" / "golden" / "cases.json").read_text())
_DTYPES = {"f64": "float64", "f32": "float32", "bf16": "bfloat16", "f16": "float16"}
_DTYPES.update(c128="complex128", c64="complex64", i32="int32", i64="int64", u8="uint8")
_WIDE = {"bfloat16": "float32", "float16": "float32"}


def _runs():
    for case in _FILE["cases"]:
        if case["desc"].get("kind") == "affine" and case["desc"]["mode"] != "inclusive":
            continue  # affine_scan has no other mode
        for run in case["runs"]:
            yield pytest.param(case, run, id="-".join((case["name"], *run.values())))


RUNS = list(_runs())
CELLS = _FILE["cells"]


def _values(tensor):
    values = np.array(tensor["data"], np.float64)
    if tensor.get("complex"):
        return values.reshape(*tensor["shape"], 2).view(np.complex128)[..., 0]
    return values.reshape(tensor["shape"])


class Golden:
    """A case in the types of a run, on a package's arrays, which ``make(values, dtype)`` makes."""

    def __init__(self, case, run, make):
        self.desc, self.family, self.make = case["desc"], case["family"], make
        self.kind = self.desc.get("kind")
        self.dtype = _DTYPES[run["dtype"]]
        wide = _WIDE.get(self.dtype, self.dtype)
        weight = _DTYPES[run.get("weight_dtype", run["dtype"])]
        self._dtypes = {"state_in": wide, "state_out": wide, "weight": weight, "bias": weight, "reset": "uint8"}
        gate, param = (_DTYPES[run.get(field, run["dtype"])] for field in ("gate_dtype", "param_dtype"))
        self._dtypes.update(gate=gate, second_gate=gate, param=param)
        if self.family == "gated":
            self._dtypes.update(bias=param)
        if self.family == "selective":
            self._dtypes.update(self._matrices(_DTYPES[run.get("matrix_dtype", "f32")], wide, "matrix_dtype" in run))
        self._dtypes.update(seq_offsets=_DTYPES[self.desc["offsets_dtype"]])
        self.reduces, self.tolerance = self.desc.get("mode") == "reduction", _FILE["tolerance"][run["dtype"]]
        self.operands = self._arrays(case["forward"]["in"])
        self.wanted = self._values(case["forward"]["out"])
        self.options = {"reverse": self.desc["direction"] == "reverse"}
        for name in {"seq_offsets", "reset"} & self.operands.keys():
            self.options[name] = self.operands.pop(name)
        if self.family == "gated":
            self.options.update(self._parts())
        if self.family == "selective":
            self.options.update(delta_softplus="softplus" in self.desc["flags"])
        if self.family == "operator" and self.kind != "affine":
            self.options.update(axis=1 if self.desc["layout"] == "btc" else 2)
        elif self.family != "operator":
            names = ("layout", "cell", "recurrent_clip", "gate_form")
            self.options.update({name: self.desc[name] for name in names if name in self.desc})
        self.all_states = "all_states" in self.desc.get("flags", ())
        self.incoming = self.wanted_gradients = None
        if backward := case.get("backward"):
            self.incoming = self._arrays(backward["in"])
            self.wanted_gradients = self._values(backward["out"])
        if self.reduces:  # their final state is the output
            self.wanted.pop("state_out", None)
            if "state_out" in (self.incoming or ()):
                self.incoming = {"output": self.incoming["output"] + self.incoming["state_out"]}
        self.final = "state_out" in self.wanted

    def _matrices(self, given, wide, complex_):
        """The dtypes of matrices and states of a selective scan."""
        matrix = given if complex_ else wide
        step = matrix if complex_ else self.dtype
        names = {name: step if f"{name}_per_step" in self.desc["flags"] else matrix for name in ("b", "c")}
        return {"a": matrix, "state_in": matrix, "state_out": matrix, "d": wide, "bias": wide, **names}

    def _parts(self):
        names = ("decay_rate", "sqrt_slope_limit")
        if not self.desc["layer"]:
            names += ("decay", "scale", "activation", "epilogue")
        first_step = "first_step" in self.desc["flags"]
        return {"layer": self.desc["layer"] or None, "first_step": first_step, **{name: self.desc[name] for name in names}}

    @property
    def hides_state(self):
        return self.family == "gated" and (self.desc["layer"] == "qrnn" or self.desc["epilogue"] != "none")

    def _beside(self, operands):
        """What a gated layer has beside gate and input."""
        names = ("second_gate", "input_gate", "output_gate", "param", "bias")
        return {name: operands[name] for name in names if name in operands}

    def _values(self, tensors):
        """By name, of what gradients are of; vectors of affine maps without the library's axis of channels."""
        values = {name.removeprefix("grad_"): _values(tensor) for name, tensor in tensors.items()}
        if self.kind == "affine":
            axes = {"input": 2, "gate": 2, "output": 2, "state_in": 1, "state_out": 1}
            values.update({name: values[name].squeeze(axes[name]) for name in axes.keys() & values.keys()})
        return values

    def _arrays(self, tensors):
        return {name: self.make(x, self._dtypes.get(name, self.dtype)) for name, x in self._values(tensors).items()}

    def forward(self, package, operands, **more):
        """The results of the package's function, and what ``more`` makes it return besides."""
        x, state, more = operands["input"], operands.get("state_in"), {**self.options, **more}
        if "index" in self.wanted:
            if package.__name__ == "flashscan":
                more["return_index"] = True
            else:  # flashscan.torch and flashscan.jax have none
                del self.wanted["index"]
        final = {"return_final_state": self.final}
        if self.family == "linear":
            results = package.linear_scan(operands["gate"], x, state, **final, **more)
        elif self.family == "gated":
            results = package.gated_scan(operands["gate"], x, state, **self._beside(operands), **final, **more)
        elif self.family == "selective":
            arrays = (operands[name] for name in ("delta", "a", "b", "c"))
            others = (operands.get(name) for name in ("d", "output_gate", "bias"))
            results = package.selective_scan(x, *arrays, *others, state, **final, **more)
        elif self.family == "rnn":
            more.update(final, initial_state=state, return_all_states=self.all_states)
            results = package.rnn(x, operands["weight"], operands.get("bias"), **more)
        elif self.kind == "affine":
            results = package.affine_scan(operands["gate"], x, state, **final, **more)
        elif self.reduces:
            results = package.reduce(x, self.kind, initial=state, **more)
        else:
            more.update(exclusive=self.desc["mode"] == "exclusive", return_final=self.final)
            results = package.prefix_scan(x, self.kind, initial=state, **more)
        return results if isinstance(results, tuple) else (results,)

    def named(self, results):
        """What forward returned, by the names of ``wanted``."""
        return dict(zip((name for name in ("output", "index", "state_out") if name in self.wanted), results))

    def backward(self, package, results):
        """Gradients by name, of the package's function for them; ``results`` of a network end with its reserve."""
        given, grad, grad_state = self.operands, self.incoming["output"], self.incoming.get("state_out")
        x, state, more = given["input"], given.get("state_in"), self.options
        if self.family == "linear":
            names = ("gate", "input", "state_in")
            found = package.linear_scan_backward(given["gate"], results[0], grad, state, grad_state, **more)
        elif self.family == "gated":
            states = results[-1] if self.hides_state else results[0]
            found = package.gated_scan_backward(
                given["gate"], x, states, grad, state, grad_state, **self._beside(given), **more
            )
            found["state_in"] = found.pop("initial_state")
            return found
        elif self.family == "selective":
            arrays, others = (given[name] for name in ("delta", "a", "b", "c")), ("d", "output_gate", "bias")
            found = package.selective_scan_backward(
                x, *arrays, grad, *map(given.get, others), state, grad_state, **more
            )
            words = {"u": "input", "z": "output_gate", "delta_bias": "bias", "initial_state": "state_in"}
            return {words.get(name, name.lower() if len(name) == 1 else name): array for name, array in found.items()}
        elif self.family == "rnn":
            names = ("input", "weight", "bias", "state_in")
            more = {**more, "all_states": self.all_states}
            arrays = (given["weight"], results[0], results[-1], grad, state, grad_state)
            found = package.rnn_backward(*arrays, **more)
        elif self.kind == "affine":
            names = ("gate", "input", "state_in")
            more = {**more, "grad_final_state": grad_state}
            found = package.affine_scan_backward(given["gate"], results[0], grad, state, **more)
        elif self.reduces:
            names = ("input", "state_in")
            found = package.reduce_backward(x, self.kind, grad, initial=state, **more)
        else:
            names = ("input", "state_in")
            more = {**more, "exclusive": self.desc["mode"] == "exclusive", "initial": state, "grad_final": grad_state}
            found = package.prefix_scan_backward(x, self.kind, grad, results[0], **more)
        return dict(zip(names, found))

    def check(self, got, wanted):
        """NumPy arrays by name."""
        for name, values in wanted.items():
            close = self.tolerance * max(1, max(abs(values).max(initial=0) for values in (values.real, values.imag)))
            assert got[name].shape == values.shape, name
            error = got[name] - values
            assert abs(error.real).max(initial=0) <= close and abs(error.imag).max(initial=0) <= close, name
