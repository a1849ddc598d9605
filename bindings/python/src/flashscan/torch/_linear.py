# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import torch

from .. import _linear
from ._register import optional, register
from ._types import Offsets, Tensor, as_offsets, as_state, autocast_dtype, state_dtype


def _state_shape(like: Tensor, layout: str, seq_offsets: Tensor | None) -> tuple[int, int]:
    rows = like.shape[0] if seq_offsets is None else seq_offsets.shape[0] - 1
    return rows, like.shape[2 if layout == "btc" else 1]


def _kernel(gate, input, initial_state, seq_offsets, reset, layout, gate_form, reverse):
    arrays = (gate, input, initial_state, seq_offsets, reset)
    return tuple(_linear.forward(arrays, (True, layout, gate_form, reverse, 0)))


def _fake(gate, input, initial_state, seq_offsets, reset, layout, gate_form, reverse):
    state = input.new_empty(_state_shape(input, layout, seq_offsets), dtype=state_dtype(input.dtype))
    return input.new_empty(input.shape), state


def _backward_kernel(gate, output, grad, initial_state, grad_state, seq_offsets, reset, layout, gate_form, reverse):
    arrays = (gate, output, grad, initial_state, grad_state, seq_offsets, reset)
    return tuple(_linear.backward(arrays, (layout, gate_form, reverse, 0)))


def _backward_fake(gate, output, grad, initial_state, grad_state, seq_offsets, reset, layout, gate_form, reverse):
    state = output.new_empty(_state_shape(output, layout, seq_offsets), dtype=state_dtype(output.dtype))
    return gate.new_empty(gate.shape), output.new_empty(output.shape), state


def _save(ctx: Any, inputs: tuple, output: tuple[Tensor, Tensor]) -> None:
    gate, _, initial_state, seq_offsets, reset, *ctx.options = inputs
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(gate, output[0], initial_state, seq_offsets, reset)


def _backward(ctx: Any, grad: Tensor | None, grad_state: Tensor | None) -> tuple:
    gate, output, initial_state, seq_offsets, reset = ctx.saved_tensors
    grad = torch.zeros_like(output) if grad is None else grad
    gradients = _backward_op(gate, output, grad, initial_state, grad_state, seq_offsets, reset, *ctx.options)
    return (*gradients[:2], optional(gradients[2], initial_state), None, None, None, None, None)


_OPTIONS = "Tensor? seq_offsets, Tensor? reset, str layout, str gate_form, bool reverse"
_op = register(
    "linear_scan",
    f"(Tensor gate, Tensor input, Tensor? initial_state, {_OPTIONS}) -> (Tensor, Tensor)",
    _kernel,
    _fake,
    _save,
    _backward,
)
_backward_op = register(
    "linear_scan_backward",
    "(Tensor gate, Tensor output, Tensor grad_output, Tensor? initial_state, Tensor? grad_final_state, "
    f"{_OPTIONS}) -> (Tensor, Tensor, Tensor)",
    _backward_kernel,
    _backward_fake,
)


def linear_scan(
    gate: Tensor | float,
    input: Tensor,
    initial_state: Tensor | None = None,
    *,
    layout: str = "btc",
    gate_form: str = "value",
    reverse: bool = False,
    seq_offsets: Offsets = None,
    reset: Tensor | None = None,
    return_final_state: bool = False,
) -> Any:
    """``flashscan.linear_scan`` with autograd: ``h[t] = a[t] * h[t-1] + input[t]``, differentiable in ``gate``,
    ``input`` and ``initial_state``.

    Args:
        gate: any shape that broadcasts to the input's; of its dtype, or float32 with 16-bit and complex64 input, or
            float64 with complex128 input. Under autocast other gates take the input's dtype.
        input: [B, T, C], or [B, C, T] with ``layout="bct"``; float32, bfloat16, float16, float64, complex64 or
            complex128, on the CPU or a GPU. Views are read in place.
        initial_state: [B, C], or [N, C] with ``seq_offsets``; zeros if not given.
        layout, gate_form, reverse, seq_offsets, reset: as in ``flashscan.linear_scan``.
        return_final_state: also return the last state, [B, C] or [N, C], in float32 for 16-bit input.

    Returns:
        h, of the input's shape and dtype, or ``(h, final_state)``.

    Raises:
        FlashscanError: what is wrong, and what is accepted.
    """
    if not isinstance(gate, Tensor):
        gate = torch.tensor(gate, dtype=input.dtype, device=input.device)
    if autocast_dtype(input) is not None and gate.dtype not in (input.dtype, state_dtype(input.dtype)):
        gate = gate.to(input.dtype)
    state, offsets = as_state(initial_state, input), as_offsets(seq_offsets, input)
    results = _op(gate, input, state, offsets, reset, layout, gate_form, reverse)
    return tuple(results) if return_final_state else results[0]
