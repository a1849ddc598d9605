# SPDX-License-Identifier: Apache-2.0
"""Arrays of the caller's that results are written to."""

from __future__ import annotations

from typing import Any

from ._call import space_of
from ._errors import FlashscanTypeError


def check_out(out: Any, like: Any) -> None:
    """Refuses what is no array of the package of ``like``, whose result it takes."""
    if out is None or like is None:
        return
    space = space_of(like)
    if space is None or not isinstance(out, space.kind):
        accepted = "None with arrays of packages other than NumPy, PyTorch and CuPy"
        if space is not None:
            accepted = f"{space.kind.__module__}.{space.kind.__name__}, as the result is"
        raise FlashscanTypeError(f"out is a {type(out).__module__}.{type(out).__name__}; accepted is {accepted}")
