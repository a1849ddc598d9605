# SPDX-License-Identifier: Apache-2.0
"""Types of arguments and results."""

from typing import Any, TypeVar

# NumPy's ndarray, a torch.Tensor, a CuPy array, or an array of another package that speaks DLPack or the CUDA array
# interface. Results are of the package that the first array of data is of.
Array = TypeVar("Array")
# An Array of the same package and device, or a list or number that it can be made of.
ArrayLike = Any
