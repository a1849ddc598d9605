# SPDX-License-Identifier: Apache-2.0
"""Enters operators into PyTorch's library: kernels for tensors and for fake ones, autograd, in old and new releases."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

# With it come fake kernels and autograd formulas that torch.compile traces.
MODERN = hasattr(torch.library, "register_autograd")
_NAMESPACE = "flashscan"
_library = None if MODERN else torch.library.Library(_NAMESPACE, "DEF")


def register(
    name: str,
    schema: str,
    kernel: Callable[..., Any],
    fake: Callable[..., Any],
    save: Callable[[Any, tuple, Any], None] | None = None,
    backward: Callable[..., Any] | None = None,
) -> Callable[..., Any]:
    """``fake`` makes outputs of the right shapes on any device; ``save`` and ``backward`` are as register_autograd's.

    An operator without a ``backward`` computes gradients, whose own are not computed.
    """
    save, backward = save or (lambda ctx, inputs, output: None), backward or _no_second_derivatives
    if MODERN:
        qualified = f"{_NAMESPACE}::{name}"
        torch.library.define(qualified, schema)
        torch.library.impl(qualified, ("cpu", "cuda"))(kernel)
        torch.library.register_fake(qualified)(fake)
        torch.library.register_autograd(qualified, backward, setup_context=save)
    else:
        _library.define(name + schema)
        for key in ("CPU", "CUDA"):
            _library.impl(name, kernel, key)
        _library.impl(name, fake, "Meta")
        recorded = _recorded(kernel, save, backward)
        for key in ("AutogradCPU", "AutogradCUDA"):
            _library.impl(name, recorded, key)
    return getattr(getattr(torch.ops, _NAMESPACE), name).default


def _recorded(
    kernel: Callable[..., Any], save: Callable[[Any, tuple, Any], None], backward: Callable[..., Any]
) -> Callable[..., Any]:
    class Recorded(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, *inputs: Any) -> Any:
            output = kernel(*inputs)
            save(ctx, inputs, output)
            return output

        @staticmethod
        def backward(ctx: Any, *gradients: Any) -> Any:
            return backward(ctx, *gradients)

    return Recorded.apply


def _no_second_derivatives(ctx: Any, *gradients: Any) -> Any:
    raise NotImplementedError("flashscan computes no second derivatives")


def optional(tensor: torch.Tensor | None, of: torch.Tensor | None) -> torch.Tensor | None:
    """A gradient, None if there is nothing that it is of."""
    return tensor if of is not None else None


def nothing(like: torch.Tensor) -> torch.Tensor:
    """Stands for an output that there is none of."""
    return like.new_empty((0,))
