# SPDX-License-Identifier: Apache-2.0
"""Filters with scipy.signal's arguments and results, and exponentially weighted means with pandas's.

Every function takes arrays of NumPy, CuPy, PyTorch and JAX, on the CPU and on GPUs, and returns arrays of the same
package: of PyTorch's or JAX's where any argument is one. There they are differentiable in the signal, the coefficients
and the initial state, through ``flashscan.torch`` and ``flashscan.jax``, with these functions' limits: in
PyTorch once, in either mode, and in JAX any number of times. PyTorch's autocast does not concern them.

A filter goes through time in blocks. Products of matrices give what a block does by itself and what its initial state
adds, and an ``affine_scan`` with one matrix for a whole block gives the states between. The matrices are computed in
float64 where the package has it, whatever the dtype of the signal.
"""

from ._filters import lfilter
from ._means import ewm_mean
from ._sections import sosfilt, sosfilt_zi, sosfiltfilt

__all__ = ["ewm_mean", "lfilter", "sosfilt", "sosfilt_zi", "sosfiltfilt"]
