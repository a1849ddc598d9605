# SPDX-License-Identifier: Apache-2.0
"""One step with the state updated in place: the bits of scans of one step, rows of a pool, padding, what is refused."""

from __future__ import annotations

import numpy as np
import pytest

import flashscan
from flashscan import _library as lib
from flashscan import RnnStep, _rnn, gated_step, linear_step, rnn_step, selective_step

BATCH, CHANNELS, STATES, POOL = 4, 5, 3, 9


def random(*shape, seed=0, dtype=np.float32):
    return np.random.default_rng(seed).uniform(0.1, 0.9, shape).astype(dtype)


def linear(dtype):
    gate, x = (random(BATCH, CHANNELS, seed=i, dtype=dtype) for i in range(2))
    return (gate, x), {"gate_form": "logit"}, (CHANNELS,), linear_step, flashscan.linear_scan


def gated(dtype):
    gate, x, entry = (random(BATCH, CHANNELS, seed=i, dtype=dtype) for i in range(3))
    more = {"layer": "rglru", "input_gate": entry, "param": random(CHANNELS, dtype=dtype)}
    return (gate, x), more, (CHANNELS,), gated_step, flashscan.gated_scan


def selective(dtype):
    u, delta, z = (random(BATCH, CHANNELS, seed=i, dtype=dtype) for i in range(3))
    B, C = (random(BATCH, 1, STATES, seed=i, dtype=dtype) for i in range(2))
    more = {"z": z, "D": random(CHANNELS, dtype=dtype), "delta_softplus": True}
    return (u, delta, -random(CHANNELS, STATES, dtype=dtype), B, C), more, (CHANNELS, STATES), selective_step, flashscan.selective_scan


FAMILIES = {"linear": linear, "gated": gated, "selective": selective}


class Numpy:
    make = staticmethod(np.array)
    back = staticmethod(np.asarray)


class Torch:
    def __init__(self, device="cpu"):
        self.torch, self.device = pytest.importorskip("torch"), device
        if device == "cuda" and not (self.torch.cuda.is_available() and lib.device_count(lib.CUDA)):
            pytest.skip("no CUDA device, or a library without CUDA")

    def make(self, array):
        return self.torch.from_numpy(np.array(array)).to(self.device)

    def back(self, tensor):
        return tensor.cpu().numpy()


PACKAGES = {"numpy": Numpy, "torch": Torch, "torch-cuda": lambda: Torch("cuda")}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("package", PACKAGES)
def test_equals_a_scan_of_one_step(package, family, dtype):
    package = PACKAGES[package]()
    arrays, more, inner, step, scan = FAMILIES[family](dtype)
    state, reset = random(BATCH, *inner, seed=7, dtype=dtype), np.array([False, True, False, False])
    in_time = lambda array: array[:, None] if isinstance(array, np.ndarray) and array.shape[0] == BATCH else array
    options = {name: in_time(value) for name, value in more.items()}
    y, last = scan(*map(in_time, arrays), initial_state=state, reset=reset[:, None], return_final_state=True, **options)

    made = lambda value: package.make(value) if isinstance(value, np.ndarray) else value
    given, options = [*map(made, arrays)], {name: made(value) for name, value in more.items()}
    alone = package.make(state)
    out = step(*given, alone, reset=made(reset), **options)
    close = lambda got, wanted: np.testing.assert_allclose(package.back(got), wanted, rtol=2e-6, atol=1e-7)
    close(out, y[:, 0]), close(alone, last)

    pool = package.make(random(POOL, *inner, seed=8, dtype=dtype))
    rows = np.array([6, 2, -1, 0], np.int32)
    used = [6, 2, 0]
    before = np.array(package.back(pool))
    before[used] = state[[0, 1, 3]]
    pool = package.make(before)
    out = package.back(step(*given, pool, state_indices=made(rows), reset=made(reset), **options))
    np.testing.assert_allclose(out[[0, 1, 3]], y[[0, 1, 3], 0], rtol=2e-6, atol=1e-7)
    assert (out[2] == 0).all()
    after = package.back(pool)
    np.testing.assert_allclose(after[used], last[[0, 1, 3]], rtol=2e-6, atol=1e-7)
    untouched = [i for i in range(POOL) if i not in used]
    np.testing.assert_array_equal(after[untouched], before[untouched])


@pytest.mark.parametrize("family", FAMILIES)
def test_states_of_narrow_data_are_wide(family):
    arrays, more, inner, step, _ = FAMILIES[family](np.float32)
    wide = {"param", "D"} | ({"A"} if family == "selective" else set())
    names = ("u", "delta", "A", "B", "C") if family == "selective" else ("gate", "input")
    narrow = lambda name, array: array.astype(np.float16) if isinstance(array, np.ndarray) and name not in wide else array
    given = [narrow(name, array) for name, array in zip(names, arrays)]
    state, expected = np.zeros((2, BATCH, *inner), np.float32)
    out = step(*given, state, **{name: narrow(name, value) for name, value in more.items()})
    wanted = step(*arrays, expected, **more)
    assert out.dtype == np.float16
    np.testing.assert_allclose(out, wanted, rtol=4e-3, atol=1e-3)
    np.testing.assert_allclose(state, expected, rtol=4e-3, atol=1e-3)


HEADS, UNITS = 2, 3


def network(cell, dtype, time):
    """Arrays of ``time`` steps, one of them with a reset, and states from which a network may have come."""
    _, gates, biases, states = _rnn.CELLS[cell]
    Wx, R = random(time, BATCH, gates, HEADS, UNITS, dtype=dtype), random(gates, HEADS, UNITS, UNITS, seed=1, dtype=dtype)
    reset = np.zeros((time, BATCH), bool)
    reset[-1, 1] = True
    return Wx, R, random(biases, HEADS, UNITS, seed=2, dtype=dtype), reset, 1 + random(states, BATCH, HEADS, UNITS, dtype=dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("cell", _rnn.CELLS)
@pytest.mark.parametrize("package", PACKAGES)
def test_networks_step_by_step(package, cell, dtype):
    package, time = PACKAGES[package](), 3
    Wx, R, b, reset, state = network(cell, dtype, time)
    h, last = flashscan.rnn(Wx, R, b, cell, state, layout="tbghd", reset=reset.T, return_final_state=True)
    R, b, alone = map(package.make, (R, b, state))
    before = random(len(state), POOL, HEADS, UNITS, seed=8, dtype=dtype)
    used, given = [6, 2, 0], [0, 1, 3]
    before[:, used] = state[:, given]
    pool, rows = package.make(before), package.make(np.array([6, 2, -1, 0], np.int32))
    tolerance = 1e-5 if dtype == np.float32 else 1e-12
    close = lambda got, wanted: np.testing.assert_allclose(got, wanted, rtol=tolerance, atol=tolerance)
    for t in range(time):
        more = {"cell": cell, "reset": package.make(reset[t])}
        close(package.back(rnn_step(package.make(Wx[t]), R, b, alone, **more)), h[t])
        out = package.back(rnn_step(package.make(Wx[t]), R, b, pool, state_indices=rows, **more))
        close(out[given], h[t, given])
        assert (out[2] == 0).all()
    after = package.back(pool)
    close(package.back(alone), last)
    close(after[:, used], last[:, given])
    untouched = [i for i in range(POOL) if i not in used]
    np.testing.assert_array_equal(after[:, untouched], before[:, untouched])


def test_steps_that_hold_their_arrays_refuse_what_later_calls_would_not_read():
    Wx, R, b, reset, state = network("lstm", np.float32, 1)
    gaps = np.zeros(2 * BATCH, bool)[::2]
    with pytest.raises(flashscan.FlashscanValueError, match="reset has gaps or another dtype"):
        RnnStep(R, b, state, reset=gaps)(Wx[0])


def test_steps_that_hold_their_arrays_refuse_gradients_in_every_call():
    torch = pytest.importorskip("torch")
    Wx, R, b, _, state = network("lstm", np.float32, 1)
    step = RnnStep(torch.nn.Parameter(torch.tensor(R)), torch.tensor(b), torch.tensor(state))
    with torch.no_grad():
        step(torch.tensor(Wx[0]))
    with pytest.raises(flashscan.FlashscanTypeError, match="requires grad"):
        step(torch.tensor(Wx[0]))


@pytest.mark.parametrize("package", PACKAGES)
def test_steps_that_hold_their_arrays_are_those_that_do_not(package):
    package = PACKAGES[package]()
    Wx, R, b, reset, state = network("lstm", np.float32, 3)
    across = R.transpose(0, 1, 3, 2).copy().transpose(0, 1, 3, 2)  # is copied once
    pool = np.concatenate([random(2, 2, HEADS, UNITS, seed=8), state], axis=1)
    rows, reset = np.array([5, 2, -1, 3], np.int32), reset[-1]
    plain, pooled = ([package.make(s), package.make(s)] for s in (state, pool))
    held = RnnStep(package.make(across), package.make(b), plain[1])
    chosen, marks = package.make(rows), package.make(np.zeros(BATCH, bool))
    out = package.make(np.zeros((BATCH, HEADS, UNITS), np.float32))
    held_pool = RnnStep(package.make(R), package.make(b), pooled[1], state_indices=chosen, reset=marks, out=out)
    same = lambda one, two: np.testing.assert_allclose(package.back(one), package.back(two), rtol=1e-6, atol=1e-6)
    for t in range(3):
        given = [package.make(a) for a in (Wx[t], R, b)]
        same(held(given[0]), rnn_step(*given, plain[0]))
        if t == 2:  # new numbers where they lay
            chosen[0], marks[1] = 4, True
            rows[0], reset = 4, np.array([False, True, False, False])
        now = package.make(reset if t == 2 else np.zeros(BATCH, bool))
        assert held_pool(given[0]) is out
        same(out, rnn_step(*given, pooled[0], state_indices=package.make(rows), reset=now))
    same(plain[0], plain[1]), same(pooled[0], pooled[1])


def test_mistakes_of_steps_that_hold_their_arrays_are_named():
    Wx, R, b, _, state = network("lstm", np.float32, 1)
    with pytest.raises(flashscan.FlashscanTypeError, match="state is a list"):
        RnnStep(R, b, state.tolist())
    for out, words in [([], "out is a .*list"), (Wx[0, :, 0, :, 1:], "out has shape"), (Wx[0, :, 0].astype(np.float16), "out has dtype"), (state[0], "out and state overlap")]:
        with pytest.raises(flashscan.FlashscanError, match=words):
            RnnStep(R, b, state, out=out)(Wx[0])
    step, kept = RnnStep(R, b, state), state.copy()
    for wrong, words in [(Wx[0, :, :3], "Wx has shape"), (Wx[0, :2], r"Wx has shape \(2, .* as many rows"), (Wx[0].astype(np.float64), "R is float32")]:
        with pytest.raises(flashscan.FlashscanError, match=words):
            step(wrong)
    np.testing.assert_array_equal(kept, state)
    expected = kept.copy()
    np.testing.assert_array_equal(step(Wx[0]), rnn_step(Wx[0], R, b, expected))
    np.testing.assert_array_equal(state, expected)


def test_parameters_of_modules_are_taken_as_they_are():
    torch = pytest.importorskip("torch")
    Wx, R, b, _, state = (None if a is None else torch.from_numpy(a) for a in network("lstm", np.float32, 1))
    weights, other = [torch.nn.Parameter(each) for each in (R, b)], state.clone()
    step = RnnStep(*weights, state)
    with pytest.raises(flashscan.FlashscanTypeError, match="requires grad"):
        step(Wx[0])
    with torch.no_grad():
        assert torch.equal(step(Wx[0]), rnn_step(Wx[0], *weights, other)) and torch.equal(state, other)


def test_states_of_narrow_networks_are_wide():
    Wx, R, b, _, state = network("slstm", np.float32, 1)
    states, expected = np.repeat(state[None], 2, 0), state.copy()
    wanted = rnn_step(Wx[0], R, b, expected, cell="slstm")
    for place, indices in enumerate((None, np.arange(BATCH, dtype=np.int32))):
        out = rnn_step(Wx[0].astype(np.float16), R, b, states[place], cell="slstm", state_indices=indices)
        assert out.dtype == np.float16
        np.testing.assert_allclose(out, wanted, rtol=4e-3, atol=1e-3)
        np.testing.assert_allclose(states[place], expected, rtol=4e-3, atol=1e-3)


@pytest.mark.parametrize(
    "change, words",
    [
        ({"state": random(2, BATCH + 1, HEADS, UNITS)}, r"state has shape .* accepted is \(2, 4, 2, 3\)"),
        ({"state": random(1, POOL, HEADS, UNITS), "state_indices": np.arange(4, dtype=np.int32)}, r"is \(2, rows, 2, 3\)"),
        ({"state": random(2), "state_indices": np.arange(4, dtype=np.int32)}, r"state has shape \(2,\)"),
        ({"state": random(2, BATCH, HEADS, UNITS, dtype=np.float64)}, "state has dtype float64"),
        ({"state": "lstm"}, "state is a str"),
        ({"state_indices": np.array([0, 1, 2, 4], np.int32)}, "is 4; accepted are -1"),
        ({"state_indices": np.array([0, 1, 2, 1], np.int32)}, "are both 1"),
        ({"Wx": random(BATCH, 3, HEADS, UNITS)}, r"Wx has shape \(4, 3, 2, 3\); accepted is \(4, 4, 2, 3\)"),
        ({"Wx": random(BATCH, 1, 4, HEADS, UNITS)}, "accepted are arrays of 4 axes"),
        ({"b": random(4, HEADS, UNITS, dtype=np.float64)}, "b has dtype float64"),
        ({"cell": "LSTM"}, "cell is 'LSTM'"),
    ],
)
def test_mistakes_of_networks_are_named(change, words):
    Wx, R, b, _, state = network("lstm", np.float32, 1)
    given = {"Wx": Wx[0], "R": R, "b": b, "state": state, **change}
    kept = np.array(given["state"])
    with pytest.raises(flashscan.FlashscanError, match=words):
        rnn_step(**given)
    np.testing.assert_array_equal(kept, given["state"])


@pytest.mark.parametrize(
    "state, more, words",
    [
        ([[0.0] * CHANNELS] * BATCH, {}, "state is a list"),
        (random(BATCH, CHANNELS + 1), {}, "state has shape"),
        (random(BATCH, CHANNELS, dtype=np.float64), {}, "state has dtype float64"),
        (random(CHANNELS, BATCH).T, {}, "state is a view with gaps"),
        (np.broadcast_to(np.float32(1), (BATCH, CHANNELS)), {}, "state is a view with gaps"),
        (random(0, CHANNELS), {"state_indices": -np.ones(BATCH, np.int32)}, "state has no rows"),
        (random(POOL, CHANNELS), {"state_indices": np.arange(BATCH)}, "state_indices has dtype int64"),
        (random(POOL, CHANNELS), {"state_indices": np.arange(3, dtype=np.int32)}, "state_indices has shape"),
        (random(POOL, CHANNELS), {"state_indices": np.array([0, 1, 2, POOL], np.int32)}, str(POOL)),
        (random(POOL, CHANNELS), {"state_indices": np.array([0, 1, 2, 1], np.int32)}, "are both 1"),
        (random(BATCH, CHANNELS), {"reset": np.zeros((BATCH, 1), bool)}, "reset has shape"),
    ],
)
def test_mistakes_are_named(state, more, words):
    (gate, x), options, *_ = linear(np.float32)
    kept = np.array(state)
    with pytest.raises(flashscan.FlashscanError, match=words):
        linear_step(gate, x, state, **options, **more)
    np.testing.assert_array_equal(kept, state)


def test_gates_may_be_numbers_or_of_channels():
    _, x = linear(np.float32)[0]
    for gate in (0.5, random(CHANNELS), random(BATCH, 1)):
        state = random(BATCH, CHANNELS, seed=3)
        expected = np.asarray(gate, np.float32) * state + x
        np.testing.assert_allclose(linear_step(gate, x, state), expected, rtol=1e-6)
        np.testing.assert_allclose(state, expected, rtol=1e-6)
    with pytest.raises(flashscan.FlashscanValueError, match=r"gate has shape \(4, 3\); accepted .* \(4, 5\)"):
        linear_step(random(BATCH, 3), x, state)


def test_tensors_that_require_grad_are_refused():
    torch = pytest.importorskip("torch")
    x, state = torch.ones(1, 2, requires_grad=True), torch.zeros(1, 2)
    with pytest.raises(flashscan.FlashscanTypeError, match="requires grad"):
        linear_step(0.5, x, state)
    with torch.no_grad():
        assert linear_step(0.5, x, state).tolist() == [[1.0, 1.0]] == state.tolist()
