# SPDX-License-Identifier: Apache-2.0
"""Exponentially weighted means, as linear scans."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .._call import flag, integer
from .._errors import FlashscanValueError
from .._types import ArrayLike
from ._arguments import Arguments, axis_of
from ._packages import Array, Package

# Each way to say how fast weights decay has what a step keeps of those before it, and the values that are accepted.
_KEPT: dict[str, tuple[Callable[[Any], Any], str, Callable[[Any], Any]]] = {
    "com": (lambda com: com / (1 + com), "0 and more", lambda com: 0 <= com < math.inf),
    "span": (lambda span: (span - 1) / (span + 1), "1 and more", lambda span: 1 <= span < math.inf),
    "halflife": (lambda halflife: 0.5 ** (1 / halflife), "more than 0", lambda halflife: 0 < halflife < math.inf),
    "alpha": (lambda alpha: 1 - alpha, "more than 0, up to 1", lambda alpha: 0 < alpha <= 1),
}


def _kept(given: Arguments) -> Array:
    names = [name for name in _KEPT if name in given]
    if len(names) != 1:
        raise FlashscanValueError(f"given are {names or 'none'} of {', '.join(_KEPT)}; accepted is exactly one of them")
    formula, accepted, holds = _KEPT[names[0]]
    if given.shape(names[0]):
        raise FlashscanValueError(f"{names[0]} has shape {given.shape(names[0])}; accepted is a number")
    value = given.get(names[0], given.wide)
    known = given.package.known(value)
    if known is not None and not holds(known):
        raise FlashscanValueError(f"{names[0]} is {known}; accepted are numbers, {accepted}")
    return formula(value)


def ewm_mean(
    x: ArrayLike,
    com: ArrayLike | None = None,
    span: ArrayLike | None = None,
    halflife: ArrayLike | None = None,
    alpha: ArrayLike | None = None,
    min_periods: int | None = 0,
    adjust: bool = True,
    ignore_na: bool = False,
    axis: int = 0,
) -> Array:
    """Exponentially weighted means along an axis, as pandas's ``x.ewm(...).mean()``: the weight of a value is
    multiplied by 1 - alpha with every step.

    Args:
        x: values, float32 or float64; NaN where one is missing.
        com, span, halflife, alpha: exactly one of them, with alpha = 1 / (1 + com) = 2 / (span + 1) = 1 - 0.5^(1 /
            halflife); a number, or an array without axes, with respect to which PyTorch and JAX differentiate.
        min_periods: results are NaN before so many values were there; one at least.
        adjust: divides by the sum of the weights; otherwise the mean moves by alpha towards each value.
        ignore_na: steps with NaN do not count as steps.
        axis: that of time; 0, as pandas has its rows.

    Returns:
        The means, of x's shape and dtype; pandas converts float32 to float64.
    """
    ways = {"com": com, "span": span, "halflife": halflife, "alpha": alpha}
    given = Arguments({"x": x}, ways, ("float32", "float64"))
    package, dtype, shape = given.package, given.dtype, given.shape("x")
    axis, needed = axis_of(given, axis), 0 if min_periods is None else integer("min_periods", min_periods)
    adjust, ignore_na = flag("adjust", adjust), flag("ignore_na", ignore_na)
    if needed < 0:
        raise FlashscanValueError(f"min_periods is {needed}; accepted are 0 and more")
    with given.quiet():
        kept, time = _kept(given), shape[axis]
        x = given.get("x", dtype).reshape(math.prod(shape[:axis]), time, math.prod(shape[axis + 1 :]))
        values = package.known(x)
        holes = values is None or bool(np.isnan(values).any())
        options = (holes, adjust, ignore_na, min(max(needed, 1), time + 1))
        return package.run(_means, options, kept, x).reshape(shape)


def _means(package: Package, options: tuple[bool, bool, bool, int], kept: Array, x: Array) -> Array:
    """The means along the second of three axes."""
    holes, adjust, ignore_na, needed = options
    scan, zero = package.scans.linear_scan, package.zeros((), x)
    fresh = zero + 1 if adjust else package.cast(1 - kept, x.dtype)
    kept = package.cast(kept, x.dtype)
    if holes:
        there, x = ~package.isnan(x), package.where(package.isnan(x), zero, x)
    else:
        there = package.array(np.ones((1, x.shape[1], 1), bool), package.dtype("bool"), x)
    seen = package.cast(there, x.dtype)
    kept = kept * seen + (1 - seen) if ignore_na else kept + 0 * seen
    # The values before weigh their sum, or else what is left of the 1 that each value makes of it.
    weights = scan(kept if adjust else kept * (1 - seen), seen)
    before = kept * package.concat([package.zeros(tuple(seen[:, :1].shape), x), weights[:, :-1]], 1)
    gate = package.where(there, before / (before + fresh), zero + 1)
    means = scan(gate, seen * (fresh / (before + fresh)) * x)
    enough = package.cumsum(package.cast(there, package.dtype("int32")), 1) >= needed
    return package.where(enough, means, zero + math.nan)
