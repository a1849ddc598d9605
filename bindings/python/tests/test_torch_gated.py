# SPDX-License-Identifier: Apache-2.0
"""flashscan.torch.gated_scan: gradients of all orders, equality with NumPy's, and the composition that stands for it."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import flashscan  # noqa: E402
from flashscan import _gated  # noqa: E402
from flashscan.torch import _gated as torch_gated  # noqa: E402
from flashscan.torch import gated_scan  # noqa: E402
from torch_support import close, needs_compile  # noqa: E402

# PyTorch's own: of vmap, which walks over our calls, and of forward mode and the compiler.
pytestmark = pytest.mark.filterwarnings("ignore")
needs_func = pytest.mark.skipif(not hasattr(torch, "func"), reason="torch.func needs 2.0")


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


# Every part at least once, with what else changes the composition.
PARTS = {
    "value": ({"decay": "value", "scale": "sqrt", "epilogue": "silu"}, ("output_gate",)),
    "exp": ({"decay": "exp", "scale": "one_minus", "epilogue": "tanh_sigmoid"}, ("output_gate", "bias")),
    "sigmoid": ({"decay": "sigmoid", "activation": "tanh", "layout": "bct"}, ("input_gate", "bias")),
    "one_minus_sigmoid": ({"decay": "one_minus_sigmoid", "activation": "positive", "reverse": True}, ()),
    "lower_bound": ({"decay": "lower_bound", "scale": "one_minus", "layout": "bct"}, ("param", "input_gate")),
    "softplus": ({"decay": "softplus", "scale": "sqrt", "first_step": True, "layout": "bct"}, ("param", "bias")),
    "ratio": ({"decay": "ratio", "scale": "sqrt", "activation": "silu", "reverse": True}, ("second_gate",)),
    "rate": ({"decay": "softplus", "decay_rate": 3.0, "scale": "one_minus"}, ("param",)),
}
PLACES = {
    "rows": {},
    "resets": {"reset": True},
    "packed": {"seq_offsets": [0, 2, 2, 5]},
    "packed, resets": {"seq_offsets": [0, 1, 4, 6], "reset": True},
}
NEEDED = {
    "minlstm": ("second_gate",),
    "hgrn": ("param",),
    "rglru": ("input_gate", "param", "bias"),
    "qrnn": ("output_gate",),
}


def problem(case, place="rows", with_state=True, time=6):
    """A function of tensors, and those: all that a layer or some parts may be given."""
    options, names = PARTS.get(case, ({"layer": case}, NEEDED.get(case, ())))
    rng = np.random.default_rng(11)
    where = dict(PLACES[place])
    rows = 1 if "seq_offsets" in where else 2
    shape = (rows, time, 2) if options.get("layout") != "bct" else (rows, 2, time)
    if "reset" in where:
        where["reset"] = torch.tensor(rng.random((rows, time)) < 0.4)
    states = len(where["seq_offsets"]) - 1 if "seq_offsets" in where else rows
    shapes = {"gate": shape, "input": shape, **({"initial_state": (states, 2)} if with_state else {})}
    shapes.update({name: (2,) if name in ("param", "bias") else shape for name in names})
    given = {name: torch.tensor(rng.standard_normal(of)) for name, of in shapes.items()}
    if options.get("decay") in ("value", "exp"):
        given["gate"] = torch.rand_like(given["gate"]) * 0.8 - (0 if options["decay"] == "value" else 1)
    if "param" in given and (case in ("hgrn", "lower_bound")):
        given["param"] = torch.sigmoid(given["param"])

    def run(*arrays):
        return gated_scan(**dict(zip(given, arrays)), **options, **where, return_final_state=True)

    return run, [tensor.requires_grad_() for tensor in given.values()]


def by_composition(monkeypatch):
    monkeypatch.setattr(torch_gated, "_needs_composition", lambda inputs: True)


@pytest.mark.parametrize("with_state", [False, True])
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("case", [*_gated.PARTS, *PARTS])
def test_the_composition_equals_the_plans(case, place, with_state, monkeypatch):
    run, given = problem(case, place, with_state)
    results = []
    for change in (lambda: None, lambda: by_composition(monkeypatch)):
        change()
        output, last = run(*given)
        gradients = torch.autograd.grad((output.sin().sum() + last.cos().sum()), given)
        with torch.no_grad():
            assert torch.equal(run(*given)[0], output)
        results.append((output, last, *gradients))
    for want, got in zip(*results):
        close(got, want)


def test_the_composition_knows_every_layer():
    assert set(_gated.PARTS) == set(_gated.LAYERS)


def test_the_composition_in_16_bits(monkeypatch):
    run, given = problem("qrnn", with_state=False)
    low = [tensor.detach().bfloat16() for tensor in given]
    want = run(*low)
    by_composition(monkeypatch)
    for one, other in zip(run(*low), want):
        assert one.dtype == other.dtype
        close(one, other, torch.bfloat16)


def test_bounded_slopes(monkeypatch):
    gate = torch.tensor([[[-1e-9], [-1.0]]], dtype=torch.float64, requires_grad=True)
    x = torch.ones_like(gate)
    run = lambda: gated_scan(gate, x, decay="exp", scale="sqrt", sqrt_slope_limit=1000)[:, 0].sum()
    want = torch.autograd.grad(run(), gate)[0]
    by_composition(monkeypatch)
    got = torch.autograd.grad(run(), gate)[0]
    close(got, want)
    assert abs(got[0, 0, 0].item() + 2 * 1000) < 1  # d sqrt(1 - a^2) / d log a = -2 a^2 limit


@pytest.mark.parametrize("place", ["rows", "packed, resets"])
@pytest.mark.parametrize("case", [*_gated.PARTS, *PARTS])
def test_tangents_and_second_derivatives(case, place):
    run, given = problem(case, place, time=6 if place != "rows" else 3)
    fast = place != "rows"  # along one random direction: the formula is that of the rows
    assert torch.autograd.gradcheck(run, given, check_forward_ad=True, check_backward_ad=False, fast_mode=fast)
    assert torch.autograd.gradgradcheck(run, given, check_fwd_over_rev=hasattr(torch, "func"), fast_mode=fast)


def test_second_derivatives_without_a_state_and_of_some_inputs():
    run, given = problem("mingru", with_state=False)
    assert torch.autograd.gradgradcheck(run, given)
    gate, constant = given[0], given[1].detach()
    alone = lambda gate: gated_scan(gate, constant, layer="mingru")
    assert torch.autograd.gradgradcheck(alone, gate)
    both = lambda gate: gated_scan(gate, gate.sin(), layer="gilr")  # an input that is computed from another
    assert torch.autograd.gradgradcheck(both, gate)


def test_third_derivatives():
    run, given = problem("rglru")

    def first(gate):
        output, last = run(gate, *(each.detach() for each in given[1:]))
        return torch.autograd.grad(output.sin().sum() + last.sum(), gate, create_graph=True)[0]

    assert torch.autograd.gradgradcheck(first, given[0])


@needs_func
@pytest.mark.parametrize("case", ["mingru", "rglru", "qrnn"])
def test_transforms(case):
    from torch.func import grad, hessian, jacfwd, jacrev, jvp, vmap

    run, given = problem(case)
    given = tuple(tensor.detach() for tensor in given)
    total = lambda *arrays: sum(each.sin().sum() for each in run(*arrays))
    places = tuple(range(len(given)))
    leaves = [tensor.clone().requires_grad_() for tensor in given]
    want = torch.autograd.grad(total(*leaves), leaves)
    for one, other in zip(grad(total, places)(*given), want):
        close(one, other)
    rows = torch.autograd.functional.hessian(total, given)
    for transform in (hessian(total, places), jacrev(jacrev(total, places), places)):
        for one, other in zip(transform(*given), rows):
            for mine, theirs in zip(one, other):
                close(mine, theirs)
    along = tuple(tensor.cos() for tensor in given)
    close(jvp(total, given, along)[1], sum((one * other).sum() for one, other in zip(want, along)))
    close(jacfwd(total)(*given), want[0])
    several = torch.stack([given[0], -given[0]])
    mapped = vmap(lambda gate: run(gate, *given[1:])[0])(several)
    close(mapped, torch.stack([run(gate, *given[1:])[0] for gate in several]))


@needs_compile
@pytest.mark.parametrize("case", ["mingru", "rglru", "qrnn"])
@pytest.mark.parametrize("plans", [True, False])
def test_compile_keeps_the_graph(case, plans, monkeypatch):
    if not plans:
        by_composition(monkeypatch)
    run, given = problem(case)
    body = lambda *arrays: run(*(tensor * 2 for tensor in arrays))[0].sin()
    want = body(*given)
    expected = torch.autograd.grad(want.sum(), given)
    torch._dynamo.reset()
    got = torch.compile(body, fullgraph=True, backend="aot_eager")(*given)
    close(got, want)
    for one, other in zip(torch.autograd.grad(got.sum(), given), expected):
        close(one, other)


def test_what_the_operators_alone_cannot_do_is_refused():
    from torch.autograd import forward_ad

    gate, x = (tensor.detach() for tensor in tensors(2, 1, 4, 2))
    states = gated_scan(gate, x, layer="mingru")
    none = (None,) * 8
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(gate, gate)
        with pytest.raises(NotImplementedError, match="gated_scan_backward has no forward-mode derivatives but in"):
            torch_gated._backward_op(
                dual, x, states, x, *none[:2], *none[:5], *none[:2], "mingru", "", "one", "none", "none", False, 0.0, 0.0,
                "btc", False
            )  # fmt: skip
