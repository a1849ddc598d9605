# SPDX-License-Identifier: Apache-2.0
"""What the functions of this package do to their arguments before anything else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Union

import torch

Tensor = torch.Tensor
Offsets = Union[Tensor, Sequence[int], None]

_WIDE = {torch.float16: torch.float32, torch.bfloat16: torch.float32}


def state_dtype(dtype: torch.dtype) -> torch.dtype:
    """That of states and sums of data of ``dtype``."""
    return _WIDE.get(dtype, dtype)


def as_state(state: Tensor | None, like: Tensor) -> Tensor | None:
    return None if state is None else state.to(state_dtype(like.dtype))


def as_offsets(seq_offsets: Offsets, like: Tensor) -> Tensor | None:
    if seq_offsets is None or isinstance(seq_offsets, Tensor):
        return seq_offsets
    return torch.tensor(seq_offsets, device=like.device)


def autocast_dtype(like: Tensor) -> torch.dtype | None:
    """The dtype that autocast lowers to on a tensor's device, None where it is off or does not concern the tensor."""
    if not like.is_floating_point() or like.dtype == torch.float64:
        return None
    device = like.device.type
    if hasattr(torch, "get_autocast_dtype"):
        return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else None
    if device == "cuda":
        return torch.get_autocast_gpu_dtype() if torch.is_autocast_enabled() else None
    return torch.get_autocast_cpu_dtype() if torch.is_autocast_cpu_enabled() else None
