# SPDX-License-Identifier: Apache-2.0
"""One sequence over GPUs, by NCCL; and, without GPUs, how ranks keep the plans that they have made together."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import types

import pytest

torch = pytest.importorskip("torch")

import torch.distributed as dist  # noqa: E402
from flashscan import FlashscanError, FlashscanValueError  # noqa: E402
from flashscan import _library as lib  # noqa: E402
from distributed_support import LINEAR_CASES, matches_whole, needs_gloo, needs_two_gpus, run  # noqa: E402
from torch_support import close  # noqa: E402

CASES = [
    *LINEAR_CASES,
    *(dict(function="gated_scan", layer=layer) for layer in ("mingru", "qrnn")),
    dict(function="selective_scan", delta_softplus=True),
    dict(function="prefix_scan", op="logaddexp"),
    dict(function="prefix_scan", op="add", axis=0, reverse=True),
]
x = torch.ones(1, 4, 1)


def _over_gloo():
    """Has tensors on the CPU take the way of those on GPUs, with a communicator of gloo's. Returns the plans made."""
    from flashscan.torch import _ranks

    class Ranks(_ranks._NcclRanks):
        _communicator = _ranks._Ranks._communicator

    made, plan = [], lib.Plan
    _ranks._ranks_for = lambda name, steps, tensor: Ranks(name, steps, tensor.device)
    lib.Plan = lambda *arguments: made.append(plan(*arguments)) or made[-1]
    return made


def _keeps_plans(rank, ranks, lengths):
    from flashscan import distributed
    from flashscan.torch import _ranks

    made = _over_gloo()
    for case in CASES:
        del made[:]
        matches_whole(rank, ranks, lengths, case, steps=lengths)
        assert len(made) == 2  # of two calls, forward and backward
    matches_whole(rank, ranks, lengths, CASES[-1], steps=lengths)
    assert len(made) == 2

    # Without numbers of steps they are as many on all ranks.
    del made[:]
    scan = lambda **options: distributed.linear_scan(0.5, x, **options)
    close(scan(), scan(steps=[4] * ranks))
    scan(return_final_state=True)
    assert len(made) == 1
    with pytest.raises(FlashscanValueError, match=f"steps is .*; accepted are the numbers of all {ranks} ranks, here 4 of"):
        scan(steps=[4] * (ranks + 1))
    with pytest.raises(FlashscanValueError, match=f"here 4 of rank {rank}"):
        scan(steps=[5] * ranks)
    for options in (dict(), dict(steps=[4 + rank] * ranks)):
        with pytest.raises(FlashscanValueError, match=r"ranks have 4, 5, 6 steps; .* steps=\(4, 5, 6\) on all"):
            distributed.linear_scan(0.5, torch.ones(1, 4 + rank, 6), **options)
    with pytest.raises(FlashscanError, match="linear f32 BTC b1 c1.*linear f64 BTC b1 c1"):
        distributed.linear_scan(0.5, x.double() if rank == 1 else x, reverse=True)

    # A gradient may lie in one rank's memory as in no other's.
    leaf = torch.ones(1, 4, 2, requires_grad=True)
    grad = torch.ones(1, 4, 4)[:, :, ::2] if rank == 0 else torch.ones(1, 4, 2)
    torch.autograd.grad(distributed.linear_scan(0.5, leaf), leaf, torch.ones(1, 4, 2))
    del made[:]
    torch.autograd.grad(distributed.linear_scan(0.5, leaf), leaf, grad)
    assert not made

    _ranks._Kept.most = 2
    _ranks._kept.clear()
    for _ in range(2):
        for channels in (3, 4, 5):
            distributed.linear_scan(0.5, torch.ones(1, 4, channels))
    assert len(made) == 6
    distributed.linear_scan(0.5, torch.ones(1, 4, 5))
    assert len(made) == 6

    # Gloo's communicators, other than those of NCCL, keep their group, whose threads must not outlive the interpreter.
    del made[:]
    _ranks._kept.clear()
    gc.collect()


@needs_gloo
def test_plans_are_made_once_and_on_all_ranks_at_once(tmp_path):
    run(_keeps_plans, 3, tmp_path, (17, 0, 24))


def test_the_backend_for_a_kind_of_device():
    from flashscan.torch._nccl import backend_name

    def of_kind(device):
        if device.type != "cuda":
            raise RuntimeError("No backend type associated with device type")
        return types.SimpleNamespace(name=lambda: "nccl")

    group = types.SimpleNamespace(_get_backend=of_kind)
    assert backend_name(group, "cuda") == "nccl"
    assert backend_name(group, "cpu") is None


def test_the_communicator_of_a_group(monkeypatch):
    from flashscan.torch import _nccl

    monkeypatch.setattr(torch.cuda, "device", lambda device: contextlib.nullcontext())
    backend = types.SimpleNamespace(_comm_ptr=lambda: 1 << 40)
    group = types.SimpleNamespace(_get_backend=lambda device: backend)
    given = group, 0, 2, torch.device("cpu")
    assert _nccl.communicator(*given, None) == 1 << 40

    del backend._comm_ptr

    def no_library(name, mode):
        raise OSError(name)

    with monkeypatch.context() as patch:
        patch.setattr(ctypes, "CDLL", no_library)
        with pytest.raises(FlashscanError, match="accepted are PyTorch 2.8 and later"):
            _nccl.communicator(*given, None)


class _Nccl:
    """Makes a communicator whose address tells of the identity and the rank that it was made of."""

    def __init__(self, result=0):
        self.result = result
        self.ncclGetErrorString = types.SimpleNamespace(restype=None)
        self.ncclGetErrorString = lambda result: b"out of luck"

    def ncclGetUniqueId(self, unique):
        unique._obj.internal = b"one\0"
        return 0

    def ncclCommInitRank(self, made, size, unique, rank):
        assert (unique.internal, size.value) == (b"one", 2)
        made._obj.value = 0x700 + rank.value
        return self.result


def test_a_communicator_is_made_where_pytorch_gives_none(monkeypatch):
    from flashscan.torch import _nccl

    monkeypatch.setattr(torch.cuda, "device", lambda device: contextlib.nullcontext())
    group = types.SimpleNamespace(_get_backend=lambda device: None)
    messages = []

    def gather(_group, send, receive, size):
        messages.append(send)
        receive.view(size, -1)[:] = messages[0]

    monkeypatch.setattr(ctypes, "CDLL", lambda name, mode: _Nccl())
    for rank in range(2):
        assert _nccl.communicator(group, rank, 2, torch.device("cpu"), gather) == 0x700 + rank
    monkeypatch.setattr(ctypes, "CDLL", lambda name, mode: _Nccl(5))
    with pytest.raises(FlashscanError, match="NCCL failed while making a communicator for rank 1 of 2: out of luck"):
        _nccl.communicator(group, 1, 2, torch.device("cpu"), gather)


def _on_gpus(rank, ranks, lengths):
    from flashscan import distributed
    from flashscan.torch import _nccl, _ranks

    device = torch.device("cuda", rank)
    for case in (*CASES, dict(function="gated_scan", layer="rglru", state=False, dtype=torch.bfloat16)):
        matches_whole(rank, ranks, lengths, case, device, steps=lengths)
    with pytest.raises(FlashscanValueError, match="tensors are on cpu, for which the group has no backend"):
        distributed.linear_scan(0.5, x)

    # In a graph, which has to be of a call that was made before.
    gate, entering = torch.rand(2, 2, 16, 64, device=device)
    graph = torch.cuda.CUDAGraph()
    with pytest.raises(FlashscanValueError, match="accepted are those that have run before"):
        with torch.cuda.graph(torch.cuda.CUDAGraph(), capture_error_mode="thread_local"):
            distributed.linear_scan(gate, entering)
    torch.cuda.synchronize()
    distributed.linear_scan(gate, entering)
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
        h = distributed.linear_scan(gate, entering)
    entering.mul_(2)
    graph.replay()
    close(h, distributed.linear_scan(gate, entering))

    # A communicator beside the group's.
    own = _nccl._make(dist.group.WORLD, rank, ranks, device, _ranks._gather)
    kept = _ranks._kept[dist.group.WORLD]
    assert own != kept.communicators[device]
    kept.communicators[device] = own
    kept.plans.clear(), kept.calls.clear()
    close(distributed.linear_scan(gate, entering), h)


@needs_two_gpus
@pytest.mark.parametrize("lengths", [(20, 21), (41, 0)])
def test_results_and_gradients_on_two_gpus(lengths, tmp_path):
    run(_on_gpus, 2, tmp_path, lengths, backend="nccl")
