# SPDX-License-Identifier: Apache-2.0
"""Recurrences over sequences, forward and backward, on NumPy arrays.

``linear_scan`` computes ``h[t] = a[t] * h[t-1] + x[t]``, ``rnn`` LSTM, GRU, Elman and sLSTM networks;
``linear_scan_backward`` and ``rnn_backward`` compute their gradients. Every failure is a
``FlashscanError``; a mistake in the arguments is also a ``ValueError`` or a ``TypeError``.
"""

from ._errors import FlashscanError, FlashscanTypeError, FlashscanValueError
from ._library import version as _version
from ._linear import linear_scan, linear_scan_backward
from ._rnn import rnn, rnn_backward

__version__ = _version()
__all__ = [
    "FlashscanError",
    "FlashscanTypeError",
    "FlashscanValueError",
    "linear_scan",
    "linear_scan_backward",
    "rnn",
    "rnn_backward",
]
