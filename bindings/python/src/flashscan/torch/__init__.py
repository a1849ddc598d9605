# SPDX-License-Identifier: Apache-2.0
"""flashscan for PyTorch: functions with autograd, on the CPU and on GPUs, under torch.compile and autocast; modules.

The functions are those of ``flashscan`` without their ``_backward``s. They are operators of ``torch.ops.flashscan``,
run on the current stream, and take memory from PyTorch. Gradients may be asked for any number of times. Forward-mode
derivatives (``torch.autograd.forward_ad``, ``torch.func.jvp``) of ``linear_scan``, ``gated_scan``, ``affine_scan``, and
of ``prefix_scan`` and ``reduce`` with operators that are names are computed, as are derivatives of any order of
``linear_scan`` and ``gated_scan``, and all of these under ``torch.func``'s transforms; others are refused with the name
of the function by a ``FlashscanNotImplementedError``. ``LSTM``, ``GRU``, ``MGU``, ``Elman`` and ``SLSTM`` are layers in
the manner of ``torch.nn.LSTM``, with heads; ``from_torch`` converts torch.nn's. ``LSTMCell``, ``GRUCell`` and
``RNNCell`` are torch.nn's cells, with their parameters. ``LinearRecurrence`` is a layer around ``linear_scan``;
``MinGRU``, ``MinLSTM``, ``HGRN``, ``RGLRU`` and ``QRNN`` are layers around ``gated_scan``, and ``Mamba`` is the block
around ``selective_scan``; all of these decode with ``step``. ``linear_step``, ``gated_step``, ``selective_step`` and
``rnn_step``, for decoding alone, are ``flashscan``'s own, without autograd.
"""

from .._step import gated_step, linear_step, rnn_step, selective_step
from ._cells import GRUCell, LSTMCell, RNNCell
from ._gated import gated_scan
from ._gated_layers import HGRN, QRNN, MinGRU, MinLSTM
from ._linear import linear_scan
from ._mamba import Mamba
from ._operator import affine_scan, prefix_scan, reduce
from ._recurrences import LinearRecurrence
from ._recurrent import GRU, LSTM, MGU, SLSTM, Elman, Recurrent, from_torch
from ._rglru import RGLRU
from ._rnn import rnn
from ._selective import selective_scan

__all__ = [
    "GRU",
    "GRUCell",
    "HGRN",
    "LSTM",
    "LSTMCell",
    "MGU",
    "QRNN",
    "RGLRU",
    "RNNCell",
    "SLSTM",
    "Elman",
    "LinearRecurrence",
    "Mamba",
    "MinGRU",
    "MinLSTM",
    "Recurrent",
    "affine_scan",
    "from_torch",
    "gated_scan",
    "gated_step",
    "linear_scan",
    "linear_step",
    "prefix_scan",
    "reduce",
    "rnn",
    "rnn_step",
    "selective_scan",
    "selective_step",
]
