# SPDX-License-Identifier: Apache-2.0
"""Filters by second-order sections one after the other."""

from __future__ import annotations

from typing import Any, overload

from .._call import choose, integer
from .._errors import FlashscanValueError
from .._types import ArrayLike
from ._arguments import Arguments, axis_of, back, not_zero, rows
from ._blocks import Block, block_of, cascade, run, section
from ._packages import Array, Package

_SECTIONS_AT_ONCE = 8  # 16 states


def _sections(given: Arguments) -> int:
    shape = given.shape("sos")
    if len(shape) != 2 or shape[1] != 6 or not shape[0]:
        raise FlashscanValueError(f"sos has shape {shape}; accepted is (sections, 6) with one section at least")
    return shape[0]


def _blocks(package: Package, options: tuple[int], sos: Array) -> list[Block]:
    """Of groups of sections."""
    blocks = []
    for start in range(0, sos.shape[0], _SECTIONS_AT_ONCE):
        group = sos[start : start + _SECTIONS_AT_ONCE]
        system, coordinates = cascade(package, section(package, group[:, :3], group[:, 3:]))
        blocks.append(block_of(package, system, coordinates, *options))
    return blocks


def _blocks_of(given: Arguments, time: int) -> tuple[list[Block], Array]:
    """And the sections, as arrays of the signal's package."""
    maker, (sos,) = given.coefficients("sos")
    not_zero(maker, "sos", sos[:, 3], "a section whose a0 is")
    blocks = maker.run(_blocks, (time,), sos)
    return [Block(*given.moved(maker, *block)) for block in blocks], given.moved(maker, sos)[0]


def _cascade(
    package: Package, options: tuple[()], blocks: list[Block], x: Array, state: Array
) -> tuple[Array, Array]:
    """x [rows, time] through all sections, with the state [rows, sections, 2]."""
    rows, lasts, start = x.shape[0], [], 0
    for block in blocks:
        count = block.observed.shape[0] // 2
        x, last = run(package, block, x, state[:, start : start + count].reshape(rows, 2 * count))
        lasts.append(last.reshape(rows, count, 2))
        start += count
    return x, package.concat(lasts, 1)


@overload
def sosfilt(sos: ArrayLike, x: ArrayLike, axis: int = -1, zi: None = None) -> Array: ...
@overload
def sosfilt(sos: ArrayLike, x: ArrayLike, axis: int, zi: ArrayLike) -> tuple[Array, Array]: ...
@overload
def sosfilt(sos: ArrayLike, x: ArrayLike, axis: int = -1, *, zi: ArrayLike) -> tuple[Array, Array]: ...
def sosfilt(sos: ArrayLike, x: ArrayLike, axis: int = -1, zi: ArrayLike | None = None) -> Array | tuple[Array, Array]:
    """Filters along an axis by second-order sections one after the other, as ``scipy.signal.sosfilt`` does.

    Args:
        sos: ``[sections, 6]``: b0, b1, b2, a0, a1, a2 of each section. Sections are divided by their a0, which scipy
            wants to be 1.
        x: the signal, or signals side by side.
        axis: that of time.
        zi: states before the first step: ``[sections, ...]`` and x's shape with 2 in place of time; zeros if not given.

    Returns:
        y of x's shape; with ``zi`` the pair of it and the states after the last step. Data types are ``lfilter``'s.
    """
    given = Arguments({"sos": sos, "x": x}, {"zi": zi})
    package, sections, axis = given.package, _sections(given), axis_of(given, axis)
    with given.quiet():
        signal, shape = rows(package, given.get("x", given.dtype), axis)
        blocks, sos = _blocks_of(given, shape[-1])
        if zi is None:
            state = package.zeros((signal.shape[0], sections, 2), sos)
            return back(package, package.run(_cascade, (), blocks, signal, state)[0], shape, axis)
        accepted = (sections, *shape[:axis], 2, *shape[axis:-1])
        if given.shape("zi") != accepted:
            raise FlashscanValueError(f"zi has shape {given.shape('zi')}; accepted is {accepted}")
        state = package.moveaxis(package.moveaxis(given.get("zi", given.wide), axis + 1, -1), 0, -2)
        y, last = package.run(_cascade, (), blocks, signal, state.reshape(signal.shape[0], sections, 2))
        last = package.moveaxis(package.cast(last, y.dtype).reshape(*shape[:-1], sections, 2), -2, 0)
        return back(package, y, shape, axis), package.moveaxis(last, -1, axis + 1)


def sosfilt_zi(sos: ArrayLike) -> Array:
    """The states of ``sosfilt`` at which a constant signal of ones has a constant output: ``[sections, 2]``.

    Sections with a pole at 1 have none; what is returned of them is not finite.
    """
    given = Arguments({"sos": sos})
    _sections(given)
    with given.quiet():
        sos = given.get("sos", given.wide)
        not_zero(given.package, "sos", sos[:, 3], "a section whose a0 is")
        return given.package.cast(given.package.run(_settled, (), sos), given.dtype)


def _settled(package: Package, options: tuple[()], sos: Array) -> Array:
    """Solves s = A s + B x with the constant x that reaches a section."""
    states, level = [], 1.0
    for number in range(sos.shape[0]):
        b, a = sos[number, :3] / sos[number, 3], sos[number, 3:] / sos[number, 3]
        driven = b[1:] - a[1:] * b[0]
        first = driven.sum() / a.sum()
        states.append(level * package.stack([first, (1 + a[1]) * first - driven[0]]))
        level = level * (b.sum() / a.sum())
    return package.stack(states)


_PADS = dict.fromkeys(("odd", "even", "constant"))


def _extended(package: Package, x: Array, edge: int, padtype: str) -> Array:
    if not edge:
        return x
    time = x.shape[1]
    ends = x[:, :1], x[:, -1:]
    if padtype == "constant":
        left, right = (package.broadcast_to(end, (x.shape[0], edge)) for end in ends)
    else:
        left, right = package.flip(x[:, 1 : edge + 1], 1), package.flip(x[:, time - 1 - edge : time - 1], 1)
        if padtype == "odd":
            left, right = 2 * ends[0] - left, 2 * ends[1] - right
    return package.concat([left, x, right], 1)


def _edge(given: Arguments, padtype: Any, padlen: Any, time: int) -> int:
    """How many samples the signal is extended by at each end."""
    if padtype is None:
        edge = 0
    elif padlen is None:
        values = given.package.known(given.values["sos"], wait=True)
        if values is None:
            raise FlashscanValueError(
                "padlen is None, and its default counts the zeros in sos, which is traced; accepted is a number"
            )
        edge = 3 * (2 * len(values) + 1 - min(int((values[:, 2] == 0).sum()), int((values[:, 5] == 0).sum())))
    else:
        edge = integer("padlen", padlen)
    if not 0 <= edge < time:
        raise FlashscanValueError(
            f"padlen is {edge} and x has {time} samples; accepted are 0 and more that x is longer than"
        )
    return edge


def sosfiltfilt(
    sos: ArrayLike, x: ArrayLike, axis: int = -1, padtype: str | None = "odd", padlen: int | None = None
) -> Array:
    """Filters along an axis forward and then backward by second-order sections, as ``scipy.signal.sosfiltfilt`` does:
    no phase is shifted, and the magnitude of the response is squared.

    Args:
        sos: as of ``sosfilt``.
        x: the signal, or signals side by side.
        axis: that of time.
        padtype: how the signal is extended at its ends before it is filtered: "odd", "even", "constant", or None for
            not at all.
        padlen: by how many samples; None for ``3 * (2 * sections + 1 - n)``, with n the smaller of the numbers of
            sections whose b2 and whose a2 is 0. This looks at the values of ``sos``, which under ``jax.jit`` and
            ``jax.grad`` with respect to it cannot be done, and on a GPU waits for it.

    Returns:
        y of x's shape. Data types are ``lfilter``'s.
    """
    given = Arguments({"sos": sos, "x": x})
    package, _, axis = given.package, _sections(given), axis_of(given, axis)
    if padtype is not None:
        choose("padtype", padtype, _PADS)
    edge = _edge(given, padtype, padlen, given.shape("x")[axis])
    with given.quiet():
        signal, shape = rows(package, given.get("x", given.dtype), axis)
        blocks, sos = _blocks_of(given, shape[-1] + 2 * edge)
        return back(package, package.run(_both_ways, (edge, padtype), blocks, sos, signal), shape, axis)


def _both_ways(package: Package, options: tuple[int, str], blocks: list[Block], sos: Array, x: Array) -> Array:
    edge, padtype = options
    y, settled = _extended(package, x, edge, padtype), _settled(package, (), sos)
    for _ in range(2):  # forward, then backward
        start = package.cast(y[:, :1], sos.dtype)[:, :, None] * settled
        y = package.flip(_cascade(package, (), blocks, y, start)[0], 1)
    return y[:, edge : edge + x.shape[1]]
