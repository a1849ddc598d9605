# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, overload

import torch

from .. import _selective
from .._call import flag, words
from .._types import Layout
from ._register import Operators, nothing, optional
from ._types import Offsets, Tensor, as_offsets, tensors

if TYPE_CHECKING:
    from ._options import SelectiveOptions, Unpack


def _kernel(
    run: Any, u: Any, delta: Any, A: Any, B: Any, C: Any, D: Any, z: Any, bias: Any, state: Any, seq_offsets: Any,
    reset: Any, *options: Any,
) -> tuple[Any, ...]:  # fmt: skip
    return tuple(run((u, delta, A, B, C, D, z, bias, state, seq_offsets, reset), (True, *options, 0)))


def _state_shape(u: Tensor, A: Tensor, seq_offsets: Tensor | None) -> tuple[Any, ...]:
    return (u.shape[0] if seq_offsets is None else seq_offsets.shape[0] - 1, *A.shape)


def _fake(
    u: Any, delta: Any, A: Any, B: Any, C: Any, D: Any, z: Any, bias: Any, state: Any, seq_offsets: Any, reset: Any,
    *options: Any,
) -> tuple[Any, ...]:  # fmt: skip
    return u.new_empty(u.shape), A.new_empty(_state_shape(u, A, seq_offsets))


# Gradients in the order of arguments, the state's last.
def _backward_kernel(
    run: Any, u: Any, delta: Any, A: Any, B: Any, C: Any, D: Any, z: Any, bias: Any, grad: Any, state: Any,
    grad_state: Any, seq_offsets: Any, reset: Any, *options: Any,
) -> tuple[Any, ...]:  # fmt: skip
    arrays = (u, delta, A, B, C, D, z, bias, grad, state, grad_state, seq_offsets, reset)
    first, *results = run(arrays, (*options, 0))
    given = iter(results)
    return (*[nothing(grad) if array is None else next(given) for array in (u, delta, A, B, C, D, z, bias)], first)


def _backward_fake(
    u: Any, delta: Any, A: Any, B: Any, C: Any, D: Any, z: Any, bias: Any, grad: Any, state: Any, grad_state: Any,
    seq_offsets: Any, reset: Any, *options: Any,
) -> tuple[Any, ...]:  # fmt: skip
    results = [nothing(grad) if array is None else array.new_empty(array.shape) for array in (u, delta, A, B, C, D, z, bias)]
    return (*results, A.new_empty(_state_shape(u, A, seq_offsets)))


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    ctx.options = inputs[11:]
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(*inputs[:11])


def _backward(op: Callable[..., Any], ctx: Any, grad: Tensor | None, grad_state: Tensor | None) -> tuple[Any, ...]:
    *arrays, state, seq_offsets, reset = ctx.saved_tensors
    grad = torch.zeros_like(arrays[0]) if grad is None else grad
    *results, first = op(*arrays, grad, state, grad_state, seq_offsets, reset, *ctx.options)
    gradients = [optional(gradient, array) for gradient, array in zip(results, arrays)]
    return (*gradients, optional(first, state), *(None,) * (2 + len(ctx.options)))


_ARRAYS = "Tensor u, Tensor delta, Tensor A, Tensor B, Tensor C, Tensor? D, Tensor? z, Tensor? delta_bias"
_OPTIONS = "Tensor? seq_offsets, Tensor? reset, bool delta_softplus, str layout, bool reverse"
OPERATORS = Operators(
    (
        f"({_ARRAYS}, Tensor? initial_state, {_OPTIONS}) -> (Tensor, Tensor)",
        f"({_ARRAYS}, Tensor grad_output, Tensor? initial_state, Tensor? grad_final_state, {_OPTIONS}) -> "
        "(Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)",
    ),
    (_selective.forward, _selective.backward),
    (_kernel, _backward_kernel),
    (_fake, _backward_fake),
    _save,
    _backward,
)
_op, _ = OPERATORS.register("selective_scan", function="selective_scan")


def arguments(
    u: Any, delta: Any, A: Any, B: Any, C: Any, D: Any, z: Any, delta_bias: Any, initial_state: Any, seq_offsets: Any,
    reset: Any, delta_softplus: Any, layout: Any, reverse: Any,
) -> tuple[Any, ...]:  # fmt: skip
    """Those of the operator, from those of ``selective_scan``."""
    tensors(u=u, delta=delta, A=A, B=B, C=C)
    tensors(True, D=D, z=z, delta_bias=delta_bias, initial_state=initial_state, reset=reset)
    words(layout=layout)
    state = None if initial_state is None else initial_state.to(A.dtype)
    options = (flag("delta_softplus", delta_softplus), layout, flag("reverse", reverse))
    return (u, delta, A, B, C, D, z, delta_bias, state, as_offsets(seq_offsets, u), reset, *options)


@overload
def selective_scan(
    u: Tensor, delta: Tensor, A: Tensor, B: Tensor, C: Tensor, D: Tensor | None = None, z: Tensor | None = None,
    delta_bias: Tensor | None = None, initial_state: Tensor | None = None, *, return_final_state: Literal[False] = False,
    **options: Unpack[SelectiveOptions],
) -> Tensor: ...  # fmt: skip
@overload
def selective_scan(
    u: Tensor, delta: Tensor, A: Tensor, B: Tensor, C: Tensor, D: Tensor | None = None, z: Tensor | None = None,
    delta_bias: Tensor | None = None, initial_state: Tensor | None = None, *, return_final_state: Literal[True],
    **options: Unpack[SelectiveOptions],
) -> tuple[Tensor, Tensor]: ...  # fmt: skip
@overload
def selective_scan(
    u: Tensor, delta: Tensor, A: Tensor, B: Tensor, C: Tensor, D: Tensor | None = None, z: Tensor | None = None,
    delta_bias: Tensor | None = None, initial_state: Tensor | None = None, *, return_final_state: bool,
    **options: Unpack[SelectiveOptions],
) -> Tensor | tuple[Tensor, Tensor]: ...  # fmt: skip
def selective_scan(
    u: Tensor,
    delta: Tensor,
    A: Tensor,
    B: Tensor,
    C: Tensor,
    D: Tensor | None = None,
    z: Tensor | None = None,
    delta_bias: Tensor | None = None,
    initial_state: Tensor | None = None,
    *,
    delta_softplus: bool = False,
    layout: Layout = "btc",
    reverse: bool = False,
    seq_offsets: Offsets = None,
    reset: Tensor | None = None,
    return_final_state: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """``flashscan.selective_scan`` with autograd, differentiable in every tensor but ``seq_offsets`` and ``reset``.
    Second derivatives and forward mode are refused.

    Args are those of ``flashscan.selective_scan``; ``seq_offsets`` may be a list.

    Returns:
        y, of the shape and dtype of u, or ``(y, final_state)``, the state of A's dtype.

    Raises:
        FlashscanError: what is wrong, and what is accepted.
    """
    final = flag("return_final_state", return_final_state)
    arrays = (u, delta, A, B, C, D, z, delta_bias, initial_state, seq_offsets, reset)
    results = _op(*arguments(*arrays, delta_softplus, layout, reverse))
    return tuple(results) if final else results[0]
