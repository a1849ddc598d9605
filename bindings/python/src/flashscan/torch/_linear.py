# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, overload

import torch

from .. import _linear
from .._axis import TimeAxis, check_layout
from .._call import choose, flag
from .._types import GateForm, Layout
from .._errors import FlashscanTypeError
from ._derivative import Derivative
from ._register import Operators, optional
from ._types import Offsets, Tensor, as_offsets, as_state, autocast_dtype, state_dtype, tensors

if TYPE_CHECKING:
    from ._options import LinearOptions, Unpack


def _state_shape(like: Tensor, layout: str, seq_offsets: Tensor | None) -> tuple[int, int]:
    rows = like.shape[0] if seq_offsets is None else seq_offsets.shape[0] - 1
    return rows, like.shape[2 if layout == "btc" else 1]


def _kernel(
    run: Any, gate: Any, input: Any, initial_state: Any, seq_offsets: Any, reset: Any, layout: Any, gate_form: Any,
    reverse: Any,
) -> tuple[Any, ...]:  # fmt: skip
    arrays = (gate, input, initial_state, seq_offsets, reset)
    return tuple(run(arrays, (True, layout, gate_form, reverse, 0)))


def _fake(
    gate: Any, input: Any, initial_state: Any, seq_offsets: Any, reset: Any, layout: Any, gate_form: Any,
    reverse: Any,
) -> tuple[Any, ...]:  # fmt: skip
    state = input.new_empty(_state_shape(input, layout, seq_offsets), dtype=state_dtype(input.dtype))
    return input.new_empty(input.shape), state


def _backward_kernel(
    run: Any, gate: Any, output: Any, grad: Any, initial_state: Any, grad_state: Any, seq_offsets: Any, reset: Any,
    layout: Any, gate_form: Any, reverse: Any,
) -> tuple[Any, ...]:  # fmt: skip
    arrays = (gate, output, grad, initial_state, grad_state, seq_offsets, reset)
    return tuple(run(arrays, (layout, gate_form, reverse, 0)))


def _backward_fake(
    gate: Any, output: Any, grad: Any, initial_state: Any, grad_state: Any, seq_offsets: Any, reset: Any, layout: Any,
    gate_form: Any, reverse: Any,
) -> tuple[Any, ...]:  # fmt: skip
    state = output.new_empty(_state_shape(output, layout, seq_offsets), dtype=state_dtype(output.dtype))
    return gate.new_empty(gate.shape), output.new_empty(output.shape), state


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    gate, _, initial_state, seq_offsets, reset, *ctx.options = inputs
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(gate, output[0], initial_state, seq_offsets, reset)


def _backward(op: Callable[..., Any], ctx: Any, grad: Tensor | None, grad_state: Tensor | None) -> tuple[Any, ...]:
    gate, output, initial_state, seq_offsets, reset = ctx.saved_tensors
    grad = torch.zeros_like(output) if grad is None else grad
    gradients = op(gate, output, grad, initial_state, grad_state, seq_offsets, reset, *ctx.options)
    return (*gradients[:2], optional(gradients[2], initial_state), *(None,) * (2 + len(ctx.options)))


def _tangent(inputs: Sequence[Any], outputs: Sequence[Tensor], tangents: Sequence[Tensor | None]) -> tuple[Any, ...]:
    """A scan of the same gates: dh[t] = a[t] dh[t-1] + (da[t] h[t-1] + dx[t])."""
    gate, x, state, *rest = inputs
    linear = Derivative(gate, outputs[0], state, *rest)
    dgate, dx, dstate = tangents[:3]
    results: tuple[Any, ...] = _op(gate, linear.entering(dgate, dx).to(x.dtype), dstate, *rest)
    return results


def _save_backward(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    ctx.options = inputs[7:]
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(*inputs[:7])


def _second_backward(ctx: Any, v_gate: Tensor | None, v_input: Tensor | None, v_state: Tensor | None) -> tuple[Any, ...]:
    """The gradients of Re<grad, tangent along v>, since <v, J* grad> = <J v, grad>."""
    gate, output, grad, state, grad_state, *rest = ctx.saved_tensors
    rest += ctx.options
    linear = Derivative(gate, output, state, *rest)
    along, last = _op(gate, linear.entering(v_gate, v_input).to(output.dtype), v_state, *rest)
    d_gate, arriving, _ = _backward_op(gate, along, grad, v_state, grad_state, *rest)
    d_output = d_state = None
    if v_gate is not None:
        d_gate = linear.add_curvature(d_gate, arriving, v_gate)
        d_output, d_state = linear.of_states(arriving, v_gate)
    given = optional(d_state, state), optional(last, grad_state)
    return d_gate, d_output, along, *given, *(None,) * 5


def _backward_tangent(inputs: Sequence[Any], outputs: Sequence[Tensor], tangents: Sequence[Tensor | None]) -> tuple[Any, ...]:
    """A scan of the same gates in the other direction, as the gradients are."""
    gate, output, grad, state, _, *rest = inputs
    linear = Derivative(gate, output, state, *rest)
    dgate, doutput, dgrad, dstate, dgrad_state = tangents[:5]
    arriving = outputs[1]
    entering, leaving = torch.zeros_like(grad) if dgrad is None else dgrad, None
    if dgate is not None:
        more, leaving = linear.of_states(arriving, dgate)
        entering = entering + more
    d_gate, d_input, d_state = _backward_op(gate, output, entering, state, dgrad_state, *rest)
    d_gate = linear.add_curvature(d_gate, arriving, dgate, doutput, dstate)
    return d_gate, d_input, d_state if leaving is None else d_state + leaving


_OPTIONS = "Tensor? seq_offsets, Tensor? reset, str layout, str gate_form, bool reverse"
OPERATORS = Operators(
    (
        f"(Tensor gate, Tensor input, Tensor? initial_state, {_OPTIONS}) -> (Tensor, Tensor)",
        "(Tensor gate, Tensor output, Tensor grad_output, Tensor? initial_state, Tensor? grad_final_state, "
        f"{_OPTIONS}) -> (Tensor, Tensor, Tensor)",
    ),
    (_linear.forward, _linear.backward),
    (_kernel, _backward_kernel),
    (_fake, _backward_fake),
    _save,
    _backward,
    _tangent,
    _save_backward,
    _second_backward,
    _backward_tangent,
)
_op, _backward_op = OPERATORS.register("linear_scan", function="linear_scan")


def _as_gate(gate: Any, input: Tensor) -> Tensor:
    if isinstance(gate, Tensor):
        return gate
    try:
        return torch.tensor(gate, dtype=input.dtype, device=input.device)
    except (TypeError, ValueError, RuntimeError) as error:
        raise FlashscanTypeError(f"gate is {gate!r}; accepted are a tensor or a number of {input.dtype}") from error


def arguments(
    gate: Any,
    input: Tensor,
    initial_state: Tensor | None,
    seq_offsets: Offsets,
    reset: Tensor | None,
    layout: str,
    gate_form: str,
    reverse: bool,
) -> tuple[Any, ...]:
    """Those of the operator, from what the function was given."""
    tensors(input=input)
    tensors(True, initial_state=initial_state, reset=reset)
    choose("layout", layout, _linear.LAYOUTS), choose("gate_form", gate_form, _linear.GATE_FORMS)
    reverse = flag("reverse", reverse)
    gate = _as_gate(gate, input)
    if autocast_dtype(input) is not None and gate.dtype not in (input.dtype, state_dtype(input.dtype)):
        gate = gate.to(input.dtype)
    state, offsets = as_state(initial_state, input), as_offsets(seq_offsets, input)
    return gate, input, state, offsets, reset, layout, gate_form, reverse


@overload
def linear_scan(
    gate: Tensor | float, input: Tensor, initial_state: Tensor | None = None, *, return_final_state: Literal[False] = False,
    **options: Unpack[LinearOptions],
) -> Tensor: ...  # fmt: skip
@overload
def linear_scan(
    gate: Tensor | float, input: Tensor, initial_state: Tensor | None = None, *, return_final_state: Literal[True],
    **options: Unpack[LinearOptions],
) -> tuple[Tensor, Tensor]: ...  # fmt: skip
@overload
def linear_scan(
    gate: Tensor | float, input: Tensor, initial_state: Tensor | None = None, *, return_final_state: bool,
    **options: Unpack[LinearOptions],
) -> Tensor | tuple[Tensor, Tensor]: ...  # fmt: skip
def linear_scan(
    gate: Tensor | float,
    input: Tensor,
    initial_state: Tensor | None = None,
    *,
    layout: Layout = "btc",
    axis: int | None = None,
    gate_form: GateForm = "value",
    reverse: bool = False,
    seq_offsets: Offsets = None,
    reset: Tensor | None = None,
    return_final_state: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """``flashscan.linear_scan`` with autograd: ``h[t] = a[t] * h[t-1] + input[t]``, differentiable in ``gate``,
    ``input`` and ``initial_state``.

    Args:
        gate: any shape that broadcasts to the input's; of its dtype, or float32 with 16-bit and complex64 input, or
            float64 with complex128 input. Under autocast other gates take the input's dtype.
        input: [B, T, C], or [B, C, T] with ``layout="bct"``; float32, bfloat16, float16, float64, complex64 or
            complex128, on the CPU or a GPU. Views are read in place.
        initial_state: [B, C], or [N, C] with ``seq_offsets``; zeros if not given.
        layout, axis, gate_form, reverse, seq_offsets, reset: as in ``flashscan.linear_scan``.
        return_final_state: also return the last state, of ``initial_state``'s shape, in float32 for 16-bit input.

    Returns:
        h, of the input's shape and dtype, or ``(h, final_state)``.

    Raises:
        FlashscanError: what is wrong, and what is accepted.
    """
    final = flag("return_final_state", return_final_state)
    given = arguments(gate, input, initial_state, seq_offsets, reset, layout, gate_form, reverse)
    if axis is None:
        results = _op(*given)
    else:
        check_layout(layout)
        gate, input, state, offsets, reset, *options = given
        time = TimeAxis("input", axis, input.shape, offsets)
        gate, input = time.gate(gate, Tensor.expand), time.data("input", input)
        state, reset = time.state("initial_state", state), time.reset(reset)
        results = time.results(*_op(gate, input, state, offsets, reset, *options))
    return tuple(results) if final else results[0]
