# SPDX-License-Identifier: Apache-2.0
"""flashscan.torch's tangents, second derivatives and torch.func: computed, or refused by name, never zeros."""

from __future__ import annotations

import flashscan
import flashscan.torch as ft
import pytest
from flashscan._rnn import CELLS
from torch_support import DEVICES, Numbers, close, supported, torch
from torch.autograd import forward_ad

pytestmark = [
    pytest.mark.parametrize("device", DEVICES),
    pytest.mark.filterwarnings("ignore:There is a performance drop"),  # of vmap, which walks over our calls
    pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning"),  # PyTorch's own, in forward mode
]
needs_func = pytest.mark.skipif(not hasattr(torch, "func"), reason="torch.func needs 2.0")
OPERATORS = ["add", "mul", "min", "max", "logaddexp", "matmul"]


def check_forward(function, *inputs):
    supported(lambda: function(*inputs))
    assert torch.autograd.gradcheck(function, inputs, check_forward_ad=True, check_backward_ad=False)


@pytest.fixture(params=[torch.float64, torch.complex128], ids=str)
def dtype(request):
    return request.param


LINEAR = {
    "plain": ((2, 3, 2), (2, 3, 2), (2, 2), {}),
    "no state": ((2, 3, 2), (2, 3, 2), None, {}),
    "reverse, bct": ((2, 2, 3), (2, 2, 3), (2, 2), {"reverse": True, "layout": "bct"}),
    "log": ((2, 3, 2), (2, 3, 2), (2, 2), {"gate_form": "log"}),
    "logit, bct": ((2, 2, 3), (2, 2, 3), (2, 2), {"gate_form": "logit", "layout": "bct"}),
    "a number": ((), (2, 3, 2), (2, 2), {"gate_form": "logit"}),
    "one a channel": ((2,), (2, 3, 2), (2, 2), {"reverse": True}),
    "one a step": ((3, 1), (2, 3, 2), None, {"gate_form": "log"}),
    "one a row, bct": ((2, 2, 1), (2, 2, 3), (2, 2), {"layout": "bct"}),
    "resets": ((2, 3, 2), (2, 3, 2), (2, 2), {"reset": True, "gate_form": "logit"}),
    "resets, reverse": ((2, 2, 3), (2, 2, 3), (2, 2), {"reset": True, "reverse": True, "layout": "bct"}),
    "packed": ((1, 6, 2), (1, 6, 2), (3, 2), {"seq_offsets": [0, 2, 2, 5]}),
    "packed, reverse": ((1, 6, 2), (1, 6, 2), (3, 2), {"seq_offsets": [0, 2, 2, 5], "reverse": True}),
    "packed, bct, resets": (
        (1, 2, 6),
        (1, 2, 6),
        (3, 2),
        {"seq_offsets": [0, 2, 2, 6], "layout": "bct", "reset": True, "gate_form": "logit"},
    ),
    "one step": ((2, 1, 2), (2, 1, 2), (2, 2), {}),
}


def linear(case, device, dtype):
    """A call of linear_scan with both results, and what it is differentiable in."""
    gate, x, state, options = LINEAR[case]
    numbers = Numbers(device)
    if "reset" in options:
        time = x[2 if options.get("layout") == "bct" else 1]
        options = {**options, "reset": numbers.uniform(x[0], time) > 0.3}
    given = [numbers.uniform(*shape, dtype=dtype, grad=True) for shape in (gate, x, state) if shape is not None]
    return (lambda *arrays: ft.linear_scan(*arrays, return_final_state=True, **options)), given


@pytest.mark.parametrize("case", LINEAR)
def test_linear_tangents(device, case, dtype):
    function, given = linear(case, device, dtype)
    check_forward(function, *given)


@pytest.mark.parametrize("case", LINEAR)
def test_linear_second_derivatives(device, case, dtype):
    function, given = linear(case, device, dtype)
    supported(lambda: function(*given))
    # Complex numbers are checked along one random direction, which is a tenth of the work.
    fast = dtype.is_complex
    assert torch.autograd.gradgradcheck(function, given, check_fwd_over_rev=hasattr(torch, "func"), fast_mode=fast)


def test_real_gates_of_complex_data(device):
    numbers = Numbers(device)
    gate, x = numbers.uniform(2, 3, 1, grad=True), numbers.uniform(2, 3, 2, dtype=torch.complex128, grad=True)
    check_forward(ft.linear_scan, gate, x)
    assert torch.autograd.gradgradcheck(ft.linear_scan, (gate, x))


def test_third_derivatives_of_linear_scan(device):
    function, given = linear("packed", device, torch.float64)

    def first(gate):
        out, last = function(gate, *(each.detach() for each in given[1:]))
        return torch.autograd.grad(out.sin().sum() + last.sum(), gate, create_graph=True)[0]

    assert torch.autograd.gradgradcheck(first, given[0])


@pytest.mark.parametrize("options", [{}, {"reverse": True}, {"exclusive": True}, {"exclusive": True, "reverse": True}])
@pytest.mark.parametrize("op", OPERATORS)
def test_operator_tangents(device, op, options):
    numbers = Numbers(device)
    inner = (2, 2) if op == "matmul" else ()
    x, initial = numbers.uniform(2, 4, *inner, grad=True), numbers.uniform(2, *inner, grad=True)
    call = lambda x, initial=None: ft.prefix_scan(x, op, axis=1, initial=initial, return_final=True, **options)
    check_forward(call, x, initial)
    if "exclusive" not in options or op in ("add", "mul", "matmul"):  # others begin with an infinity
        check_forward(call, x)
    if "exclusive" not in options:
        check_forward(lambda x, initial: ft.reduce(x, op, axis=1, initial=initial, **options), x, initial)


@pytest.mark.parametrize("op", ["min", "max"])
def test_tangents_beside_indices(device, op):
    x = Numbers(device).uniform(2, 4, grad=True)
    for options in ({"return_final": True}, {"reverse": True}):
        check_forward(lambda x: ft.prefix_scan(x, op, return_index=True, **options)[::2], x)
    check_forward(lambda x: ft.reduce(x, op, return_index=True)[0], x)


@pytest.mark.parametrize("options", [{}, {"reverse": True}, {"exclusive": True}])
@pytest.mark.parametrize("op", OPERATORS)
def test_operator_tangents_of_packed_sequences(device, op, options):
    numbers = Numbers(device)
    inner = (2, 2) if op == "matmul" else (2,)
    x, initial = numbers.uniform(1, 6, *inner, grad=True), numbers.uniform(3, *inner, grad=True)
    offsets = {"seq_offsets": [0, 2, 2, 5]}
    call = lambda x, initial: ft.prefix_scan(x, op, axis=1, initial=initial, return_final=True, **offsets, **options)
    check_forward(call, x, initial)
    check_forward(lambda x: ft.reduce(x[0], op, axis=0, seq_offsets=[0, 2, 5]), x)


@pytest.mark.parametrize("op", ["add", "mul", "matmul"])
def test_operator_tangents_of_complex_numbers(device, op):
    x = Numbers(device).uniform(5, 2, 2, dtype=torch.complex128, grad=True)
    check_forward(lambda x: ft.prefix_scan(x, op, axis=0, return_final=True), x)


@pytest.mark.parametrize("op", OPERATORS)
def test_operator_tangents_are_their_gradients(device, op):
    """Also where operands are equal: <J v, w> = <v, J* w>."""
    numbers = Numbers(device)
    x = numbers.uniform(2, 7, 2, 2).mul(2).round().requires_grad_()
    v, w = numbers.uniform(2, 7, 2, 2), numbers.uniform(2, 7, 2, 2)
    function = lambda x: ft.prefix_scan(x, op, axis=1)
    (gradient,) = torch.autograd.grad(supported(lambda: function(x)), x, w)
    with forward_ad.dual_level():
        tangent = forward_ad.unpack_dual(function(forward_ad.make_dual(x.detach(), v))).tangent
    close((tangent * w).sum(), (gradient * v).sum())


@pytest.mark.parametrize("options", [{}, {"reverse": True}])
def test_affine_tangents(device, options, dtype):
    numbers = Numbers(device)
    given = [numbers.uniform(*shape, dtype=dtype, grad=True) for shape in ((2, 3, 2, 2), (2, 3, 2), (2, 2))]
    check_forward(lambda W, b, state: ft.affine_scan(W, b, state, return_final_state=True, **options), *given)
    check_forward(lambda W, b: ft.affine_scan(W, b, **options), *given[:2])
    packed = [numbers.uniform(*shape, dtype=dtype, grad=True) for shape in ((6, 2, 2), (6, 2), (3, 2))]
    call = lambda W, b, state: ft.affine_scan(W, b, state, seq_offsets=[0, 2, 2, 5], return_final_state=True, **options)
    check_forward(call, *packed)


@pytest.mark.parametrize("low", [torch.bfloat16, torch.float16])
def test_tangents_in_16_bits(device, low):
    numbers = Numbers(device)
    x, dx, gate, dgate = (numbers.uniform(2, 9, 3).to(low) for _ in range(4))
    state, dstate = (numbers.uniform(2, 3) for _ in range(2))
    calls = {
        "linear": (lambda x, gate, state: ft.linear_scan(gate, x, state, return_final_state=True), low, torch.float32),
        "mul": (
            lambda x, gate, state: ft.prefix_scan(x, "mul", axis=1, initial=state, return_final=True),
            low,
            torch.float32,
        ),
    }
    for name, (function, kind, state_kind) in calls.items():
        results = []
        for convert in (lambda tensor: tensor, lambda tensor: tensor.double()):
            with forward_ad.dual_level():
                duals = [forward_ad.make_dual(*map(convert, pair)) for pair in ((x, dx), (gate, dgate))]
                start = forward_ad.make_dual(state.float(), dstate.float())
                start = (
                    start if convert(x) is x else forward_ad.make_dual(state.float().double(), dstate.float().double())
                )
                results.append([forward_ad.unpack_dual(each).tangent for each in function(*duals, start)])
        (got, got_last), (want, want_last) = results
        assert got.dtype == kind and got_last.dtype == state_kind
        close(got, want)
        close(got_last, want_last, low)


def refused(call, words):
    with pytest.raises(NotImplementedError, match=words) as caught:
        call()
    assert isinstance(caught.value, flashscan.FlashscanError)


def network(numbers, cell="lstm", grad=True):
    _, gates, biases, states = CELLS[cell]
    shapes = [(2, 5, gates, 2, 3), (gates, 2, 3, 3), (biases, 2, 3), (states, 2, 2, 3)]
    return [numbers.uniform(*shape, grad=grad) for shape in shapes]


def test_other_tangents_are_refused_by_name(device):
    numbers = Numbers(device)
    x = numbers.uniform(5, 2, 2)
    Wx, R, b, state = network(numbers, grad=False)
    sums = lambda left, right: left + right
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, x)
        refused(lambda: ft.prefix_scan(dual, sums, axis=0), "flashscan.torch.prefix_scan and reduce with an operator")
        refused(
            lambda: ft.reduce(x, sums, axis=0, initial=dual[0]), "flashscan.torch.prefix_scan and reduce with an op"
        )
        refused(lambda: ft.rnn(forward_ad.make_dual(Wx, Wx), R, b), "flashscan.torch.rnn has no forward-mode deriv")
        refused(lambda: ft.rnn(Wx, R, b, "lstm", forward_ad.make_dual(state, state)), "flashscan.torch.rnn has no")
        lstm = ft.LSTM(2, 2, dtype=torch.float64, device=x.device)
        refused(lambda: lstm(dual), "flashscan.torch.rnn has no forward-mode derivatives")
        with pytest.raises(flashscan.FlashscanTypeError, match="has a tangent"):
            flashscan.linear_scan(0.5, dual)
    large = torch.zeros(1, 513, 513, device=x.device)
    with forward_ad.dual_level():
        refused(lambda: ft.reduce(forward_ad.make_dual(large, large), "matmul"), "up to 512 rows")


def test_other_second_derivatives_are_refused_by_name(device):
    numbers = Numbers(device)
    x = numbers.uniform(5, 2, 2, grad=True)
    W, b = numbers.uniform(5, 2, 2, grad=True), numbers.uniform(5, 2, grad=True)
    calls = {
        "rnn": (lambda: ft.rnn(*network(numbers)[:3]), "flashscan.torch.rnn computes no second derivatives"),
        "affine": (lambda: ft.affine_scan(W, b), "flashscan.torch.affine_scan computes no second"),
        "named": (
            lambda: ft.prefix_scan(x, "mul", axis=0),
            "flashscan.torch.prefix_scan and reduce computes no second",
        ),
        "function": (
            lambda: ft.prefix_scan(x, lambda left, right: left * right, axis=0),
            "flashscan.torch.prefix_scan and reduce with an operator that is not a name computes no second",
        ),
    }
    for make, words in calls.values():
        output = supported(make)
        leaves = [leaf for leaf in (x, W, b) if leaf.requires_grad]
        first = torch.autograd.grad(output.square().sum(), leaves, create_graph=True, allow_unused=True)
        used = [each for each in first if each is not None]
        if used:
            refused(lambda: torch.autograd.grad(sum(each.sum() for each in used), leaves, allow_unused=True), words)


@needs_func
def test_transforms_of_linear_scan(device):
    from torch.func import grad, hessian, jacfwd, jacrev, jvp, vjp, vmap

    numbers = Numbers(device)
    gate, x, state = (numbers.uniform(*shape) for shape in ((5, 3), (2, 5, 3), (2, 3)))
    steps = lambda gate, x, state: list(states(gate, x, state))

    def states(gate, x, state):
        for t in range(x.shape[1]):
            state = torch.sigmoid(gate[t]) * state + x[:, t]
            yield state

    theirs = lambda gate, x, state: torch.stack(steps(gate, x, state), 1).sin()
    ours = lambda gate, x, state: ft.linear_scan(gate, x, state, gate_form="logit").sin()
    given = (gate, x, state)
    total = lambda function: lambda *arrays: function(*arrays).sum()

    def both(transform):
        got, want = (torch.utils._pytree.tree_flatten(transform(function))[0] for function in (ours, theirs))
        assert len(got) == len(want)
        for one, other in zip(got, want):
            close(one, other)

    argnums = (0, 1, 2)
    both(lambda function: grad(total(function), argnums)(*given))
    both(lambda function: jvp(function, given, tuple(each.cos() for each in given)))
    both(lambda function: vjp(function, *given)[1](x))
    both(lambda function: jacrev(function, argnums)(*given))
    both(lambda function: jacfwd(function, argnums)(*given))
    both(lambda function: hessian(total(function), argnums)(*given))
    both(lambda function: jacrev(jacrev(total(function), argnums), argnums)(*given))
    both(lambda function: jacrev(jacfwd(total(function)), argnums)(*given))
    both(lambda function: vmap(function, (None, 0, 0))(gate, *(torch.stack([each, -each]) for each in (x, state))))
    both(lambda function: vmap(grad(total(function)), (0, None, None))(torch.stack([gate, -gate]), x, state))
    both(
        lambda function: grad(lambda *a: vmap(total(function), (None, 0, 0))(*a).sum(), argnums)(
            gate, x[:, None], state[:, None]
        )
    )


@needs_func
@pytest.mark.parametrize("op", OPERATORS)
def test_transforms_of_operators(device, op):
    from torch.func import grad, jacfwd, jacrev

    x = Numbers(device).uniform(4, 2, 2)
    function = lambda x: ft.prefix_scan(x, op, axis=0)
    close(supported(lambda: jacfwd(function)(x)), jacrev(function)(x))
    if op in ("min", "max"):
        indexed = lambda x: ft.prefix_scan(x, op, axis=0, return_index=True)[0]
        close(jacfwd(indexed)(x), jacrev(function)(x))
        close(jacrev(indexed)(x), jacrev(function)(x))
    leaf = x.clone().requires_grad_()
    close(grad(lambda x: function(x).sin().sum())(x), torch.autograd.grad(function(leaf).sin().sum(), leaf)[0])


@needs_func
def test_other_transforms(device):
    from torch.func import grad, jacrev, jvp, vmap

    numbers = Numbers(device)
    x = numbers.uniform(5, 2, 2)
    Wx, R, b, _ = network(numbers)
    function = lambda Wx: ft.rnn(Wx, R.detach(), b.detach()).sin().sum()
    close(grad(function)(Wx.detach()), torch.autograd.grad(function(Wx), Wx)[0])
    W, vectors = numbers.uniform(2, 5, 2, 2), numbers.uniform(2, 5, 2)
    close(jacrev(ft.affine_scan)(W, vectors), torch.func.jacfwd(ft.affine_scan)(W, vectors))
    custom = lambda x: ft.reduce(x, lambda left, right: left + right, axis=0).sum()
    refused(lambda: grad(custom)(x), "prefix_scan and reduce with an operator that is not a name is not for torch.func")
    refused(lambda: jvp(custom, (x,), (x,)), "flashscan.torch.prefix_scan and reduce with an operator")
    refused(lambda: vmap(custom)(x[None]), "flashscan.torch.prefix_scan and reduce with an operator")
    refused(lambda: jvp(function, (Wx.detach(),), (Wx.detach(),)), "flashscan.torch.rnn has no forward-mode")
    refused(lambda: jacrev(grad(function))(Wx.detach()), "flashscan.torch.rnn computes no second derivatives")
    with pytest.raises(flashscan.FlashscanTypeError, match="torch.func's"):
        grad(lambda x: flashscan.linear_scan(0.5, x).sum())(x)
