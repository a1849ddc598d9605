# SPDX-License-Identifier: Apache-2.0
"""Recurrences over sequences, forward and backward, on arrays of NumPy, PyTorch, CuPy and packages that speak DLPack.

``linear_scan`` computes ``h[t] = a[t] * h[t-1] + x[t]``, ``rnn`` LSTM, GRU, MGU, Elman and sLSTM networks, ``prefix_scan``
and ``reduce`` scans and reductions with any associative operator, ``affine_scan`` ``x[t] = W[t] x[t-1] + b[t]`` with
matrices, ``gated_scan`` the layers around a linear recurrence, ``selective_scan`` Mamba's state-space layer; the functions
whose names end in ``_backward`` their gradients, and those that end in ``_step`` one step with the state updated in place.
They read arrays where they lie, on the CPU or on a GPU, there on the
caller's current stream, and return arrays of the same package. ``flashscan.torch`` has them with
autograd, and modules; ``flashscan.signal`` has scipy's filters; ``flashscan.compat`` has other packages' signatures. What flashscan
refuses, and failures of its library, are a ``FlashscanError``; a mistake in the arguments is also a ``ValueError`` or a
``TypeError``, and a derivative that there is not a ``NotImplementedError``. What NumPy, PyTorch, CuPy or JAX raise themselves,
for want of memory for example, comes out as it is, and where a program of JAX runs a failure is JAX's error with the same
sentence.
"""

from ._affine import affine_scan, affine_scan_backward
from ._errors import FlashscanError, FlashscanNotImplementedError, FlashscanTypeError, FlashscanValueError
from ._gated import gated_scan, gated_scan_backward
from ._info import device_count
from ._library import version as _version
from ._linear import linear_scan, linear_scan_backward
from ._operator import CudaOperator, HostOperator, prefix_scan, prefix_scan_backward, reduce, reduce_backward
from ._rnn import rnn, rnn_backward
from ._selective import selective_scan, selective_scan_backward
from ._step import RnnStep, gated_step, linear_step, rnn_step, selective_step

__version__ = _version()
__all__ = [
    "CudaOperator",
    "FlashscanError",
    "FlashscanNotImplementedError",
    "FlashscanTypeError",
    "FlashscanValueError",
    "HostOperator",
    "RnnStep",
    "affine_scan",
    "affine_scan_backward",
    "device_count",
    "gated_scan",
    "gated_scan_backward",
    "gated_step",
    "linear_scan",
    "linear_scan_backward",
    "linear_step",
    "prefix_scan",
    "prefix_scan_backward",
    "reduce",
    "reduce_backward",
    "rnn",
    "rnn_backward",
    "rnn_step",
    "selective_scan",
    "selective_scan_backward",
    "selective_step",
]
