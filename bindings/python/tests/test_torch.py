# SPDX-License-Identifier: Apache-2.0
"""flashscan.torch's functions: gradients, repeated backward, autocast, torch.compile, CUDA graphs."""

from __future__ import annotations

import shutil
import subprocess
import sys

import flashscan
import flashscan.torch as ft
import numpy as np
import pytest
from flashscan._rnn import CELLS
from torch_support import DEVICES, Numbers, close, needs_compile, supported, torch

pytestmark = pytest.mark.parametrize("device", DEVICES)


def check_gradients(function, *inputs):
    supported(lambda: function(*inputs))
    assert torch.autograd.gradcheck(function, inputs)


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
@pytest.mark.parametrize("form", ["value", "log", "logit"])
@pytest.mark.parametrize("layout, reverse", [("btc", False), ("bct", True)])
def test_linear_gradients(device, layout, reverse, form, dtype):
    numbers = Numbers(device)
    reset = numbers.uniform(2, 6) > 0.6
    shape = (2, 6, 3) if layout == "btc" else (2, 3, 6)
    given = [numbers.uniform(*size, dtype=dtype, grad=True) for size in (shape, shape, (2, 3))]
    options = {"layout": layout, "reverse": reverse, "gate_form": form, "reset": reset, "return_final_state": True}
    check_gradients(lambda gate, x, state: ft.linear_scan(gate, x, state, **options), *given)


@pytest.mark.parametrize("gate_shape", [(), (3,), (6, 1), (2, 1, 3)])
def test_linear_gradients_of_broadcast_gates(device, gate_shape):
    numbers = Numbers(device)
    check_gradients(ft.linear_scan, numbers.uniform(*gate_shape, grad=True), numbers.uniform(2, 6, 3, grad=True))


def test_linear_gradients_of_packed_sequences(device):
    numbers = Numbers(device)
    given = [numbers.uniform(*shape, grad=True) for shape in ((1, 9, 3), (1, 9, 3), (3, 3))]
    options = {"seq_offsets": [0, 4, 4, 7], "return_final_state": True}
    check_gradients(lambda gate, x, state: ft.linear_scan(gate, x, state, **options), *given)


def network(numbers, cell, outer=(2, 5), heads=2, dim=3, rows=2, dtype=torch.float64):
    """Wx, R, b and an initial state that require grad."""
    _, gates, biases, states = CELLS[cell]
    shapes = [(*outer, gates, heads, dim), (gates, heads, dim, dim), (biases, heads, dim), (states, rows, heads, dim)]
    Wx, R, b, state = (numbers.uniform(*shape, dtype=dtype) for shape in shapes)
    if cell == "slstm":
        state[2] += 2
    return [tensor.requires_grad_() for tensor in (Wx, R, b, state)]


@pytest.mark.parametrize("options", [{}, {"reverse": True, "layout": "tbghd"}, {"return_all_states": True}])
@pytest.mark.parametrize("cell", CELLS)
def test_rnn_gradients(device, cell, options):
    outer = (5, 2) if "layout" in options else (2, 5)
    given = network(Numbers(device), cell, outer)
    call = lambda Wx, R, b, state: ft.rnn(Wx, R, b, cell, state, return_final_state=True, **options)
    check_gradients(call, *given)


def test_rnn_gradients_of_packed_sequences(device):
    given = network(Numbers(device), "gru", (1, 6), rows=3)
    check_gradients(lambda Wx, R, b, state: ft.rnn(Wx, R, b, "gru", state, seq_offsets=[0, 2, 2, 6]), *given)


@pytest.mark.parametrize("op", ["add", "mul", "min", "max", "logaddexp", "matmul"])
@pytest.mark.parametrize("options", [{}, {"reverse": True}, {"exclusive": True}])
def test_operator_gradients(device, op, options):
    numbers = Numbers(device)
    inner = (2, 2) if op == "matmul" else ()
    x, initial = numbers.uniform(2, 5, *inner, grad=True), numbers.uniform(2, *inner, grad=True)
    call = lambda x, initial: ft.prefix_scan(x, op, axis=1, initial=initial, return_final=True, **options)
    check_gradients(call, x, initial)
    if not options:
        check_gradients(lambda x: ft.reduce(x, op, axis=1), x)


@pytest.mark.parametrize("op", ["min", "max"])
@pytest.mark.parametrize("options", [{}, {"reverse": True}, {"exclusive": True}])
def test_indices_are_those_of_arrays(device, op, options):
    numbers = Numbers(device)
    x, initial = numbers.uniform(2, 9, 3, grad=True), numbers.uniform(2, 3, grad=True)
    more = {"axis": 1, "initial": initial, "return_index": True, "return_final": True, **options}
    results = supported(lambda: ft.prefix_scan(x, op, **more))
    given = {**more, "initial": initial.detach().cpu().numpy()}
    for got, want in zip(results, flashscan.prefix_scan(x.detach().cpu().numpy(), op, **given), strict=True):
        np.testing.assert_array_equal(got.detach().cpu().numpy(), want)
    y, index, final = results
    assert index.dtype == torch.int64 and not index.requires_grad and y.requires_grad and final.requires_grad
    plain = ft.prefix_scan(x, op, axis=1, initial=initial, return_final=True, **options)
    weights = torch.rand_like(y), torch.rand_like(final)
    for got, want in zip(*(torch.autograd.grad(each, (x, initial), weights) for each in ((y, final), plain))):
        assert torch.equal(got, want)
    check_gradients(lambda x, initial: ft.prefix_scan(x, op, **{**more, "initial": initial})[::2], x, initial)
    assert len(ft.prefix_scan(x, op, axis=1, return_index=True)) == 2


@pytest.mark.parametrize("op", ["min", "max"])
def test_indices_of_reductions(device, op):
    x = Numbers(device).uniform(2, 9, 3, grad=True)
    y, index = supported(lambda: ft.reduce(x, op, axis=1, return_index=True))
    want, place = getattr(torch, op)(x, 1)
    assert torch.equal(y, want) and torch.equal(index, place)
    (got,), (expected,) = (torch.autograd.grad(each.sin().sum(), x) for each in (y, want))
    close(got, expected)
    packed = x[0].detach()
    results = ft.reduce(packed, op, axis=0, seq_offsets=[0, 2, 2, 7], return_index=True)
    wanted = flashscan.reduce(packed, op, axis=0, seq_offsets=[0, 2, 2, 7], return_index=True)
    for got, expected in zip(results, wanted, strict=True):
        assert torch.equal(got, expected)


@pytest.mark.parametrize("reverse", [False, True])
def test_gradients_of_functions(device, reverse):
    numbers = Numbers(device)
    x, initial = numbers.uniform(2, 5, 2, 2, grad=True), numbers.uniform(2, 2, 2, grad=True)
    options = {"axis": 1, "reverse": reverse}
    product = lambda left, right: left @ right
    call = lambda x, start: ft.prefix_scan(x, product, initial=start, return_final=True, **options)
    check_gradients(call, x, initial)
    check_gradients(lambda x: ft.reduce(x, product, **options), x)
    named = lambda x, start: ft.prefix_scan(x, "matmul", initial=start, return_final=True, **options)
    for one, other in zip(call(x, initial), supported(lambda: named(x, initial))):
        close(one, other)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.complex64, torch.complex128])
def test_functions_on_other_dtypes(device, dtype):
    x = Numbers(device).uniform(7, 2, 2, dtype=dtype, grad=True)
    got = supported(lambda: ft.prefix_scan(x, lambda left, right: left @ right, axis=0))
    want = [x[0]]
    for t in range(1, 7):
        want.append(want[-1] @ x[t])
    assert got.dtype == dtype
    for one, other in zip(*(torch.autograd.grad(each.abs().sum(), x) for each in (got, torch.stack(want)))):
        torch.testing.assert_close(one, other, rtol=5e-2 if dtype == torch.bfloat16 else 1e-4, atol=5e-2)


GATED = """
extern "C" __device__ void gated(const void* lhs, const void* rhs, void* out) {
    const double *l = (const double*)lhs, *r = (const double*)rhs;
    double* o = (double*)out;
    o[0] = l[0] * r[0];
    o[1] = r[0] * l[1] + r[1];
}
extern "C" __device__ void gated_adjoint(const void* lhs, const void* rhs, const void* grad, void* dlhs, void* drhs) {
    const double *l = (const double*)lhs, *r = (const double*)rhs, *g = (const double*)grad;
    double *dl = (double*)dlhs, *dr = (double*)drhs;
    dl[0] = g[0] * r[0];
    dl[1] = g[1] * r[0];
    dr[0] = g[0] * l[0] + g[1] * l[1];
    dr[1] = g[1];
}
"""


def test_device_code(device):
    x = Numbers(device).uniform(3, 17, 2, grad=True)
    op = flashscan.CudaOperator(GATED, "gated", "gated_adjoint")
    if device == "cpu":
        with pytest.raises(flashscan.FlashscanError):
            ft.prefix_scan(x, op, axis=1)
        return
    got = supported(lambda: ft.prefix_scan(x, op, axis=1))
    close(got[..., 1], ft.linear_scan(x[..., :1], x[..., 1:])[..., 0])
    close(got[..., 0], x[..., 0].cumprod(1))
    check_gradients(lambda x: ft.prefix_scan(x, op, axis=1), x)


def test_affine_gradients(device):
    numbers = Numbers(device)
    given = [numbers.uniform(*shape, grad=True) for shape in ((2, 5, 3, 3), (2, 5, 3), (2, 3))]
    check_gradients(lambda W, b, state: ft.affine_scan(W, b, state, return_final_state=True), *given)


def calls(device, dtype=torch.float32):
    """A call of each family and what it is differentiable in."""
    numbers = Numbers(device, 1)
    gate, x = (numbers.uniform(2, 16, 4, low=0, dtype=dtype, grad=True) for _ in range(2))
    matrices = numbers.uniform(2, 16, 3, 3, low=-0.5, high=0.5, dtype=dtype, grad=True)
    vectors = numbers.uniform(2, 16, 3, dtype=dtype, grad=True)
    state = numbers.uniform(2, 4, dtype=dtype, grad=True)
    net = network(numbers, "lstm", (2, 16), dtype=dtype)
    return {
        "linear": (lambda gate, x: ft.linear_scan(gate, x), [gate, x]),
        "linear, states": (lambda g, x, s: ft.linear_scan(g, x, s, return_final_state=True)[1], [gate, x, state]),
        "rnn": (lambda Wx, R, b, state: ft.rnn(Wx, R, b, "lstm", state), net),
        "scan": (lambda x: ft.prefix_scan(x, "add", axis=1), [x]),
        "matmul": (lambda x: ft.prefix_scan(x, "matmul"), [matrices]),
        "reduce": (lambda x: ft.reduce(x, "logaddexp", axis=1), [x]),
        "indices": (lambda x: torch.add(*ft.prefix_scan(x, "max", axis=1, return_index=True)), [x]),
        "affine": (lambda W, b: ft.affine_scan(W, b), [matrices, vectors]),
    }


FAMILIES = ["linear", "linear, states", "rnn", "scan", "matmul", "reduce", "indices", "affine"]


@pytest.mark.parametrize("family", FAMILIES)
def test_backward_may_be_called_twice(device, family):
    function, inputs = calls(device)[family]
    output = supported(lambda: function(*inputs))
    grad = torch.rand_like(output)
    first = torch.autograd.grad(output, inputs, grad, retain_graph=True)
    for one, other in zip(first, torch.autograd.grad(output, inputs, grad)):
        assert torch.equal(one, other)


# PyTorch's own warnings while it compiles are not ours.
compiles = pytest.mark.filterwarnings("ignore")


@compiles
@needs_compile
@pytest.mark.parametrize(
    "family, backend", [(family, "aot_eager") for family in FAMILIES] + [("linear", "inductor"), ("rnn", "inductor")]
)
def test_compile_keeps_the_graph(device, family, backend):
    function, inputs = calls(device)[family]
    body = lambda *inputs: function(*(tensor * 2 for tensor in inputs)).sin()
    want = supported(lambda: body(*inputs))
    expected = torch.autograd.grad(want.sum(), inputs)
    torch._dynamo.reset()
    got = torch.compile(body, fullgraph=True, backend=backend)(*inputs)
    close(got, want)
    for one, other in zip(torch.autograd.grad(got.sum(), inputs), expected):
        close(one, other)


@compiles
@needs_compile
def test_compile_with_changing_shapes(device):
    numbers = Numbers(device)
    torch._dynamo.reset()
    scan = torch.compile(lambda gate, x: ft.linear_scan(gate, x).sin(), fullgraph=True, dynamic=True)
    lstm = torch.compile(lambda Wx, R: ft.rnn(Wx, R).cos(), fullgraph=True, dynamic=True)
    for time in (5, 9, 12):
        gate, x = (numbers.uniform(2, time, 3, grad=True) for _ in range(2))
        got, want = scan(gate, x), ft.linear_scan(gate, x).sin()
        close(got, want)
        for one, other in zip(*(torch.autograd.grad(each.sum(), (gate, x)) for each in (got, want))):
            close(one, other)
        Wx, R, _, _ = network(numbers, "lstm", (2, time))
        got, want = lstm(Wx, R), ft.rnn(Wx, R).cos()
        close(got, want)
        for one, other in zip(*(torch.autograd.grad(each.sum(), (Wx, R)) for each in (got, want))):
            close(one, other)


@compiles
@needs_compile
@pytest.mark.parametrize("family", FAMILIES)
def test_operators_are_registered_as_pytorch_wants_them(device, family, monkeypatch):
    """torch.library.opcheck on the calls that the functions make."""
    function, inputs = calls(device)[family]
    supported(lambda: function(*inputs))
    made = []
    for module in (ft._linear, ft._rnn, ft._operator):
        for name in ("_op", "_indexed_op", "_affine_op"):
            if hasattr(module, name):
                op = getattr(module, name)
                monkeypatch.setattr(module, name, lambda *args, op=op: made.append((op, args)) or op(*args))
    function(*inputs)
    ((op, args),) = made
    checks = ["test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic"]
    if family == "rnn":
        checks.pop()  # it compares RESERVE too, of which kernels leave bytes as they were
    torch.library.opcheck(op, args, test_utils=checks)


class Smooth(torch.nn.Module):
    def forward(self, gate, x):
        return ft.linear_scan(gate, x, axis=1).sin()


needs_export = pytest.mark.skipif(not hasattr(torch, "export"), reason="torch.export needs 2.1")


@compiles
@needs_compile
@needs_export
def test_export_with_any_number_of_steps(device):
    numbers = Numbers(device)
    time = torch.export.Dim("time", min=2)
    gate, x = (numbers.uniform(2, 5, 3) for _ in range(2))
    program = torch.export.export(Smooth(), (gate, x), dynamic_shapes={"gate": {1: time}, "x": {1: time}})
    for steps in (2, 9):
        gate, x = (numbers.uniform(2, steps, 3) for _ in range(2))
        close(program.module()(gate, x), Smooth()(gate, x))


@compiles
@pytest.mark.skipif(tuple(map(int, torch.__version__.split(".")[:2])) < (2, 15), reason="older releases crash")
@pytest.mark.skipif(shutil.which("g++") is None, reason="AOTInductor needs a compiler")
def test_aot_inductor(device, tmp_path):
    """A package runs where flashscan.torch has been imported, and elsewhere says which operator it lacks."""
    numbers = Numbers(device)
    given = [numbers.uniform(2, 5, 3, dtype=torch.float32) for _ in range(2)]
    package = str(tmp_path / "smooth.pt2")
    torch._inductor.aoti_compile_and_package(torch.export.export(Smooth(), tuple(given)), package_path=package)
    close(torch._inductor.aoti_load_package(package)(*given), Smooth()(*given))
    alone = f"import torch; torch._inductor.aoti_load_package({package!r})"
    run = subprocess.run([sys.executable, "-c", alone], capture_output=True, text=True)
    assert run.returncode == 1 and "schema for flashscan::linear_scan" in run.stderr


LOWER = torch.bfloat16


@pytest.mark.parametrize("family", FAMILIES)
def test_autocast(device, family):
    """Products are lowered, sums are not, what stays takes its own dtype; gradients have the dtype of the leaves."""
    function, inputs = calls(device)[family]
    want = supported(lambda: function(*inputs))
    with torch.autocast(device, dtype=LOWER):
        got = supported(lambda: function(*inputs))
    assert got.dtype == (LOWER if family in ("rnn", "matmul", "affine") else torch.float32)
    close(got, want)
    for one, of in zip(torch.autograd.grad(got.float().sum(), inputs), inputs):
        assert one.dtype == of.dtype and bool(one.isfinite().all())


def test_autocast_of_gates(device):
    numbers = Numbers(device)
    x, gate = numbers.uniform(2, 9, 3, dtype=torch.float32), numbers.uniform(2, 9, 3, low=0, dtype=LOWER)
    with pytest.raises(flashscan.FlashscanError, match="gate is torch.bfloat16 and input is torch.float32"):
        ft.linear_scan(gate, x)
    with torch.autocast(device, dtype=LOWER):
        assert ft.linear_scan(gate, x).dtype == torch.float32
        assert ft.linear_scan(gate.float(), x.to(LOWER)).dtype == LOWER
        assert ft.linear_scan(gate.double(), x.double()).dtype == torch.float64


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_weights_in_float32_with_16_bit_data(device, dtype):
    Wx, R, b, state = network(Numbers(device), "lstm", dtype=torch.float32)
    output, final = ft.rnn(Wx.to(dtype), R, b, "lstm", state, return_final_state=True)
    assert output.dtype == dtype and final.dtype == torch.float32
    close(output, ft.rnn(Wx, R, b, "lstm", state))
    output.float().sum().backward()
    assert R.grad.dtype == b.grad.dtype == state.grad.dtype == torch.float32


@pytest.mark.parametrize("family", ["linear", "rnn"])
def test_cuda_graph(device, family):
    if device == "cpu":
        pytest.skip("graphs are of CUDA")
    calls(device)  # skips where there is no device
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):  # autograd goes on where leaves were made
        function, inputs = calls(device)[family]
        for _ in range(3):
            want = function(*inputs)
            gradients = torch.autograd.grad(want.sum(), inputs)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        got = function(*inputs)
        recorded = torch.autograd.grad(got.sum(), inputs)
    graph.replay()
    torch.cuda.synchronize()
    close(got, want)
    for one, other in zip(recorded, gradients):
        close(one, other)


def test_backward_on_another_stream(device):
    if device == "cpu":
        pytest.skip("streams are of CUDA")
    numbers = Numbers(device)
    gate, x = (numbers.uniform(4, 512, 64, low=0, dtype=torch.float32, grad=True) for _ in range(2))
    want = torch.autograd.grad(ft.linear_scan(gate, x).sum(), (gate, x))
    torch.cuda.synchronize()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(20_000_000)
        got = torch.autograd.grad(ft.linear_scan(gate, x).sum(), (gate, x))
    stream.synchronize()
    for one, other in zip(got, want):
        assert torch.equal(one, other)


@pytest.mark.parametrize("batch, time", [(0, 4), (2, 0), (0, 0)])
def test_empty(device, batch, time):
    numbers = Numbers(device)
    x = numbers.uniform(batch, time, 3, grad=True)
    state = numbers.uniform(batch, 3)
    output, last = ft.linear_scan(0.5, x, state, return_final_state=True)
    output.sum().backward()
    assert output.shape == x.shape == x.grad.shape and last.shape == (batch, 3)
    if time == 0:
        assert torch.equal(last, state)
    Wx, R, b, state = network(numbers, "lstm", (batch, time), rows=batch)
    output, last = supported(lambda: ft.rnn(Wx, R, b, "lstm", state, return_final_state=True))
    (output.sum() + last.sum()).backward()
    assert R.grad.shape == R.shape and not R.grad.any()
    assert supported(lambda: ft.prefix_scan(x, "add", axis=1)).shape == x.shape


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("op", [lambda l, r: (l + r)[:1], lambda l, r: (l + r).half(), lambda l, r: (l + r).tolist()])
def test_results_of_functions_take_an_elements_place(device, op, training):
    x = Numbers(device).uniform(8, 2, grad=training)
    with pytest.raises(flashscan.FlashscanError, match="op's result .*; accepted"):
        ft.prefix_scan(x, op, axis=0)


def test_mistakes_are_named(device):
    numbers = Numbers(device)
    x = numbers.uniform(2, 5, 3, grad=True)
    with pytest.raises(flashscan.FlashscanValueError, match="layout is 'tbc'"):
        ft.linear_scan(0.5, x, layout="tbc")
    with pytest.raises(flashscan.FlashscanValueError, match="R has shape"):
        ft.rnn(x.reshape(2, 5, 1, 1, 3), x, cell="elman")
    with pytest.raises(flashscan.FlashscanValueError, match="op is 'sub'; accepted are 'add'"):
        ft.prefix_scan(x, "sub", axis=1)
    with pytest.raises(flashscan.FlashscanValueError, match="return_index is True with op 'add'; accepted are 'min' and 'max'"):
        ft.prefix_scan(x, "add", axis=1, return_index=True)
    with pytest.raises(flashscan.FlashscanTypeError, match="x has dtype torch.bool; accepted with return_index are numbers"):
        ft.reduce(x > 0, "max", axis=1, return_index=True)
    with pytest.raises(flashscan.FlashscanTypeError, match="return_index is 'yes'"):
        ft.reduce(x, "max", axis=1, return_index="yes")
    with pytest.raises(flashscan.FlashscanValueError, match="axis is 3 for an array of 3 axes"):
        ft.reduce(x, "add", axis=3)
    with pytest.raises(KeyError, match="from the operator"):
        ft.prefix_scan(x, lambda left, right: {}["from the operator"], axis=1)
