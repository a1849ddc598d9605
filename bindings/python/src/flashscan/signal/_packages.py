# SPDX-License-Identifier: Apache-2.0
"""The packages of arrays by one set of names: what filters need of each."""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

Array = Any  # of whatever package


class Package:
    """NumPy, or CuPy, which has its names."""

    def __init__(self, module: Any, array: type, scans: Any) -> None:
        self.module, self.kind, self.scans = module, array, scans
        self.stack, self.where, self.isnan = module.stack, module.where, module.isnan
        self.moveaxis, self.broadcast_to, self.cumsum = module.moveaxis, module.broadcast_to, module.cumsum

    def precise(self, like: Array) -> Any:
        """The context in which the package computes with the precision of its arrays."""
        return contextlib.nullcontext()

    def name(self, dtype: Any) -> str:
        return str(np.dtype(dtype).name)

    def dtype(self, name: str) -> Any:
        return np.dtype(name)

    def promoted(self, arrays: Sequence[Array], others: Sequence[Array]) -> str:
        """The data type of results, by name, of arrays of the package and NumPy's beside them."""
        found = np.result_type(*(array.dtype for array in (*arrays, *others)))
        return "float64" if found.kind in "biu" else self.name(found)

    def cast(self, array: Array, dtype: Any) -> Array:
        return array.astype(dtype, copy=False)

    def array(self, value: Any, dtype: Any, like: Array) -> Array:
        return self.module.asarray(value, dtype)

    def zeros(self, shape: tuple[int, ...], like: Array) -> Array:
        return self.module.zeros(shape, like.dtype)

    def concat(self, arrays: Sequence[Array], axis: int) -> Array:
        return self.module.concatenate(arrays, axis)

    def flip(self, array: Array, axis: int) -> Array:
        return self.dense(self.module.flip(array, axis))

    def dense(self, array: Array) -> Array:
        """In memory as in order, without which NumPy multiplies matrices by loops of its own."""
        return self.module.ascontiguousarray(array)

    def matmul(self, left: Array, right: Array) -> Array:
        return self.module.matmul(left, right)

    def constant(self, array: Array) -> Array:
        """The same without derivatives."""
        return array

    def triangle(self, matrix: Array) -> Array:
        """R of the QR decomposition."""
        return self.module.linalg.qr(matrix, mode="r")

    def inverse(self, matrix: Array) -> Array:
        return self.module.linalg.inv(matrix)

    def run(self, function: Callable[..., Any], options: tuple[Any, ...], *arrays: Array) -> Any:
        """``function(package, options, *arrays)``, compiled as one program where the package compiles."""
        return function(self, options, *arrays)

    def known(self, array: Array, wait: bool = False) -> Any:
        """A NumPy array of the values, None where they are not to be had; those on a GPU are not without ``wait``."""
        if self.module is np:
            return array
        return array.get() if wait else None


class JaxPackage(Package):
    def __init__(self) -> None:
        import jax
        import jax.numpy as jnp

        from .. import jax as scans

        super().__init__(jnp, jax.Array, scans)
        self.jax = jax
        self.compiled = functools.lru_cache(maxsize=None)(functools.partial(jax.jit, static_argnums=(0, 1)))

    def dtype(self, name: str) -> Any:
        return self.jax.dtypes.canonicalize_dtype(name)  # float32 for float64 unless that is enabled

    def promoted(self, arrays: Sequence[Array], others: Sequence[Array]) -> str:
        complex_too = any(np.iscomplexobj(other) for other in others)
        return self.name(self.module.result_type(*arrays, *([np.complex64] if complex_too else [])))

    def cast(self, array: Array, dtype: Any) -> Array:
        return array.astype(dtype)

    def dense(self, array: Array) -> Array:
        return array

    def matmul(self, left: Array, right: Array) -> Array:
        return self.module.matmul(left, right, precision="highest")  # on GPUs the default is lower

    def run(self, function: Callable[..., Any], options: tuple[Any, ...], *arrays: Array) -> Any:
        return self.compiled(function)(self, options, *arrays)

    def constant(self, array: Array) -> Array:
        return self.jax.lax.stop_gradient(array)

    def known(self, array: Array, wait: bool = False) -> Any:
        if isinstance(array, np.ndarray):
            return array
        if isinstance(array, self.jax.core.Tracer):
            return None
        on_cpu = all(device.platform == "cpu" for device in array.devices())
        return np.asarray(array) if on_cpu or wait else None


class TorchPackage(Package):
    def __init__(self) -> None:
        import torch

        from .. import torch as scans

        super().__init__(torch, torch.Tensor, scans)

    def precise(self, like: Array) -> Any:
        return self.module.autocast(like.device.type, enabled=False)

    def name(self, dtype: Any) -> str:
        return str(dtype).removeprefix("torch.")

    def dtype(self, name: str) -> Any:
        return getattr(self.module, name)

    def promoted(self, arrays: Sequence[Array], others: Sequence[Array]) -> str:
        dtypes = [array.dtype for array in arrays]
        dtypes += [self.module.complex64 for other in others if np.iscomplexobj(other)]
        return self.name(functools.reduce(self.module.promote_types, dtypes))

    def cast(self, array: Array, dtype: Any) -> Array:
        return array.to(dtype)

    def array(self, value: Any, dtype: Any, like: Array) -> Array:
        if isinstance(value, self.module.Tensor):
            return value.to(dtype)
        # A copy, since tensors have no negative strides, and no memory that may not be written to.
        known = np.complex128 if np.iscomplexobj(value) else np.float64
        return self.module.as_tensor(np.array(value, known, order="C"), dtype=dtype, device=like.device)

    def zeros(self, shape: tuple[int, ...], like: Array) -> Array:
        return like.new_zeros(shape)

    def concat(self, arrays: Sequence[Array], axis: int) -> Array:
        return self.module.cat(list(arrays), axis)

    def flip(self, array: Array, axis: int) -> Array:
        return self.module.flip(array, (axis,))

    def dense(self, array: Array) -> Array:
        return array.contiguous()

    def constant(self, array: Array) -> Array:
        return array.detach()

    def triangle(self, matrix: Array) -> Array:
        return self.module.linalg.qr(matrix, mode="r")[1]

    def inverse(self, matrix: Array) -> Array:
        return self.module.linalg.inv_ex(matrix)[0]  # which does not wait for a GPU

    def known(self, array: Array, wait: bool = False) -> Any:
        if isinstance(array, np.ndarray):
            return array
        if array.device.type != "cpu" and not wait:
            return None
        with contextlib.suppress(RuntimeError):  # of tensors without values, as torch.func's are
            return array.detach().cpu().numpy()
        return None


@functools.lru_cache(maxsize=None)
def package_named(name: str) -> Package:
    if name == "torch":
        return TorchPackage()
    if name == "jax":
        return JaxPackage()
    import flashscan

    if name == "cupy":
        return Package(sys.modules["cupy"], sys.modules["cupy"].ndarray, flashscan)
    return Package(np, np.ndarray, flashscan)


def package_of(value: Any) -> str:
    for name, kind in (("torch", "Tensor"), ("jax", "Array"), ("cupy", "ndarray")):
        module = sys.modules.get(name)
        if module is not None and isinstance(value, getattr(module, kind, ())):
            return name
    return ""
