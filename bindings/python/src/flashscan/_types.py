# SPDX-License-Identifier: Apache-2.0
"""Types of arguments and results."""

from typing import Any

Array = Any
"""NumPy's ndarray, a torch.Tensor, a CuPy array, or an array of another package that speaks DLPack or the CUDA array
interface: results are of the package that the first array of data is of."""

ArrayLike = Any
"""An Array, or where NumPy is used what it can make one of."""
