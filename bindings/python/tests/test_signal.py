# SPDX-License-Identifier: Apache-2.0
"""flashscan.signal on NumPy arrays against scipy.signal and pandas, within what rounding can do to a filter."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import flashscan
from flashscan import signal
from signal_support import (
    SECTIONS,
    TRANSFER_FUNCTIONS,
    normal,
    rounding,
    rounding_of_sections,
    scipy_signal,
    with_extent,
    within,
)

pandas = pytest.importorskip("pandas")

LENGTHS = [1, 2, 31, 32, 33, 700]


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("case", TRANSFER_FUNCTIONS)
def test_lfilter(case, length):
    b, a = TRANSFER_FUNCTIONS[case]
    x = normal(3, length)
    zi = normal(3, max(len(a), len(b)) - 1, seed=1)
    y = scipy_signal.lfilter(b, a, x)
    within(signal.lfilter(b, a, x), y, 2 * rounding(b, a, x, y))
    y, zf = scipy_signal.lfilter(b, a, x, zi=zi)
    got, last = signal.lfilter(b, a, x, zi=zi)
    bound = 2 * rounding(b, a, x, y, zi)
    within(got, y, bound)
    within(last, zf, bound * np.abs(a).sum())


@pytest.mark.parametrize("axis", [0, 1, 2, -1, -3])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex64, np.complex128])
def test_lfilter_axes_and_dtypes(dtype, axis):
    b, a = (each.astype(dtype) for each in scipy_signal.butter(3, 0.3))
    x = normal(40, 50, 45, dtype=dtype)
    zi = normal(*with_extent(x.shape, axis, 3), dtype=dtype, seed=1)
    y, zf = scipy_signal.lfilter(b, a, x, axis, zi)
    got, last = signal.lfilter(b, a, x, axis, zi)
    bound = 4 * rounding(b, a, x, y)
    within(got, y, bound)
    within(last, zf, bound * np.abs(a).sum())


def test_one_initial_state_for_all():
    b, a = scipy_signal.butter(2, 0.3)
    x, zi = normal(3, 4, 50), normal(1, 4, 2, seed=1)
    y, zf = scipy_signal.lfilter(b, a, x, zi=np.broadcast_to(zi, (3, 4, 2)))
    got, last = signal.lfilter(b, a, x, zi=zi)
    within(got, y, 1e-14)
    within(last, zf, 1e-14)


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("case", SECTIONS)
def test_sosfilt(case, length):
    sos = SECTIONS[case]
    x, zi = normal(3, length), normal(len(sos), 3, 2, seed=1)
    within(signal.sosfilt(sos, x), scipy_signal.sosfilt(sos, x), 2 * rounding_of_sections(sos, x)[0])
    y, zf = scipy_signal.sosfilt(sos, x, zi=zi)
    got, last = signal.sosfilt(sos, x, zi=zi)
    of_output, of_states = rounding_of_sections(sos, x, zi)
    within(got, y, 2 * of_output)
    within(last, zf, 2 * of_states)


@pytest.mark.parametrize("axis", [0, 1, 2, -2])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sosfilt_axes_and_dtypes(dtype, axis):
    sos = SECTIONS["butter 5"].astype(dtype)
    x = normal(40, 50, 45, dtype=dtype)
    zi = normal(3, *with_extent(x.shape, axis, 2), dtype=dtype, seed=1)
    y, zf = scipy_signal.sosfilt(sos, x, axis, zi)
    got, last = signal.sosfilt(sos, x, axis, zi)
    of_output, of_states = rounding_of_sections(sos, np.moveaxis(x, axis, -1), np.moveaxis(zi, axis % 3 + 1, -1))
    within(got, y, 2 * of_output)
    within(last, zf, 2 * of_states)


@pytest.mark.parametrize("case", SECTIONS)
def test_float32_signals_lose_what_their_products_lose(case):
    """The states are in float64, so that only the terms of a block and of the state before it are rounded to float32,
    once in each group of sections."""
    sos, x = SECTIONS[case].astype(np.float32), normal(2, 3000, dtype=np.float32)
    exact = scipy_signal.sosfilt(sos.astype(np.float64), x.astype(np.float64))
    impulse = scipy_signal.sosfilt(sos.astype(np.float64), np.eye(1, 3000)[0])
    terms = max(32, 16 * len(sos)) + 2 * len(sos)
    bound = terms * np.finfo(np.float32).eps * np.abs(impulse).sum() * np.abs(x).max()
    got = signal.sosfilt(sos, x)
    assert got.dtype == np.float32
    within(got.astype(np.float64), exact, bound)


NARROW = {name: TRANSFER_FUNCTIONS[name] for name in ("narrow butter 4", "butter 8", "elliptic 7")}
NARROW |= {name: SECTIONS[name] for name in ("narrow low-pass", "narrow band-pass", "high-pass")}


@pytest.mark.parametrize("case", NARROW)
def test_no_more_digits_are_lost_than_by_scipy(case):
    """Where many are, against the same filter in long double."""
    x = normal(4, 5000)
    if isinstance(NARROW[case], tuple):
        given, ours, theirs = NARROW[case], signal.lfilter, scipy_signal.lfilter
    else:
        given, ours, theirs = (NARROW[case],), signal.sosfilt, scipy_signal.sosfilt
    exact = theirs(*(each.astype(np.longdouble) for each in given), x.astype(np.longdouble))
    assert exact.dtype == np.longdouble
    error, scipys_error = (float(np.abs(y(*given, x) - exact).max() / np.abs(exact).max()) for y in (ours, theirs))
    assert error <= 4 * scipys_error + 4 * np.finfo(np.float64).eps


def test_pieces_are_the_whole():
    sos, x = SECTIONS["butter 5"], normal(2, 500)
    state, pieces = np.zeros((3, 2, 2)), []
    for piece in np.split(x, [1, 40, 333], axis=1):
        y, state = signal.sosfilt(sos, piece, zi=state)
        pieces.append(y)
    within(np.concatenate(pieces, 1), signal.sosfilt(sos, x), 2 * rounding_of_sections(sos, x)[0])


def test_sections_are_divided_by_their_a0():
    sos, x = SECTIONS["butter 5"], normal(2, 100)
    within(signal.sosfilt(sos * [[2.0], [3.0], [-0.5]], x), scipy_signal.sosfilt(sos, x), 1e-14)


@pytest.mark.parametrize("case", SECTIONS)
def test_settled_states(case):
    sos = SECTIONS[case]
    want = scipy_signal.sosfilt_zi(sos)
    got = signal.sosfilt_zi(sos)
    assert got.dtype == want.dtype
    np.testing.assert_allclose(got, want, rtol=1e-9)


@pytest.mark.parametrize("padlen", [None, 0, 5, 150])
@pytest.mark.parametrize("padtype", ["odd", "even", "constant", None])
@pytest.mark.parametrize("case", ["butter 1", "butter 5", "high-pass"])
def test_sosfiltfilt(case, padtype, padlen):
    sos, x = SECTIONS[case], normal(2, 151, 2)
    want = scipy_signal.sosfiltfilt(sos, x, 1, padtype, padlen)
    extended = np.concatenate(3 * [np.moveaxis(x, 1, -1)], -1) * 3  # as long, and of values as large, as it can get
    settled = scipy_signal.sosfilt_zi(sos)[:, None, None] * extended[..., :1]
    once, _ = rounding_of_sections(sos, extended, settled)
    twice, _ = rounding_of_sections(sos, extended, settled, once)
    within(signal.sosfiltfilt(sos, x, 1, padtype, padlen), want, 2 * twice)


def test_default_padding_counts_zeros():
    """Of 3 * (2 * sections + 1), 3 are left out for each section whose b2 and a2 are both 0 in number."""
    sos = np.array([[1, 0.5, 0, 1, -0.5, 0], [1, 0.2, 0.1, 1, 0.3, 0.0]])
    x = normal(40)
    within(signal.sosfiltfilt(sos, x), scipy_signal.sosfiltfilt(sos, x), 1e-13)
    within(signal.sosfiltfilt(sos, x[:13]), scipy_signal.sosfiltfilt(sos, x[:13]), 1e-13)
    with pytest.raises(ValueError, match="padlen is 12 and x has 12 samples"):
        signal.sosfiltfilt(sos, x[:12])


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_nan_and_infinities_reach_no_further_back_than_1024_samples(value):
    x = normal(2, 4000)
    x[0, 2500] = value
    sos = SECTIONS["butter 5"]
    y, want = signal.sosfilt(sos, x), scipy_signal.sosfilt(sos, x)
    within(y[:, : 2500 - 1024], want[:, : 2500 - 1024], 1e-13)
    within(y[1], want[1], 1e-13)
    assert not np.isfinite(y[0, 2500:]).any()


def test_views_and_lists():
    b, a = scipy_signal.butter(3, 0.3)
    x = normal(60, 4)
    x.flags.writeable = False
    for view in (x.T, x[::-2].T, np.asfortranarray(x).T, x.T.tolist()):
        y = scipy_signal.lfilter(b, a, view)
        within(signal.lfilter(b.tolist(), a[::1], view), y, 1e-14)
        within(signal.lfilter(b[::-1], a, view), scipy_signal.lfilter(b[::-1], a, view), 1e-14)


def test_data_types_are_promoted_as_in_scipy():
    x = normal(50, dtype=np.float32)
    for b, a in (([1.0], [1, -0.5]), (np.float32([1]), np.float32([1, -0.5])), ([1j], [1, -0.5])):
        y = scipy_signal.lfilter(b, a, x)
        within(signal.lfilter(b, a, x), y, 1e-6 if y.dtype == np.float32 else 1e-14)
    assert signal.lfilter([1], [1, -1], np.arange(4)).tolist() == [0, 1, 3, 6]
    within(signal.lfilter([1.0], [1, -0.5], x.astype(">f4")), scipy_signal.lfilter([1.0], [1, -0.5], x), 1e-14)


def test_nothing_to_filter():
    b, a = scipy_signal.butter(3, 0.3)
    for shape in ((0,), (2, 0), (0, 10)):
        zi = normal(*shape[:-1], 3, seed=1)
        y, zf = signal.lfilter(b, a, np.zeros(shape), zi=zi)
        assert y.shape == shape and np.array_equal(zf, zi)
        assert signal.sosfilt(SECTIONS["butter 5"], np.zeros(shape)).shape == shape


def table(missing):
    x = normal(200, 3)
    if missing:
        x[np.random.default_rng(1).random(x.shape) < 0.3] = np.nan
        x[:5, 1] = np.nan
        x[50:150, 2] = np.nan
    return x


WAYS = [("com", 0.5), ("com", 0), ("span", 7), ("halflife", 3.0), ("alpha", 0.99), ("alpha", 1)]


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("way, value", WAYS)
def test_ewm_mean(way, value, missing):
    x, how = table(missing), {way: value}
    for adjust, ignore_na, min_periods in itertools.product([True, False], [True, False], [0, 1, 4]):
        options = {**how, "adjust": adjust, "ignore_na": ignore_na, "min_periods": min_periods}
        want = pandas.DataFrame(x).ewm(**options).mean().to_numpy()
        np.testing.assert_allclose(signal.ewm_mean(x, **options), want, rtol=1e-13, atol=1e-13)
        along_last = signal.ewm_mean(np.stack([x.T, x.T]), **options, axis=-1)
        np.testing.assert_allclose(along_last, np.stack([want.T, want.T]), rtol=1e-13, atol=1e-13)


def test_ewm_mean_of_float32_and_integers():
    x = table(True)
    x[50:150, 2] = np.nan  # in which the weights of the values before leave the range of float32
    want = pandas.DataFrame(x.astype(np.float32)).ewm(alpha=0.9).mean().to_numpy()
    got = signal.ewm_mean(x.astype(np.float32), alpha=0.9)
    assert got.dtype == np.float32
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
    whole = np.arange(5)
    np.testing.assert_allclose(signal.ewm_mean(whole, com=1), pandas.Series(whole).ewm(com=1).mean(), rtol=1e-14)


def test_ewm_mean_of_nothing():
    assert signal.ewm_mean(np.zeros((0, 3)), com=1).shape == (0, 3)
    assert np.isnan(signal.ewm_mean(np.full(4, np.nan), com=1)).all()


X = np.ones(20)
SOS = SECTIONS["butter 5"]
REFUSED = {
    "no b": (lambda: signal.lfilter(None, [1.0], X), "b is None; accepted are arrays"),
    "b of two axes": (lambda: signal.lfilter(np.ones((2, 2)), [1.0], X), r"b has shape \(2, 2\); accepted is one axis"),
    "no poles": (lambda: signal.lfilter([1.0], [], X), r"a has shape \(0,\)"),
    "a[0] is 0": (lambda: signal.lfilter([1.0], [0.0, 1.0], X), r"a has a\[0\] 0; accepted are other values"),
    "many poles": (lambda: signal.lfilter([1.0], np.ones(34), X), "a has 34 coefficients; accepted are up to 33"),
    "axis": (lambda: signal.lfilter([1.0], [1.0], X, axis=1), r"axis is 1 and x has shape \(20,\)"),
    "no axis": (lambda: signal.lfilter([1.0], [1.0], 3.0), r"axis is -1 and x has shape \(\)"),
    "zi": (lambda: signal.lfilter([1.0], [1.0, 0.5], X, zi=[1.0, 2.0]), r"zi has shape \(2,\); accepted is \(1,\)"),
    "float16": (lambda: signal.sosfilt(SOS.astype("f2"), X.astype("f2")), "float16, from sos float16, x"),
    "long double": (lambda: signal.sosfilt(SOS, X.astype(np.longdouble)), "the data type is .*accepted are float32"),
    "text": (lambda: signal.sosfilt(SOS, "abc"), "x is 'abc', which is not made of numbers"),
    "sos": (lambda: signal.sosfilt(SOS[:, :5], X), r"sos has shape \(3, 5\); accepted is \(sections, 6\)"),
    "a0 is 0": (lambda: signal.sosfilt(SOS * [1, 1, 1, 0, 1, 1], X), "sos has a section whose a0 is 0"),
    "zi of sections": (lambda: signal.sosfilt(SOS, X, zi=np.ones((2, 2))), r"zi has shape \(2, 2\); accepted is \(3"),
    "padtype": (lambda: signal.sosfiltfilt(SOS, X, padtype="zero"), "padtype is 'zero'; accepted are 'odd',"),
    "padlen": (lambda: signal.sosfiltfilt(SOS, X, padlen=20), "padlen is 20 and x has 20 samples"),
    "negative padlen": (lambda: signal.sosfiltfilt(SOS, X, padlen=-1), "padlen is -1"),
    "no samples": (lambda: signal.sosfiltfilt(SOS, X[:0], padtype=None), "x has 0 samples"),
    "no decay": (lambda: signal.ewm_mean(X), "given are none of com, span, halflife, alpha; accepted is exactly one"),
    "two decays": (lambda: signal.ewm_mean(X, com=1, span=3), r"given are \['com', 'span'\]"),
    "com": (lambda: signal.ewm_mean(X, com=-0.1), "com is -0.1; accepted are numbers, 0 and more"),
    "span": (lambda: signal.ewm_mean(X, span=0.5), "span is 0.5; accepted are numbers, 1 and more"),
    "halflife": (lambda: signal.ewm_mean(X, halflife=0), "halflife is 0.0; accepted are numbers, more than 0"),
    "alpha": (lambda: signal.ewm_mean(X, alpha=1.5), "alpha is 1.5; accepted are numbers, more than 0, up to 1"),
    "NaN": (lambda: signal.ewm_mean(X, alpha=np.nan), "alpha is nan"),
    "decay of two": (lambda: signal.ewm_mean(X, com=[1.0, 2.0]), r"com has shape \(2,\); accepted is a number"),
    "complex": (lambda: signal.ewm_mean(X + 0j, com=1), "the data type is complex128.*accepted are float32, float64"),
    "min_periods": (lambda: signal.ewm_mean(X, com=1, min_periods=-1), "min_periods is -1; accepted are 0 and more"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusals_name_what_was_given(case):
    call, words = REFUSED[case]
    with pytest.raises(flashscan.FlashscanError, match=words):
        call()
