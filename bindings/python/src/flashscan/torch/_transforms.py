# SPDX-License-Identifier: Apache-2.0
"""Forward-mode derivatives and the transforms of torch.func, as far as releases of PyTorch have them."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch.autograd import forward_ad, function as functions

from .._errors import FlashscanNotImplementedError

_C: Any = getattr(torch, "_C")
active: Callable[[], bool] = getattr(_C, "_are_functorch_transforms_active", lambda: False)


def at_a_level() -> bool:
    """Whether anything may have a tangent."""
    return forward_ad._current_level >= 0


def tangents(values: Sequence[Any]) -> bool:
    """Whether any of them has a tangent at the current level."""
    return at_a_level() and any(
        forward_ad.unpack_dual(value).tangent is not None
        for value in values
        if isinstance(value, torch.Tensor) and (value.is_floating_point() or value.is_complex())
    )


def primal(value: Any) -> Any:
    return forward_ad.unpack_dual(value).primal if isinstance(value, torch.Tensor) else value


@contextlib.contextmanager
def _at_outer_levels() -> Iterator[None]:
    """In the forward pass of a Function, whose own level records nothing, the levels around it still do."""
    levels: Any = forward_ad  # releases before 2 have no levels
    with torch.enable_grad(), levels._set_fwd_grad_enabled(True):
        yield


def outer_levels() -> contextlib.AbstractContextManager[None]:
    return _at_outer_levels() if active() else contextlib.nullcontext()


def apply(function: type[torch.autograd.Function], inputs: Sequence[Any]) -> Any:
    """``function.apply`` in an operator's autograd kernel, which PyTorch runs once for each level of transforms."""
    if not active():
        return function.apply(*inputs)
    of_level: Any = importlib.import_module("torch._functorch.autograd_function")
    base: Any = getattr(functions, "_SingleLevelFunction")

    # The same function, which PyTorch does not run once for each level by itself.
    methods = {name: value for name, value in vars(function).items() if isinstance(value, staticmethod)}
    meta: Any = type(function)
    level = meta(function.__name__, (base,), methods)
    with of_level.enable_single_level_autograd_function():
        return level.apply(*inputs)


def refuse_forward_mode(function: str) -> None:
    raise FlashscanNotImplementedError(
        f"flashscan.torch.{function} has no forward-mode derivatives; accepted are linear_scan, gated_scan, "
        "affine_scan, and prefix_scan and reduce with operators that are names"
    )


def refuse_second_derivatives(function: str) -> None:
    raise FlashscanNotImplementedError(
        f"flashscan.torch.{function} computes no second derivatives; accepted are linear_scan and gated_scan, or one "
        "derivative"
    )


def refuse_transforms(function: str) -> None:
    raise FlashscanNotImplementedError(
        f"flashscan.torch.{function} is not for torch.func's transforms; accepted are operators that are names"
    )
