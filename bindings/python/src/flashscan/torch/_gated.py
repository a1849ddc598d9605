# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, overload

import torch

from .. import _gated
from .._axis import TimeAxis, check_layout
from .._call import flag, number, words
from .._types import Activation, Decay, Epilogue, Layer, Layout, Scale
from .._errors import FlashscanError, FlashscanNotImplementedError
from . import _transforms
from ._composed import composed
from ._register import Operators, nothing, optional
from ._types import Offsets, Tensor, as_offsets, as_state, state_dtype, tensors

if TYPE_CHECKING:
    from ._options import GatedOptions, Unpack


def _split(options: tuple[Any, ...]) -> tuple[Any, ...]:
    """The options of flashscan._gated; an operator of PyTorch has "" for a name that is not given."""
    layer, decay, *rest = options
    return (layer or None, decay or None, *rest, 0)


def _needs_composition(inputs: tuple[Any, ...]) -> bool:
    """Whether derivatives of other kinds than the first backward one are taken."""
    return _transforms.active() or _transforms.tangents(inputs)


def _instead(*inputs: Any) -> tuple[Any, ...] | None:
    """The composition of linear_scan where it is needed."""
    if not _needs_composition(inputs):
        return None
    return (*composed(*inputs[:10], *inputs[11:]), inputs[1].new_empty((0,), dtype=torch.uint8))


def _kernel(
    run: Any, gate: Any, x: Any, state: Any, second: Any, input_gate: Any, output_gate: Any, param: Any, bias: Any,
    seq_offsets: Any, reset: Any, training: Any, *options: Any,
) -> tuple[Any, ...]:  # fmt: skip
    arrays = (gate, x, state, second, input_gate, output_gate, param, bias, seq_offsets, reset)
    keeps = training and _gated.hides_state(options[0] or None, options[4])
    results = run(arrays, (True, keeps, *_split(options)))
    return results[0], results[1], results[2] if keeps else x.new_empty((0,), dtype=torch.uint8)


def _state_shape(x: Tensor, seq_offsets: Tensor | None, layout: str) -> tuple[Any, ...]:
    channels = x.shape[2 if layout == "btc" else 1]
    return (x.shape[0] if seq_offsets is None else seq_offsets.shape[0] - 1, channels)


def _fake(
    gate: Any, x: Any, state: Any, second: Any, input_gate: Any, output_gate: Any, param: Any, bias: Any,
    seq_offsets: Any, reset: Any, training: Any, *options: Any,
) -> tuple[Any, ...]:  # fmt: skip
    shape = _state_shape(x, seq_offsets, options[8])
    keeps = training and _gated.hides_state(options[0] or None, options[4])
    # 64 bytes say which plan filled it; an empty problem has none of it.
    size = x.numel() * x.element_size() + 64 if keeps else 0
    return (
        x.new_empty(x.shape),
        x.new_empty(shape, dtype=state_dtype(x.dtype)),
        x.new_empty((size,), dtype=torch.uint8),
    )


def _gradients(kernel_results: Any, extra: tuple[Any, ...], like: Tensor) -> tuple[Any, ...]:
    named = _gated.named_gradients(kernel_results, extra)
    return tuple(nothing(like) if gradient is None else gradient for gradient in named.values())


def _backward_kernel(
    run: Any, gate: Any, x: Any, states: Any, grad: Any, state: Any, grad_state: Any, second: Any, input_gate: Any,
    output_gate: Any, param: Any, bias: Any, seq_offsets: Any, reset: Any, *options: Any,
) -> tuple[Any, ...]:  # fmt: skip
    extra = (second, input_gate, output_gate, param, bias)
    arrays = (gate, x, states, grad, state, grad_state, *extra, seq_offsets, reset)
    return _gradients(run(arrays, _split(options)), extra, grad)


def _backward_fake(
    gate: Any, x: Any, states: Any, grad: Any, state: Any, grad_state: Any, second: Any, input_gate: Any,
    output_gate: Any, param: Any, bias: Any, seq_offsets: Any, reset: Any, *options: Any,
) -> tuple[Any, ...]:  # fmt: skip
    extra = (second, input_gate, output_gate, param, bias)
    shape = _state_shape(x, seq_offsets, options[8])
    results = [gate.new_empty(gate.shape), x.new_empty(x.shape), x.new_empty(shape, dtype=state_dtype(x.dtype))]
    results += [array.new_empty(array.shape) for array in extra if array is not None]
    return _gradients(results, extra, grad)


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor, Tensor]) -> None:
    gate, x, state, *extra, seq_offsets, reset, training = inputs[:11]
    ctx.options, ctx.training = inputs[11:], training
    ctx.set_materialize_grads(False)
    hidden = _gated.hides_state(ctx.options[0] or None, ctx.options[4])
    ctx.save_for_backward(gate, x, output[2] if hidden else output[0], output[0], state, *extra, seq_offsets, reset)


def _backward(op: Callable[..., Any], ctx: Any, grad: Tensor | None, grad_state: Tensor | None, _: Any) -> tuple[Any, ...]:
    gate, x, states, output, state, *extra, seq_offsets, reset = ctx.saved_tensors
    if not ctx.training:
        raise FlashscanError("torch.ops.flashscan.gated_scan was called without training; its gradients need what training keeps")
    grad = torch.zeros_like(output) if grad is None else grad
    results = op(gate, x, states, grad, state, grad_state, *extra, seq_offsets, reset, *ctx.options)
    more = [optional(gradient, array) for gradient, array in zip(results[3:], extra)]
    return (*results[:2], optional(results[2], state), *more, *(None,) * (3 + len(ctx.options)))


def _save_backward(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    ctx.options = inputs[13:]
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(*inputs[:13])


def _second_backward(ctx: Any, *along: Tensor | None) -> tuple[Any, ...]:
    """The gradients of the composition's gradients. ``states`` is a function of other inputs, which get its part."""
    gate, x, _, grad, state, grad_state, *rest = ctx.saved_tensors
    further = torch.is_grad_enabled()  # whether these gradients are differentiated in turn
    with torch.enable_grad():
        # Views, so that what an input is computed from does not count as an input.
        new: Callable[[Tensor], Any] = lambda tensor: tensor.view_as(tensor) if tensor.requires_grad else tensor.detach().requires_grad_()
        given: list[Any] = [each if each is None else new(each) for each in (gate, x, state, *rest[:5], grad, grad_state)]
        *inputs, grad, grad_state = given
        results = composed(*inputs, *rest[5:], *ctx.options)
        of = [each for each in inputs if each is not None]
        sent = (grad, torch.zeros_like(results[1]) if grad_state is None else grad_state)
        found = iter(torch.autograd.grad(results, of, sent, create_graph=True, allow_unused=True))
        named = [None if each is None else next(found) for each in inputs]
        pairs = [(one, v) for one, v in zip(named, along) if one is not None and v is not None and one.requires_grad]
        if not pairs:
            return (None,) * (13 + len(ctx.options))
        results, sent = zip(*pairs)
        leaves = [each for each in given if each is not None]
        found = iter(torch.autograd.grad(results, leaves, sent, create_graph=further, allow_unused=True))
    gate, x, state, *extra, grad, grad_state = [None if each is None else next(found) for each in given]
    return (gate, x, None, grad, state, grad_state, *extra, *(None,) * (2 + len(ctx.options)))


def _backward_tangent(inputs: Any, outputs: Any, tangents: Any) -> tuple[Any, ...]:
    """The gradients are linear in what they are of; tangents of all else take the composition's way."""
    grad, grad_state = tangents[3], tangents[5]
    if any(each is not None for place, each in enumerate(tangents[:11]) if place not in (3, 5)):
        raise FlashscanNotImplementedError(
            "torch.ops.flashscan.gated_scan_backward has no forward-mode derivatives but in grad_output and "
            "grad_final_state; accepted are those of flashscan.torch.gated_scan"
        )
    grad = torch.zeros_like(inputs[3]) if grad is None else grad
    results: tuple[Any, ...] = _backward_op(*inputs[:3], grad, inputs[4], grad_state, *inputs[6:])
    return results


_EXTRA = "Tensor? second_gate, Tensor? input_gate, Tensor? output_gate, Tensor? param, Tensor? bias"
_OPTIONS = (
    "str layer, str decay, str scale, str activation, str epilogue, bool first_step, float decay_rate, "
    "float sqrt_slope_limit, str layout, bool reverse"
)
OPERATORS = Operators(
    (
        f"(Tensor gate, Tensor input, Tensor? initial_state, {_EXTRA}, Tensor? seq_offsets, Tensor? reset, bool training, "
        f"{_OPTIONS}) -> (Tensor, Tensor, Tensor)",
        "(Tensor gate, Tensor input, Tensor states, Tensor grad_output, Tensor? initial_state, Tensor? grad_final_state, "
        f"{_EXTRA}, Tensor? seq_offsets, Tensor? reset, {_OPTIONS}) -> "
        "(Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)",
    ),
    (_gated.forward, _gated.backward),
    (_kernel, _backward_kernel),
    (_fake, _backward_fake),
    _save,
    _backward,
    save_backward=_save_backward,
    second_backward=_second_backward,
    backward_tangent=_backward_tangent,
    instead=_instead,
)
_op, _backward_op = OPERATORS.register("gated_scan", function="gated_scan")


def arguments(
    gate: Tensor,
    input: Tensor,
    initial_state: Tensor | None,
    layer: str | None,
    decay: str | None,
    scale: str,
    activation: str,
    epilogue: str,
    second_gate: Tensor | None,
    input_gate: Tensor | None,
    output_gate: Tensor | None,
    param: Tensor | None,
    bias: Tensor | None,
    first_step: bool,
    decay_rate: float,
    sqrt_slope_limit: float,
    layout: str,
    reverse: bool,
    seq_offsets: Offsets,
    reset: Tensor | None,
) -> tuple[Any, ...]:
    """Those of the operator, from what the function was given."""
    tensors(gate=gate, input=input)
    tensors(
        True,
        initial_state=initial_state,
        second_gate=second_gate,
        input_gate=input_gate,
        output_gate=output_gate,
        param=param,
        bias=bias,
        reset=reset,
    )
    extra = (second_gate, input_gate, output_gate, param, bias)
    training = torch.is_grad_enabled() and any(
        t is not None and t.requires_grad for t in (gate, input, initial_state, *extra)
    )
    words(True, layer=layer, decay=decay)
    words(scale=scale, activation=activation, epilogue=epilogue, layout=layout)
    options: tuple[Any, ...] = (layer or "", decay or "", scale, activation, epilogue, flag("first_step", first_step))
    options += (number("decay_rate", decay_rate), number("sqrt_slope_limit", sqrt_slope_limit), layout, flag("reverse", reverse))
    state, offsets = as_state(initial_state, input), as_offsets(seq_offsets, input)
    return gate, input, state, *extra, offsets, reset, training, *options


@overload
def gated_scan(
    gate: Tensor, input: Tensor, initial_state: Tensor | None = None, *, return_final_state: Literal[False] = False,
    **options: Unpack[GatedOptions],
) -> Tensor: ...  # fmt: skip
@overload
def gated_scan(
    gate: Tensor, input: Tensor, initial_state: Tensor | None = None, *, return_final_state: Literal[True],
    **options: Unpack[GatedOptions],
) -> tuple[Tensor, Tensor]: ...  # fmt: skip
@overload
def gated_scan(
    gate: Tensor, input: Tensor, initial_state: Tensor | None = None, *, return_final_state: bool,
    **options: Unpack[GatedOptions],
) -> Tensor | tuple[Tensor, Tensor]: ...  # fmt: skip
def gated_scan(
    gate: Tensor,
    input: Tensor,
    initial_state: Tensor | None = None,
    *,
    layer: Layer | None = None,
    decay: Decay | None = None,
    scale: Scale = "one",
    activation: Activation = "none",
    epilogue: Epilogue = "none",
    second_gate: Tensor | None = None,
    input_gate: Tensor | None = None,
    output_gate: Tensor | None = None,
    param: Tensor | None = None,
    bias: Tensor | None = None,
    first_step: bool = False,
    decay_rate: float = 0.0,
    sqrt_slope_limit: float = 0.0,
    layout: Layout = "btc",
    axis: int | None = None,
    reverse: bool = False,
    seq_offsets: Offsets = None,
    reset: Tensor | None = None,
    return_final_state: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """``flashscan.gated_scan`` with autograd, differentiable in every tensor but ``seq_offsets`` and ``reset``.

    Tangents, derivatives of derivatives and all of ``torch.func``'s transforms are those of a composition of
    ``linear_scan`` and PyTorch's functions.

    Args are those of ``flashscan.gated_scan``; ``seq_offsets`` may be a list.

    Returns:
        The output, of the input's shape and dtype, or ``(output, final_state)``.

    Raises:
        FlashscanError: what is wrong, and what is accepted.
    """
    final = flag("return_final_state", return_final_state)
    parts = (layer, decay, scale, activation, epilogue)
    arrays = (second_gate, input_gate, output_gate, param, bias)
    numbers = (first_step, decay_rate, sqrt_slope_limit)
    given = (gate, input, initial_state, *parts, *arrays, *numbers, layout, reverse, seq_offsets, reset)
    operands = arguments(*given)
    if axis is None:
        results = _op(*operands)
    else:
        check_layout(layout)
        time = TimeAxis("input", axis, input.shape, operands[8])
        results = time.results(*_op(*map(time.view, _gated.forward.names, operands[:10]), *operands[10:])[:2])
    return tuple(results[:2]) if final else results[0]
