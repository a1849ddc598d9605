# SPDX-License-Identifier: Apache-2.0
"""Scans with the installed package, forward and backward, and compares with a loop."""

import numpy as np

from flashscan import linear_scan, linear_scan_backward

rng = np.random.default_rng(0)
gate, x = rng.uniform(0.9, 1.0, (2, 4, 2000, 64)).astype(np.float32)
h = linear_scan(gate, x)
grad_gate, grad_x, _ = linear_scan_backward(gate, h, np.ones_like(h))

expected, grad_expected = np.zeros(h.shape), np.zeros(h.shape)
for t in range(2000):
    expected[:, t] = x[:, t] + (gate[:, t].astype(float) * expected[:, t - 1] if t else 0)
for t in reversed(range(2000)):
    grad_expected[:, t] = 1 + (gate[:, t + 1].astype(float) * grad_expected[:, t + 1] if t < 1999 else 0)
np.testing.assert_allclose(h, expected, rtol=1e-5)
np.testing.assert_allclose(grad_x, grad_expected, rtol=1e-5)
np.testing.assert_allclose(grad_gate[:, 1:], grad_expected[:, 1:] * expected[:, :-1], rtol=1e-4)
print("forward and backward agree with a loop")
