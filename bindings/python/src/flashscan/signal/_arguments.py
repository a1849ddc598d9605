# SPDX-License-Identifier: Apache-2.0
"""The arrays of a call, as those of one package and one data type."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from .. import _foreign
from .._call import integer
from .._errors import FlashscanTypeError, FlashscanValueError
from ._packages import Array, Package, TorchPackage, package_named, package_of

# Data types by name, and those of coefficients and states beside them.
_WIDE = {"float32": "float64", "float64": "float64", "complex64": "complex128", "complex128": "complex128"}


class Arguments:
    """The arrays of a call, those that are given, as arrays of one package and of one dtype, wide or not.

    ``dtype`` is that of the results: NumPy's promotion of all that is given in NumPy and CuPy; in PyTorch and JAX the
    promotion of their own arrays, so that Python's numbers and NumPy's arrays do not widen them. Arrays without axes
    count where there are no others.
    """

    def __init__(
        self,
        needed: dict[str, Any],
        optional: dict[str, Any] | None = None,
        accepted: Sequence[str] = tuple(_WIDE),
    ) -> None:
        for name, value in needed.items():
            if value is None:
                raise FlashscanTypeError(f"{name} is None; accepted are arrays")
        given = needed | {name: value for name, value in (optional or {}).items() if value is not None}
        names = [name for name in map(package_of, given.values()) if name]
        self.package = package_named(names[0] if names else "numpy")
        own: dict[str, Any] = {}
        others: dict[str, Any] = {}
        for name, value in given.items():
            made = value if isinstance(value, self.package.kind) else self._made(name, value)
            (own if isinstance(made, self.package.kind) else others)[name] = made
        self.values = own | others
        self.like = next(iter(own.values()), None)
        self._check_devices(own)
        with_axes = [[array for array in each.values() if len(array.shape)] for each in (own, others)]
        found = self.package.promoted(with_axes[0] or list(own.values()), with_axes[1])
        if found not in accepted:
            dtypes = ", ".join(f"{name} {value.dtype}" for name, value in self.values.items())
            raise FlashscanTypeError(f"the data type is {found}, from {dtypes}; accepted are {', '.join(accepted)}")
        self.dtype = self.package.dtype(found)
        self._wide = _WIDE[found]
        self.wide = self.package.dtype(self._wide)

    def _made(self, name: str, value: Any) -> Any:
        """A NumPy array of what is none of the package's."""
        if package_of(value) or _foreign.is_foreign(value):
            raise FlashscanTypeError(
                f"{name} is a {type(value).__module__}.{type(value).__name__} where "
                f"{self.package.kind.__module__} decides; accepted are arrays of one package, NumPy's among them"
            )
        try:
            array = np.asarray(value)
        except (TypeError, ValueError, OverflowError) as error:
            raise FlashscanTypeError(
                f"{name} is {value!r}, of which no array can be made; accepted are arrays"
            ) from error
        if array.dtype.kind not in "biufc":
            raise FlashscanTypeError(f"{name} is {value!r}, which is not made of numbers; accepted are arrays")
        return array

    def _check_devices(self, own: dict[str, Any]) -> None:
        if not isinstance(self.package, TorchPackage):
            return
        first, device = next(iter(own)), next(iter(own.values())).device
        for name, value in own.items():
            if value.device != device:
                raise FlashscanValueError(f"{name} is on {value.device}; accepted is {device}, as {first} is")

    def shape(self, name: str) -> tuple[int, ...]:
        return tuple(self.values[name].shape)

    def __contains__(self, name: str) -> bool:
        return name in self.values

    def get(self, name: str, dtype: Any) -> Any:
        return self.package.array(self.values[name], dtype, self.like)

    def coefficients(self, *names: str) -> tuple[Package, list[Array]]:
        """Wide arrays, of NumPy where none of them is one of the package's: small matrices are faster on the CPU, and
        NumPy has float64."""
        own = any(isinstance(self.values[name], self.package.kind) for name in names)
        package = self.package if own else package_named("numpy")
        return package, [package.array(self.values[name], package.dtype(self._wide), self.like) for name in names]

    def moved(self, package: Package, *arrays: Array) -> list[Array]:
        """Arrays of another package as wide ones of this one's."""
        if package is self.package:
            return list(arrays)
        return [self.package.array(array, self.wide, self.like) for array in arrays]

    @contextlib.contextmanager
    def quiet(self) -> Iterator[None]:
        """The context in which everything is computed: results show overflows, and nothing warns of them."""
        with np.errstate(all="ignore"), self.package.precise(self.like):
            yield


def axis_of(given: Arguments, axis: Any) -> int:
    shape, axis = given.shape("x"), integer("axis", axis)
    if not -len(shape) <= axis < len(shape):
        raise FlashscanValueError(f"axis is {axis} and x has shape {shape}; accepted is one of its axes")
    return int(axis % len(shape))


def not_zero(package: Package, name: str, coefficients: Array, what: str) -> None:
    """Refuses leading coefficients of 0 that can be seen; of others the results are not finite."""
    values = package.known(coefficients)
    if values is not None and not np.all(values):
        raise FlashscanValueError(f"{name} has {what} 0; accepted are other values, by which filters are divided")


def rows(package: Package, x: Array, axis: int) -> tuple[Array, tuple[int, ...]]:
    """x as [rows, time], and its shape with time last."""
    x = package.moveaxis(x, axis, -1)
    shape = tuple(x.shape)
    return package.dense(x.reshape(math.prod(shape[:-1]), shape[-1])), shape


def back(package: Package, y: Array, shape: tuple[int, ...], axis: int) -> Array:
    """What ``rows`` has taken apart."""
    return package.moveaxis(y.reshape(shape), -1, axis)
