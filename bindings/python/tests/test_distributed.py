# SPDX-License-Identifier: Apache-2.0
"""One sequence over processes against the whole of it in one."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

import torch.distributed as dist  # noqa: E402
from flashscan import FlashscanError, FlashscanNotImplementedError, FlashscanValueError  # noqa: E402
import flashscan.torch as ft  # noqa: E402
from distributed_support import needs_gloo, run  # noqa: E402
from torch_support import Numbers, close  # noqa: E402
from torch.autograd import forward_ad  # noqa: E402

pytestmark = needs_gloo

CASES = [
    dict(),
    dict(reverse=True),
    dict(gate_form="logit"),
    dict(layout="bct", gate_form="log"),
    dict(dtype=torch.bfloat16),
    dict(dtype=torch.complex128, reverse=True),
    dict(resets=True, reverse=True, layout="bct"),
    dict(gate_time=1),
    *(dict(function="gated_scan", layer=layer) for layer in ("mingru", "minlstm", "hgrn", "rglru", "qrnn", "gilr")),
    dict(function="gated_scan", layer="rglru", reverse=True, state=False, dtype=torch.bfloat16),
    dict(function="gated_scan", layer="qrnn", layout="bct", resets=True),
    dict(function="gated_scan", decay="sigmoid", scale="sqrt", activation="silu", epilogue="silu", reverse=True),
    *(dict(function="prefix_scan", op=op) for op in ("add", "mul", "min", "max", "logaddexp")),
    dict(function="prefix_scan", op="mul", exclusive=True, reverse=True, dtype=torch.float64),
    dict(function="prefix_scan", op="add", axis=0, dtype=torch.complex64),
    dict(function="prefix_scan", op="logaddexp", exclusive=True, state=False),
]


def scans(group=None, **options):
    from flashscan import distributed

    return distributed.linear_scan(group=group, **options)


class Case:
    """A whole problem: arrays that are cut in time, parameters that every rank has, and the first rank's state."""

    def __init__(self, function="linear_scan", dtype=torch.float32, gate_time=41, resets=False, state=True, **options):
        numbers, wide = Numbers("cpu", seed=7), torch.float32 if dtype == torch.bfloat16 else dtype
        draw = lambda *shape, dtype=dtype: numbers.uniform(*shape, low=0.1, high=0.9, dtype=dtype)
        self.function, self.options, self.parameters, self.reset = function, options, {}, None
        self.axis, self.initial, final = 1, "initial_state", "return_final_state"
        if function == "prefix_scan":
            self.axis, self.initial, final = options.setdefault("axis", 1), "initial", "return_final"
            self.cut = {"x": draw(*((41, 2, 5) if self.axis == 0 else (2, 41, 5)))}
        else:
            self.cut = {"input": draw(2, 41, 5)}
            gate = draw(2, gate_time, 5)
            (self.cut if gate_time == 41 else self.parameters)["gate"] = gate
        if function == "gated_scan":
            layer, epilogue = options.get("layer"), options.get("epilogue", "none")
            more = {"second_gate": layer == "minlstm", "input_gate": layer == "rglru"}
            more["output_gate"] = layer == "qrnn" or epilogue != "none"
            self.cut.update({name: draw(2, 41, 5) for name, there in more.items() if there})
            self.parameters["bias"] = draw(5)
            if layer in ("hgrn", "rglru"):
                self.parameters["param"] = draw(5)
        if options.get("layout") == "bct":
            self.cut = {name: each.transpose(1, 2).contiguous() for name, each in self.cut.items()}
            self.axis = 2
        self.state = draw(2, 5, dtype=wide) if state else None
        if resets:
            self.reset = torch.arange(82).reshape(2, 41) % 11 == 3
        self.weight = draw(*next(iter(self.cut.values())).shape)
        self.state_weight = draw(2, 5, dtype=wide)
        self.options[final] = True

    def run(self, package, arrays, parameters, state, reset, weight, **group):
        """Results, and gradients by name."""
        leaf = lambda each: each.clone().requires_grad_()
        given = {name: leaf(each) for name, each in {**arrays, **parameters}.items()}
        if state is not None:
            given[self.initial] = leaf(state)
        more = {} if reset is None else {"reset": reset}
        results = getattr(package, self.function)(**given, **more, **self.options, **group)
        loss = (results[0] * weight.conj()).sum()
        if results[1] is not None:
            loss = loss + (results[1] * self.state_weight.conj()).sum()
        gradients = torch.autograd.grad(loss.real if loss.is_complex() else loss, list(given.values()))
        return results, dict(zip(given, gradients))


def _matches_whole(rank, ranks, lengths, case):
    from flashscan import distributed

    case = Case(**case)
    want, want_gradients = case.run(ft, case.cut, case.parameters, case.state, case.reset, case.weight)
    begin = sum(lengths[:rank])
    part = lambda each, axis=case.axis: each.narrow(axis, begin, lengths[rank]).contiguous()
    first, last = (ranks - 1, 0) if case.options.get("reverse") else (0, ranks - 1)
    arrays = {name: part(each) for name, each in case.cut.items()}
    reset = None if case.reset is None else part(case.reset, 1)
    state = case.state if rank == first else None
    for _ in range(2):  # plans are not kept
        got, gradients = case.run(distributed, arrays, case.parameters, state, reset, part(case.weight))
    close(got[0], part(want[0]))
    assert (got[1] is None) == (rank != last)
    if rank == last:
        close(got[1], want[1])
    for name in case.parameters:
        total = gradients[name].double()  # not every gloo adds 16-bit numbers
        dist.all_reduce(total)
        gradients[name] = total.to(gradients[name].dtype)
    for name, gradient in gradients.items():
        close(gradient, part(want_gradients[name]) if name in arrays else want_gradients[name])


@pytest.mark.parametrize("lengths", [(20, 21), (17, 0, 24)])
def test_results_and_gradients_are_those_of_the_whole(lengths, tmp_path):
    run(_every_case, len(lengths), tmp_path, lengths)


def _every_case(rank, ranks, lengths):
    for case in CASES:
        _matches_whole(rank, ranks, lengths, case)
    _integers(rank, ranks, lengths)


def _integers(rank, ranks, lengths):
    from flashscan import distributed

    x = torch.arange(41) % 7 + 1
    mine = x[sum(lengths[:rank]) :][: lengths[rank]]
    for op in ("add", "xor"):
        y, final = distributed.prefix_scan(mine, op, return_final=True)
        want = ft.prefix_scan(x, op)
        assert y.tolist() == want[sum(lengths[:rank]) :][: lengths[rank]].tolist()
        assert final is None if rank < ranks - 1 else final == want[-1]


def _subgroups(rank, ranks):
    groups = [dist.new_group([0, 2]), dist.new_group([1])]
    mine = groups[rank % 2]
    h = scans(group=mine, gate=1.0, input=torch.ones(1, 4, 1))
    assert h.flatten().tolist() == ([5, 6, 7, 8] if rank == 2 else [1, 2, 3, 4])
    with pytest.raises(FlashscanValueError, match="not in the group"):
        scans(group=groups[1 - rank % 2], gate=1.0, input=torch.ones(1, 4, 1))


def test_groups_of_some_ranks(tmp_path):
    run(_subgroups, 3, tmp_path)


def _errors(rank, ranks):
    x = torch.ones(1, 4, 1)
    # Each is a rank's own mistake, of which the other one hears.
    wrong = [
        (dict(input=x[0]), "3 axes"),
        (dict(gate=torch.ones(7, 1)), "gate has shape"),
        (dict(gate="half"), "accepted are a tensor or a number"),
        (dict(reverse=3), "reverse is 3"),
        (dict(layout="tbc"), "layout is 'tbc'"),
        (dict(input=x.to(torch.int32)), "dtype"),
    ]
    for change, words in wrong:
        arguments = dict(gate=1.0, input=x)
        if rank == 1:
            arguments.update(change)
        with pytest.raises(FlashscanError, match=words if rank == 1 else "rank 1 of the group has refused"):
            scans(**arguments)
    with pytest.raises(FlashscanError, match='rank 0 "linear f32 BTC b1 c1.*rank 1 "linear f64 BTC b1 c1'):
        scans(gate=0.5, input=x.double() if rank == 1 else x)
    with pytest.raises(FlashscanError, match="STATE_IN is given to rank 1; it belongs to rank 0 alone"):
        scans(gate=0.5, input=x, initial_state=torch.ones(1, 1))
    from flashscan import distributed

    gates = dict(layer="mingru")
    with pytest.raises(FlashscanError, match="param is None" if rank == 1 else "rank 1 of the group has refused"):
        distributed.gated_scan(x, x, layer="hgrn" if rank == 1 else "mingru")
    with pytest.raises(FlashscanError, match="accepted over ranks are 'add'" if rank == 0 else "rank 0 of the group has"):
        distributed.prefix_scan(x, torch.add if rank == 0 else "add")
    with pytest.raises(FlashscanError, match="return_final is 'yes'" if rank == 0 else "rank 0 of the group has refused"):
        distributed.prefix_scan(x, "add", return_final="yes" if rank == 0 else False)
    with pytest.raises(FlashscanError, match="rank 0 .*rank 1 "):
        distributed.prefix_scan(x, "add" if rank == 0 else "mul")
    with pytest.raises(FlashscanError, match="STATE_IN is given to rank 0; it belongs to rank 1 alone"):
        distributed.gated_scan(x, x, torch.ones(1, 1), reverse=True, **gates)
    # After all that they are together.
    assert scans(gate=1.0, input=x).flatten().tolist() == [4 * rank + i for i in (1, 2, 3, 4)]


def test_a_ranks_mistakes_are_every_ranks_errors(tmp_path):
    run(_errors, 2, tmp_path)


def _failing_gather(rank, ranks):
    from flashscan.torch import _ranks

    real, calls = _ranks._gather, []

    def gather(*arguments):
        calls.append(arguments)
        if len(calls) == 3:  # the one of the call itself
            raise RuntimeError("the wire is cut")
        real(*arguments)

    _ranks._gather = gather
    with pytest.raises(FlashscanError, match="all_gather returned 1 to rank") as raised:
        scans(gate=1.0, input=torch.ones(1, 4, 1))
    assert str(raised.value.__cause__) == "the wire is cut"


def test_an_all_gather_that_raises(tmp_path):
    run(_failing_gather, 2, tmp_path)


def _refusals(rank, ranks):
    from flashscan import distributed

    x = torch.rand(1, 4, 1, requires_grad=True)
    calls = {
        "linear_scan": lambda x: distributed.linear_scan(0.5, x),
        "gated_scan": lambda x: distributed.gated_scan(x, x, layer="gilr"),
        "prefix_scan": lambda x: distributed.prefix_scan(x, "mul", axis=1),
    }
    for function, call in calls.items():
        (gradient,) = torch.autograd.grad(call(x).sum(), x, create_graph=True)
        with pytest.raises(FlashscanNotImplementedError, match=f"distributed.{function} has no second derivatives"):
            gradient.sum().backward()
        with forward_ad.dual_level():
            with pytest.raises(FlashscanNotImplementedError, match=f"distributed.{function} has no forward-mode"):
                call(forward_ad.make_dual(x, torch.ones_like(x)))
        if hasattr(torch, "func"):
            with pytest.raises(FlashscanNotImplementedError, match=f"distributed.{function} is not for torch.func"):
                torch.func.grad(lambda x: call(x).sum())(x.detach())
            rows = torch.func.vmap(call)(torch.stack([x, 2 * x]))  # one call after another
            close(rows, torch.stack([call(x), call(2 * x)]))


def test_other_derivatives_are_refused_by_name(tmp_path):
    run(_refusals, 2, tmp_path)


def test_without_a_group():
    with pytest.raises(FlashscanValueError, match="there is no process group"):
        scans(gate=1.0, input=torch.ones(1, 4, 1))
