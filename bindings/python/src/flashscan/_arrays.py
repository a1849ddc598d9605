# SPDX-License-Identifier: Apache-2.0
"""What every function checks and converts: dtypes, options, states, resets, offsets."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import _library as lib
from ._errors import FlashscanTypeError, FlashscanValueError

Array = NDArray[Any]

_DTYPES = {
    np.dtype(np.float32): lib.F32,
    np.dtype(np.float16): lib.F16,
    np.dtype(np.float64): lib.F64,
    np.dtype(np.complex64): lib.C64,
    np.dtype(np.complex128): lib.C128,
}
OFFSETS_DTYPES = {np.dtype(np.int32): lib.I32, np.dtype(np.int64): lib.I64}


def dtype_number(name: str, array: Array) -> int:
    number = _DTYPES.get(array.dtype)
    if number is not None:
        return number
    if array.dtype.name == "bfloat16" and array.dtype.type.__module__ == "ml_dtypes":
        return lib.BF16
    raise FlashscanTypeError(
        f"{name} has dtype {array.dtype}; accepted are float32, float64, float16, complex64, complex128 and ml_dtypes' "
        "bfloat16, in native byte order"
    )


def state_dtype(dtype: np.dtype) -> np.dtype:
    return np.dtype(np.float32) if dtype.itemsize == 2 else dtype


def choose(name: str, value: Any, accepted: dict[str, Any]) -> Any:
    if not isinstance(value, str) or value not in accepted:
        raise FlashscanValueError(f"{name} is {value!r}; accepted are {', '.join(map(repr, accepted))}")
    return accepted[value]


def argument(number: int, array: Array) -> tuple[int, int, int, int]:
    if array.flags.c_contiguous:
        size = array.nbytes
    elif array.size == 0:
        size = 0
    else:
        size = array.itemsize + sum((n - 1) * stride for n, stride in zip(array.shape, array.strides))
    return number, 0, array.__array_interface__["data"][0], size


def reset_flags(reset: ArrayLike, shape: tuple[int, int]) -> Array:
    array = np.asarray(reset)
    if array.dtype not in (np.dtype(np.uint8), np.dtype(np.bool_)):
        raise FlashscanTypeError(f"reset has dtype {array.dtype}; accepted are bool and uint8")
    if array.shape != shape:
        raise FlashscanValueError(f"reset has shape {array.shape}; accepted is (batch, time), here {shape}")
    return np.ascontiguousarray(array).view(np.uint8)


def sequence_offsets(seq_offsets: ArrayLike) -> Array:
    array = np.asarray(seq_offsets)
    if array.dtype not in OFFSETS_DTYPES:
        raise FlashscanTypeError(f"seq_offsets has dtype {array.dtype}; accepted are int32 and int64")
    if array.ndim != 1 or array.size < 2:
        raise FlashscanValueError(
            f"seq_offsets has shape {array.shape}; accepted is (number of sequences + 1,) with one sequence at least"
        )
    return np.ascontiguousarray(array)


def thread_count(threads: int) -> int:
    try:
        number = operator.index(threads)
    except TypeError:
        raise FlashscanTypeError(f"threads is {threads!r}; accepted are integers") from None
    if not 0 <= number < 2**31:
        raise FlashscanValueError(f"threads is {number}; accepted are 0 (all) and up")
    return number


def state_array(name: str, value: ArrayLike, shape: tuple[int, ...], dtype: np.dtype) -> Array:
    """A dense array of states for data of ``dtype``."""
    array, wanted = np.asarray(value), state_dtype(dtype)
    if array.shape != shape:
        raise FlashscanValueError(f"{name} has shape {array.shape}; accepted is {shape}")
    if not np.can_cast(array.dtype, wanted, "same_kind"):
        raise FlashscanTypeError(f"{name} has dtype {array.dtype}; accepted are those that convert to {wanted}")
    return np.ascontiguousarray(array, wanted)
