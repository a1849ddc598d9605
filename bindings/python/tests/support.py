# SPDX-License-Identifier: Apache-2.0
"""What the tests on arrays of every package share."""

import flashscan
import numpy as np
import pytest


def supported(call):
    """The result of a call, or a skip where the library has no kernel for it yet."""
    try:
        return call()
    except flashscan.FlashscanError as error:
        if error.status == 20:
            pytest.skip(f"no kernel: {error}")
        raise


def equals_of_host(got, expected):
    """Checks JAX's result against that of a NumPy call on the CPU: its bits, or on a GPU within roundings."""
    if next(iter(got.devices())).platform == "cpu":
        np.testing.assert_array_equal(np.asarray(got), expected)
        return
    assert got.dtype == expected.dtype
    tolerance = {"float64": 1e-12, "complex128": 1e-12, "float32": 1e-5, "complex64": 1e-5}.get(str(got.dtype), 2e-2)
    wide = np.result_type(expected.dtype, np.float64) if expected.dtype.kind in "fc" else np.float64
    np.testing.assert_allclose(np.asarray(got).astype(wide), expected.astype(wide), rtol=tolerance, atol=tolerance)
