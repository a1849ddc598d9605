# SPDX-License-Identifier: Apache-2.0
"""The signatures of torch_parallel_scan."""

from __future__ import annotations

import operator
from collections.abc import Callable, Hashable
from typing import Any

import torch

from .. import torch as flashscan_torch
from .._call import integer
from .._errors import FlashscanTypeError, FlashscanValueError, naming
from ..torch._types import tensors

__all__ = ["prefix_scan", "reduce_scan"]

_prefix_scan = naming(flashscan_torch.prefix_scan, op="prefix_func", axis="dim")
_reduce = naming(flashscan_torch.reduce, op="reduce_func", axis="dim")

Function = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]

# Functions that the library knows by name.
_NAMES: dict[Any, str] = {
    torch.add: "add",
    operator.add: "add",
    torch.mul: "mul",
    torch.multiply: "mul",
    operator.mul: "mul",
    torch.minimum: "min",
    torch.maximum: "max",
    torch.logaddexp: "logaddexp",
    torch.matmul: "matmul",
    operator.matmul: "matmul",
}


def _operator(name: str, function: Function, x: torch.Tensor, dim: int) -> Any:
    tensors(x=x)
    if not callable(function):
        raise FlashscanTypeError(f"{name} is a {type(function).__name__}; accepted are functions of two tensors")
    if not -x.dim() <= integer("dim", dim) < x.dim():
        raise FlashscanValueError(
            f"dim is {dim} for a tensor of {x.dim()} axes; accepted are {-x.dim()} to {x.dim() - 1}"
        )
    op = _NAMES.get(function) if isinstance(function, Hashable) else None
    known = op is not None and (x.is_floating_point() or (x.is_complex() and op in ("add", "mul", "matmul")))
    if known and op == "matmul":
        known = 0 <= dim % x.dim() < x.dim() - 2 and x.shape[-1] == x.shape[-2] <= 1024
    return op if known else function


def prefix_scan(x: torch.Tensor, prefix_func: Function, dim: int, pad_value: float = 0) -> torch.Tensor:
    """``y[t] = f(.. f(f(x[0], x[1]), x[2]) .., x[t])`` along ``dim``, for an associative function f.

    Args:
        x: any shape and dtype.
        prefix_func: f of two tensors of n elements each, ``[n, *x.shape[dim + 1:]]``, that combines them pair by pair,
            the earlier elements first; called about 2 log2(T) times, or not at all where it is torch.add, mul, minimum,
            maximum, logaddexp or matmul, which the library computes itself. No gradient goes to tensors that it holds.
        dim: the axis of time.
        pad_value: not used, as nothing is padded.

    Returns:
        y, of x's shape and dtype; differentiable in x.
    """
    return _prefix_scan(x, _operator("prefix_func", prefix_func, x, dim), axis=dim)


def reduce_scan(x: torch.Tensor, reduce_func: Function, dim: int) -> torch.Tensor:
    """The last element of ``prefix_scan``: x's shape without ``dim``."""
    op = _operator("reduce_func", reduce_func, x, dim)
    if callable(op) and x.shape[dim] == 0 and 0 not in (*x.shape[: dim % x.dim()], *x.shape[dim % x.dim() + 1 :]):
        raise FlashscanValueError(f"x has shape {tuple(x.shape)}; accepted along dim with a function is an extent of 1 and up")
    return _reduce(x, op, axis=dim)
