# SPDX-License-Identifier: Apache-2.0
"""Arrays of packages without a space of their own: looked at through DLPack or the CUDA array interface, not copied.

On the CPU NumPy looks at them, on a GPU PyTorch or CuPy. Results are of the package that the arrays are of if it is one
with ``__array_namespace__``, else of the package that looked at them.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ._errors import FlashscanTypeError

_DLPACK_CPU = {1, 3}  # kDLCPU, kDLCUDAHost
_LEGACY_STREAM = 1  # of the CUDA array interface


def is_foreign(value: Any) -> bool:
    if isinstance(value, np.ndarray):
        return False
    return hasattr(value, "__cuda_array_interface__") or hasattr(value, "__dlpack_device__")


def _looking_package() -> Any:
    for name in ("torch", "cupy"):
        if name in sys.modules:
            return sys.modules[name]
    for name in ("torch", "cupy"):
        with contextlib.suppress(ImportError):
            return importlib.import_module(name)
    raise FlashscanTypeError("arrays of other packages on a GPU need PyTorch or CuPy beside them; neither is installed")


def _on_stream(package: Any, stream: int | None) -> contextlib.AbstractContextManager[Any]:
    """Makes the stream that an array's interface names the current one; results' memory is then ordered on it too."""
    if stream is None:
        return contextlib.nullcontext()
    if package.__name__ == "torch":
        cuda = package.cuda
        current: contextlib.AbstractContextManager[Any] = cuda.stream(
            cuda.default_stream() if stream == _LEGACY_STREAM else cuda.ExternalStream(stream)
        )
    else:
        current = package.cuda.ExternalStream(0 if stream == _LEGACY_STREAM else stream)
    return current


def _restorer(value: Any) -> Callable[[Any], Any]:
    if not hasattr(value, "__array_namespace__"):
        return lambda result: result
    from_dlpack: Callable[[Any], Any] = value.__array_namespace__().from_dlpack
    return from_dlpack


def _look_on_gpu(package: Any, value: Any) -> Any:
    if hasattr(value, "__dlpack__"):  # its package makes the current stream wait for what it has enqueued
        return package.from_dlpack(value)
    return package.as_tensor(value, device="cuda") if package.__name__ == "torch" else package.asarray(value)


def call(function: Callable[[Sequence[Any]], list[Any]], arrays: Sequence[Any], lead: int) -> list[Any]:
    """``function`` on arrays of a package that has a space."""
    first = arrays[lead]
    context: contextlib.AbstractContextManager[Any] = contextlib.nullcontext()
    if hasattr(first, "__dlpack_device__") and first.__dlpack_device__()[0] in _DLPACK_CPU:
        look = np.from_dlpack
    else:
        package = _looking_package()
        look = functools.partial(_look_on_gpu, package)
        if not hasattr(first, "__dlpack__"):
            context = _on_stream(package, first.__cuda_array_interface__.get("stream"))
    with context:
        results = function([look(value) if is_foreign(value) else value for value in arrays])
        return list(map(_restorer(first), results))
