# SPDX-License-Identifier: Apache-2.0
"""One sequence over processes against the whole of it in one."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

import torch.distributed as dist  # noqa: E402
from flashscan import FlashscanError, FlashscanNotImplementedError, FlashscanValueError  # noqa: E402
import flashscan.torch as ft  # noqa: E402
from distributed_support import LINEAR_CASES, matches_whole, needs_gloo, run  # noqa: E402
from torch_support import close  # noqa: E402
from torch.autograd import forward_ad  # noqa: E402

pytestmark = needs_gloo

CASES = [
    *LINEAR_CASES,
    *(dict(function="gated_scan", layer=layer) for layer in ("mingru", "minlstm", "hgrn", "rglru", "qrnn", "gilr")),
    dict(function="gated_scan", layer="rglru", reverse=True, state=False, dtype=torch.bfloat16),
    dict(function="gated_scan", layer="qrnn", layout="bct", resets=True),
    dict(function="gated_scan", decay="sigmoid", scale="sqrt", activation="silu", epilogue="silu", reverse=True),
    dict(function="selective_scan", delta_softplus=True),
    dict(function="selective_scan", resets=True, reverse=True, layout="bct"),
    *(dict(function="prefix_scan", op=op) for op in ("add", "mul", "min", "max", "logaddexp")),
    dict(function="prefix_scan", op="mul", exclusive=True, reverse=True, dtype=torch.float64),
    dict(function="prefix_scan", op="add", axis=0, dtype=torch.complex64),
    dict(function="prefix_scan", op="logaddexp", exclusive=True, state=False),
]


def scans(group=None, **options):
    from flashscan import distributed

    return distributed.linear_scan(group=group, **options)


@pytest.mark.parametrize("lengths", [(20, 21), (17, 0, 24)])
def test_results_and_gradients_are_those_of_the_whole(lengths, tmp_path):
    run(_every_case, len(lengths), tmp_path, lengths)


def _every_case(rank, ranks, lengths):
    for case in CASES:
        matches_whole(rank, ranks, lengths, case)
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
    with pytest.raises(FlashscanError, match="initial_state is given to rank 1; it belongs to rank 0 alone"):
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
    with pytest.raises(FlashscanError, match="initial_state is given to rank 0; it belongs to rank 1 alone"):
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

    x, one = torch.rand(1, 4, 1, requires_grad=True), torch.ones(1, 1)
    calls = {
        "linear_scan": lambda x: distributed.linear_scan(0.5, x),
        "gated_scan": lambda x: distributed.gated_scan(x, x, layer="gilr"),
        "selective_scan": lambda x: distributed.selective_scan(x, x, one, one, one),
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
