# SPDX-License-Identifier: Apache-2.0
"""One sequence over the processes of a ``torch.distributed`` group, each of which holds consecutive steps of it.

Tensors are on the CPU, and the group has gloo for them, or on GPUs, and it has NCCL. The steps of rank 0 come first. What
ranks send each other are a few numbers for each batch and channel, of selective scans for each of their states, whatever the
length of their parts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, get_args, overload

import torch

from ._call import flag
from ._errors import FlashscanValueError
from ._operator import EXCLUSIVE, INCLUSIVE
from ._types import Activation, Decay, Epilogue, GateForm, Layer, Layout, NumberOperator, Scale
from .torch import _gated, _linear, _operator, _selective
from .torch._ranks import OverRanks
from .torch._types import tensors

if TYPE_CHECKING:
    from .torch._options import GatedOfGroup, LinearOfGroup, ScanOfGroup, SelectiveOfGroup, Unpack

__all__ = ["gated_scan", "linear_scan", "prefix_scan", "selective_scan"]

Tensor = torch.Tensor

_linear_scan = OverRanks("linear_scan", _linear.OPERATORS, 2)
_gated_scan = OverRanks("gated_scan", _gated.OPERATORS, 2)
_selective_scan = OverRanks("selective_scan", _selective.OPERATORS, 8)
_prefix_scan = OverRanks("prefix_scan", _operator.OPERATORS, 1)
_NUMBERS = get_args(NumberOperator)


@overload
def linear_scan(
    gate: Tensor | float, input: Tensor, initial_state: Tensor | None = None, *, return_final_state: Literal[False] = False,
    **options: Unpack[LinearOfGroup],
) -> Tensor: ...  # fmt: skip
@overload
def linear_scan(
    gate: Tensor | float, input: Tensor, initial_state: Tensor | None = None, *, return_final_state: Literal[True],
    **options: Unpack[LinearOfGroup],
) -> tuple[Tensor, Tensor | None]: ...  # fmt: skip
@overload
def linear_scan(
    gate: Tensor | float, input: Tensor, initial_state: Tensor | None = None, *, return_final_state: bool,
    **options: Unpack[LinearOfGroup],
) -> Tensor | tuple[Tensor, Tensor | None]: ...  # fmt: skip
def linear_scan(
    gate: Tensor | float,
    input: Tensor,
    initial_state: Tensor | None = None,
    *,
    group: Any = None,
    steps: Sequence[int] | None = None,
    layout: Layout = "btc",
    gate_form: GateForm = "value",
    reverse: bool = False,
    reset: Tensor | None = None,
    return_final_state: bool = False,
) -> Tensor | tuple[Tensor, Tensor | None]:
    """``flashscan.torch.linear_scan`` of a sequence whose steps lie on the ranks of ``group``, with autograd.

    All ranks call it, and run backward through it, alike and in the same order: where one does not, the others wait for
    it until the group's timeout. Options, dtypes, batch and channels are the same on all of them.

    On GPUs the group's NCCL is called on the current stream. Ranks make a plan together at the first call of a kind, which
    waits for all of them; later ones only enqueue, and may be captured in a CUDA graph. So a shape or strides that are new
    are new on all ranks at once.

    Args:
        gate: any shape that broadcasts to the input's, of dtypes as in ``flashscan.torch.linear_scan``. The gradient of
            one that is broadcast along time is the sum over this rank's steps; add those of all ranks, as gradients of
            parameters are added in data-parallel training.
        input: [B, T, C], or [B, C, T] with ``layout="bct"``: this rank's steps. T may differ from rank to rank and may
            be zero.
        initial_state: [B, C], of the first rank alone: rank 0, or with ``reverse`` the last one. Zeros if not given.
        group: a group of torch.distributed; the default one if None.
        steps: the numbers of steps of all ranks, the same on all. Needed on GPUs where they differ, and only there.
        layout, gate_form, reset: as in ``flashscan.linear_scan``.
        reverse: walks from the last step of the last rank to the first of rank 0.
        return_final_state: also return the last state, on every rank: that of the last rank to compute, rank size - 1 or
            with ``reverse`` 0, has it; the others have None.

    Returns:
        h of this rank's steps, or ``(h, final_state)``.

    Raises:
        FlashscanError: what is wrong, and what is accepted. Ranks whose own arguments are right hear of one whose are
            not, or that asks for something else; on GPUs only of what differs when a plan is made, else they wait.
    """
    final = ("return_final_state", return_final_state)
    given = (gate, input, initial_state, None, reset, layout, gate_form, reverse)
    return _linear_scan(group, steps, final, _linear.arguments, *given)


@overload
def gated_scan(
    gate: Tensor, input: Tensor, initial_state: Tensor | None = None, *, return_final_state: Literal[False] = False,
    **options: Unpack[GatedOfGroup],
) -> Tensor: ...  # fmt: skip
@overload
def gated_scan(
    gate: Tensor, input: Tensor, initial_state: Tensor | None = None, *, return_final_state: Literal[True],
    **options: Unpack[GatedOfGroup],
) -> tuple[Tensor, Tensor | None]: ...  # fmt: skip
@overload
def gated_scan(
    gate: Tensor, input: Tensor, initial_state: Tensor | None = None, *, return_final_state: bool,
    **options: Unpack[GatedOfGroup],
) -> Tensor | tuple[Tensor, Tensor | None]: ...  # fmt: skip
def gated_scan(
    gate: Tensor,
    input: Tensor,
    initial_state: Tensor | None = None,
    *,
    group: Any = None,
    steps: Sequence[int] | None = None,
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
    reverse: bool = False,
    reset: Tensor | None = None,
    return_final_state: bool = False,
) -> Tensor | tuple[Tensor, Tensor | None]:
    """``flashscan.torch.gated_scan`` of a sequence whose steps lie on the ranks of ``group``, with autograd.

    What ``linear_scan`` says of ranks holds here.

    Args:
        gate, second_gate, input_gate, output_gate: of the input's shape and dtype, this rank's steps; gate and second_gate
            may be float32 beside 16-bit input.
        input: [B, T, C], or [B, C, T] with ``layout="bct"``: this rank's steps, float32, float64, float16 or bfloat16. T
            may differ from rank to rank and may be zero; with ``first_step``, which "rglru" has, the first rank needs a
            step or an initial state.
        initial_state: [B, C], of the first rank alone: rank 0, or with ``reverse`` the last one. Zeros if not given.
        param, bias: [C], the same on all ranks, of the input's dtype, or float32 beside 16-bit input. Their gradients are
            the sums over this rank's steps; add those of all ranks, as those of other parameters.
        group, steps: as in ``linear_scan``.
        layer, decay, scale, activation, epilogue, first_step, decay_rate, sqrt_slope_limit, layout: as in
            ``flashscan.gated_scan``, which has the formulas.
        reset: [B, T], bool or uint8: this rank's steps.
        reverse, return_final_state: as in ``linear_scan``.

    Returns:
        The output of this rank's steps, of the input's shape and dtype, or ``(output, final_state)``.

    Raises:
        FlashscanError: what is wrong, and what is accepted, on every rank.
    """
    parts = (layer, decay, scale, activation, epilogue)
    arrays = (second_gate, input_gate, output_gate, param, bias)
    numbers = (first_step, decay_rate, sqrt_slope_limit)
    given = (gate, input, initial_state, *parts, *arrays, *numbers, layout, reverse, None, reset)
    return _gated_scan(group, steps, ("return_final_state", return_final_state), _gated.arguments, *given)


@overload
def selective_scan(
    u: Tensor, delta: Tensor, A: Tensor, B: Tensor, C: Tensor, D: Tensor | None = None, z: Tensor | None = None,
    delta_bias: Tensor | None = None, initial_state: Tensor | None = None, *, return_final_state: Literal[False] = False,
    **options: Unpack[SelectiveOfGroup],
) -> Tensor: ...  # fmt: skip
@overload
def selective_scan(
    u: Tensor, delta: Tensor, A: Tensor, B: Tensor, C: Tensor, D: Tensor | None = None, z: Tensor | None = None,
    delta_bias: Tensor | None = None, initial_state: Tensor | None = None, *, return_final_state: Literal[True],
    **options: Unpack[SelectiveOfGroup],
) -> tuple[Tensor, Tensor | None]: ...  # fmt: skip
@overload
def selective_scan(
    u: Tensor, delta: Tensor, A: Tensor, B: Tensor, C: Tensor, D: Tensor | None = None, z: Tensor | None = None,
    delta_bias: Tensor | None = None, initial_state: Tensor | None = None, *, return_final_state: bool,
    **options: Unpack[SelectiveOfGroup],
) -> Tensor | tuple[Tensor, Tensor | None]: ...  # fmt: skip
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
    group: Any = None,
    steps: Sequence[int] | None = None,
    delta_softplus: bool = False,
    layout: Layout = "btc",
    reverse: bool = False,
    reset: Tensor | None = None,
    return_final_state: bool = False,
) -> Tensor | tuple[Tensor, Tensor | None]:
    """``flashscan.torch.selective_scan`` of a sequence whose steps lie on the ranks of ``group``, with autograd.

    What ``linear_scan`` says of ranks holds here.

    Args:
        u, delta, z: [B, T, C], or [B, C, T] with ``layout="bct"``: this rank's steps. T may differ from rank to rank and may
            be zero.
        B, C: as in ``flashscan.selective_scan``: this rank's steps, or constant and the same on all ranks.
        A, D, delta_bias: the same on all ranks. Their gradients, and those of constant B and C, are the sums over this rank's
            steps; add those of all ranks, as those of other parameters.
        initial_state: [B, C, N], of the first rank alone: rank 0, or with ``reverse`` the last one. Zeros if not given.
        group, steps, reset, reverse, return_final_state: as in ``linear_scan``.
        delta_softplus, layout: as in ``flashscan.selective_scan``, which has the formulas.

    Returns:
        y of this rank's steps, of u's shape and dtype, or ``(y, final_state)``.

    Raises:
        FlashscanError: what is wrong, and what is accepted, on every rank.
    """
    arrays = (u, delta, A, B, C, D, z, delta_bias, initial_state, None, reset)
    final = ("return_final_state", return_final_state)
    return _selective_scan(group, steps, final, _selective.arguments, *arrays, delta_softplus, layout, reverse)


@overload
def prefix_scan(
    x: Tensor, op: NumberOperator, *, return_final: Literal[False] = False, **options: Unpack[ScanOfGroup]
) -> Tensor: ...
@overload
def prefix_scan(
    x: Tensor, op: NumberOperator, *, return_final: Literal[True], **options: Unpack[ScanOfGroup]
) -> tuple[Tensor, Tensor | None]: ...
@overload
def prefix_scan(
    x: Tensor, op: NumberOperator, *, return_final: bool, **options: Unpack[ScanOfGroup]
) -> Tensor | tuple[Tensor, Tensor | None]: ...
def prefix_scan(
    x: Tensor,
    op: NumberOperator,
    *,
    group: Any = None,
    steps: Sequence[int] | None = None,
    axis: int | None = None,
    reverse: bool = False,
    exclusive: bool = False,
    initial: Tensor | None = None,
    return_final: bool = False,
) -> Tensor | tuple[Tensor, Tensor | None]:
    """``flashscan.torch.prefix_scan`` of numbers that lie along ``axis`` on the ranks of ``group``, with autograd.

    What ``linear_scan`` says of ranks holds here.

    Args:
        x: an array of 1 axis or more, of dtypes as in ``flashscan.prefix_scan``: this rank's part of it. The extent along
            ``axis`` may differ from rank to rank and may be zero.
        op: "add", "mul", "min", "max", "logaddexp", "and", "or" or "xor"; gradients are of the first five, as in
            ``flashscan.torch.prefix_scan``.
        group, steps: as in ``linear_scan``.
        axis: the axis of time, the last one if None.
        reverse: the same scan on the flipped sequence, flipped back: it starts at the last element of the last rank.
        exclusive: ``x[t]`` is left out of ``y[t]``.
        initial: left operand of the first element, of x's shape without ``axis``: of the first rank alone, rank 0, or with
            ``reverse`` the last one.
        return_final: also return the last inclusive prefix, on every rank: that of the last rank to compute has it, of the
            shape of ``initial``, in float32 for 16-bit x; the others have None.

    Returns:
        y of this rank's part, of x's shape and dtype, or ``(y, final)``.

    Raises:
        FlashscanError: what is wrong, and what is accepted, on every rank.
    """
    given = (x, op, exclusive, axis, reverse, initial)
    return _prefix_scan(group, steps, ("return_final", return_final), _scan_arguments, *given)


def _scan_arguments(x: Any, op: Any, exclusive: Any, axis: Any, reverse: Any, initial: Any) -> tuple[Any, ...]:
    if not isinstance(op, str) or op not in _NUMBERS:
        raise FlashscanValueError(f"op is {op!r}; accepted over ranks are {', '.join(map(repr, _NUMBERS))}")
    tensors(x=x)
    tensors(True, initial=initial)
    mode = EXCLUSIVE if flag("exclusive", exclusive) else INCLUSIVE
    return _operator.arguments(x, op, mode, axis, flag("reverse", reverse), initial, None)
