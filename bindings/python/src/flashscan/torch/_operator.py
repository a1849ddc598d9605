# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, overload

import torch

from .. import _affine, _custom, _operator
from .._call import flag
from .._operator import (
    EXCLUSIVE,
    INCLUSIVE,
    REDUCTION,
    CudaOperator,
    HostOperator,
    Operator,
    asks_index,
    axis_of,
    named,
    refuse_operator,
)
from . import _operator_tangent, _transforms
from ._register import Operators, nothing, optional, register
from ._types import Offsets, Tensor, as_offsets, as_state, autocast_dtype, state_dtype, tensors

if TYPE_CHECKING:
    from ._options import AffineOptions, ReduceOptions, ScanOptions, Unpack

_LOWERED = {"matmul"}
_WIDENED = {"add", "mul", "logaddexp"}


def _state_shape(x: Tensor, axis: int, seq_offsets: Tensor | None) -> tuple[Any, ...]:
    front = x.shape[:axis] if seq_offsets is None else (seq_offsets.shape[0] - 1,)
    return (*front, *x.shape[axis + 1 :])


def _kernel(
    run: Any, x: Any, initial: Any, seq_offsets: Any, op: Any, mode: Any, axis: Any, reverse: Any
) -> tuple[Any, ...]:
    return tuple(run((x, initial, seq_offsets), (op, True, mode, axis, reverse, 0)))


def _fake(x: Any, initial: Any, seq_offsets: Any, op: Any, mode: Any, axis: Any, reverse: Any) -> tuple[Any, ...]:
    shape = _state_shape(x, axis, seq_offsets)
    return x.new_empty(shape if mode == REDUCTION else x.shape), x.new_empty(shape, dtype=state_dtype(x.dtype))


def _backward_kernel(
    run: Any, x: Any, output: Any, grad: Any, initial: Any, grad_final: Any, seq_offsets: Any, op: Any, mode: Any,
    axis: Any, reverse: Any,
) -> tuple[Any, ...]:  # fmt: skip
    arrays = (x, output, grad, initial, grad_final, seq_offsets)
    results = run(arrays, (op, mode, axis, reverse, 0))
    return (*results, nothing(x))[:2]


def _backward_fake(
    x: Any, output: Any, grad: Any, initial: Any, grad_final: Any, seq_offsets: Any, op: Any, mode: Any, axis: Any,
    reverse: Any,
) -> tuple[Any, ...]:  # fmt: skip
    return x.new_empty(x.shape), nothing(x) if initial is None else initial.new_empty(initial.shape)


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    x, initial, seq_offsets, *ctx.options = inputs
    op, mode = ctx.options[:2]
    ctx.set_materialize_grads(False)
    scan = mode != REDUCTION
    ctx.save_for_backward(
        None if op == "add" and scan else x, output[0] if op == "matmul" and scan else None, initial, seq_offsets
    )
    ctx.output = output[0].shape, x.dtype, x.device


def _backward(by: Callable[..., Any], ctx: Any, grad: Tensor | None, grad_final: Tensor | None) -> tuple[Any, ...]:
    x, output, initial, seq_offsets = ctx.saved_tensors
    shape, dtype, device = ctx.output
    grad = torch.zeros(shape, dtype=dtype, device=device) if grad is None else grad
    # Sums do not look at x: anything of its shape stands for it.
    dx, dinitial = by(grad if x is None else x, output, grad, initial, grad_final, seq_offsets, *ctx.options)
    return (dx, optional(dinitial, initial), *(None,) * (1 + len(ctx.options)))


def _tangent(inputs: tuple[Any, ...], outputs: tuple[Tensor, Tensor], tangents: list[Tensor | None]) -> tuple[Any, ...]:
    return _TANGENTS.get(inputs[3], _operator_tangent.of_numbers)(_op, inputs, tangents)


_TANGENTS = {"add": _operator_tangent.of_sums, "matmul": _operator_tangent.of_products_of_matrices}
_OPTIONS = "Tensor? seq_offsets, str op, int mode, int axis, bool reverse"
OPERATORS = Operators(
    (
        f"(Tensor x, Tensor? initial, {_OPTIONS}) -> (Tensor, Tensor)",
        "(Tensor x, Tensor? output, Tensor grad_output, Tensor? initial, Tensor? grad_final, "
        f"{_OPTIONS}) -> (Tensor, Tensor)",
    ),
    (_operator.forward, _operator.backward),
    (_kernel, _backward_kernel),
    (_fake, _backward_fake),
    _save,
    _backward,
    _tangent,
)
_op, _backward_op = OPERATORS.register("scan", function="prefix_scan and reduce")


def _indexed_fake(*inputs: Any) -> tuple[Any, ...]:
    output, final = _fake(*inputs)
    return output, output.new_empty(output.shape, dtype=torch.int64), final


def _indexed_instead(x: Tensor, initial: Tensor | None, *rest: Any) -> tuple[Any, ...] | None:
    """In forward mode, where PyTorch 1 takes no function that has integers among its results, another scan for them."""
    if not _transforms.tangents((x, initial)):
        return None
    output, final = _op(x, initial, *rest)
    return output, _indexed_op(x.detach(), None if initial is None else initial.detach(), *rest)[1], final


# A scan of "min" or "max" and, between its results, the steps that the output comes from, which have no derivatives.
_indexed_op = register(
    "indexed_scan",
    f"(Tensor x, Tensor? initial, {_OPTIONS}) -> (Tensor, Tensor, Tensor)",
    partial(_kernel, _operator.indexed),
    _indexed_fake,
    _save,
    lambda ctx, grad, _, grad_final: _backward(_backward_op, ctx, grad, grad_final),
    function="prefix_scan and reduce",
    instead=_indexed_instead,
)


def _affine_kernel(W: Any, b: Any, state: Any, seq_offsets: Any, reverse: Any) -> tuple[Any, ...]:
    return tuple(_affine.forward((W, b, state, seq_offsets), (True, reverse, 0)))


def _affine_fake(W: Any, b: Any, state: Any, seq_offsets: Any, reverse: Any) -> tuple[Any, ...]:
    shape = _state_shape(b, b.dim() - 2, seq_offsets)
    return b.new_empty(b.shape), b.new_empty(shape, dtype=state_dtype(b.dtype))


def _affine_backward_kernel(
    W: Any, output: Any, grad: Any, state: Any, grad_state: Any, seq_offsets: Any, reverse: Any
) -> tuple[Any, ...]:
    results = _affine.backward((W, output, grad, state, grad_state, seq_offsets), (reverse, 0))
    return (*results, nothing(output))[:3]


def _affine_backward_fake(
    W: Any, output: Any, grad: Any, state: Any, grad_state: Any, seq_offsets: Any, reverse: Any
) -> tuple[Any, ...]:
    dstate = nothing(output) if state is None else state.new_empty(state.shape)
    return W.new_empty(W.shape), output.new_empty(output.shape), dstate


def _affine_save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    W, _, state, seq_offsets, ctx.reverse = inputs
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(W, output[0], state, seq_offsets)


def _affine_backward(ctx: Any, grad: Tensor | None, grad_state: Tensor | None) -> tuple[Any, ...]:
    W, output, state, seq_offsets = ctx.saved_tensors
    grad = torch.zeros_like(output) if grad is None else grad
    dW, db, dstate = _affine_backward_op(W, output, grad, state, grad_state, seq_offsets, ctx.reverse)
    return dW, db, optional(dstate, state), None, None


def _affine_tangent(inputs: tuple[Any, ...], outputs: tuple[Tensor, Tensor], tangents: list[Tensor | None]) -> tuple[Any, ...]:
    return _operator_tangent.of_affine_maps(_affine_op, inputs, outputs[0], tangents)


_affine_op = register(
    "affine_scan",
    "(Tensor W, Tensor b, Tensor? initial_state, Tensor? seq_offsets, bool reverse) -> (Tensor, Tensor)",
    _affine_kernel,
    _affine_fake,
    _affine_save,
    _affine_backward,
    _affine_tangent,
    function="affine_scan",
)
_affine_backward_op = register(
    "affine_scan_backward",
    "(Tensor W, Tensor output, Tensor grad_output, Tensor? initial_state, Tensor? grad_final_state, "
    "Tensor? seq_offsets, bool reverse) -> (Tensor, Tensor, Tensor)",
    _affine_backward_kernel,
    _affine_backward_fake,
    function="affine_scan",
)


_WITH_FUNCTIONS = "prefix_scan and reduce with an operator that is not a name"


class _Custom(torch.autograd.Function):
    """An operator that is a function on tensors; autograd of the function itself gives its adjoint."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, initial: Tensor | None, seq_offsets: Tensor | None, request: Any, final: bool
    ) -> Any:
        ctx.request, ctx.final = request, final
        ctx.save_for_backward(x, initial, seq_offsets)
        results = _custom.forward(request, x, initial, seq_offsets, final=final)
        return tuple(results) if final else results[0]

    @staticmethod
    def backward(ctx: Any, grad: Tensor, *grad_final: Tensor) -> tuple[Any, ...]:
        x, initial, seq_offsets = ctx.saved_tensors
        results = _CustomGradient.apply(x, grad, initial, *(grad_final or (None,)), seq_offsets, ctx.request)
        return results[0], results[1] if initial is not None else None, None, None, None


class _CustomGradient(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, grad: Tensor, initial: Tensor | None, grad_final: Any, seq_offsets: Any, request: Any
    ) -> tuple[Any, ...]:
        return tuple(_custom.backward(request, x, grad, initial, grad_final, seq_offsets))

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        _transforms.refuse_second_derivatives(_WITH_FUNCTIONS)


def _adjoint_of(op: Any) -> Any:
    def adjoint(left: Tensor, right: Tensor, grad: Tensor) -> tuple[Tensor, ...]:
        with torch.enable_grad():
            operands = left.detach().requires_grad_(), right.detach().requires_grad_()
            gradients = torch.autograd.grad(op(*operands), operands, grad.detach(), allow_unused=True)
        return tuple(torch.zeros_like(left) if gradient is None else gradient for gradient in gradients)

    return adjoint


def _scan_by(op: Any, x: Tensor, initial: Tensor | None, offsets: Tensor | None, final: bool, *options: Any) -> Any:
    """``options``: mode, axis, reverse."""
    if _transforms.tangents((x, initial)):
        _transforms.refuse_forward_mode(_WITH_FUNCTIONS)
    if _transforms.active():
        _transforms.refuse_transforms(_WITH_FUNCTIONS)
    training = torch.is_grad_enabled() and (x.requires_grad or (initial is not None and initial.requires_grad))
    if not training:
        results = _custom.forward(_custom.Request(op, *options), x, initial, offsets, final=final)
        return tuple(results) if final else results[0]
    # Gradients are sums over the levels of a tree, which the library keeps in 32 bits or more.
    wide = state_dtype(x.dtype) if callable(op) else x.dtype
    mode, axis, reverse = options
    request = _custom.Request(op, mode, axis, reverse, adjoint=_adjoint_of(op) if callable(op) else None)
    results = _Custom.apply(x.to(wide), None if initial is None else initial.to(wide), offsets, request, final)
    return tuple(each.to(x.dtype) for each in results) if final else results.to(x.dtype)


def arguments(
    x: Tensor, op: str, mode: int, axis: int | None, reverse: bool, initial: Tensor | None, offsets: Tensor | None
) -> tuple[Any, ...]:
    """Those of the operator for a scan whose operator has a name."""
    lower = autocast_dtype(x)
    if lower is not None and op in _LOWERED | _WIDENED:
        x = x.to(lower if op in _LOWERED else torch.float32)
    matrix = op == "matmul"
    place = axis_of(axis, -3 if matrix else -1, x.dim(), 2 if matrix else 0)
    return x, as_state(initial, x), offsets, op, mode, place, reverse


def _scan(
    x: Tensor, op: Any, mode: int, axis: int | None, reverse: bool, initial: Any, seq_offsets: Offsets, index: bool, final: bool
) -> Any:
    tensors(x=x)
    tensors(True, initial=initial)
    reverse, offsets = flag("reverse", reverse), as_offsets(seq_offsets, x)
    if not named(op, " and callables"):
        if not callable(op) and not isinstance(op, (HostOperator, CudaOperator)):
            refuse_operator(op)
        return _scan_by(op, x, initial, offsets, final, mode, axis, reverse)
    given = arguments(x, op, mode, axis, reverse, initial, offsets)
    if index:
        return tuple(_indexed_op(*given)[: 3 if final else 2])
    results = _op(*given)
    return tuple(results) if final else results[0]


@overload
def prefix_scan(
    x: Tensor, op: Operator, *, return_index: Literal[False] = False, return_final: Literal[False] = False,
    **options: Unpack[ScanOptions],
) -> Tensor: ...  # fmt: skip
@overload
def prefix_scan(
    x: Tensor, op: Operator, *, return_index: Literal[False] = False, return_final: Literal[True],
    **options: Unpack[ScanOptions],
) -> tuple[Tensor, Tensor]: ...  # fmt: skip
@overload
def prefix_scan(
    x: Tensor, op: Operator, *, return_index: Literal[False] = False, return_final: bool, **options: Unpack[ScanOptions]
) -> Tensor | tuple[Tensor, Tensor]: ...
@overload
def prefix_scan(
    x: Tensor, op: Literal["min", "max"], *, return_index: Literal[True], return_final: Literal[False] = False,
    **options: Unpack[ScanOptions],
) -> tuple[Tensor, Tensor]: ...  # fmt: skip
@overload
def prefix_scan(
    x: Tensor, op: Literal["min", "max"], *, return_index: Literal[True], return_final: Literal[True],
    **options: Unpack[ScanOptions],
) -> tuple[Tensor, Tensor, Tensor]: ...  # fmt: skip
def prefix_scan(
    x: Tensor,
    op: Operator,
    *,
    axis: int | None = None,
    reverse: bool = False,
    exclusive: bool = False,
    initial: Tensor | None = None,
    seq_offsets: Offsets = None,
    return_index: bool = False,
    return_final: bool = False,
) -> Any:
    """``flashscan.prefix_scan`` with autograd, differentiable in ``x`` and ``initial``.

    ``op`` is a name or a function ``f(left, right)`` of two tensors of n elements each, ``[n, *x.shape[axis + 1:]]``,
    that combines them pair by pair by differentiable operations; it gets 16-bit elements in float32 where gradients are
    recorded, no gradient goes to tensors that it holds, and torch.compile breaks its graph there.
    Under autocast "matmul" takes the lower dtype, and "add", "mul" and "logaddexp" float32, as PyTorch's own do.

    Args and results are those of ``flashscan.prefix_scan``. The index that ``return_index`` asks for, an int64 tensor, has no
    derivatives; ``y`` has them as ever.
    """
    mode = EXCLUSIVE if flag("exclusive", exclusive) else INCLUSIVE
    index, final = asks_index(return_index, op), flag("return_final", return_final)
    return _scan(x, op, mode, axis, reverse, initial, seq_offsets, index, final)


@overload
def reduce(
    x: Tensor, op: Operator, *, return_index: Literal[False] = False, **options: Unpack[ReduceOptions]
) -> Tensor: ...
@overload
def reduce(
    x: Tensor, op: Literal["min", "max"], *, return_index: Literal[True], **options: Unpack[ReduceOptions]
) -> tuple[Tensor, Tensor]: ...
def reduce(
    x: Tensor,
    op: Operator,
    *,
    axis: int | None = None,
    reverse: bool = False,
    initial: Tensor | None = None,
    seq_offsets: Offsets = None,
    return_index: bool = False,
) -> Any:
    """The last of ``prefix_scan``, with the same bits: ``x``'s shape without ``axis``; with ``return_index`` the pair of it and
    the argmin or argmax."""
    index = asks_index(return_index, op)
    return _scan(x, op, REDUCTION, axis, reverse, initial, seq_offsets, index, False)


@overload
def affine_scan(
    W: Tensor, b: Tensor, initial_state: Tensor | None = None, *, return_final_state: Literal[False] = False,
    **options: Unpack[AffineOptions],
) -> Tensor: ...  # fmt: skip
@overload
def affine_scan(
    W: Tensor, b: Tensor, initial_state: Tensor | None = None, *, return_final_state: Literal[True],
    **options: Unpack[AffineOptions],
) -> tuple[Tensor, Tensor]: ...  # fmt: skip
@overload
def affine_scan(
    W: Tensor, b: Tensor, initial_state: Tensor | None = None, *, return_final_state: bool, **options: Unpack[AffineOptions]
) -> Tensor | tuple[Tensor, Tensor]: ...
def affine_scan(
    W: Tensor,
    b: Tensor,
    initial_state: Tensor | None = None,
    *,
    reverse: bool = False,
    seq_offsets: Offsets = None,
    return_final_state: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """States ``x[t] = W[t] x[t-1] + b[t]`` with autograd, differentiable in ``W``, ``b`` and ``initial_state``.

    W is [..., time, d, d] (row: out, column: in), b [..., time, d] of the same dtype, the initial state [..., d] or
    [num_sequences, d]; under autocast both take the lower dtype. Returns the states, of b's shape, or the pair of them
    and the last, in float32 for 16-bit data.
    """
    tensors(W=W, b=b)
    tensors(True, initial_state=initial_state)
    reverse, final = flag("reverse", reverse), flag("return_final_state", return_final_state)
    lower = autocast_dtype(b)
    if lower is not None:
        W, b = W.to(lower), b.to(lower)
    results = _affine_op(W, b, as_state(initial_state, b), as_offsets(seq_offsets, b), reverse)
    return tuple(results) if final else results[0]
