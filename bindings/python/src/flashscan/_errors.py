# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

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


_WORD = re.compile(r"""(?<![\w.'"])(?:GRAD\|)?[A-Za-z_]\w*(?:\.\w+)*""")


def renamed(message: str, names: Mapping[str, str]) -> str:
    """``message`` with other names for what it names. Words in quotes are values, and further lines a compiler's."""
    sentence, newline, rest = message.partition("\n")
    return _WORD.sub(lambda found: names.get(found[0], found[0]), sentence) + newline + rest


_Function = TypeVar("_Function", bound=Callable[..., Any])


def naming(function: _Function, **names: str) -> _Function:
    """``function`` for callers whose own arguments have other names than its: ``names`` has theirs by its."""

    @functools.wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        try:
            return function(*args, **options)
        except FlashscanError as error:
            error.args = (renamed(str(error), names),)
            raise

    named: Any = call
    result: _Function = named
    return result
