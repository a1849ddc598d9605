# SPDX-License-Identifier: Apache-2.0
"""Recurrences over sequences, forward and backward, on NumPy arrays.

``linear_scan`` computes ``h[t] = a[t] * h[t-1] + x[t]``, ``rnn`` LSTM, GRU, Elman and sLSTM networks, ``prefix_scan``
and ``reduce`` scans and reductions with any associative operator, ``affine_scan`` ``x[t] = W[t] x[t-1] + b[t]`` with
matrices; the functions whose names end in ``_backward`` their gradients. Every failure is a ``FlashscanError``; a
mistake in the arguments is also a ``ValueError`` or a ``TypeError``.
"""

from ._affine import affine_scan, affine_scan_backward
from ._errors import FlashscanError, FlashscanTypeError, FlashscanValueError
from ._library import version as _version
from ._linear import linear_scan, linear_scan_backward
from ._operator import HostOperator, prefix_scan, prefix_scan_backward, reduce, reduce_backward
from ._rnn import rnn, rnn_backward

__version__ = _version()
__all__ = [
    "FlashscanError",
    "FlashscanTypeError",
    "FlashscanValueError",
    "HostOperator",
    "affine_scan",
    "affine_scan_backward",
    "linear_scan",
    "linear_scan_backward",
    "prefix_scan",
    "prefix_scan_backward",
    "reduce",
    "reduce_backward",
    "rnn",
    "rnn_backward",
]
