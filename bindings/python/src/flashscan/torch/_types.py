# SPDX-License-Identifier: Apache-2.0
"""What the functions of this package do to their arguments before anything else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Union

import torch
from torch.nn import functional

from .._call import integer
from .._errors import FlashscanTypeError, FlashscanValueError

Tensor = torch.Tensor
Offsets = Union[Tensor, Sequence[int], None]

_WIDE = {torch.float16: torch.float32, torch.bfloat16: torch.float32}


def state_dtype(dtype: torch.dtype) -> torch.dtype:
    """That of states and sums of data of ``dtype``."""
    return _WIDE.get(dtype, dtype)


def tensors(optional: bool = False, /, **named: Any) -> None:
    """Refuses what is no tensor; None passes where it is ``optional``."""
    for name, value in named.items():
        if not isinstance(value, Tensor) and not (optional and value is None):
            raise FlashscanTypeError(f"{name} is a {type(value).__name__}; accepted are tensors")
        if value is not None and value.layout is not torch.strided:
            raise FlashscanTypeError(f"{name} has layout {value.layout}; accepted is torch.strided")


def as_state(state: Tensor | None, like: Tensor) -> Tensor | None:
    if state is not None and state.is_complex() and not like.is_complex():
        raise FlashscanTypeError(f"initial_state has dtype {state.dtype}; accepted with {like.dtype} are real numbers")
    return None if state is None else state.to(state_dtype(like.dtype))


def as_offsets(seq_offsets: Offsets, like: Tensor) -> Tensor | None:
    if seq_offsets is None or isinstance(seq_offsets, Tensor):
        return seq_offsets
    if not isinstance(seq_offsets, Sequence) or not all(isinstance(each, int) for each in seq_offsets):
        raise FlashscanTypeError(f"seq_offsets is {seq_offsets!r}; accepted are a tensor, or a sequence of integers")
    return torch.tensor(seq_offsets, dtype=torch.int64, device=like.device)


def features(name: str, value: Tensor, axes: tuple[int, ...], last: int) -> None:
    tensors(**{name: value})
    if value.dim() not in axes or value.shape[-1] != last:
        raise FlashscanValueError(
            f"{name} has shape {tuple(value.shape)}; accepted are {' or '.join(map(str, axes))} axes, "
            f"the last of {last}"
        )


def product(linear: Any, input: Tensor) -> Tensor:
    """That of a layer's input and a ``linear`` module, or the weight of one without a bias."""
    try:
        result: Tensor = functional.linear(input, linear) if isinstance(linear, Tensor) else linear(input)
        return result
    except RuntimeError:
        weight: Any = linear if isinstance(linear, Tensor) else getattr(linear, "weight", input)
        refuse_other_kind(input, weight)
        raise


def refuse_other_kind(input: Tensor, parameter: Tensor) -> None:
    """Looked at where PyTorch has failed, since modules and autocast may make of an input what a parameter is."""
    for what, given, accepted in (
        ("device", input.device, parameter.device),
        ("dtype", input.dtype, parameter.dtype),
    ):
        if given != accepted:
            raise FlashscanTypeError(f"input has {what} {given}; accepted is {accepted}, as the layer's parameters have")


def positive(**sizes: Any) -> None:
    for name, size in sizes.items():
        if not 1 <= integer(name, size) < 2**31:
            raise FlashscanValueError(f"{name} is {size}; accepted are 1 to {2**31 - 1}")


def autocast_dtype(like: Tensor) -> torch.dtype | None:
    """The dtype that autocast lowers to on a tensor's device, None where it is off or does not concern the tensor."""
    if not like.is_floating_point() or like.dtype == torch.float64:
        return None
    device = like.device.type
    if hasattr(torch, "get_autocast_dtype"):
        of_device: Any = torch
        lower: torch.dtype | None = of_device.get_autocast_dtype(device) if of_device.is_autocast_enabled(device) else None
        return lower
    if device == "cuda":
        return torch.get_autocast_gpu_dtype() if torch.is_autocast_enabled() else None
    return torch.get_autocast_cpu_dtype() if torch.is_autocast_cpu_enabled() else None
