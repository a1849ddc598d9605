# SPDX-License-Identifier: Apache-2.0
"""Every public function with every argument replaced by things that it was not made for: an error of the package, or a
result, and nothing else."""

from __future__ import annotations

import importlib
import inspect
import warnings

import numpy as np
import pytest

import flashscan

BAD = {
    "None": None,
    "text": "text",
    "a list": [1.0, 2.0],
    "a ragged list": [[1.0], [2.0, 3.0]],
    "an object": object(),
    "a dict": {"a": 1},
    "a set": {1, 2},
    "a class": int,
    "zero": 0,
    "minus one": -1,
    "a fraction": 0.5,
    "a complex number": 1j,
    "NaN": float("nan"),
    "a huge integer": 2**70,
    "no axes": np.float32(3),
    "nothing": np.zeros((0,), np.float32),
    "integers": np.arange(4),
    "strings": np.array(["a", "b"]),
    "objects": np.array([None, {}], object),
    "many axes": np.zeros((1,) * 9, np.float32),
    "long double": np.zeros((2, 5, 3), np.longdouble),
    "other byte order": np.zeros((2, 5, 3), ">f4"),
}


def ones(*shape):
    return np.ones(shape, np.float32) / 2


X, NET = ones(2, 5, 3), {"Wx": ones(2, 5, 4, 1, 3), "R": ones(4, 1, 3, 3), "b": ones(4, 1, 3)}
LINEAR = {"gate": X, "input": X, "initial_state": ones(2, 3), "reset": np.zeros((2, 5), bool)}
SELECTIVE = {"u": X, "delta": X, "A": -ones(3, 2), "B": ones(2, 5, 2), "C": ones(3, 2)}
MAMBA = {"u": X, "delta": X, "A": -ones(5, 2), "B": ones(2, 2, 3), "C": ones(2, 2, 3)}  # of 5 channels, 3 steps
ONE, ROWS = X[:, 0].copy(), {"state": ones(4, 3), "state_indices": np.array([2, 0], np.int32)}
STEP = {"state": ones(2, 3, 2), "x": X[:, 0], "dt": X[:, 0], "A": -ones(3, 2), "B": ones(2, 2), "C": ones(2, 2)}
# Arguments of calls that are right; those that are missing have defaults, which are replaced all the same.
CALLS = {
    "linear_scan": LINEAR,
    "linear_scan_backward": {"gate": X, "output": X, "grad_output": X},
    "gated_scan": {"gate": X, "input": X, "layer": "hgrn"},
    "gated_scan_backward": {"gate": X, "input": X, "states": X, "grad_output": X, "layer": "hgrn"},
    "selective_scan": SELECTIVE,
    "selective_scan_backward": {**SELECTIVE, "grad_output": X},
    "linear_step": {"gate": ONE, "input": ONE, **ROWS},
    "gated_step": {"gate": ONE, "input": ONE, "layer": "hgrn", "param": ones(3), **ROWS},
    "selective_step": {"u": ONE, "delta": ONE, "A": -ones(3, 2), "B": ones(2, 2), "C": ones(2, 2), "state": ones(2, 3, 2)},
    "rnn_step": {**NET, "Wx": NET["Wx"][:, 0].copy(), "state": ones(2, 4, 1, 3), "state_indices": ROWS["state_indices"]},
    "RnnStep": {"R": NET["R"], "b": NET["b"], "state": ones(2, 2, 1, 3)},
    "rnn": NET,
    "rnn_backward": {"R": NET["R"], "output": X[:, :, None], "reserve": None, "grad_output": X[:, :, None]},
    "prefix_scan": {"x": X, "op": "mul"},
    "prefix_scan_backward": {"x": X, "op": "mul", "grad_output": X},
    "reduce": {"x": X, "op": "mul"},
    "reduce_backward": {"x": X, "op": "mul", "grad_output": X[..., 0]},
    "affine_scan": {"W": ones(2, 5, 3, 3), "b": X},
    "affine_scan_backward": {"W": ones(2, 5, 3, 3), "output": X, "grad_output": X},
    "device_count": {"backend": "cpu"},
    "HostOperator": {"address": 1},
    "CudaOperator": {"code": "code", "name": "name"},
}
LAYER = {"input_size": 3, "hidden_size": 4}
CELLS = ("LSTMCell", "GRUCell", "RNNCell")
TORCH_CALLS = {
    **{name: CALLS[name] for name in ("linear_scan", "gated_scan", "selective_scan", "rnn")},
    **{name: CALLS[name] for name in ("prefix_scan", "reduce", "affine_scan")},
    **{name: CALLS[name] for name in ("linear_step", "gated_step", "selective_step", "rnn_step")},
    **{name: LAYER for name in ("LSTM", "GRU", "MGU", "Elman", "SLSTM", "Recurrent", "LinearRecurrence")},
    **{name: LAYER for name in ("MinGRU", "MinLSTM", "HGRN", "QRNN")},
    **{name: LAYER for name in CELLS},
    "RGLRU": {"width": 4},
    "Mamba": {"d_model": 4},
    "from_torch": {"module": None},
}
LAYERS = ("LSTM", "GRU", "MGU", "Elman", "SLSTM", "LinearRecurrence", "RGLRU", "MinGRU", "MinLSTM", "HGRN", "QRNN")
JAX_CALLS = {
    **{name: CALLS[name] for name in ("linear_scan", "gated_scan", "selective_scan", "rnn")},
    **{name: CALLS[name] for name in ("prefix_scan", "reduce", "affine_scan")},
    **{name: CALLS[name] for name in ("linear_step", "gated_step", "selective_step", "rnn_step")},
}
COMPAT_CALLS = {
    "accelerated_scan.scan": {"gates": X, "tokens": X},
    "accelerated_scan.warp.scan_forward": {"gates": X, "tokens": X},
    "accelerated_scan.complex.scan": {"forget": X, "inputs": X},
    "accelerated_scan.ref.scan": {"gates": X, "tokens": X},
    "sequential_scan.scan": {"alpha": X, "beta": X},
    "torch_parallel_scan.prefix_scan": {"x": X, "prefix_func": np.add, "dim": 1},
    "torch_parallel_scan.reduce_scan": {"x": X, "reduce_func": np.add, "dim": 1},
    "mamba_ssm.selective_scan_fn": MAMBA,
    "mamba_ssm.selective_state_update": STEP,
    "fla.fused_recurrent_hgrn": {"x": X, "g": -X},
    "heinsen.heinsen_associative_scan_log": {"log_coeffs": -X, "log_values": X},
    "flashrnn.flashrnn": {**NET, "states": ones(2, 2, 1, 1, 3)},
}
SOS = ones(2, 6)
SIGNAL_CALLS = {
    "lfilter": {"b": ones(3), "a": ones(2), "x": X, "zi": ones(2, 5, 2)},
    "sosfilt": {"sos": SOS, "x": X, "zi": ones(2, 2, 5, 2)},
    "sosfiltfilt": {"sos": SOS, "x": ones(2, 20)},
    "sosfilt_zi": {"sos": SOS},
    "ewm_mean": {"x": X, "com": 0.5},
}


def fails_well(function, given, name):
    parameters = dict(inspect.signature(function).parameters)
    if any(about.kind == about.VAR_KEYWORD for about in parameters.values()):  # handed on to the class above
        parameters.update(inspect.signature(function.__mro__[1]).parameters)
    assert set(given) <= set(parameters), f"{name} has other parameters"
    for parameter, about in parameters.items():
        if about.kind in (about.VAR_POSITIONAL, about.VAR_KEYWORD) or parameter in ("device", "dtype"):
            continue
        for kind, value in BAD.items():
            if callable(value) and parameter in ("op", "prefix_func", "reduce_func"):
                continue  # what a function raises comes out as it is
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # NumPy's of overflows in results
                    function(**{**given, parameter: value})
            except flashscan.FlashscanError as error:
                assert len(str(error)) > 10, (name, parameter, kind)
            except Exception as error:
                pytest.fail(f"{name}({parameter}={kind}) gives {type(error).__name__}: {error}")


@pytest.mark.parametrize("name", CALLS)
def test_functions(name):
    assert set(CALLS) == {each for each in flashscan.__all__ if not each.startswith("Flashscan")}
    given = CALLS[name]
    if name == "rnn_backward":
        _, given["reserve"] = flashscan.rnn(**NET, return_reserve=True)
    fails_well(getattr(flashscan, name), given, name)


def tensors(given):
    torch = pytest.importorskip("torch")
    return {
        key: torch.from_numpy(np.array(value)) if isinstance(value, np.ndarray) else value
        for key, value in given.items()
    }


@pytest.mark.parametrize("name", TORCH_CALLS)
def test_torch(name):
    pytest.importorskip("torch")
    module = importlib.import_module("flashscan.torch")
    assert set(TORCH_CALLS) == set(module.__all__)
    if name == "Recurrent":
        pytest.skip("it has no cell")
    fails_well(getattr(module, name), tensors(TORCH_CALLS[name]), f"torch.{name}")


@pytest.mark.parametrize("name", LAYERS)
def test_layers(name):
    torch = pytest.importorskip("torch")
    kind = getattr(importlib.import_module("flashscan.torch"), name)
    layer = kind(3) if name == "RGLRU" else kind(3, 4)
    fails_well(layer.forward, {"input": torch.ones(2, 5, 3)}, f"{name}.forward")


@pytest.mark.parametrize("name", CELLS)
def test_cells(name):
    torch = pytest.importorskip("torch")
    cell = getattr(importlib.import_module("flashscan.torch"), name)(3, 4)
    fails_well(cell.forward, {"input": torch.ones(2, 3)}, f"{name}.forward")


@pytest.mark.parametrize("name", (*LAYERS, *CELLS))
def test_layers_on_inputs_of_another_kind(name):
    torch = pytest.importorskip("torch")
    kind = getattr(importlib.import_module("flashscan.torch"), name)
    layer, input = kind(3) if name == "RGLRU" else kind(3, 4), torch.ones(2, 3) if name in CELLS else torch.ones(2, 5, 3)
    for dtype in (torch.float64, torch.int32, torch.complex64):
        with pytest.raises(flashscan.FlashscanTypeError, match=f"input has dtype {dtype}; accepted is torch.float32"):
            layer(input.to(dtype))
    with pytest.raises(flashscan.FlashscanTypeError, match="input has layout torch.sparse_coo; accepted is torch.strided"):
        layer(input.to_sparse())


def test_states_of_layers():
    torch = pytest.importorskip("torch")
    layers, x = importlib.import_module("flashscan.torch"), torch.ones(2, 5, 3)
    for layer, state, words in (
        (layers.MinGRU(3, 4), torch.ones(2, 3), r"state has shape \(2, 3\); accepted is \(2, 4\)"),
        (layers.LinearRecurrence(3, 4), torch.ones(2, 4) + 0j, "state has dtype torch.complex64; accepted with torch.float32"),
        (layers.GRU(3, 4, batch_first=True), torch.ones(1, 2, 4) + 0j, "hx has dtype torch.complex64"),
        (layers.GRU(3, 4, batch_first=True), torch.ones(1, 2, 4).to_sparse(), "hx has layout torch.sparse_coo"),
    ):
        with pytest.raises(flashscan.FlashscanError, match=words):
            layer(x, state)
    with pytest.raises(flashscan.FlashscanError, match="lower_bound is torch.float64 and input is torch.float32"):
        layers.HGRN(3, 4)(x, lower_bound=torch.ones(4).double())


@pytest.mark.parametrize("name", JAX_CALLS)
def test_jax(name):
    pytest.importorskip("jax", minversion="0.6")
    assert set(JAX_CALLS) == set(importlib.import_module("flashscan.jax").__all__)
    fails_well(getattr(importlib.import_module("flashscan.jax"), name), JAX_CALLS[name], f"jax.{name}")


@pytest.mark.parametrize("name", COMPAT_CALLS)
def test_compat(name):
    torch = pytest.importorskip("torch")
    module, _, function = name.rpartition(".")
    given = {key: torch.add if value is np.add else value for key, value in tensors(COMPAT_CALLS[name]).items()}
    fails_well(getattr(importlib.import_module(f"flashscan.compat.{module}"), function), given, name)


def test_settings_of_flashrnn():
    pytest.importorskip("torch")
    flashrnn = importlib.import_module("flashscan.compat.flashrnn")

    def with_setting(name):
        config = flashrnn.FlashRNNConfig
        return lambda value: flashrnn.flashrnn(**tensors(NET), config=config(dtype="float32", **{name: value}))

    for name in set(vars(flashrnn.FlashRNNConfig())) - {"dtype"}:
        fails_well(with_setting(name), {"value": None}, f"FlashRNNConfig({name})")


@pytest.mark.parametrize("package", ["numpy", "torch", "jax"])
@pytest.mark.parametrize("name", SIGNAL_CALLS)
def test_signal(name, package):
    module = importlib.import_module("flashscan.signal")
    assert set(SIGNAL_CALLS) == set(module.__all__)
    given = SIGNAL_CALLS[name]
    if package == "jax":
        jnp = pytest.importorskip("jax", minversion="0.6").numpy
        given = {key: jnp.asarray(value) for key, value in given.items()}
    fails_well(getattr(module, name), tensors(given) if package == "torch" else given, f"signal.{name} on {package}")


STEPS = CALLS["selective_step"]
TRAINED = dict(zip(("output", "reserve"), flashscan.rnn(**NET, return_reserve=True)))
TRAINED.update(R=NET["R"], grad_output=TRAINED["output"])
MESSAGES = {
    "wide gate": (lambda: flashscan.linear_scan(X.astype(float), X), "gate is float64 and input is float32; accepted"),
    "no input": (lambda: flashscan.linear_scan(X, None), "input is None; accepted are arrays"),
    "no gate": (lambda: flashscan.linear_scan(None, X), "gate is None; accepted are arrays"),
    "ragged": (lambda: flashscan.linear_scan(0.5, [[1.0], [2.0, 3.0]]), "input is .*accepted are arrays"),
    "axis": (lambda: flashscan.reduce(X, "add", axis="time"), "axis is 'time'; accepted are integers"),
    "flag": (lambda: flashscan.linear_scan(X, X, reverse="no"), "reverse is 'no'; accepted are True and False"),
    "weights": (lambda: flashscan.rnn(NET["Wx"], NET["R"].astype(float), None), "R is float64 and Wx is float32"),
    "numbers without an order": (lambda: flashscan.reduce(X + 0j, "min"), "x has dtype complex64; accepted for 'min'"),
    "clip": (lambda: flashscan.rnn(**NET, recurrent_clip="1"), "recurrent_clip is '1'"),
    "no heads": (lambda: flashscan.rnn(ones(2, 5, 4, 0, 3), ones(4, 0, 3, 3), None), r"R has shape \(4, 0, 3, 3\); accepted"),
    "no states": (lambda: flashscan.selective_scan(X, X, ones(3, 0), ones(3, 0), ones(3, 0)), r"A has shape \(3, 0\); accepted"),
    "no groups": (lambda: flashscan.selective_step(**{**STEPS, "B": ones(2, 0, 2)}), "B has 0 groups; accepted are divisors of 3"),
    "large matrices": (lambda: flashscan.prefix_scan(ones(1, 1025, 1025), "matmul"), r"x has shape \(1, 1025, 1025\); accepted"),
    "large vectors": (lambda: flashscan.affine_scan(ones(1, 1025, 1025), ones(1, 1025)), r"b has shape \(1, 1025\); accepted"),
    "elements": (lambda: flashscan.reduce(ones(2, 1025), flashscan.HostOperator(1), axis=0), "4100 bytes behind axis 0; accepted"),
    "decay rate": (lambda: flashscan.gated_scan(X, X, decay="exp", decay_rate=2), "decay_rate is 2 with .* than 'softplus'"),
    "reserve": (
        lambda: flashscan.gated_scan_backward(X, X, X, X, layer="qrnn", output_gate=X),
        "states has dtype float32; accepted is what gated_scan returned as its reserve",
    ),
    "rows of a pool": (
        lambda: flashscan.linear_step(ONE, ONE, ones(4, 3), state_indices=[np.int32(1)] * 2),
        r"state_indices\[0\] and state_indices\[1\] are both 1; rows that state is written to must differ",
    ),
    "state of gradients": (
        lambda: flashscan.rnn_backward(**TRAINED, initial_state=ones(2, 2, 1, 3)),
        "initial_state is given, but forward, which filled reserve, had none",
    ),
}


@pytest.mark.parametrize("case", MESSAGES)
def test_messages_name_what_was_given(case):
    call, words = MESSAGES[case]
    with pytest.raises(flashscan.FlashscanError, match=words):
        call()


# Calls with changed arguments of those above, and what is said of them.
COMPAT_MESSAGES = [
    ("sequential_scan.scan", {"alpha": X.astype(float)}, "alpha is torch.float64 and beta is torch.float32; accepted for alpha"),
    ("accelerated_scan.scan", {"tokens": X[0]}, r"tokens has shape \(5, 3\); accepted are arrays of 3 axes"),
    ("accelerated_scan.complex.scan", {"inputs": np.ones((2, 5, 3), int)}, "inputs has dtype torch.int64"),
    ("accelerated_scan.warp.scan_forward", {"gates": X[:, :, :2]}, r"gates has shape \(2, 5, 2\)"),
    ("heinsen.heinsen_associative_scan_log", {"log_coeffs": X.astype(float)}, "log_coeffs is torch.float64 and log_values is"),
    ("fla.fused_recurrent_hgrn", {"x": X[:1], "g": X[:1], "cu_seqlens": [0, 9]}, r"cu_seqlens\[1\] is 9; accepted"),
    ("fla.fused_recurrent_hgrn", {"cu_seqlens": [0, 5]}, r"x has shape \(2, 5, 3\) with cu_seqlens"),
    ("recurrentgemma.linear_scan", {"x": X, "a": X, "h0": X}, r"h0 has shape \(2, 5, 3\); accepted is \(2, 3\)"),
    ("torch_parallel_scan.prefix_scan", {"prefix_func": lambda left, right: 3}, "prefix_func's result is a int"),
    ("torch_parallel_scan.reduce_scan", {"x": X[:, :0], "reduce_func": max}, r"x has shape \(2, 0, 3\); accepted along dim"),
    ("mamba_ssm.selective_scan_fn", {"return_last_state": 2}, "return_last_state is 2"),
    ("mamba_ssm.selective_scan_fn", {"A": MAMBA["A"] + 0j}, r"B has shape \(2, 2, 3\); accepted with a complex A"),
    ("mamba_ssm.selective_state_update", {"dt": X[:1, 0]}, r"dt has shape \(1, 3\); accepted is \(2, 3\)"),
    ("mamba_ssm.selective_state_update", {"D": ones(2)}, r"D has shape \(2,\); accepted is \(3,\)"),
    ("mamba_ssm.selective_state_update", {"dt_softplus": 2}, "dt_softplus is 2"),
    ("mamba_ssm.selective_state_update", {"state_batch_indices": np.array([0, 2])}, "state_batch_indices has 2; accepted"),
    ("mamba_ssm.selective_state_update", {"state_batch_indices": np.array([1, 1])}, r"state_batch_indices\[0\] and state_batch"),
    ("flashrnn.flashrnn", {"dtype": "float32", "b": ones(3, 1, 3)}, r"b has shape \(3, 1, 3\); accepted is \(4, 1, 3\)"),
    ("flashrnn.flashrnn", {"states": ones(1, 2, 1, 1, 3)}, r"states has shape \(1, 2, 1, 1, 3\); accepted is \(2, 2, 1, 1, 3\)"),
]


@pytest.mark.parametrize("name, change, words", COMPAT_MESSAGES)
def test_messages_of_other_packages_functions(name, change, words):
    torch = pytest.importorskip("torch")
    module, _, function = name.rpartition(".")
    given = tensors({**COMPAT_CALLS.get(name, {}), **change})
    given = {key: torch.add if value is np.add else value for key, value in given.items()}
    with pytest.raises(flashscan.FlashscanError, match=words):
        getattr(importlib.import_module(f"flashscan.compat.{module}"), function)(**given)


def test_sizes_of_layers():
    pytest.importorskip("torch")
    layers = importlib.import_module("flashscan.torch")
    for make, words in (
        (lambda: layers.LSTM(3, 0), "hidden_size is 0; accepted are 1 to"),
        (lambda: layers.GRU(3, 4, num_layers=0), "num_layers is 0"),
        (lambda: layers.RGLRU(0), "width is 0"),
        (lambda: layers.LinearRecurrence(3, -1), "hidden_size is -1"),
        (lambda: layers.SLSTM(3, 4, dropout=2), "dropout is 2"),
        (lambda: layers.linear_scan([0.5], None), "input is a NoneType; accepted are tensors"),
    ):
        with pytest.raises(flashscan.FlashscanError, match=words):
            make()
