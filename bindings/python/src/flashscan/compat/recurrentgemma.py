# SPDX-License-Identifier: Apache-2.0
"""The signature of recurrentgemma's ``recurrentgemma.jax.scan.linear_scan``, for JAX arrays and for PyTorch's tensors."""

from __future__ import annotations

import functools
import importlib
import sys
from typing import Any

from .._call import flag
from .._errors import FlashscanTypeError, FlashscanValueError, naming

__all__ = ["linear_scan"]


def _is_tensor(value: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def _check(x: Any, a: Any, h0: Any) -> None:
    for name, array in (("x", x), ("a", a), ("h0", h0)):
        if not hasattr(array, "shape") and not (name == "h0" and array is None):
            raise FlashscanTypeError(f"{name} is {array!r}; accepted are arrays")
    inputs, gates = tuple(x.shape), tuple(a.shape)
    if len(inputs) == 3 and 0 < len(gates) <= 3 and gates == inputs[-len(gates) :]:
        return
    if len(gates) == 3 and 0 < len(inputs) < 3 and inputs == gates[-len(inputs) :]:
        raise FlashscanValueError(
            f"x has shape {inputs} and a has shape {gates}, as if they were swapped; the input x [B, T, D] comes first, "
            "then the gate a, which may lack leading axes"
        )
    raise FlashscanValueError(
        f"x has shape {inputs} and a has shape {gates}; accepted are [B, T, D] for the input x, which comes first, and "
        "its last axes for the gate a"
    )


def _cast(array: Any, dtype: Any) -> Any:
    return array.to(dtype) if _is_tensor(array) else array.astype(dtype)


def _in_float64(array: Any) -> Any:
    """The array in float64 or complex128."""
    if _is_tensor(array):
        return array.cdouble() if array.is_complex() else array.double()
    jax: Any = importlib.import_module("jax")
    if str(jax.dtypes.canonicalize_dtype("float64")) != "float64":
        raise FlashscanValueError("acc_float_dtype is float64; accepted is float32 without jax_enable_x64")
    return _cast(array, "complex128" if "complex" in str(array.dtype) else "float64")


@functools.cache
def _scan_of(package: str) -> Any:
    module: Any = importlib.import_module(f"flashscan.{package}")
    return naming(module.linear_scan, gate="a", input="x", initial_state="h0")


def linear_scan(
    x: Any,
    a: Any,
    h0: Any = None,
    reverse: bool = False,
    scan_type: Any = None,
    acc_float_dtype: Any = None,
    sharding_spec: Any = None,
    unroll: int = 1,
    **pallas: Any,
) -> tuple[Any, Any]:
    """``y[t] = a[t] * y[t-1] + x[t]``; the input comes first, the gate second.

    Args:
        x: [B, T, D], an array of JAX or a tensor of PyTorch; float32, bfloat16, float16, float64, complex64 or
            complex128.
        a: the gate, of x's shape or its last axes; of x's dtype, or float32 with 16-bit x.
        h0: the state before the first step, [B, D]; zeros if not given.
        reverse: from the last step to the first.
        scan_type, unroll, and arguments whose name begins with ``pallas_``: of no consequence.
        acc_float_dtype: float32 or not given, with which sums are in float32, or in float64 for float64 data; float64, with
            which narrower data are taken in float64. JAX needs ``jax_enable_x64`` for it.
        sharding_spec: None; sharded arrays are accepted under ``jax.jit``, cut along the batch and channels.

    Returns:
        ``(y, last)``: [B, T, D] of x's dtype and the state after the last step, [B, D], of the dtype of sums;
        differentiable in x, a and h0.

    Raises:
        FlashscanError: what is wrong, and what is accepted; also where shapes show that x and a were swapped. Where both
            have one shape nothing can show it.
    """
    _check(x, a, h0)
    if sharding_spec is not None:
        raise FlashscanValueError("sharding_spec is given; accepted is None, with arrays that are sharded themselves")
    accumulator = getattr(acc_float_dtype, "__name__", str(acc_float_dtype)).removeprefix("torch.")
    if acc_float_dtype is not None and accumulator not in ("float32", "float64"):
        raise FlashscanValueError(f"acc_float_dtype is {accumulator}; accepted are float32 and float64")
    for name in pallas:
        if not name.startswith("pallas_"):
            raise FlashscanTypeError(f"linear_scan has no argument {name}; accepted are those of recurrentgemma")
    given = x.dtype
    if accumulator == "float64":
        x, a, h0 = (None if array is None else _in_float64(array) for array in (x, a, h0))
    y, last = _scan_of("torch" if _is_tensor(x) else "jax")(a, x, h0, reverse=flag("reverse", reverse), return_final_state=True)
    return (y if y.dtype == given else _cast(y, given)), last
