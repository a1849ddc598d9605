# SPDX-License-Identifier: Apache-2.0
"""Linear systems with constant coefficients on signals, block by block.

A block of L steps of ``s[t+1] = A s[t] + B x[t]``, ``y[t] = C s[t] + D x[t]`` is a step of the same form, with blocks
of the signal for its numbers: the state after it is A^L s plus the block times a matrix of the A^t B, and its output is
the block times the Toeplitz matrix of the impulse response plus s times a matrix of the C A^t. All but the states
between blocks are products of matrices, which run at the speed of the arithmetic, and the states are an ``affine_scan``
over T / L steps. A block costs 2 L operations a sample, and the copies of A^L that the scan reads take p^2 / L numbers
a sample; L = 8 p, 32 at least, holds both down for p up to 16.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import numpy as np

from ._packages import Array, Package

_SHORTEST = 32
_STEPS_PER_STATE = 8
_TAPS = 1024


def _length(states: int) -> int:
    return max(_SHORTEST, _STEPS_PER_STATE * states)


class System(NamedTuple):
    """Several of them where all have axes in front of these."""

    A: Array  # [p, p]
    B: Array  # [p]
    C: Array  # [p]
    D: Array  # []

    @property
    def states(self) -> int:
        return int(self.B.shape[-1])


class Basis(NamedTuple):
    """z = R s."""

    R: Array
    inverse: Array


def section(package: Package, b: Array, a: Array) -> System:
    """The transposed direct form II, with scipy's states, of b and a of one length along the last axis."""
    b, a = b / a[..., :1], a / a[..., :1]
    order = b.shape[-1] - 1
    shift = package.array(np.eye(order, k=1), b.dtype, b)
    first = package.array(np.eye(1, order)[0], b.dtype, b)
    A, B = shift - a[..., 1:, None] * first, b[..., 1:] - a[..., 1:] * b[..., :1]
    return System(A, B, package.broadcast_to(first, tuple(B.shape)), b[..., 0])


def basis(package: Package, system: System) -> Basis:
    """One, of no consequence for derivatives, in which a state says what it does to the next outputs.

    In the states of direct forms what a state does is small differences of large numbers, of which the powers of A
    would lose as many digits again. R is the triangle of the QR decomposition of the rows C A^t.
    """
    rows, power = package.constant(system.C)[..., None, :], package.constant(system.A)
    while rows.shape[-2] < _length(system.states):
        rows, power = package.concat([rows, package.matmul(rows, power)], -2), package.matmul(power, power)
    R = package.triangle(rows)
    return Basis(R, package.inverse(R))


def series(package: Package, first: System, second: System) -> System:
    """The second system on the output of the first; the states of the first come first."""
    corner = package.zeros((first.states, second.states), first.A)
    upper = package.concat([first.A, corner], 1)
    lower = package.concat([second.B[:, None] * first.C, second.A], 1)
    return System(
        package.concat([upper, lower], 0),
        package.concat([first.B, second.B * first.D], 0),
        package.concat([second.D * first.C, second.C], 0),
        second.D * first.D,
    )


def cascade(package: Package, sections: System) -> tuple[System, Basis]:
    """Sections [n, ...] one after the other, each with the basis of its own output."""
    count, size = sections.B.shape
    parts = [System(*(each[number] for each in sections)) for number in range(count)]
    apart = package.array(np.eye(count), sections.A.dtype, sections.A)[:, None, :, None]
    blocks = ((apart * each[:, :, None]).reshape(count * size, count * size) for each in basis(package, sections))
    return functools.reduce(functools.partial(series, package), parts), Basis(*blocks)


def skewed(package: Package, values: Array, rows: int, columns: int) -> Array:
    """The matrix ``values[(column - row) % len(values)]``; a view of rows that are one element too short."""
    size = values.shape[0]
    copies = package.broadcast_to(values, (rows, size)).reshape(rows * size)
    return copies[: rows * (size - 1)].reshape(rows, size - 1)[:, :columns]


class Block(NamedTuple):
    """The matrices of a block of L steps in terms of z = R s, to be multiplied from the right."""

    outputs: Array  # [L, L], of the block by itself
    observed: Array  # [p, L], C A^t R^-1
    entering: Array  # [L, p], R A^(L-1-t) B
    outcomes: Array  # [p, L, p], R A^(t+1) R^-1
    to_z: Array  # [p, p]
    from_z: Array

    def first_steps(self, steps: int) -> Block:
        matrices = self.outputs[:steps, :steps], self.observed[:, :steps], self.entering[-steps:]
        return Block(*matrices, self.outcomes[:, :steps], self.to_z, self.from_z)


def block_of(package: Package, system: System, basis: Basis, time: int) -> Block:
    """For signals of ``time`` steps."""
    p = system.states
    length = max(1, min(time, _length(p)))
    # Step by step, from the states that are the columns of the inverse, and from what an impulse leaves.
    start = package.concat([basis.inverse.T, system.B[None]], 0)
    maps = package.broadcast_to(system.A, (p + 1, length, p, p))
    after = package.scans.affine_scan(maps, package.zeros((p + 1, length, p), start), start)
    before = package.concat([start[:, None], after[:, :-1]], 1)
    observed = package.matmul(before, system.C)
    response = package.concat([system.D[None], observed[p, :-1], package.zeros((length,), start)], 0)
    entering = package.flip(package.matmul(before[p], basis.R.T), 0)
    outcomes = package.matmul(after[:p], basis.R.T)
    outputs = skewed(package, response, length, length)
    return Block(outputs, observed[:p], entering, outcomes, basis.R.T, basis.inverse.T)


def _respond(package: Package, block: Block, x: Array, before: Array) -> Array:
    """The outputs of blocks x [..., L] with the states before them."""
    cast = package.cast
    by_itself = package.matmul(x, cast(block.outputs, x.dtype))
    return by_itself + package.matmul(cast(before, x.dtype), cast(block.observed, x.dtype))


def _arrive(package: Package, block: Block, x: Array) -> Array:
    """What blocks x [..., L] add to the states after them."""
    return package.cast(package.matmul(x, package.cast(block.entering, x.dtype)), block.entering.dtype)


def run(package: Package, block: Block, x: Array, state: Array) -> tuple[Array, Array]:
    """The output of x [rows, time] and the state after it, from the state [rows, p] before.

    The matrices and the states may be wider than the signal.
    """
    (rows, time), (length, p) = x.shape, block.entering.shape
    if time == 0:
        return x, state
    count, rest = divmod(time, length)
    state = package.matmul(state, block.to_z)
    whole = x[:, : count * length].reshape(rows, count, length)
    maps = package.broadcast_to(block.outcomes[:, -1].T, (rows, count, p, p))
    after = package.scans.affine_scan(maps, _arrive(package, block, whole), state)
    before = package.concat([state[:, None], after[:, :-1]], 1)
    y, state = _respond(package, block, whole, before).reshape(rows, count * length), after[:, -1]
    if rest:
        short, tail = block.first_steps(rest), x[:, count * length :]
        y = package.concat([y, _respond(package, short, tail, state)], 1)
        state = package.matmul(state, short.outcomes[:, -1]) + _arrive(package, short, tail)
    return y, package.matmul(state, block.from_z)


def convolve(package: Package, taps: Array, x: Array) -> Array:
    """All of the convolution along the last axis of x [rows, time]: time + taps - 1 outputs."""
    rows, time = x.shape
    size = time + taps.shape[0] - 1
    if taps.shape[0] > _TAPS:  # matrices take the square
        near, far = convolve(package, taps[:_TAPS], x), convolve(package, taps[_TAPS:], x)
        zeros = [package.zeros((rows, n), x) for n in (size - near.shape[1], _TAPS)]
        return package.concat([near, zeros[0]], 1) + package.concat([zeros[1], far], 1)
    length = max(_SHORTEST, taps.shape[0])
    count = -(-size // length)
    padded = package.concat([package.zeros((rows, length), x), x, package.zeros((rows, count * length - time), x)], 1)
    padded = padded.reshape(rows, count + 1, length)
    windows = package.concat([padded[:, :-1], padded[:, 1:]], 2)
    taps = package.cast(taps, x.dtype)
    zeros = [package.zeros((n,), taps) for n in (2 * length, length - taps.shape[0])]
    toeplitz = skewed(package, package.concat([zeros[0], taps, zeros[1]], 0), 2 * length, length)
    return package.matmul(windows, toeplitz).reshape(rows, count * length)[:, :size]
