# SPDX-License-Identifier: Apache-2.0
"""Associative operators through NumPy: against NumPy's own scans, folds, finite differences, and bad input."""

from __future__ import annotations

import ctypes

import ml_dtypes
import numpy as np
import pytest

import flashscan
from flashscan import (
    HostOperator,
    affine_scan,
    affine_scan_backward,
    linear_scan,
    prefix_scan,
    prefix_scan_backward,
    reduce,
    reduce_backward,
)

UFUNCS = {
    "add": np.add,
    "mul": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
    "logaddexp": np.logaddexp,
}


def fold(x, combine):
    """Inclusive scan over the first axis."""
    out = [x[0]]
    for element in x[1:]:
        out.append(combine(out[-1], element))
    return np.stack(out)


@pytest.mark.parametrize("op", UFUNCS)
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_named_operators_equal_numpys(rng, op, axis):
    x = rng.uniform(0.5, 1.5, (7, 33, 5))
    want = UFUNCS[op].accumulate(x, axis=axis)
    np.testing.assert_allclose(prefix_scan(x, op, axis=axis), want, rtol=1e-13)
    np.testing.assert_allclose(reduce(x, op, axis=axis), np.take(want, -1, axis), rtol=1e-13)
    flipped = np.flip(UFUNCS[op].accumulate(np.flip(x, axis), axis=axis), axis)
    np.testing.assert_allclose(prefix_scan(x, op, axis=axis, reverse=True), flipped, rtol=1e-13)
    initial = rng.uniform(0.5, 1.5, np.take(x, 0, axis).shape)
    exclusive, last = prefix_scan(x, op, axis=axis, exclusive=True, initial=initial, return_final=True)
    both = UFUNCS[op].accumulate(np.concatenate([np.expand_dims(initial, axis), x], axis), axis=axis)
    np.testing.assert_allclose(exclusive, np.take(both, range(x.shape[axis]), axis), rtol=1e-13)
    np.testing.assert_allclose(last, np.take(both, -1, axis), rtol=1e-13)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16, np.float64, np.complex64, np.complex128])
def test_dtypes(rng, dtype):
    x = rng.integers(-3, 4, (4, 20)).astype(dtype)
    got = prefix_scan(x, "add")
    assert got.dtype == np.dtype(dtype) and got.shape == x.shape
    np.testing.assert_array_equal(got.astype(np.complex128), np.cumsum(x.astype(np.complex128), 1))


def test_matrices_keep_their_order(rng):
    x = rng.standard_normal((3, 17, 2, 5, 5)) / 2
    want = np.moveaxis(fold(np.moveaxis(x, 1, 0), np.matmul), 0, 1)
    np.testing.assert_allclose(prefix_scan(x, "matmul", axis=1), want, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(reduce(x, "matmul", axis=1), want[:, -1], rtol=1e-10, atol=1e-12)
    chain = x[0, :, 0]
    np.testing.assert_array_equal(prefix_scan(chain, "matmul")[-1], reduce(chain, "matmul"))
    np.testing.assert_array_equal(prefix_scan(chain, "matmul", exclusive=True)[0], np.eye(5))


def test_packed_sequences_are_scans_of_their_own(rng):
    x, offsets = rng.standard_normal((1, 30, 4)), np.array([0, 7, 7, 30])
    got, last = prefix_scan(x, "add", axis=1, seq_offsets=offsets, return_final=True)
    for n, (begin, end) in enumerate(zip(offsets, offsets[1:])):
        np.testing.assert_allclose(got[0, begin:end], np.cumsum(x[0, begin:end], 0), rtol=1e-12)
        np.testing.assert_allclose(last[n], x[0, begin:end].sum(0), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("time", [1, 2, 3, 8, 33])
def test_functions_on_arrays(rng, time):
    x = rng.standard_normal((3, time, 4, 4)) / 2
    want = prefix_scan(x, "matmul")
    calls = []

    def product(left, right):
        calls.append(len(left))
        assert left.shape == right.shape == (len(left), 4, 4)
        return left @ right

    np.testing.assert_allclose(prefix_scan(x, product, axis=1), want, rtol=1e-9, atol=1e-12)
    assert sum(calls) <= 2 * x.shape[0] * time and len(calls) <= 2 * np.log2(time + 1) + 2
    np.testing.assert_allclose(prefix_scan(x, product, axis=1, reverse=True), prefix_scan(x, "matmul", reverse=True))
    np.testing.assert_array_equal(reduce(x, product, axis=1), prefix_scan(x, product, axis=1)[:, -1])
    structs = rng.integers(0, 100, 50)
    np.testing.assert_array_equal(prefix_scan(structs, np.maximum, axis=0), np.maximum.accumulate(structs))
    large = rng.standard_normal((time, 64, 64)) / 8  # more than 4 KB each
    np.testing.assert_allclose(
        prefix_scan(large, np.matmul, axis=0), prefix_scan(large, "matmul"), rtol=1e-9, atol=1e-9
    )


def test_what_a_function_raises_comes_out():
    def fails(left, right):
        raise KeyError("from the operator")

    with pytest.raises(KeyError, match="from the operator"):
        prefix_scan(np.ones(4), fails, axis=0)


RESULTS = {
    "broadcast": (lambda left, right: (left + right)[:1], r"op's result has shape \(1, 2\); accepted is \(\d, 2\)"),
    "wider": (lambda left, right: np.ones((len(left), 3)), r"op's result has shape \(\d, 3\)"),
    "summed": (lambda left, right: (left + right).sum(), r"op's result is a float64; accepted are arrays"),
    "other dtype": (lambda left, right: left > right, r"op's result has dtype bool; accepted is float64"),
    "narrower": (lambda left, right: (left + right).astype(np.float32), r"op's result has dtype float32"),
    "nothing": (lambda left, right: None, r"op's result is a NoneType"),
}


@pytest.mark.parametrize("case", RESULTS)
@pytest.mark.parametrize("function", [prefix_scan, reduce])
def test_results_of_functions_take_an_elements_place(function, case):
    op, message = RESULTS[case]
    with pytest.raises(flashscan.FlashscanError, match=message):
        function(np.ones((16, 2)), op, axis=0)


def test_compiled_operators():
    @ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
    def add(state, lhs, rhs, out):
        read = ctypes.c_int64.from_address
        read(out).value = read(lhs).value + read(rhs).value

    op = HostOperator(ctypes.cast(add, ctypes.c_void_p).value)
    x = np.arange(200).reshape(2, 100)
    np.testing.assert_array_equal(prefix_scan(x, op, axis=1), np.cumsum(x, 1))
    np.testing.assert_array_equal(reduce(x, op, axis=1), x.sum(1))


def differences(function, x, h=1e-6):
    slopes = np.zeros_like(x)
    for i in np.ndindex(x.shape):
        ahead, behind = x.copy(), x.copy()
        ahead[i] += h
        behind[i] -= h
        slopes[i] = (function(ahead) - function(behind)) / (2 * h)
    return slopes


@pytest.mark.parametrize("op", [*UFUNCS, "matmul"])
@pytest.mark.parametrize("options", [{}, {"reverse": True}, {"exclusive": True}])
def test_gradients_are_those_of_finite_differences(rng, op, options):
    x = rng.uniform(-1, 1, (2, 6, 3, 3))
    options = {**options, "axis": 1, "initial": rng.uniform(-1, 1, (2, 3, 3))}
    weights = rng.standard_normal(x.shape)

    def loss(values, initial=options["initial"]):
        return (prefix_scan(values, op, **{**options, "initial": initial}) * weights).sum()

    output = prefix_scan(x, op, **options)
    grad_x, grad_initial = prefix_scan_backward(x, op, weights, output, **options)
    np.testing.assert_allclose(grad_x, differences(loss, x), rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(
        grad_initial, differences(lambda initial: loss(x, initial), options["initial"]), rtol=1e-6, atol=1e-7
    )
    if "exclusive" in options:
        return
    grad_x, grad_initial = reduce_backward(x, op, weights[:, 0], axis=1, reverse=options.get("reverse", False))
    want = differences(
        lambda v: (reduce(v, op, axis=1, reverse=options.get("reverse", False)) * weights[:, 0]).sum(), x
    )
    np.testing.assert_allclose(grad_x, want, rtol=1e-6, atol=1e-7)
    assert grad_initial is None


def test_affine_maps(rng):
    W, b, start = rng.uniform(-0.5, 0.5, (2, 9, 3, 3)), rng.standard_normal((2, 9, 3)), rng.standard_normal((2, 3))
    x, last = affine_scan(W, b, start, return_final_state=True)
    state = start
    for t in range(9):
        state = np.einsum("bij,bj->bi", W[:, t], state) + b[:, t]
        np.testing.assert_allclose(x[:, t], state, rtol=1e-12, atol=1e-14)
    np.testing.assert_array_equal(last, x[:, -1])
    gate = rng.uniform(0, 1, (2, 9, 3))
    diagonal = gate[..., None] * np.eye(3)
    np.testing.assert_allclose(affine_scan(diagonal, b), linear_scan(gate, b), rtol=1e-12, atol=1e-14)
    weights = rng.standard_normal(x.shape)
    grad_W, grad_b, grad_start = affine_scan_backward(W, x, weights, start)
    for got, value, at in ((grad_W, W, 0), (grad_b, b, 1), (grad_start, start, 2)):

        def loss(changed, at=at):
            args = [W, b, start]
            args[at] = changed
            return (affine_scan(*args) * weights).sum()

        np.testing.assert_allclose(got, differences(loss, value), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda: prefix_scan(np.ones(3), "sub"), "op is 'sub'"),
        (lambda: prefix_scan(np.ones((3, 2, 4)), "matmul"), "square matrices"),
        (lambda: prefix_scan(np.ones((2, 2)), "matmul"), "3 axes or more"),
        (lambda: prefix_scan(np.ones((3, 2)), "add", axis=2), "axis is 2"),
        (lambda: prefix_scan(np.ones(3, np.int16), "add"), "x has dtype int16"),
        (lambda: prefix_scan(np.ones(3), np.add), "axis is not given"),
        (lambda: prefix_scan(np.ones(3), 7), "op is 7"),
        (lambda: prefix_scan(np.ones((2, 3)), "add", initial=np.ones(3)), "initial has shape"),
        (lambda: prefix_scan(np.ones((2, 3)), "add", seq_offsets=np.array([0, 3])), "extents of 1"),
        (
            lambda: prefix_scan(np.ones((3, 3), np.complex64), "max"),
            "x has dtype complex64; accepted for .max. are float32",
        ),
        (lambda: prefix_scan(np.ones(3), np.add, axis=0, exclusive=True), "initial is None; accepted with exclusive"),
        (lambda: reduce(np.ones((2, 0)), np.add, axis=1), "x has shape .2, 0. and initial is None"),
        (lambda: prefix_scan(np.ones((2, 0)), np.add, axis=1, return_final=True), "x has shape .2, 0. and initial is None"),
        (
            lambda: prefix_scan(np.ones(3), flashscan.CudaOperator("code", "f"), axis=0),
            "op is a CudaOperator and x is on cpu; accepted there are HostOperator and functions",
        ),
        (lambda: prefix_scan(np.ones(3, np.uint16), "max"), "x has dtype uint16; .* int32, int64, uint8, bool"),
        (lambda: prefix_scan(np.ones(3, np.int32), "add", initial=0.5), "initial has dtype float64; accepted are those that convert to int32"),
        (lambda: prefix_scan(np.ones(3, np.uint8), "add", initial=300), "initial is 300, of which no array of dtype uint8"),
        (lambda: prefix_scan(np.ones(3, bool), "or", initial=2), "initial has dtype int64; accepted are those that convert to bool"),
        (lambda: prefix_scan_backward(np.ones((3, 2, 2)), "matmul", np.ones((3, 2, 2))), "output is None"),
        (lambda: affine_scan(np.ones((4, 2, 2)), np.ones((4, 3))), "W has shape"),
    ],
)
def test_mistakes_are_named(call, words):
    with pytest.raises(flashscan.FlashscanError, match=words):
        call()


@pytest.fixture
def rng():
    return np.random.default_rng(0)


INTEGERS = ("int32", "int64", "uint8")


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("op", ["add", "mul", "min", "max", "and", "or", "xor"])
def test_integers_are_those_of_numpy(op, dtype):
    functions = {"add": np.add, "mul": np.multiply, "min": np.minimum, "max": np.maximum}
    functions.update({"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor})
    bounds = np.iinfo(dtype)
    x = np.random.default_rng(0).integers(bounds.min, bounds.max, (3, 500), dtype, endpoint=True)
    wanted = functions[op].accumulate(x, 1, dtype)
    got, final = flashscan.prefix_scan(x, op, return_final=True)
    assert got.dtype == final.dtype == dtype
    np.testing.assert_array_equal(got, wanted)
    np.testing.assert_array_equal(final, wanted[:, -1])
    np.testing.assert_array_equal(flashscan.reduce(x, op), wanted[:, -1])
    later = flashscan.prefix_scan(x, op, exclusive=True, initial=x[:, 0])
    np.testing.assert_array_equal(later[:, 0], x[:, 0])
    np.testing.assert_array_equal(later[:, 1:], functions[op].accumulate(np.hstack((x[:, :1], x)), 1, dtype)[:, 1:-1])


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", *INTEGERS])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("op, function", [("min", np.minimum), ("max", np.maximum)])
def test_indices_are_those_of_the_first_extremum(op, function, reverse, dtype):
    x = np.random.default_rng(1).integers(0, 9, (2, 50, 3)).astype(dtype)
    y, index, final = flashscan.prefix_scan(x, op, axis=1, reverse=reverse, return_index=True, return_final=True)
    turned = x[:, ::-1] if reverse else x
    wanted = function.accumulate(turned, 1)
    fresh = np.concatenate((np.ones_like(x[:, :1], bool), wanted[:, 1:] != wanted[:, :-1]), 1)
    place = np.maximum.accumulate(np.where(fresh, np.arange(50)[:, None], 0), 1)
    assert index.dtype == np.int64
    np.testing.assert_array_equal(index, (49 - place)[:, ::-1] if reverse else place)
    np.testing.assert_array_equal(y, np.take_along_axis(x, index, 1))
    np.testing.assert_array_equal(final, wanted[:, -1])
    least, step = flashscan.reduce(x, op, axis=1, reverse=reverse, return_index=True)
    np.testing.assert_array_equal(least, wanted[:, -1])
    np.testing.assert_array_equal(step, 49 - place[:, -1] if reverse else place[:, -1])
    exclusive = flashscan.prefix_scan(x, op, axis=1, initial=x[:, 0], exclusive=True, return_index=True)[1]
    assert (exclusive[:, 0] == -1).all()


def test_indices_of_packed_sequences_count_from_the_beginning():
    x = np.array([3.0, 1.0, 1.0, 5.0, 2.0, 2.0])
    offsets = np.array([0, 3, 3, 6])
    assert flashscan.prefix_scan(x, "min", seq_offsets=offsets, return_index=True)[1].tolist() == [0, 1, 1, 3, 4, 4]
    assert flashscan.reduce(x, "min", seq_offsets=offsets, return_index=True)[1].tolist() == [1, -1, 4]


@pytest.mark.parametrize("package", ["numpy", "torch"])
@pytest.mark.parametrize("reverse", [False, True])
def test_indices_behind_the_last_sequence_are_no_steps(package, reverse):
    module = pytest.importorskip(package)
    x, offsets = module.ones((2, 1, 5, 3)), module.asarray([0, 2, 3])
    y, index = flashscan.prefix_scan(x[:1], "max", axis=2, seq_offsets=offsets, return_index=True, reverse=reverse)
    assert index[0, 0, :, 0].tolist() == [1 if reverse else 0] * 2 + [2, -1, -1]
    assert y[0, 0, :, 0].tolist() == [1, 1, 1, 0, 0]


def test_indices_are_refused_where_there_are_none():
    x = np.ones(4)
    for call in (lambda: flashscan.prefix_scan(x, "add", return_index=True), lambda: flashscan.reduce(x, np.add, return_index=True)):
        with pytest.raises(ValueError, match="return_index is True with op .*; accepted are 'min' and 'max'"):
            call()
    with pytest.raises(TypeError, match="x has dtype bool; accepted with return_index are numbers"):
        flashscan.prefix_scan(x > 0, "max", return_index=True)
    with pytest.raises(TypeError, match="return_index"):
        flashscan.prefix_scan(x, "max", return_index="yes")


@pytest.mark.parametrize("op, wanted", [("and", [1, 1, 0, 0]), ("or", [0, 1, 1, 1]), ("xor", [0, 1, 1, 0])])
def test_bools_stay_bools(op, wanted):
    x = np.array([True, True, False, True]) if op == "and" else np.array([False, True, False, True])
    got = flashscan.prefix_scan(x, op)
    assert got.dtype == bool and got.view(np.uint8).tolist() == wanted
    first = flashscan.prefix_scan(x, op, exclusive=True).view(np.uint8)
    assert first.tolist() == [int(op == "and"), *wanted[:-1]]


def test_integers_are_refused_where_they_have_no_meaning():
    x = np.arange(6, dtype=np.int32)
    for op in ("logaddexp", "matmul"):
        with pytest.raises(TypeError, match="x has dtype int32"):
            flashscan.prefix_scan(x.reshape(6, 1, 1) if op == "matmul" else x, op)
    for dtype in ("float32", "int16"):
        with pytest.raises(TypeError, match="accepted for 'xor' are int32, int64, uint8 and bool"):
            flashscan.prefix_scan(x.astype(dtype), "xor")
    with pytest.raises(TypeError, match="no results of 'add' fit"):
        flashscan.prefix_scan(x > 2, "add")
    with pytest.raises(ValueError, match="integers have no gradients"):
        flashscan.prefix_scan_backward(x, "add", np.ones_like(x))
