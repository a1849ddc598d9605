# SPDX-License-Identifier: Apache-2.0
"""Enters operators into PyTorch's library: kernels for tensors and for fake ones, autograd, in old and new releases."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from .._call import Kind
from . import _transforms

_library = torch.library.Library("flashscan", "DEF")
_C: Any = getattr(torch, "_C")
_below_autograd = _C._AutoDispatchBelowAutograd
if not hasattr(_below_autograd, "__enter__"):  # in PyTorch 1 it acts from its construction to its destruction

    @contextlib.contextmanager
    def _below_autograd() -> Iterator[None]:
        guard = _C._AutoDispatchBelowAutograd()
        try:
            yield
        finally:
            del guard


def register(
    name: str,
    schema: str,
    kernel: Callable[..., Any],
    fake: Callable[..., Any],
    save: Callable[[Any, tuple[Any, ...], Any], None] | None = None,
    backward: Callable[..., Any] | None = None,
    tangent: Callable[..., Any] | None = None,
    *,
    function: str,
    instead: Callable[..., Any] | None = None,
) -> Callable[..., Any]:
    """``fake`` makes outputs of the right shapes on any device; ``save`` and ``backward`` are as those of
    torch.library.register_autograd, whose cost at every call grows with the square of the number of arguments.
    ``tangent(inputs, outputs, tangents)`` gives the outputs' tangents from those of inputs, None for zeros.

    What an operator has not is refused with the name of the public ``function``. One without a ``backward`` computes
    gradients, whose own are not computed. ``instead(*inputs)`` gives the outputs by other operators, which are then
    differentiated in its place, or None where it is not needed.
    """
    _library.define(name + schema)
    for key in ("CPU", "CUDA"):
        _library.impl(name, kernel, key)
    if hasattr(torch.library, "register_fake"):
        torch.library.register_fake(f"flashscan::{name}", fake, lib=_library)
    else:
        _library.impl(name, fake, "Meta")
    ops: Any = getattr(torch, "ops")
    op: Callable[..., Any] = getattr(ops.flashscan, name).default
    save = save or (lambda ctx, inputs, output: None)
    backward = backward or (lambda ctx, *gradients: _transforms.refuse_second_derivatives(function))
    tangent = tangent or (lambda inputs, outputs, tangents: _transforms.refuse_forward_mode(function))
    _library.impl(name, _recording(op, save, backward, tangent, instead), "Autograd")
    return op


def _recording(
    op: Callable[..., Any],
    save: Callable[[Any, tuple[Any, ...], Any], None],
    backward: Callable[..., Any],
    tangent: Callable[..., Any],
    instead: Callable[..., Any] | None,
) -> Callable[..., Any]:
    """``op`` as autograd sees it."""

    class Recorded(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, *inputs: Any) -> Any:
            with _below_autograd(), _transforms.outer_levels():
                output = op(*inputs)
            save(ctx, inputs, output)
            ctx.both = (inputs, output) if _transforms.at_a_level() else None
            return output

        @staticmethod
        def backward(ctx: Any, *gradients: Any) -> Any:
            return backward(ctx, *gradients)

        @staticmethod
        def jvp(ctx: Any, *tangents: Any) -> Any:
            (inputs, outputs), ctx.both = ctx.both, None
            return tuple(tangent([*map(_transforms.primal, inputs)], [*map(_transforms.primal, outputs)], tangents))

    def call(*inputs: Any) -> Any:
        other = None if instead is None else instead(*inputs)
        if other is not None:
            return other
        recording = torch.is_grad_enabled() and any(isinstance(x, torch.Tensor) and x.requires_grad for x in inputs)
        if recording or _transforms.tangents(inputs):
            return _transforms.apply(Recorded, inputs)
        with _below_autograd():
            return op(*inputs)

    return call


@dataclass(frozen=True)
class Operators:
    """A scan and its gradients. Pairs are of these: of the forward and the backward pass.

    Kernels take first what runs their pass on arrays and options, ``backward`` the operator for gradients. Last among the
    arguments is whether time is walked in reverse.
    """

    schemas: tuple[str, str]
    passes: tuple[Kind, Kind]
    kernels: tuple[Callable[..., Any], Callable[..., Any]]
    fakes: tuple[Callable[..., Any], Callable[..., Any]]
    save: Callable[[Any, tuple[Any, ...], Any], None]
    backward: Callable[..., Any]
    tangent: Callable[..., Any] | None = None
    save_backward: Callable[[Any, tuple[Any, ...], Any], None] | None = None
    second_backward: Callable[..., Any] | None = None
    backward_tangent: Callable[..., Any] | None = None
    instead: Callable[..., Any] | None = None

    def register(self, name: str, function: str) -> tuple[Callable[..., Any], Callable[..., Any]]:
        """Both; see ``register``."""
        kernel, backward_kernel = map(partial, self.kernels, self.passes)
        rules = self.save_backward, self.second_backward, self.backward_tangent
        gradients = register(
            f"{name}_backward", self.schemas[1], backward_kernel, self.fakes[1], *rules, function=function
        )
        rules = self.save, partial(self.backward, gradients), self.tangent
        op = register(
            name, self.schemas[0], kernel, self.fakes[0], *rules, function=function, instead=self.instead
        )
        return op, gradients


def optional(tensor: torch.Tensor | None, of: torch.Tensor | None) -> torch.Tensor | None:
    """A gradient, None if there is nothing that it is of."""
    return tensor if of is not None else None


def nothing(like: torch.Tensor) -> torch.Tensor:
    """Stands for an output that there is none of."""
    empty: torch.Tensor = like.new_empty((0,))
    return empty
