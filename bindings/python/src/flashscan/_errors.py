# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

INVALID_ARGUMENT = 10
LAST_CALLER_MISTAKE = ALIASING = 19
UNSUPPORTED = 20


class FlashscanError(RuntimeError):
    """A call failed. ``status`` is the number of the ``flashscan_status``; the message says what was accepted."""

    def __init__(self, message: str, status: int = INVALID_ARGUMENT) -> None:
        super().__init__(message)
        self.status = status


class FlashscanValueError(FlashscanError, ValueError):
    """An argument has a value or a shape that is not accepted."""


class FlashscanTypeError(FlashscanError, TypeError):
    """An argument has a type or a dtype that is not accepted."""


class FlashscanNotImplementedError(FlashscanError, NotImplementedError):
    """A derivative or a transform that the function named in the message does not have."""

    def __init__(self, message: str, status: int = UNSUPPORTED) -> None:
        super().__init__(message, status)
