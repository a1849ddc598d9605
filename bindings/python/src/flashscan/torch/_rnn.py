# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, overload

import torch

from .. import _rnn
from .._call import choose, flag, number
from .._types import Cell, NetworkLayout
from .._errors import FlashscanError
from . import _transforms
from ._register import optional, register
from ._types import Offsets, Tensor, as_offsets, as_state, autocast_dtype, state_dtype, tensors

if TYPE_CHECKING:
    from ._options import NetworkOptions, Unpack


def _kernel(
    Wx: Any, R: Any, b: Any, state: Any, seq_offsets: Any, reset: Any, cell: Any, layout: Any, reverse: Any,
    all_states: Any, training: Any, clip: Any, allow_tf32: Any,
) -> tuple[Any, ...]:  # fmt: skip
    options = (True, cell, layout, reverse, all_states, training, clip, allow_tf32, 0)
    results = _rnn.forward((Wx, R, b, state, seq_offsets, reset), options)
    return (*results, Wx.new_empty((0,), dtype=torch.uint8))[:3]


def _reserve_bytes(arrays: tuple[Any, ...], *options: Any) -> Any:
    """What only a plan knows; symbolic where shapes are."""
    if not all(isinstance(extent, int) for extent in arrays[0].shape):
        library: Any = torch.library
        return library.get_ctx().new_dynamic_size()
    if arrays[0].device.type == "meta":
        return 0
    with torch.no_grad():
        return _rnn.reserve_bytes(arrays, *options)


def _state_shape(outer: Any, heads: int, dim: int, states: int, layout: str, seq_offsets: Tensor | None) -> tuple[Any, ...]:
    rows = outer[0 if layout == "btghd" else 1] if seq_offsets is None else seq_offsets.shape[0] - 1
    return states, rows, heads, dim


def _fake(
    Wx: Any, R: Any, b: Any, state: Any, seq_offsets: Any, reset: Any, cell: Any, layout: Any, reverse: Any,
    all_states: Any, training: Any, clip: Any, allow_tf32: Any,
) -> tuple[Any, ...]:  # fmt: skip
    states = _rnn.CELLS[cell][3]
    outer, (heads, dim) = Wx.shape[:2], Wx.shape[3:]
    final = Wx.new_empty(_state_shape(outer, heads, dim, states, layout, seq_offsets), dtype=state_dtype(Wx.dtype))
    output = Wx.new_empty((*((states,) if all_states else ()), *outer, heads, dim))
    options = (cell, layout, reverse, all_states, training, clip, allow_tf32, 0)
    size = _reserve_bytes((Wx, R, b, state, seq_offsets, reset), *options) if training else 0
    return output, final, Wx.new_empty((size,), dtype=torch.uint8)


def _backward_kernel(
    R: Any, output: Any, reserve: Any, grad: Any, state: Any, grad_state: Any, seq_offsets: Any, reset: Any,
    cell: Any, layout: Any, reverse: Any, all_states: Any, clip: Any, allow_tf32: Any,
) -> tuple[Any, ...]:  # fmt: skip
    options = (cell, layout, reverse, all_states, True, clip, allow_tf32, 0)
    # Under torch.func.vmap it is a row among others, which may begin where the library takes none.
    reserve = reserve.clone() if reserve.data_ptr() % 64 else reserve
    return tuple(_rnn.backward((R, output, reserve, grad, state, grad_state, seq_offsets, reset), options))


def _backward_fake(
    R: Any, output: Any, reserve: Any, grad: Any, state: Any, grad_state: Any, seq_offsets: Any, reset: Any,
    cell: Any, layout: Any, reverse: Any, all_states: Any, clip: Any, allow_tf32: Any,
) -> tuple[Any, ...]:  # fmt: skip
    _, gates, biases, states = _rnn.CELLS[cell]
    shape = output.shape[1:] if all_states else output.shape
    outer, (heads, dim) = shape[:2], shape[2:]
    return (
        output.new_empty((*outer, gates, heads, dim)),
        R.new_empty(R.shape),
        R.new_empty((biases, heads, dim)),
        output.new_empty(_state_shape(outer, heads, dim, states, layout, seq_offsets), dtype=state_dtype(output.dtype)),
    )


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor, Tensor]) -> None:
    _, R, b, state, seq_offsets, reset, *options = inputs
    ctx.set_materialize_grads(False)
    ctx.has_bias, ctx.training, ctx.options = b is not None, options.pop(4), options
    ctx.save_for_backward(R, output[0], output[2], state, seq_offsets, reset)


def _backward(ctx: Any, grad: Tensor | None, grad_state: Tensor | None, _: Any) -> tuple[Any, ...]:
    R, output, reserve, state, seq_offsets, reset = ctx.saved_tensors
    if not ctx.training:
        raise FlashscanError("flashscan.torch.rnn was called without training; its gradients need what training keeps")
    grad = torch.zeros_like(output) if grad is None else grad
    dWx, dR, db, dstate = _backward_op(R, output, reserve, grad, state, grad_state, seq_offsets, reset, *ctx.options)
    return (dWx, dR, db if ctx.has_bias else None, optional(dstate, state), *(None,) * 9)


_OPTIONS = "Tensor? seq_offsets, Tensor? reset, str cell, str layout, bool reverse, bool all_states"
_op = register(
    "rnn",
    f"(Tensor Wx, Tensor R, Tensor? b, Tensor? initial_state, {_OPTIONS}, bool training, float recurrent_clip, bool allow_tf32) -> "
    "(Tensor, Tensor, Tensor)",
    _kernel,
    _fake,
    _save,
    _backward,
    function="rnn",
)
_backward_op = register(
    "rnn_backward",
    "(Tensor R, Tensor output, Tensor reserve, Tensor grad_output, Tensor? initial_state, Tensor? grad_final_state, "
    f"{_OPTIONS}, float recurrent_clip, bool allow_tf32) -> (Tensor, Tensor, Tensor, Tensor)",
    _backward_kernel,
    _backward_fake,
    function="rnn",
)


@overload
def rnn(
    Wx: Tensor, R: Tensor, b: Tensor | None = None, cell: Cell = "lstm", initial_state: Tensor | None = None, *,
    return_final_state: Literal[False] = False, **options: Unpack[NetworkOptions],
) -> Tensor: ...  # fmt: skip
@overload
def rnn(
    Wx: Tensor, R: Tensor, b: Tensor | None = None, cell: Cell = "lstm", initial_state: Tensor | None = None, *,
    return_final_state: Literal[True], **options: Unpack[NetworkOptions],
) -> tuple[Tensor, Tensor]: ...  # fmt: skip
@overload
def rnn(
    Wx: Tensor, R: Tensor, b: Tensor | None = None, cell: Cell = "lstm", initial_state: Tensor | None = None, *,
    return_final_state: bool, **options: Unpack[NetworkOptions],
) -> Tensor | tuple[Tensor, Tensor]: ...  # fmt: skip
def rnn(
    Wx: Tensor,
    R: Tensor,
    b: Tensor | None = None,
    cell: Cell = "lstm",
    initial_state: Tensor | None = None,
    *,
    layout: NetworkLayout = "btghd",
    reverse: bool = False,
    seq_offsets: Offsets = None,
    reset: Tensor | None = None,
    return_all_states: bool = False,
    return_final_state: bool = False,
    recurrent_clip: float = 0.0,
    allow_tf32: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """``flashscan.rnn`` with autograd, differentiable in ``Wx``, ``R``, ``b`` and ``initial_state``.

    Under autocast Wx takes the lower dtype, and R and b stay in float32 if they are.

    Args:
        Wx: [B, T, G, H, D], or [T, B, G, H, D] with ``layout="tbghd"``; float32, bfloat16, float16 or float64.
        R: [G, H, D, D] (out, in), of Wx's dtype or float32 with 16-bit Wx.
        b: [G, H, D], of R's dtype; for "gru" [4, H, D]; None for zeros.
        initial_state: [S, B, H, D], or [S, N, H, D] with ``seq_offsets``; zeros if not given.
        cell, layout, reverse, seq_offsets, reset, return_all_states, recurrent_clip, allow_tf32: as in ``flashscan.rnn``.
            PyTorch's own networks round to tf32 unless ``torch.backends.cudnn.allow_tf32`` is False.
        return_final_state: also return the last states, of ``initial_state``'s shape, in float32 for 16-bit Wx.

    Returns:
        The hidden states [B, T, H, D] or [T, B, H, D], with ``return_all_states`` [S, ...], or the pair of them and the
        final states.

    Raises:
        FlashscanError: what is wrong, and what is accepted.
    """
    tensors(Wx=Wx, R=R)
    tensors(True, b=b, initial_state=initial_state, reset=reset)
    choose("cell", cell, _rnn.CELLS), choose("layout", layout, _rnn.LAYOUTS)
    reverse, all_states = flag("reverse", reverse), flag("return_all_states", return_all_states)
    flag("return_final_state", return_final_state)
    clip = number("recurrent_clip", recurrent_clip)
    lower = autocast_dtype(Wx)
    if lower is not None:
        Wx = Wx.to(lower)
        R = R if R.dtype == torch.float32 else R.to(lower)
        b = None if b is None else b.to(R.dtype)
    state, offsets = as_state(initial_state, Wx), as_offsets(seq_offsets, Wx)
    given = (Wx, R, b, state)
    training = torch.is_grad_enabled() and any(tensor is not None and tensor.requires_grad for tensor in given)
    # Under vmap a tensor does not tell what the transforms around it record.
    training = training or (torch.is_grad_enabled() and _transforms.active())
    options = (cell, layout, reverse, all_states, training, clip, flag("allow_tf32", allow_tf32))
    output, final, _ = _op(Wx, R, b, state, offsets, reset, *options)
    return (output, final) if return_final_state else output
