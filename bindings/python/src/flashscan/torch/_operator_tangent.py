# SPDX-License-Identifier: Apache-2.0
"""Tangents of scans with operators: scans themselves."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from .._errors import FlashscanNotImplementedError
from .._operator import EXCLUSIVE, REDUCTION
from ._linear import linear_scan
from ._steps import Steps
from ._types import Tensor, state_dtype

_MOST_ROWS = 1024  # of a matrix


def of_sums(scan: Callable[..., Any], inputs: tuple[Any, ...], tangents: list[Tensor | None]) -> tuple[Any, ...]:
    x, initial, *rest = inputs
    dx, dinitial = tangents[:2]
    results: tuple[Any, ...] = scan(torch.zeros_like(x) if dx is None else dx, dinitial, *rest)
    return results


def of_products_of_matrices(
    scan: Callable[..., Any], inputs: tuple[Any, ...], tangents: list[Tensor | None]
) -> tuple[Any, ...]:
    """The same scan of the matrices [[x, dx], [0, x]], whose products have the products' tangents where dx is."""
    x, initial, *rest = inputs
    rows = x.shape[-1]
    if 2 * rows > _MOST_ROWS:
        raise FlashscanNotImplementedError(
            f"x has shape {tuple(x.shape)}; accepted for forward-mode derivatives of flashscan.torch.prefix_scan and "
            f"reduce with 'matmul' are matrices of up to {_MOST_ROWS // 2} rows"
        )
    results = scan(_with_tangent(x, tangents[0]), _with_tangent(initial, tangents[1]), *rest)
    return tuple(each[..., :rows, rows:] for each in results)


def _with_tangent(x: Tensor | None, dx: Tensor | None) -> Tensor | None:
    if x is None:
        return None
    zero = torch.zeros_like(x)
    upper, lower = torch.cat((x, zero if dx is None else dx), -1), torch.cat((zero, x), -1)
    return torch.cat((upper, lower), -2)


def _slopes(op: str, left: Tensor, right: Tensor) -> tuple[Tensor, Tensor]:
    """The derivatives of ``left o right``; where both are equal, those of the library's gradients."""
    if op == "mul":
        return right, left
    if op == "logaddexp":
        ahead = (left - right).masked_fill(torch.eq(left, right), 0)
        return torch.sigmoid(ahead), torch.sigmoid(-ahead)
    if op not in ("min", "max"):
        raise FlashscanNotImplementedError(f"there are no forward-mode derivatives of {op!r}")
    beaten = right > left if op == "max" else right < left
    taken = (left == left) & (beaten | (right != right))  # NaNs win, the left one first
    return (~taken).to(left.dtype), taken.to(left.dtype)


def of_numbers(scan: Callable[..., Any], inputs: tuple[Any, ...], tangents: list[Tensor | None]) -> tuple[Any, ...]:
    """dy[t] = (derivative by the left operand) dy[t-1] + (derivative by the right) dx[t], for "mul", "min", "max" and
    "logaddexp"."""
    x, initial, seq_offsets, op, mode, axis, reverse = inputs
    dx, dinitial = tangents[:2]
    wide = x.to(state_dtype(x.dtype))
    before, _ = scan(wide, initial, seq_offsets, op, EXCLUSIVE, axis, reverse)
    left, right = _slopes(op, before, wide)
    entering = torch.zeros_like(wide) if dx is None else right * dx
    channels = math.prod(x.shape[axis + 1 :])
    rows = (math.prod(x.shape[:axis]), x.shape[axis], channels)
    dy, final = linear_scan(
        left.reshape(rows),
        entering.reshape(rows),
        None if dinitial is None else dinitial.reshape(-1, channels),
        reverse=reverse,
        seq_offsets=seq_offsets,
        return_final_state=True,
    )
    dy = dy.reshape(x.shape)
    final = final.reshape(x.shape[:axis] + x.shape[axis + 1 :] if seq_offsets is None else (-1, *x.shape[axis + 1 :]))
    if mode == REDUCTION:
        return final.to(x.dtype), final
    if mode == EXCLUSIVE:
        dy = Steps(axis, reverse, seq_offsets).before(dy, dinitial)
    return dy.to(x.dtype), final


def of_affine_maps(
    scan: Callable[..., Any], inputs: tuple[Any, ...], output: Tensor, tangents: list[Tensor | None]
) -> tuple[Any, ...]:
    """dx[t] = W[t] dx[t-1] + (dW[t] x[t-1] + db[t])"""
    W, b, state, seq_offsets, reverse = inputs
    dW, db, dstate = tangents[:3]
    entering = torch.zeros_like(b) if db is None else db
    if dW is not None:
        wide = state_dtype(b.dtype)
        before = Steps(b.dim() - 2, reverse, seq_offsets).before(output.to(wide), state)
        entering = (entering + (dW.to(wide) @ before.unsqueeze(-1)).squeeze(-1)).to(b.dtype)
    results: tuple[Any, ...] = scan(W, entering, dstate, seq_offsets, reverse)
    return results
