# SPDX-License-Identifier: Apache-2.0
"""What differs between packages of arrays: how an array is looked at, made and converted, and which stream is current.

A space is one package. The rest works on ``Spec``s, dtypes by the library's numbers, and a space's methods.
"""

from __future__ import annotations

import ctypes
import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from . import _library as lib
from ._errors import FlashscanTypeError

Signature = tuple[Any, ...]  # what can be hashed

_ALIGNED, _WRITEABLE = 0x100, 0x400  # of ndarray.flags.num


@dataclass(frozen=True)
class Spec:
    """An array without its data."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]  # in bytes
    dtype: Any  # the package's own
    number: int | None  # the library's, None for dtypes that it does not know
    itemsize: int
    device: Any
    plain: bool = True  # memory holds the values, each at a multiple of its size
    writeable: bool = True
    name: str = ""  # of the parameter
    position: int = 0  # among the arrays of the call

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def dense(self) -> bool:
        step = self.itemsize
        for extent, stride in zip(reversed(self.shape), reversed(self.strides)):
            if extent != 1 and stride != step and self.size:
                return False
            step *= extent
        return self.plain

    @property
    def apart(self) -> bool:
        """Whether each element has memory of its own, and strides are positive multiples of its size."""
        span = self.itemsize
        for step, extent in sorted((step, n) for step, n in zip(self.strides, self.shape) if n != 1):
            if step < span or step % self.itemsize:
                return False
            span += step * (extent - 1)
        return self.plain

    @property
    def span(self) -> int:
        """Bytes from the first element to behind the last."""
        return self.itemsize + sum((n - 1) * step for n, step in zip(self.shape, self.strides)) if self.size else 0


@dataclass(frozen=True)
class Elements:
    """``count`` elements of ``shape`` and ``dtype`` in the library's hands, ``stride`` bytes apart, each dense."""

    address: int
    stride: int
    count: int
    shape: tuple[int, ...]
    dtype: Any
    itemsize: int
    device: Any

    @property
    def low(self) -> int:
        return self.address + min(0, (self.count - 1) * self.stride)

    @property
    def span(self) -> int:
        return abs(self.stride) * (self.count - 1) + self.itemsize * math.prod(self.shape)

    @property
    def inner(self) -> tuple[int, ...]:
        """Strides within an element, in items."""
        return dense_strides(self.shape, 1)


def dense_strides(shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    """In bytes."""
    return tuple(itemsize * math.prod(shape[axis + 1 :]) for axis in range(len(shape)))


_WHOLE, _COMPLEX = {lib.I32, lib.I64, lib.U8}, {lib.C64, lib.C128}


def takes(number: int | None, value: complex) -> bool:
    """Whether the dtype of the library's number has numbers like ``value``."""
    if number in _WHOLE:
        return isinstance(value, int)
    if number == lib.BOOL:
        return isinstance(value, bool)
    return number in _COMPLEX or (number is not None and not isinstance(value, complex))


class NumpySpace:
    kind: type = np.ndarray
    kinds = {np.ndarray}  # types of arrays that are taken as they are
    known = {
        np.dtype(np.float32): lib.F32,
        np.dtype(np.float16): lib.F16,
        np.dtype(np.float64): lib.F64,
        np.dtype(np.complex64): lib.C64,
        np.dtype(np.complex128): lib.C128,
        np.dtype(np.int32): lib.I32,
        np.dtype(np.int64): lib.I64,
        np.dtype(np.uint8): lib.U8,
        np.dtype(np.bool_): lib.BOOL,
    }

    @staticmethod
    def signature(array: Any) -> Signature:
        return array.shape, array.strides, array.dtype, array.flags.num & (_ALIGNED | _WRITEABLE)

    def signature_getter(self) -> Callable[[Any], Signature]:
        """``signature``, as the state of the package at present asks for."""
        return self.signature

    def number(self, dtype: np.dtype[Any]) -> int | None:
        if dtype.name == "bfloat16" and dtype.type.__module__ == "ml_dtypes":
            return lib.BF16
        return self.known.get(dtype)

    def spec(self, signature: Signature) -> Spec:
        shape, strides, dtype, flags = signature
        plain, writeable = bool(flags & _ALIGNED), bool(flags & _WRITEABLE)
        return Spec(shape, strides, dtype, self.number(dtype), dtype.itemsize, "cpu", plain, writeable)

    def convert(self, value: Any, like: Any) -> Any:
        """An array of this space; numbers take the dtype of ``like``, if it has such numbers."""
        if isinstance(value, (int, float, complex)):
            number = self.known.get(like.dtype) or self.number(like.dtype)  # whose look at a name takes longer
            return np.asarray(value, like.dtype if takes(number, value) else None)
        if isinstance(value, np.ma.MaskedArray):
            raise FlashscanTypeError("an array is masked, which flashscan does not see; accepted are arrays without a mask")
        if hasattr(value, "__dlpack__") and not hasattr(value, "__array__"):
            return np.from_dlpack(value)
        return np.asarray(value)

    @staticmethod
    def pointer(array: Any) -> int:
        address: int = array.__array_interface__["data"][0]
        return address

    def pointer_getter(self, dtype: Any, size: int, writeable: bool) -> Callable[[Any], int]:
        """Gives the pointer of dense arrays; four times as fast as ``pointer`` where arrays have a buffer to write to."""
        known = self.number(dtype) not in (None, lib.BF16)
        return _buffer_pointer if known and size and writeable else self.pointer

    def place(self, device: Any) -> tuple[int, int]:
        """The backend and the number of the device."""
        return lib.CPU, 0

    def dtype(self, number: int) -> Any:
        return next(dtype for dtype, known in self.known.items() if known == number)

    def itemsize(self, dtype: Any) -> int:
        size: int = dtype.itemsize
        return size

    def castable(self, given: Any, wanted: Any) -> bool:
        return np.can_cast(given, wanted, "same_kind")

    def dense(self, array: Any, dtype: Any) -> Any:
        return np.ascontiguousarray(array, dtype)

    def expand(self, array: Any, shape: tuple[int, ...]) -> Any:
        return np.broadcast_to(array, shape)

    def sum_over(self, array: Any, axes: tuple[int, ...]) -> Any:
        """The sum along axes, which stay with an extent of 1; of 16-bit numbers in float32."""
        dtype = np.float32 if array.itemsize == 2 else array.dtype
        return array.sum(axis=axes, dtype=dtype, keepdims=True).astype(array.dtype, copy=False)

    def maker(self, shape: tuple[int, ...], dtype: Any, device: Any, fill: int | None) -> Callable[[], Any]:
        """Makes arrays that have the number ``fill`` everywhere, or are unwritten."""
        if fill:
            return functools.partial(np.full, shape, fill, dtype)
        return functools.partial(np.empty if fill is None else np.zeros, shape, dtype)

    def bytes_maker(self, size: int, device: Any) -> Callable[[], Any]:
        """Makes bytes at a multiple of 256, as the library wants them for what it alone reads."""

        def make() -> Any:
            memory = np.empty(size + 255, np.uint8)
            start = -memory.ctypes.data % 256
            return memory[start : start + size]

        return make

    def stream_getter(self, device: Any) -> Callable[[], int | None]:
        """Gives the caller's current stream."""
        return no_stream

    def _view(self, elements: Elements) -> Any:
        memory: Any = (ctypes.c_char * elements.span).from_address(elements.low)
        strides = (elements.stride, *(step * elements.itemsize for step in elements.inner))
        shape = (elements.count, *elements.shape)
        return np.ndarray(shape, elements.dtype, memory, elements.address - elements.low, strides)

    def load(self, elements: Elements) -> Any:
        return self._view(elements)

    def store(self, elements: Elements, value: Any) -> None:
        self._view(elements)[...] = value


def no_stream() -> None:
    return None


def _buffer_pointer(
    array: Any, _addressof: Callable[[Any], int] = ctypes.addressof, _from_buffer: Any = ctypes.c_char.from_buffer
) -> int:
    return _addressof(_from_buffer(array))


class CupySpace(NumpySpace):
    """CuPy takes NumPy's dtypes and has its functions."""

    def __init__(self, cupy: Any) -> None:
        self.cupy = cupy
        self.kind = cupy.ndarray
        self.kinds = {cupy.ndarray}

    @staticmethod
    def signature(array: Any) -> Signature:
        return array.shape, array.strides, array.dtype, array.data.device_id

    def spec(self, signature: Signature) -> Spec:
        shape, strides, dtype, device = signature
        return Spec(shape, strides, dtype, self.number(dtype), dtype.itemsize, device)

    def convert(self, value: Any, like: Any) -> Any:
        is_number = isinstance(value, (int, float, complex))
        return self.cupy.asarray(value, like.dtype if is_number and takes(self.number(like.dtype), value) else None)

    @staticmethod
    def pointer(array: Any) -> int:
        address: int = array.data.ptr
        return address

    def pointer_getter(self, dtype: Any, size: int, writeable: bool) -> Callable[[Any], int]:
        return self.pointer

    def place(self, device: Any) -> tuple[int, int]:
        return lib.CUDA, device

    def dense(self, array: Any, dtype: Any) -> Any:
        return self.cupy.ascontiguousarray(array, dtype)

    def expand(self, array: Any, shape: tuple[int, ...]) -> Any:
        return self.cupy.broadcast_to(array, shape)

    def maker(self, shape: tuple[int, ...], dtype: Any, device: Any, fill: int | None) -> Callable[[], Any]:
        make: Callable[[], Any] = functools.partial(self.cupy.ndarray if fill is None else self.cupy.zeros, shape, dtype)
        if fill:
            make = functools.partial(self.cupy.full, shape, fill, dtype)
        current = self.cupy.cuda.runtime.getDevice

        def on_device() -> Any:
            if current() == device:
                return make()
            with self.cupy.cuda.Device(device):
                return make()

        return on_device

    def bytes_maker(self, size: int, device: Any) -> Callable[[], Any]:
        return self.maker((size,), np.dtype(np.uint8), device, None)  # CuPy's memory begins at a multiple of 512

    def stream_getter(self, device: Any) -> Callable[[], int | None]:
        return lambda: self.cupy.cuda.get_current_stream(device).ptr

    def _view(self, elements: Elements) -> Any:
        cuda = self.cupy.cuda
        memory = cuda.MemoryPointer(cuda.UnownedMemory(elements.low, elements.span, None, elements.device), 0)
        strides = (elements.stride, *(step * elements.itemsize for step in elements.inner))
        start = memory + (elements.address - elements.low)
        return self.cupy.ndarray((elements.count, *elements.shape), elements.dtype, start, strides)
