# SPDX-License-Identifier: Apache-2.0
"""What the tests on arrays of every package share."""

import flashscan
import pytest


def supported(call):
    """The result of a call, or a skip where the library has no kernel for it yet."""
    try:
        return call()
    except flashscan.FlashscanError as error:
        if error.status == 20:
            pytest.skip(f"no kernel: {error}")
        raise
