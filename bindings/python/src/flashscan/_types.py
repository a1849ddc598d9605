# SPDX-License-Identifier: Apache-2.0
"""Types of arguments and results."""

from typing import Any, Literal, TypeVar

# NumPy's ndarray, a torch.Tensor, a CuPy array, or an array of another package that speaks DLPack or the CUDA array
# interface. Results are of the package that the first array of data is of; states beside 16-bit data are wider than
# annotations say.
Array = TypeVar("Array")
# An Array of the same package and device, or a list or number that it can be made of.
ArrayLike = Any

# These are the words that options accept. The tables of the functions have them too, and a test compares both.
Layout = Literal["btc", "bct"]
NetworkLayout = Literal["btghd", "tbghd"]
GateForm = Literal["value", "log", "logit"]
Cell = Literal["lstm", "gru", "elman", "slstm", "gru_reset_before", "elman_relu", "mgu"]
Layer = Literal["mingru", "minlstm", "hgrn", "rglru", "qrnn", "gilr"]
Decay = Literal["value", "exp", "sigmoid", "one_minus_sigmoid", "lower_bound", "softplus", "ratio"]
Scale = Literal["one", "one_minus", "sqrt"]
Activation = Literal["none", "tanh", "silu", "positive"]
Epilogue = Literal["none", "sigmoid", "silu", "tanh_sigmoid"]
NumberOperator = Literal["add", "mul", "min", "max", "logaddexp", "and", "or", "xor"]
OperatorName = Literal[NumberOperator, "matmul"]
