# SPDX-License-Identifier: Apache-2.0
"""Problems on arrays that JAX traces.

What is checked, read and written is worked out by the functions that NumPy's calls go through, here on shapes alone.
"""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from . import _library as lib
from ._call import Kind, Problem, thread_count
from ._errors import FlashscanError, FlashscanTypeError
from ._spaces import NumpySpace, Spec, takes


class _TracedSpace(NumpySpace):
    """JAX has NumPy's dtypes; its arrays are dense."""

    @staticmethod
    def signature(array: Any) -> tuple[Any, ...]:
        return tuple(array.shape), np.dtype(array.dtype)

    def spec(self, signature: tuple[Any, ...]) -> Spec:
        shape, dtype = signature
        strides = tuple(dtype.itemsize * math.prod(shape[axis + 1 :]) for axis in range(len(shape)))
        return Spec(shape, strides, dtype, self.number(dtype), dtype.itemsize, "jax")


_SPACE = _TracedSpace()


@functools.cache
def _with_cuda() -> bool:
    """Whether both JAX and the library have a CUDA device."""
    try:
        return bool(jax.devices("cuda")) and lib.device_count(lib.CUDA) > 0
    except RuntimeError:
        return False


def arrays_of(kind: Kind, *values: Any) -> list[Any]:
    """JAX arrays; numbers take the dtype of the array that decides."""
    dtype: Any = None
    arrays: list[Any] = [None] * len(values)
    for place in sorted(range(len(values)), key=lambda place: place != kind.lead):
        name, value = kind.declared[place], values[place]
        if value is None:
            if not name.endswith("?"):
                raise FlashscanTypeError(f"{name} is None; accepted are arrays")
            continue
        try:
            is_number = dtype is not None and isinstance(value, (int, float, complex))
            arrays[place] = jnp.asarray(value, dtype if is_number and takes(_SPACE.number(dtype), value) else None)
        except (TypeError, ValueError, OverflowError) as error:
            name = name.removesuffix("?")
            raise FlashscanTypeError(
                f"{name} is {value!r}, of which no array can be made; accepted are arrays"
            ) from error
        shape = arrays[place].shape
        if not all(isinstance(extent, int) for extent in shape):
            raise FlashscanTypeError(
                f"{name.removesuffix('?')} has shape {shape} with symbolic extents; accepted are numbers, as a plan is "
                "made for each shape"
            )
        dtype = arrays[kind.lead].dtype
    return arrays


class _Plans:
    """Checks a problem by making its plan for the CPU, and answers for the plans of all backends."""

    def __init__(self, family: str, fields: tuple[Any, ...], threads: int) -> None:
        self._made_from = family, fields
        self._plan = lib.plan(family, fields, threads, lib.CPU, 0)

    def arg_bytes(self, backward: bool, number: int) -> int:
        """What is enough on all backends: a program's is not known yet when its shapes are."""
        sizes = [self._plan.arg_bytes(backward, number)]
        if _with_cuda():
            with contextlib.suppress(FlashscanError):  # the handler says so if the program runs there
                sizes.append(lib.plan(*self._made_from, 0, lib.CUDA, 0).arg_bytes(backward, number))
        return max(sizes)


class Traced(Problem):
    """A problem on arrays that have shapes and dtypes and no memory yet."""

    def __init__(self, kind: Kind, arrays: Sequence[Any]) -> None:
        super().__init__(_SPACE, kind.declared, kind.lead, [None if a is None else _SPACE.signature(a) for a in arrays])
        self.reads: list[tuple[int, int, np.dtype]] = []
        self.results: list[tuple[int, tuple[int, ...], np.dtype]] = []
        self.in_place = False  # the state is written where it is read

    def read(self, number: int, spec: Any, dtype: Any = None, in_place: bool = False) -> None:
        self.names[number] = spec.name
        if number == lib.STATE_OUT:  # where STATE_IN is, if XLA can: arrays do not change
            self.in_place = True
            return self.write(number, spec.shape, spec.dtype)
        self.reads.append((number, spec.position, spec.dtype if dtype is None else dtype))

    def write(self, number: int, shape: Sequence[int], dtype: Any) -> None:
        self.results.append((number, tuple(shape), np.dtype(dtype)))

    def write_bytes(self, number: int, size: int) -> None:
        self.write(number, (size,), np.uint8)

    def plan(self, family: str, fields: tuple[Any, ...], threads: Any) -> Any:
        self.family, self.fields, self.threads = family, fields, thread_count(threads)
        return _Plans(family, fields, self.threads)

    def call(self, plan: Any, backward: bool) -> Any:
        self.backward = backward
        return self
