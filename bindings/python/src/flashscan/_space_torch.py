# SPDX-License-Identifier: Apache-2.0
"""PyTorch as a space; imported where torch is in use."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from typing import Any

import torch
from torch.autograd import forward_ad

from . import _library as lib
from ._errors import FlashscanTypeError, FlashscanValueError
from ._spaces import Elements, NumpySpace, Signature, Spec, dense_strides, no_stream, takes


_C: Any = getattr(torch, "_C")
_functorch: Any = getattr(_C, "_functorch", None)
_strided = torch.strided
_wrapped = getattr(_functorch, "is_functorch_wrapped_tensor", lambda tensor: False)
_transforms: Any = getattr(_functorch, "peek_interpreter_stack", None) or getattr(_functorch, "are_transforms_active", lambda: None)


class _CudaMemory:
    def __init__(self, address: int, span: int) -> None:
        self.__cuda_array_interface__ = {
            "shape": (span,),
            "typestr": "|u1",
            "data": (address, False),
            "strides": None,
            "version": 3,
        }


def _watched(tensor: Any) -> Signature:
    """The signature of a tensor, where there may be tangents or transforms of torch.func."""
    if _wrapped(tensor) or (forward_ad._current_level >= 0 and forward_ad.unpack_dual(tensor).tangent is not None):
        raise FlashscanTypeError(
            "a tensor has a tangent or is one of torch.func's, which flashscan does not see; accepted are those of "
            "flashscan.torch's functions"
        )
    return _signature(tensor)


def _signature(tensor: Any) -> Signature:
    if tensor.requires_grad and torch.is_grad_enabled():
        raise FlashscanTypeError(
            "a tensor requires grad, which flashscan does not record; accepted are those of flashscan.torch's "
            "functions, or any under torch.no_grad()"
        )
    if tensor.layout is not _strided:
        raise FlashscanTypeError(f"a tensor has the layout {tensor.layout}; accepted is torch.strided")
    # Asking for strides takes three times as long.
    strides = None if tensor.is_contiguous() else tensor.stride()
    return tensor.shape, strides, tensor.dtype, tensor.device, tensor.is_conj() or tensor.is_neg()


class TorchSpace:
    kind: type = torch.Tensor
    kinds = {torch.Tensor, torch.nn.Parameter}
    records = staticmethod(torch.is_grad_enabled)  # whether gradients are recorded now
    known = {
        torch.float32: lib.F32,
        torch.bfloat16: lib.BF16,
        torch.float16: lib.F16,
        torch.float64: lib.F64,
        torch.complex64: lib.C64,
        torch.complex128: lib.C128,
        torch.int32: lib.I32,
        torch.int64: lib.I64,
        torch.uint8: lib.U8,
        torch.bool: lib.BOOL,
    }
    pointer = staticmethod(torch.Tensor.data_ptr)
    castable = staticmethod(torch.can_cast)

    @staticmethod
    def signature_getter() -> Callable[[Any], Signature]:
        transformed = forward_ad._current_level >= 0 or _transforms()
        return _watched if transformed else _signature

    def spec(self, signature: Signature) -> Spec:
        shape, strides, dtype, device, lazy = signature
        size, shape = self.itemsize(dtype), tuple(shape)
        steps = dense_strides(shape, size) if strides is None else tuple(n * size for n in strides)
        return Spec(shape, steps, dtype, self.known.get(dtype), size, device, not lazy)

    def convert(self, value: Any, like: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return value
        if isinstance(value, (int, float, complex)):
            dtype = like.dtype if takes(self.known.get(like.dtype), value) else None
            return torch.tensor(value, dtype=dtype, device=like.device)
        if isinstance(value, (list, tuple)):
            return torch.tensor(value, device=like.device)
        return torch.as_tensor(value)

    def pointer_getter(self, dtype: Any, size: int, writeable: bool) -> Callable[[Any], int]:
        return self.pointer

    def place(self, device: Any) -> tuple[int, int]:
        if device.type not in ("cpu", "cuda"):
            raise FlashscanValueError(f"a tensor is on device {device}; accepted are cpu and cuda")
        return (lib.CPU, 0) if device.type == "cpu" else (lib.CUDA, device.index)

    def dtype(self, number: int) -> Any:
        return next(dtype for dtype, known in self.known.items() if known == number)

    def itemsize(self, dtype: Any) -> int:
        size: int = torch.empty((), dtype=dtype).element_size()
        return size

    def dense(self, tensor: Any, dtype: Any) -> Any:
        return tensor.to(dtype).resolve_conj().resolve_neg().contiguous()

    def expand(self, tensor: Any, shape: tuple[int, ...]) -> Any:
        return tensor.expand(shape)

    def sum_over(self, tensor: Any, axes: tuple[int, ...]) -> Any:
        dtype = torch.float32 if tensor.element_size() == 2 else tensor.dtype
        return tensor.sum(axes, keepdim=True, dtype=dtype).to(tensor.dtype)

    def maker(self, shape: tuple[int, ...], dtype: Any, device: Any, fill: int | None) -> Callable[[], Any]:
        # Making it like another takes half as long as by dtype and device.
        like = torch.empty((), dtype=dtype, device=device).expand(shape)
        options: dict[str, Any] = {"memory_format": torch.contiguous_format}
        if fill:
            return functools.partial(torch.full_like, like, fill, **options)
        return functools.partial(torch.empty_like if fill is None else torch.zeros_like, like, **options)

    def bytes_maker(self, size: int, device: Any) -> Callable[[], Any]:
        if device.type == "cuda":  # torch's memory begins at a multiple of 512 there
            return self.maker((size,), torch.uint8, device, None)
        make = NumpySpace().bytes_maker(size, device)
        return lambda: torch.from_numpy(make())

    def stream_getter(self, device: Any) -> Callable[[], int | None]:
        if device.type == "cpu":
            return no_stream
        return functools.partial(_C._cuda_getCurrentRawStream, device.index)

    def _view(self, elements: Elements) -> Any:
        """In the order of addresses, since tensors have no negative strides."""
        if elements.device.type == "cpu":
            memory = (ctypes.c_char * elements.span).from_address(elements.low)
            items = torch.frombuffer(memory, dtype=elements.dtype)
        else:
            items = torch.as_tensor(_CudaMemory(elements.low, elements.span), device=elements.device)
            items = items.view(elements.dtype)
        step = abs(elements.stride) // elements.itemsize
        return items.as_strided((elements.count, *elements.shape), (step, *elements.inner))

    def load(self, elements: Elements) -> Any:
        view = self._view(elements)
        return view.flip(0) if elements.stride < 0 else view

    def store(self, elements: Elements, value: Any) -> None:
        self._view(elements).copy_(value.flip(0) if elements.stride < 0 else value)
