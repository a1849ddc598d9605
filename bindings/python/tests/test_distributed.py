# SPDX-License-Identifier: Apache-2.0
"""One sequence over processes against the whole of it in one."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

import torch.distributed as dist  # noqa: E402
import torch.multiprocessing as multiprocessing  # noqa: E402
from flashscan import FlashscanError, FlashscanValueError  # noqa: E402
from flashscan.torch import linear_scan as whole_scan  # noqa: E402
from torch_support import Numbers, close  # noqa: E402

pytestmark = pytest.mark.skipif(
    not (dist.is_available() and getattr(dist, "is_gloo_available", lambda: True)()), reason="PyTorch has no gloo"
)

CASES = [
    dict(),
    dict(reverse=True),
    dict(gate_form="logit"),
    dict(layout="bct", gate_form="log"),
    dict(dtype=torch.bfloat16),
    dict(dtype=torch.complex128, reverse=True),
    dict(resets=True, reverse=True, layout="bct"),
    dict(gate_time=1),
]


def scans(group=None, **options):
    from flashscan import distributed

    return distributed.linear_scan(group=group, **options)


def run(worker, ranks, tmp_path, *arguments):
    """``worker(rank, ranks, *arguments)`` in processes of a group; any of them that raises fails the test."""
    multiprocessing.spawn(_in_group, (worker, ranks, f"file://{tmp_path / 'store'}", arguments), nprocs=ranks)


def _in_group(rank, worker, ranks, store, arguments):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=ranks)
    try:
        worker(rank, ranks, *arguments)
        dist.barrier()
    finally:
        dist.destroy_process_group()


def _case(dtype=torch.float32, gate_time=None, resets=False, **options):
    """Leaves of a whole problem, and how its results are weighed."""
    numbers, shape = Numbers("cpu", seed=7), (2, 41, 5)
    gate = numbers.uniform(2, gate_time or 41, 5, low=-0.9, high=0.9, dtype=dtype)
    x, weight = (numbers.uniform(*shape, dtype=dtype) for _ in range(2))
    wide = torch.float32 if dtype == torch.bfloat16 else dtype
    state, state_weight = (numbers.uniform(2, 5, dtype=wide) for _ in range(2))
    reset = torch.arange(82).reshape(2, 41) % 11 == 3 if resets else None
    if options.get("layout") == "bct":
        gate, x, weight = (each.transpose(1, 2).contiguous() for each in (gate, x, weight))
    return gate, x, weight, state, state_weight, reset, options


def _loss(h, weight, final, state_weight):
    loss = (h * weight.conj()).sum()
    if final is not None:
        loss = loss + (final * state_weight.conj()).sum()
    return loss.real if loss.is_complex() else loss


def _matches_whole(rank, ranks, lengths, case):
    gate, x, weight, state, state_weight, reset, options = _case(**case)
    leaves = [each.clone().requires_grad_() for each in (gate, x, state)]
    h, final = whole_scan(*leaves, reset=reset, return_final_state=True, **options)
    want = torch.autograd.grad(_loss(h, weight, final, state_weight), leaves)

    axis = 2 if options.get("layout") == "bct" else 1
    begin = sum(lengths[:rank])
    part = lambda each: each.narrow(axis, begin, lengths[rank]).clone()
    first, last = (ranks - 1, 0) if options.get("reverse") else (0, ranks - 1)
    broadcast = gate.shape[axis] == 1
    mine = [(gate.clone() if broadcast else part(gate)).requires_grad_(), part(x).requires_grad_()]
    mine += [state.clone().requires_grad_()] if rank == first else []
    my_reset = None if reset is None else reset.narrow(1, begin, lengths[rank]).contiguous()
    for _ in range(2):  # plans are not kept
        mine_h, mine_final = scans(
            gate=mine[0],
            input=mine[1],
            initial_state=mine[2] if rank == first else None,
            reset=my_reset,
            return_final_state=True,
            **options,
        )
    close(mine_h, part(h.detach()))
    assert (mine_final is None) == (rank != last)
    if rank == last:
        close(mine_final, final)
    got = list(torch.autograd.grad(_loss(mine_h, part(weight), mine_final, state_weight), mine))
    if broadcast:
        dist.all_reduce(got[0])
    close(got[0], want[0] if broadcast else part(want[0]))
    close(got[1], part(want[1]))
    if rank == first:
        close(got[2], want[2])


@pytest.mark.parametrize("lengths", [(20, 21), (17, 0, 24)])
def test_results_and_gradients_are_those_of_the_whole(lengths, tmp_path):
    run(_every_case, len(lengths), tmp_path, lengths)


def _every_case(rank, ranks, lengths):
    for case in CASES:
        _matches_whole(rank, ranks, lengths, case)


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
    # After all that they are together.
    assert scans(gate=1.0, input=x).flatten().tolist() == [4 * rank + i for i in (1, 2, 3, 4)]


def test_a_ranks_mistakes_are_every_ranks_errors(tmp_path):
    run(_errors, 2, tmp_path)


def _failing_gather(rank, ranks):
    from flashscan import distributed

    real, calls = distributed._gather, []

    def gather(*arguments):
        calls.append(arguments)
        if len(calls) == 3:  # the one of the call itself
            raise RuntimeError("the wire is cut")
        real(*arguments)

    distributed._gather = gather
    with pytest.raises(FlashscanError, match="all_gather returned 1 to rank") as raised:
        scans(gate=1.0, input=torch.ones(1, 4, 1))
    assert str(raised.value.__cause__) == "the wire is cut"


def test_an_all_gather_that_raises(tmp_path):
    run(_failing_gather, 2, tmp_path)


def test_without_a_group():
    with pytest.raises(FlashscanValueError, match="there is no process group"):
        scans(gate=1.0, input=torch.ones(1, 4, 1))
