# SPDX-License-Identifier: Apache-2.0
"""The steps of flashscan.jax: NumPy's results, states in place where they are donated, padding, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

jax = pytest.importorskip("jax", minversion="0.6")
import jax.numpy as jnp  # noqa: E402
from jax.sharding import Mesh, NamedSharding, PartitionSpec  # noqa: E402

import flashscan  # noqa: E402
import flashscan.jax as fj  # noqa: E402

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_num_cpu_devices", 4)  # before any test has asked for devices

BATCH, CHANNELS, STATES, POOL = 4, 6, 3, 9
ROWS = np.array([6, 2, -1, 0], np.int32)


def random(*shape, seed=0):
    return np.random.default_rng(seed).uniform(0.1, 0.9, shape)


def step(package, family):
    """A function of the arrays of a step and its state, those arrays, and the shape of a state around its rows."""
    a, b, c = (random(BATCH, CHANNELS, seed=i) for i in range(3))
    vector = random(CHANNELS, seed=3)
    if family == "linear":
        run = lambda gate, x, state, **more: package.linear_step(gate, x, state, gate_form="logit", **more)
        return run, (vector, b), ((), (CHANNELS,))
    if family == "gated":
        run = lambda *arrays, **more: package.gated_step(
            *arrays[:2], arrays[4], layer="rglru", input_gate=arrays[2], param=arrays[3], **more
        )
        return run, (a, b, c, vector), ((), (CHANNELS,))
    if family == "selective":
        run = lambda u, d, A, B, C, D, state, **more: package.selective_step(u, d, A, B, C, state, D, u, **more)
        matrices = -random(CHANNELS, STATES), random(BATCH, STATES), random(BATCH, 2, STATES)[:, :1]
        return run, (a, b, *matrices, vector), ((), (CHANNELS, STATES))
    run = lambda Wx, R, state, **more: package.rnn_step(Wx, R, None, state, cell="slstm", **more)
    return run, (random(BATCH, 4, 2, 3), random(4, 2, 3, 3)), ((4,), (2, 3))


def states(inner, rows, axis_front):
    return 1 + random(*axis_front, rows, *inner, seed=7)


FAMILIES = ("linear", "gated", "selective", "rnn")
each_family = pytest.mark.parametrize("family", FAMILIES)
RESET = np.array([False, True, False, False])


@pytest.fixture(autouse=True, params=["cpu", "cuda"])
def device(request):
    try:
        first = jax.devices(request.param)[0]
    except RuntimeError:
        pytest.skip(f"JAX has no {request.param} device here")
    with jax.default_device(first):
        yield request.param


def problem(family, rows):
    run, arrays, (front, inner) = step(fj, family)
    state = states(inner, rows, front)
    wanted_state = state.copy()
    more = {"reset": RESET} | ({"state_indices": ROWS} if rows == POOL else {})
    wanted = step(flashscan, family)[0](*arrays, wanted_state, **more)
    more = {name: jnp.asarray(value) for name, value in more.items()}
    return run, [*map(jnp.asarray, arrays)], jnp.asarray(state), more, (wanted, wanted_state)


def close(got, wanted):
    for one, other in zip(got, wanted, strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)


@each_family
@pytest.mark.parametrize("rows", [BATCH, POOL])
def test_equals_numpy(family, rows):
    run, arrays, state, more, wanted = problem(family, rows)
    kept = np.array(state)
    close(run(*arrays, state, **more), wanted)
    np.testing.assert_array_equal(state, kept)  # a copy was updated
    stepped = jax.jit(run)(*arrays, state, **more)
    close(stepped, wanted)
    if rows == POOL:
        assert not np.asarray(stepped[0])[2].any()


@each_family
def test_a_donated_pool_is_updated_in_place(family, device):
    run, arrays, state, more, wanted = problem(family, POOL)
    donating = jax.jit(lambda state, *arrays: run(*arrays, state, **more), donate_argnums=0)
    state = state + 0  # not in NumPy's memory, which is not donated
    where = state.unsafe_buffer_pointer()
    output, after = donating(state, *arrays)
    assert state.is_deleted() and after.unsafe_buffer_pointer() == where
    close((output, after), wanted)
    assert device != "cpu" or " copy(" not in donating.lower(after, *arrays).compile().as_text()


@each_family
def test_a_loop_carries_the_pool(family):
    run, arrays, state, more, _ = problem(family, POOL)
    expected, outputs = np.array(state), []
    numpy, more_numpy = step(flashscan, family)[0], {name: np.asarray(value) for name, value in more.items()}
    for _ in range(3):
        outputs.append(numpy(*map(np.asarray, arrays), expected, **more_numpy))

    def body(pool, _):
        output, pool = run(*arrays, pool, **more)
        return pool, output

    pool, got = jax.jit(lambda pool: jax.lax.scan(body, pool, length=3))(state)
    close((pool, got), (expected, np.stack(outputs)))


@each_family
def test_vmap_is_one_step_after_another(family):
    run, arrays, state, more, _ = problem(family, POOL)
    first, pools = jnp.stack([arrays[0], arrays[0] / 2]), jnp.stack([state, state + 1])
    mapped = jax.vmap(lambda one, pool: run(one, *arrays[1:], pool, **more))(first, pools)
    close(mapped, [jnp.stack(each) for each in zip(*(run(first[i], *arrays[1:], pools[i], **more) for i in range(2)))])


def test_no_step_has_derivatives():
    for family in FAMILIES:
        run, arrays, state, more, _ = problem(family, BATCH)
        loss = lambda state: run(*arrays, state, **more)[0].sum()
        for transform in (jax.grad(loss), lambda state: jax.jvp(loss, (state,), (state,))):
            with pytest.raises(flashscan.FlashscanNotImplementedError, match=f"flashscan.jax.{family}_step has no deriv"):
                transform(state)
        # Beside what is differentiated they may stand.
        assert jax.grad(lambda x: x * loss(state))(2.0) == loss(state)


def test_narrow_data_and_gates():
    x, state = jnp.ones((2, 3), jnp.bfloat16), jnp.full((2, 3), 4, jnp.float32)
    for gate in (0.5, jnp.full((3,), 0.5, jnp.bfloat16), jnp.full((2, 1), 0.5, jnp.float32)):
        h, after = fj.linear_step(gate, x, state)
        assert h.dtype == jnp.bfloat16 and after.dtype == jnp.float32
        assert (h == 3).all() and (after == 3).all()


def test_errors(device):
    x, pool, rows = jnp.ones((2, 3)), jnp.ones((5, 3)), jnp.array([0, 1], jnp.int32)
    for arguments, words in (
        ((0.5, x, pool), r"state has shape \(5, 3\); accepted is \(2, 3\)"),
        ((0.5, x, pool, {"state_indices": rows.astype(int)}), "state_indices has dtype int64"),
        ((0.5, x, pool, {"state_indices": rows[:1]}), "state_indices has shape"),
        ((0.5, x, pool.astype(jnp.float32), {"state_indices": rows}), "state has dtype float32"),
        ((0.5, x, "text"), "state is 'text'"),
        ((jnp.ones((3, 3)), x, x), "gate has shape"),
        ((0.5, x, x, {"gate_form": "no"}), "gate_form is 'no'"),
        ((0.5, x, None), "state is None"),
    ):
        *arrays, more = arguments if isinstance(arguments[-1], dict) else (*arguments, {})
        with pytest.raises(flashscan.FlashscanError, match=words):
            fj.linear_step(*arrays, **more)
    if device == "cpu":  # on a GPU they are padding
        with pytest.raises(Exception, match=r"state_indices\[1\] is 5"):
            jax.block_until_ready(fj.linear_step(0.5, x, pool, state_indices=rows + jnp.array([0, 4], jnp.int32)))
        with pytest.raises(Exception, match=r"state_indices\[0\] and state_indices\[1\] are both 0; rows that state is written"):
            jax.block_until_ready(fj.linear_step(0.5, x, pool, state_indices=rows // 2))


# ---- On arrays that are spread over devices ----


@pytest.fixture
def mesh(device):
    if not getattr(jax.config, "jax_use_shardy_partitioner", True):
        pytest.skip("calls are cut by Shardy alone")
    if len(jax.devices(device)) < 4:
        pytest.skip("four devices are needed")
    return Mesh(np.array(jax.devices(device)[:4]).reshape(2, 2), ("data", "model"))


# The axes of arrays, of the state's rows, and of the state behind them, that are cut: b by data, c by model.
CUT = {
    "linear": ("c bc", "c"),
    "gated": ("bc bc bc c", "c"),
    "selective": ("bc bc c. b. b.. c", "c."),
    "rnn": ("b.c. .c..", "c."),
}


@each_family
@pytest.mark.parametrize("rows", [BATCH, POOL])
def test_calls_are_cut(mesh, family, rows):
    """Along the channels or heads; along the batch where each of it has a state of its own."""
    run, arrays, state, more, wanted = problem(family, rows)
    names, inner = CUT[family]
    by = {"b": "data" if rows == BATCH else None, "c": "model", ".": None}
    put = lambda array, letters: jax.device_put(array, NamedSharding(mesh, PartitionSpec(*(by[each] for each in letters))))
    given = [put(array, letters) for array, letters in zip(arrays, names.split(), strict=True)]
    front = "." if family == "rnn" else ""
    given.append(put(state, front + "b" + inner))
    more = {name: put(array, "b") for name, array in more.items()}
    compiled = jax.jit(run).lower(*given, **more).compile()
    assert "all-gather" not in compiled.as_text() and "flashscan" in compiled.as_text()
    close(compiled(*given, **more), wanted)
    if rows == POOL:
        more["state_indices"] = jax.device_put(more["state_indices"], NamedSharding(mesh, PartitionSpec("data")))
        accepted = "heads" if family == "rnn" else "channels"
        with pytest.raises(Exception, match=f"flashscan.jax.{family}_step: .* accepted is along the {accepted}, as"):
            jax.jit(run)(*given, **more)
