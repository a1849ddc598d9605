# SPDX-License-Identifier: Apache-2.0
"""Filters by a transfer function."""

from __future__ import annotations

import math
from typing import overload

from .._errors import FlashscanValueError
from .._types import ArrayLike
from ._arguments import Arguments, axis_of, back, not_zero, rows
from ._blocks import Block, basis, block_of, convolve, run, section
from ._packages import Array, Package

_POLES = 32  # the matrices of a block take the fourth power


def _vector(given: Arguments, name: str) -> int:
    shape = given.shape(name)
    if len(shape) > 1 or 0 in shape:
        raise FlashscanValueError(f"{name} has shape {shape}; accepted is one axis of one coefficient at least")
    return math.prod(shape)


@overload
def lfilter(b: ArrayLike, a: ArrayLike, x: ArrayLike, axis: int = -1, zi: None = None) -> Array: ...
@overload
def lfilter(b: ArrayLike, a: ArrayLike, x: ArrayLike, axis: int, zi: ArrayLike) -> tuple[Array, Array]: ...
@overload
def lfilter(b: ArrayLike, a: ArrayLike, x: ArrayLike, axis: int = -1, *, zi: ArrayLike) -> tuple[Array, Array]: ...
def lfilter(b: ArrayLike, a: ArrayLike, x: ArrayLike, axis: int = -1, zi: ArrayLike | None = None) -> Array | tuple[Array, Array]:
    """Filters along an axis by a rational transfer function, as ``scipy.signal.lfilter`` does:

        a[0] y[t] = b[0] x[t] + b[1] x[t-1] + ... - a[1] y[t-1] - a[2] y[t-2] - ...

    Args:
        b: coefficients of the numerator, one axis.
        a: coefficients of the denominator, one axis, 33 at most; a[0] is not 0.
        x: the signal, or signals side by side.
        axis: that of time.
        zi: state before the first step, of x's shape with ``max(len(a), len(b)) - 1`` in place of time; axes of extent
            1 stand for any. It is that of scipy, of the transposed direct form II; zeros if not given.

    Returns:
        y of x's shape; with ``zi`` the pair of it and the state after the last step.

    The data type is the promotion of all that is given in NumPy, and in PyTorch and JAX that of their own arrays; one
    of float32, float64, complex64 and complex128. Poles close to each other or to 1 lose digits as they do in scipy's,
    more with every order; ``sosfilt`` loses fewer. NaN and infinities in the signal may also reach up to 1024 samples
    before them.
    """
    given = Arguments({"b": b, "a": a, "x": x}, {"zi": zi})
    package = given.package
    taps, poles = _vector(given, "b"), _vector(given, "a")
    if poles > _POLES + 1:
        raise FlashscanValueError(
            f"a has {poles} coefficients; accepted are up to {_POLES + 1}: pass filters of more poles to sosfilt"
        )
    states = max(taps, poles) - 1
    axis = axis_of(given, axis)
    with given.quiet():
        maker, (b, a) = given.coefficients("b", "a")
        b, a = b.reshape(taps), a.reshape(poles)
        not_zero(maker, "a", a[:1], "a[0]")
        signal, shape = rows(package, given.get("x", given.dtype), axis)
        state_shape = (*shape[:-1], states)
        block = None if poles == 1 else Block(*given.moved(maker, *maker.run(_block, (shape[-1],), b, a)))
        b, a = given.moved(maker, b, a)
        if zi is None:
            state = package.zeros((signal.shape[0], states), b)
        else:
            state = _state(given, axis, state_shape)
        filtered = _by_parts if taps > poles else _at_once
        y, last = package.run(filtered, (), block, b, a, signal, state)
        y = back(package, y, shape, axis)
        if zi is None:
            return y
        return y, back(package, package.cast(last, y.dtype), state_shape, axis)


def _state(given: Arguments, axis: int, shape: tuple[int, ...]) -> Array:
    package, found = given.package, given.shape("zi")
    accepted = (*shape[:axis], shape[-1], *shape[axis:-1])
    if len(found) != len(shape) or any(n not in (1, m) for n, m in zip(found, accepted)) or found[axis] != shape[-1]:
        raise FlashscanValueError(f"zi has shape {found}; accepted is {accepted}, or 1 along any axis but {axis}")
    state = package.moveaxis(given.get("zi", given.wide), axis, -1)
    return package.broadcast_to(state, shape).reshape(math.prod(shape[:-1]), shape[-1])


def _block(package: Package, options: tuple[int], b: Array, a: Array) -> Block:
    """Of the whole filter, or of the denominator alone where the numerator is longer."""
    if b.shape[0] > a.shape[0]:
        b = a[:1]
    system = section(package, package.concat([b, package.zeros((a.shape[0] - b.shape[0],), b)], 0), a)
    return block_of(package, system, basis(package, system), *options)


def _at_once(
    package: Package, options: tuple[()], block: Block | None, b: Array, a: Array, x: Array, state: Array
) -> tuple[Array, Array]:
    return (package.cast(b / a, x.dtype) * x, state) if block is None else run(package, block, x, state)


def _by_parts(
    package: Package, options: tuple[()], block: Block | None, b: Array, a: Array, x: Array, state: Array
) -> tuple[Array, Array]:
    """The numerator first, since it takes longer to forget than there are poles.

    A state of the whole filter is what past samples add to the next outputs of the numerator.
    """
    time, missing = x.shape[1], state.shape[1] + 1 - a.shape[0]
    b, a = b / a[0], a / a[0]
    forced = convolve(package, b, x)
    forced = forced + package.cast(package.concat([state, package.zeros((x.shape[0], time), state)], 1), x.dtype)
    y = forced[:, :time]
    if block is not None:
        y, _ = run(package, block, y, package.zeros((x.shape[0], a.shape[0] - 1), state))
    taken = package.concat([convolve(package, a, y), package.zeros((x.shape[0], missing), y)], 1)
    return y, (forced - taken)[:, time:]
