# SPDX-License-Identifier: Apache-2.0
"""flashscan.torch.gated_scan: gradients, and equality with NumPy's."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import flashscan  # noqa: E402
from flashscan.torch import gated_scan  # noqa: E402


def tensors(count, *shape):
    rng = np.random.default_rng(5)
    return [torch.tensor(rng.standard_normal(shape), requires_grad=True) for _ in range(count)]


@pytest.mark.parametrize("layer", ["mingru", "minlstm", "hgrn", "rglru", "qrnn", "gilr"])
def test_gradients(layer):
    gate, x, other = tensors(3, 1, 6, 2)
    (state,), (bias, param) = tensors(1, 1, 2), tensors(2, 2)
    extra = {"minlstm": "second_gate", "rglru": "input_gate", "qrnn": "output_gate"}.get(layer)

    def run(gate, x, other, state, bias, param):
        given = {extra: other} if extra else {}
        if layer in ("hgrn", "rglru"):
            given["param"] = torch.sigmoid(param)
        return gated_scan(gate, x, state, layer=layer, bias=bias, return_final_state=True, **given)

    assert torch.autograd.gradcheck(run, (gate, x, other, state, bias, param))


def test_equals_numpy_and_keeps_dtypes():
    gate, x = (tensor.detach().bfloat16() for tensor in tensors(2, 2, 9, 4))
    out = gated_scan(gate.float(), x, layer="gilr")
    assert out.dtype == torch.bfloat16
    wide = flashscan.gated_scan(gate.double().numpy(), x.double().numpy(), layer="gilr")
    torch.testing.assert_close(out.double(), torch.tensor(wide), rtol=1e-2, atol=1e-2)


def test_second_derivatives_are_refused():
    gate, x = tensors(2, 1, 4, 2)
    (first,) = torch.autograd.grad(gated_scan(gate, x, layer="mingru").sum(), gate, create_graph=True)
    with pytest.raises(NotImplementedError, match="gated_scan"):
        first.sum().backward()
