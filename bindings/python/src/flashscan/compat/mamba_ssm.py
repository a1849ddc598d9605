# SPDX-License-Identifier: Apache-2.0
"""The signatures of mamba_ssm's selective scan and of its step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, overload

import torch

from .._errors import FlashscanTypeError, FlashscanValueError, naming
from ..torch import selective_scan, selective_step
from ..torch._types import Tensor, tensors

__all__ = ["selective_scan_fn", "selective_scan_ref", "selective_state_update"]

_selective_scan = naming(selective_scan, return_final_state="return_last_state")
_selective_step = naming(
    selective_step, u="x", delta="dt", delta_bias="dt_bias", delta_softplus="dt_softplus", state_indices="state_batch_indices"
)


def _of_steps(name: str, matrix: Tensor, A: Tensor) -> Tensor:
    """B or C; those of each step beside a complex A are real, a number's two parts side by side in time."""
    if matrix.dim() == 2 or not A.is_complex() or matrix.is_complex():
        return matrix
    if matrix.shape[-1:].numel() % 2:
        raise FlashscanValueError(
            f"{name} has shape {tuple(matrix.shape)}; accepted with a complex A are an even last extent, or a complex {name}"
        )
    return torch.view_as_complex(matrix.to(A.real.dtype).unflatten(-1, (-1, 2)).contiguous())


@overload
def selective_scan_fn(
    u: Tensor, delta: Tensor, A: Tensor, B: Tensor, C: Tensor, D: Tensor | None = None, z: Tensor | None = None,
    delta_bias: Tensor | None = None, delta_softplus: bool = False, return_last_state: Literal[False] = False,
) -> Tensor: ...  # fmt: skip
@overload
def selective_scan_fn(
    u: Tensor, delta: Tensor, A: Tensor, B: Tensor, C: Tensor, D: Tensor | None = None, z: Tensor | None = None,
    delta_bias: Tensor | None = None, delta_softplus: bool = False, *, return_last_state: Literal[True],
) -> tuple[Tensor, Tensor]: ...  # fmt: skip
@overload
def selective_scan_fn(
    u: Tensor, delta: Tensor, A: Tensor, B: Tensor, C: Tensor, D: Tensor | None = None, z: Tensor | None = None,
    delta_bias: Tensor | None = None, delta_softplus: bool = False, return_last_state: bool = False,
) -> Tensor | tuple[Tensor, Tensor]: ...  # fmt: skip
def selective_scan_fn(
    u: Tensor,
    delta: Tensor,
    A: Tensor,
    B: Tensor,
    C: Tensor,
    D: Tensor | None = None,
    z: Tensor | None = None,
    delta_bias: Tensor | None = None,
    delta_softplus: bool = False,
    return_last_state: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """``mamba_ssm.ops.selective_scan_interface.selective_scan_fn``.

    Args:
        u, delta, z: (B, D, L), of one dtype.
        A: (D, N), float32 or complex64 (float64 or complex128 with float64 data).
        B, C: (D, N) of A's dtype, or (B, N, L) or (B, G, N, L) of u's dtype; with a complex A of twice the length, real and
            imaginary parts side by side, or complex.
        D, delta_bias: (D), float32.

    Returns:
        out, (B, D, L), or (out, last_state) with the last state (B, D, N), whose gradient counts here. Differentiable in
        every tensor, with the same bits on every run.
    """
    tensors(u=u, delta=delta, A=A, B=B, C=C)
    B, C = _of_steps("B", B, A), _of_steps("C", C, A)
    return _selective_scan(
        u, delta, A, B, C, D, z, delta_bias, delta_softplus=delta_softplus, layout="bct", return_final_state=return_last_state
    )


selective_scan_ref = selective_scan_fn


def _check_shapes(shape: torch.Size, **named: Tensor | None) -> None:
    for name, array in named.items():
        if array is not None and array.shape != shape:
            raise FlashscanValueError(f"{name} has shape {tuple(array.shape)}; accepted is {tuple(shape)}")


def _check_rows(indices: Tensor, rows: int) -> None:
    """On a GPU numbers are not looked at, for which the host would have to wait."""
    if indices.is_floating_point() or indices.is_complex():
        raise FlashscanTypeError(f"state_batch_indices has dtype {indices.dtype}; accepted are integers")
    if indices.device.type == "cpu" and indices.numel() and int(indices.max()) >= rows:
        raise FlashscanValueError(f"state_batch_indices has {int(indices.max())}; accepted are -1 (no state) and 0 to {rows - 1}")


def selective_state_update(
    state: Tensor,
    x: Tensor,
    dt: Tensor,
    A: Tensor,
    B: Tensor,
    C: Tensor,
    D: Tensor | None = None,
    z: Tensor | None = None,
    dt_bias: Tensor | None = None,
    dt_softplus: bool = False,
    state_batch_indices: Tensor | None = None,
) -> Tensor:
    """``mamba_ssm.ops.triton.selective_state_update.selective_state_update``: one step, without gradients.

    Args:
        state: (B, D, N), or (B, H, P, N) with H heads; becomes the state after the step.
        x, dt, z: (B, D) or (B, H, P).
        A: (D, N) or (H, P, N), float32.
        B, C: (B, N) or (B, G, N).
        D, dt_bias: (D) or (H, P).
        state_batch_indices: (B); row i has its state in ``state[state_batch_indices[i]]``. A negative index marks
            padding, whose output is 0.

    16-bit x, dt, z, B and C that are not of one dtype are taken in float32.

    Returns:
        out, of the shape and dtype of x.
    """
    tensors(state=state, x=x, dt=dt, A=A, B=B, C=C)
    tensors(True, D=D, z=z, dt_bias=dt_bias, state_batch_indices=state_batch_indices)
    if state.dim() not in (3, 4) or x.shape[1:] != state.shape[1:-1]:
        raise FlashscanValueError(
            f"state has shape {tuple(state.shape)} and x {tuple(x.shape)}; accepted are (B, D, N) and (B, D), or "
            "(B, H, P, N) and (B, H, P)"
        )
    _check_shapes(x.shape, dt=dt, z=z)
    _check_shapes(x.shape[1:], D=D, dt_bias=dt_bias)
    _check_shapes(state.shape[1:], A=A)
    _check_shapes(x.shape[:1], state_batch_indices=state_batch_indices)
    if state_batch_indices is not None:
        _check_rows(state_batch_indices, state.shape[0])
    width, states = x[0].numel() if x.shape[0] else state[0, ..., 0].numel(), state.shape[-1]
    narrow = x.dtype in (torch.bfloat16, torch.float16)
    mixed = narrow and any(array is not None and array.dtype != x.dtype for array in (dt, z, B, C))
    dtype = torch.float32 if mixed else x.dtype
    row: Callable[[Tensor | None], Any] = lambda array: None if array is None else array.to(dtype).reshape(x.shape[0], width)
    channel: Callable[[Tensor | None], Any] = lambda array: None if array is None else array.to(A.dtype).reshape(width)
    rows = None if state_batch_indices is None else state_batch_indices.int().clamp_min(-1)
    steps = (row(x), row(dt), A.reshape(width, states), B.to(dtype), C.to(dtype))
    more = (channel(D), row(z), channel(dt_bias))
    with torch.no_grad():
        if state.dtype == A.dtype and state.is_contiguous():  # updated where it is
            pool = state.view(state.shape[0], width, states)
            out: Tensor = _selective_step(*steps, pool, *more, delta_softplus=dt_softplus, state_indices=rows)
            return torch.reshape(out.to(x.dtype), x.shape)
        kept = slice(None) if rows is None else (rows >= 0).nonzero()[:, 0]
        places = kept if rows is None else rows[kept].long()
        held = state.new_zeros(x.shape[0], width, states, dtype=A.dtype)
        held[kept] = state[places].reshape(-1, width, states).to(A.dtype)
        out = _selective_step(*steps, held, *more, delta_softplus=dt_softplus)
        state[places] = held[kept].reshape(-1, *state.shape[1:]).to(state.dtype)
        if rows is not None:
            out = out.masked_fill((rows < 0)[:, None], 0)
    return torch.reshape(out.to(x.dtype), x.shape)
