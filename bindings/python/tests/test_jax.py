# SPDX-License-Identifier: Apache-2.0
"""flashscan.jax against the golden cases, formulas in plain JAX, and what jit, grad and vmap promise."""

from __future__ import annotations

import contextlib
import functools

import numpy as np
import pytest

jax = pytest.importorskip("jax", minversion="0.6")
import jax.numpy as jnp  # noqa: E402
from jax.test_util import check_grads  # noqa: E402

import flashscan  # noqa: E402
import flashscan.jax as fj  # noqa: E402
from flashscan._rnn import CELLS as _CELLS  # noqa: E402
from golden import RUNS, Golden  # noqa: E402

jax.config.update("jax_enable_x64", True)

CELLS = {cell: counts for cell, (_, *counts) in _CELLS.items()}


def cuda_devices():
    try:
        return jax.devices("cuda")
    except RuntimeError:
        return []


@pytest.fixture(autouse=True, params=["cpu", "cuda"])
def device(request):
    """Every test runs on both; the arrays of a test are made where it runs."""
    if request.param == "cuda" and not cuda_devices():
        pytest.skip("JAX has no CUDA device here")
    with jax.default_device(jax.devices(request.param)[0]):
        yield request.param


@contextlib.contextmanager
def where_supported(device):
    """Skips where the library has no kernel for a device, and says so."""
    try:
        yield
    except Exception as error:
        if device == "cpu" or "FLASHSCAN_STATUS_UNSUPPORTED" not in str(error):
            raise
        pytest.skip(str(error).splitlines()[0])


def normal(rng, shape, dtype=np.float64):
    values = rng.standard_normal(shape)
    if np.dtype(dtype).kind == "c":
        values = values + 1j * rng.standard_normal(shape)
    return jnp.asarray(values, dtype)


def assert_close(actual, expected, tolerance=1e-12):
    assert jax.tree.structure(actual) == jax.tree.structure(expected)
    for one, other in zip(jax.tree.leaves(actual), jax.tree.leaves(expected)):
        assert one.shape == other.shape and one.dtype == other.dtype
        one, other = np.asarray(one, np.complex128), np.asarray(other, np.complex128)
        np.testing.assert_allclose(one, other, rtol=0, atol=tolerance * max(1, np.abs(other).max(initial=0)))


@pytest.mark.parametrize("case, run", RUNS)
def test_golden(case, run, device):
    with where_supported(device):
        check_golden(case, run)


def check_golden(case, run):
    golden = Golden(case, run, lambda values, dtype: jnp.asarray(values).astype(dtype))
    wide = lambda array: np.asarray(array, np.complex128)
    results, vjp = jax.vjp(lambda operands: golden.forward(fj, operands), golden.operands)
    golden.check(golden.named(map(wide, results)), golden.wanted)
    if golden.incoming:  # the library's gradients are PyTorch's, the conjugates of JAX's
        (found,) = vjp(tuple(jnp.conj(grad) for grad in golden.incoming.values()))
        golden.check({name: wide(jnp.conj(array)) for name, array in found.items()}, golden.wanted_gradients)


def scan_formula(gate, x, state):
    def step(h, now):
        h = now[0] * h + now[1]
        return h, h

    last, out = jax.lax.scan(step, state, (jnp.moveaxis(jnp.broadcast_to(gate, x.shape), 1, 0), jnp.moveaxis(x, 1, 0)))
    return jnp.moveaxis(out, 0, 1), last


@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
@pytest.mark.parametrize("gate_shape", [(2, 9, 3), (3,), (9, 1), ()])
def test_gradients_equal_those_of_the_formula(gate_shape, dtype):
    rng = np.random.default_rng(1)
    gate, x, state = normal(rng, gate_shape, dtype) / 2, normal(rng, (2, 9, 3), dtype), normal(rng, (2, 3), dtype)
    weights = normal(rng, x.shape, dtype), normal(rng, state.shape, dtype)

    def loss(function, *arrays):
        return sum((w * out).sum() for w, out in zip(weights, function(*arrays))).real

    def gradient(function):
        return jax.jit(jax.grad(functools.partial(loss, function), (0, 1, 2)))(gate, x, state)

    ours = functools.partial(fj.linear_scan, return_final_state=True)
    assert_close(gradient(ours), gradient(scan_formula))


def test_gradients_by_finite_differences(device):
    with where_supported(device):
        rng = np.random.default_rng(2)
        x, matrices = normal(rng, (2, 5, 3)), normal(rng, (2, 5, 3, 3)) / 2
        gate = functools.partial(fj.linear_scan, gate_form="logit", reverse=True)
        check_grads(gate, (normal(rng, (5, 3)), x, normal(rng, (2, 3))), 1, modes=["rev"], rtol=1e-5)
        check_grads(fj.affine_scan, (matrices, x, normal(rng, (2, 3))), 1, modes=["rev"], rtol=1e-5)
        check_grads(functools.partial(fj.prefix_scan, op="matmul"), (matrices,), 1, modes=["rev"], rtol=1e-5)
        check_grads(functools.partial(fj.reduce, op="logaddexp", axis=1), (x,), 1, modes=["rev"], rtol=1e-5)


def network(rng, cell, outer=(3, 4), heads=2, dim=3, dtype=np.float64):
    gates, biases, states = CELLS[cell]
    Wx, R = normal(rng, (*outer, gates, heads, dim), dtype), normal(rng, (gates, heads, dim, dim), dtype) / 2
    return Wx, R, normal(rng, (biases, heads, dim), dtype), normal(rng, (states, outer[0], heads, dim), dtype) / 4


@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_network_gradients_by_finite_differences(cell):
    arrays = network(np.random.default_rng(3), cell)
    function = lambda *a: fj.rnn(*a[:3], cell, a[3], return_final_state=True)  # noqa: E731
    check_grads(function, arrays, 1, modes=["rev"], rtol=1e-5)


def squares(function):
    return lambda *arrays: sum((jnp.abs(out) ** 2).sum() for out in jax.tree.leaves(function(*arrays)))


def single(function, axes):
    """A function of one batch entry, whose arrays have the batch at ``axes`` (None: none)."""

    def one(*arrays):
        out = function(*(a if axis is None else jnp.expand_dims(a, axis) for a, axis in zip(arrays, axes)))
        return jax.tree.map(lambda o: o[0], out)

    return one


def check_vmap(function, arrays, axes):
    """``function`` maps over a batch; ``axes`` are the batch axes of its arrays. vmap over single entries equals it,
    the gradient of vmap equals its gradient, and per-entry gradients of what is shared add up to its gradient."""
    argnums = tuple(range(len(arrays)))
    mapped = jax.vmap(single(function, axes), in_axes=axes)
    assert_close(jax.jit(mapped)(*arrays), function(*arrays))
    expected = jax.grad(squares(function), argnums)(*arrays)
    assert_close(jax.grad(squares(mapped), argnums)(*arrays), expected)
    each = jax.vmap(jax.grad(squares(single(function, axes)), argnums), in_axes=axes)(*arrays)
    summed = [g.sum(0) if axis is None else jnp.moveaxis(g, 0, axis) for g, axis in zip(each, axes)]
    assert_close(tuple(summed), expected)


@pytest.mark.parametrize("gate_shape, gate_axis", [((3, 5, 2), 0), ((5, 2), None), ((), None), ((3, 1, 2), 0)])
def test_vmap_of_linear_scan(gate_shape, gate_axis):
    rng = np.random.default_rng(4)
    gate, x, state = normal(rng, gate_shape) / 2, normal(rng, (3, 5, 2)), normal(rng, (3, 2))
    check_vmap(fj.linear_scan, (gate, x, state), (gate_axis, 0, 0))


@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_vmap_of_networks(cell):
    Wx, R, b, state = network(np.random.default_rng(5), cell)
    check_vmap(lambda Wx, R, b: fj.rnn(Wx, R, b, cell), (Wx, R, b), (0, None, None))
    assert_close(
        jax.vmap(lambda w, s: fj.rnn(w[:, None], R, b, cell, s, layout="tbghd", return_all_states=True), (0, 1), 2)(
            Wx, state[:, :, None]
        )[:, :, :, 0],
        jnp.moveaxis(fj.rnn(Wx, R, b, cell, state, return_all_states=True), 1, 2),
    )


def test_vmap_of_operators(device):
    with where_supported(device):
        rng = np.random.default_rng(6)
        x, W = normal(rng, (3, 5, 2)), normal(rng, (3, 5, 2, 2)) / 2
        check_vmap(lambda x: fj.prefix_scan(x, "mul", axis=1), (x,), (0,))
        check_vmap(lambda x: fj.prefix_scan(x, "add", axis=-2, exclusive=True), (x,), (0,))
        check_vmap(fj.affine_scan, (W, x), (0, 0))
        nested = jax.vmap(jax.vmap(lambda m: fj.reduce(m, "matmul"), in_axes=2), in_axes=0)(W[:, None, :, None])
        assert_close(nested[:, 0, 0], fj.reduce(W, "matmul"))


def test_vmap_where_calls_are_made_one_after_another():
    rng = np.random.default_rng(7)
    Wx, R, b, _ = network(rng, "lstm")
    weights = jnp.stack([R, R / 2, -R])
    mapped = jax.vmap(lambda w, r: fj.rnn(w[None], r, b)[0])
    each = [fj.rnn(w[None], r, b)[0] for w, r in zip(Wx, weights)]
    assert_close(mapped(Wx, weights), jnp.stack(each))
    gate, x = normal(rng, (3, 1, 5, 2)) / 2, normal(rng, (3, 4, 5, 2))  # a gate that each batch of four shares
    assert_close(jax.vmap(fj.linear_scan)(gate, x), jnp.stack([fj.linear_scan(g, v) for g, v in zip(gate, x)]))
    offsets, x = jnp.array([0, 2, 2, 4]), normal(rng, (3, 1, 5, 2))
    packed = functools.partial(fj.linear_scan, 0.5, seq_offsets=offsets)
    assert_close(jax.vmap(packed)(x), jnp.stack([packed(v) for v in x]))
    assert not np.asarray(jax.vmap(packed)(x))[:, :, 4:].any()


def test_equals_numpy_bit_for_bit(device):
    if device == "cuda":
        pytest.skip("NumPy's arrays are on the CPU")
    rng = np.random.default_rng(8)
    gate, x = normal(rng, (2, 300, 5), np.float32) / 2, normal(rng, (2, 300, 5), np.float32)
    np.testing.assert_array_equal(fj.linear_scan(gate, x), flashscan.linear_scan(np.asarray(gate), np.asarray(x)))
    Wx, R, b, _ = network(rng, "slstm", (2, 30), 1, 17, jnp.bfloat16)
    expected = flashscan.rnn(np.asarray(Wx), np.asarray(R), np.asarray(b), "slstm")
    np.testing.assert_array_equal(fj.rnn(Wx, R, b, "slstm"), expected)


def test_jit_many_shapes_from_many_threads():
    from concurrent.futures import ThreadPoolExecutor

    scan = jax.jit(fj.linear_scan)
    xs = [jnp.arange(2.0 * n).reshape(1, n, 2) for n in range(1, 9)] * 4
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda x: scan(0.5, x), xs))
    for x, result in zip(xs, results):
        assert_close(result, scan_formula(jnp.asarray(0.5), x, jnp.zeros((1, 2)))[0])


def test_only_the_gradients_that_are_asked_for():
    x = jnp.ones((1, 4, 2))
    jaxpr = jax.make_jaxpr(jax.grad(lambda x: fj.linear_scan(0.5, x).sum()))(x)
    calls = [equation for equation in jaxpr.jaxpr.eqns if equation.primitive.name == "flashscan"]
    assert [len(call.outvars) for call in calls] == [1, 1]


def test_errors():
    x = jnp.ones((1, 5, 3))
    with pytest.raises(flashscan.FlashscanValueError, match="gate has shape"):
        fj.linear_scan(jnp.ones((1, 2, 3)), x)
    with pytest.raises(flashscan.FlashscanTypeError, match="input has dtype int"):
        jax.jit(fj.linear_scan)(jnp.ones((1, 1, 1), int), jnp.ones((1, 5, 3), int))
    with pytest.raises(flashscan.FlashscanTypeError, match="accepted are 'add'"):
        fj.prefix_scan(x, jnp.add)
    with pytest.raises(flashscan.FlashscanValueError, match="op is 'sub'"):
        fj.prefix_scan(x, "sub")


FORWARD_MODE = {
    "jvp": lambda f, x: jax.jvp(f, (x,), (x,)),
    "jvp of jit": lambda f, x: jax.jvp(jax.jit(f), (x,), (x,)),
    "jit of jvp": lambda f, x: jax.jit(lambda x: jax.jvp(f, (x,), (x,)))(x),
    "jacfwd": lambda f, x: jax.jacfwd(f)(x),
    "hessian": lambda f, x: jax.hessian(lambda x: f(x).sum())(x),
    "linearize": lambda f, x: jax.linearize(f, x)[1](x),
}


@pytest.mark.parametrize("transform", FORWARD_MODE)
def test_networks_refuse_other_derivatives_by_name(transform):
    words = r"flashscan.jax.rnn (has no forward-mode derivatives|was differentiated twice)"
    with pytest.raises(NotImplementedError, match=words) as caught:
        FORWARD_MODE[transform](lambda Wx: fj.rnn(Wx, jnp.ones((1, 1, 3, 3)), None, "elman"), jnp.ones((1, 4, 1, 1, 3)))
    assert isinstance(caught.value, flashscan.FlashscanError)


def test_errors_of_the_data(device):
    if device == "cuda":
        pytest.skip("offsets are not read by the host")
    with pytest.raises(Exception, match=r"seq_offsets\[2\] is 2, less than seq_offsets\[1\] = 3; they"):
        fj.linear_scan(0.5, jnp.ones((1, 5, 3)), seq_offsets=jnp.array([0, 3, 2])).block_until_ready()


@pytest.mark.parametrize("shape, axis, gate_shape", [((2, 3, 5, 4), 2, (3, 1, 1)), ((3, 6), -1, (6,)), ((6, 3), 0, ())])
def test_any_axis(shape, axis, gate_shape, device):
    rng = np.random.default_rng(12)
    state = normal(rng, np.delete(shape, axis))
    gate, x = normal(rng, gate_shape) / 2, normal(rng, shape)
    call = functools.partial(fj.linear_scan, axis=axis, return_final_state=True)
    got, vjp = jax.vjp(call, gate, x, state)
    arrays = [np.asarray(each) for each in (gate, x, state)]
    want = flashscan.linear_scan(*arrays, axis=axis, return_final_state=True)
    assert_close(got, tuple(map(jnp.asarray, want)))
    gradients = flashscan.linear_scan_backward(arrays[0], want[0], want[0], arrays[2], want[1], axis=axis)
    assert_close(vjp(got), tuple(map(jnp.asarray, gradients)))
    with pytest.raises(flashscan.FlashscanValueError, match="layout is 'bct' with axis"):
        fj.linear_scan(gate, x, axis=axis, layout="bct")


def test_export_and_back(device):
    """Programs are exported with their gradients, and run elsewhere by what was written."""
    pytest.importorskip("flatbuffers")  # which JAX writes exported programs with
    from jax import export

    rng = np.random.default_rng(13)
    gate, x = normal(rng, (2, 5, 3)) / 2, normal(rng, (2, 5, 3))
    function = jax.jit(lambda gate, x: fj.linear_scan(gate, fj.prefix_scan(x, "add", axis=1)))
    with pytest.raises(ValueError, match="custom calls"):
        export.export(function)(gate, x)
    allowed = [export.DisabledSafetyCheck.custom_call("flashscan")]
    written = export.export(function, disabled_checks=allowed)(gate, x).serialize(vjp_order=1)
    read = export.deserialize(written)
    assert_close(read.call(gate, x), function(gate, x))
    gradient = lambda call: jax.grad(lambda *arrays: (call(*arrays) ** 2).sum(), (0, 1))(gate, x)
    assert_close(gradient(read.call), gradient(function))


def test_symbolic_extents_are_refused():
    from jax import export

    of = jax.ShapeDtypeStruct(export.symbolic_shape("2, T, 3"), np.float64)
    allowed = [export.DisabledSafetyCheck.custom_call("flashscan")]
    with pytest.raises(flashscan.FlashscanTypeError, match=r"input has shape \(2, T, 3\) with symbolic extents"):
        export.export(jax.jit(fj.linear_scan), disabled_checks=allowed)(of, of)


def test_functions_and_pytrees_are_left_to_jax():
    x = jnp.ones((4, 2))
    with pytest.raises(flashscan.FlashscanTypeError, match="op is .*jax.lax.associative_scan"):
        fj.prefix_scan(x, jnp.add, axis=0)
    for scan in (fj.prefix_scan, fj.reduce):
        with pytest.raises(flashscan.FlashscanTypeError, match="x is a tuple; accepted is one array"):
            scan((x, x), "add", axis=0)
