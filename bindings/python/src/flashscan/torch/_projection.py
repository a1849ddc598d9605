# SPDX-License-Identifier: Apache-2.0
"""LSTM whose h is projected before it is returned and fed back: r = P h, with R r for the recurrent product.

It is an LSTM with the recurrent weights R P. Only the r before the first step is no P h: R r is added to the product of
the first step's input instead.
"""

from __future__ import annotations

import torch
from torch.nn import functional

from ._types import Tensor


def projected(weight: Tensor, projection: Tensor) -> Tensor:
    """R P of R [G, 1, D, P] and P [P, D]."""
    return torch.matmul(weight, projection)


def enter(Wx: Tensor, weight: Tensor, r: Tensor, offsets: Tensor | None, axis: int, reverse: bool) -> Tensor:
    """Wx with R r of each sequence [N, P] added at its first step; time is ``axis``."""
    entering = functional.linear(r.to(Wx.dtype), weight.flatten(0, 2)).unflatten(-1, Wx.shape[2:])
    if offsets is None:
        if Wx.shape[axis] == 0:
            return Wx
        first = torch.tensor([Wx.shape[axis] - 1 if reverse else 0], device=Wx.device)
        return torch.index_add(Wx, axis, first, entering.unsqueeze(axis))
    begin, end = offsets[:-1].long(), offsets[1:].long()
    some = end > begin
    first = (end - 1 if reverse else begin)[some]
    return torch.index_add(Wx, axis, first, entering[some].unsqueeze(1 - axis))


def leave(h: Tensor, projection: Tensor, r: Tensor | None, offsets: Tensor | None, steps: bool) -> Tensor:
    """The r after the last step, [N, P]: of sequences without steps that before the first one."""
    last = functional.linear(h, projection.to(h.dtype))
    if r is None:
        return last
    if offsets is None:
        return last if steps else r.to(last.dtype)
    return torch.where((offsets[1:] > offsets[:-1])[:, None], last, r.to(last.dtype))
