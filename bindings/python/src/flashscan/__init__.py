# SPDX-License-Identifier: Apache-2.0
"""Linear recurrences over sequences, forward and backward, on NumPy arrays.

``linear_scan`` computes ``h[t] = a[t] * h[t-1] + x[t]``, ``linear_scan_backward`` its gradients. Every failure is a
``FlashscanError``; a mistake in the arguments is also a ``ValueError`` or a ``TypeError``.
"""

from ._errors import FlashscanError, FlashscanTypeError, FlashscanValueError
from ._library import version as _version
from ._linear import linear_scan, linear_scan_backward

__version__ = _version()
__all__ = ["FlashscanError", "FlashscanTypeError", "FlashscanValueError", "linear_scan", "linear_scan_backward"]
