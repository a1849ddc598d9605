# SPDX-License-Identifier: Apache-2.0
"""The communicator of a process group's NCCL, as a number that the library takes."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

from .._errors import FlashscanError
from ._types import Tensor


def backend_name(group: Any, device: str) -> str | None:
    """The name of the backend that a group has for a kind of device, None if it has none."""
    if not hasattr(group, "_get_backend"):  # before PyTorch 2 a group is its only backend
        only: str = dist.get_backend(group)
        return only if (only == "nccl") == (device == "cuda") else None
    try:
        name: str = group._get_backend(torch.device(device)).name()
    except RuntimeError:
        return None
    return name


class _UniqueId(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_char * 128)]


def communicator(
    group: Any, rank: int, size: int, device: torch.device, gather: Callable[[Any, Tensor, Tensor, int], None]
) -> int:
    """The group's own, which it has since its first collective on the device; a new one, on all ranks at once, where
    PyTorch, before 2.8, does not give it."""
    backend = group._get_backend(torch.device("cuda")) if hasattr(group, "_get_backend") else group
    with torch.cuda.device(device):
        own: int = backend._comm_ptr() if hasattr(backend, "_comm_ptr") else 0
        return own or _make(group, rank, size, device, gather)


def _make(group: Any, rank: int, size: int, device: torch.device, gather: Callable[..., None]) -> int:
    """Lives as long as the process: destroying it would take all ranks at once."""
    try:  # never a second copy beside PyTorch's
        nccl = ctypes.CDLL("libnccl.so.2", os.RTLD_NOW | os.RTLD_NOLOAD)
    except OSError as error:
        raise FlashscanError(
            "the group's backend does not give its communicator, and PyTorch has loaded no libnccl.so.2 to make one with; "
            "accepted are PyTorch 2.8 and later, or one that loads libnccl.so.2"
        ) from error

    nccl.ncclGetErrorString.restype = ctypes.c_char_p

    def check(result: int) -> None:
        if result:
            text = nccl.ncclGetErrorString(result).decode()
            raise FlashscanError(f"NCCL failed while making a communicator for rank {rank} of {size}: {text}")

    unique, made = _UniqueId(), ctypes.c_void_p()
    if rank == 0:
        check(nccl.ncclGetUniqueId(ctypes.byref(unique)))
    mine = torch.tensor(list(bytes(unique)), dtype=torch.uint8, device=device)
    every = torch.empty(size * len(mine), dtype=torch.uint8, device=device)
    gather(group, mine, every, size)
    unique = _UniqueId.from_buffer_copy(bytes(every[: len(mine)].tolist()))
    check(nccl.ncclCommInitRank(ctypes.byref(made), ctypes.c_int(size), unique, ctypes.c_int(rank)))
    return made.value or 0
