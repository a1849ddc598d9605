# SPDX-License-Identifier: Apache-2.0
"""One sequence over processes in what PyTorch compiles, and beside parameters that are sharded over the same processes;
and layers of which each process has a copy."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

import flashscan.torch as ft  # noqa: E402
from distributed_support import needs_gloo, needs_two_gpus, run  # noqa: E402
from torch_support import Numbers, close, needs_compile  # noqa: E402

pytestmark = needs_gloo


def _compiled(rank, ranks):
    from flashscan import distributed

    torch._dynamo.reset()

    def body(gate, x, param, state):
        h, last = distributed.linear_scan(gate.sigmoid(), x.sin(), state, return_final_state=True)
        y = distributed.gated_scan(h, x, layer="hgrn", param=param, group=None)
        y = y + distributed.prefix_scan(y, "logaddexp", axis=1)
        return y.sum() if last is None else y.sum() + last.cos().sum()

    numbers = Numbers("cpu", seed=rank)
    given = [numbers.uniform(2, 5 + rank, 3, grad=True) for _ in range(2)] + [numbers.uniform(3, grad=True)]
    given.append(numbers.uniform(2, 3, grad=True) if rank == 0 else None)
    compiled, leaves = torch.compile(body, fullgraph=True), given if rank == 0 else given[:3]
    results = [(loss, *torch.autograd.grad(loss, leaves)) for loss in (function(*given) for function in (body, compiled))]
    for got, want in zip(results[1], results[0]):
        close(got, want)


@needs_compile
def test_torch_compile_keeps_the_graph_whole(tmp_path):
    run(_compiled, 2, tmp_path)


class Mixer(torch.nn.Module):
    """A layer over ranks, and its like on the whole sequence."""

    def __init__(self, package, **options):
        super().__init__()
        self.package, self.options = package, options
        self.gate, self.entering = torch.nn.Linear(6, 6), torch.nn.Linear(6, 6)

    def forward(self, x):
        gate, x = self.gate(x), self.entering(x)
        x = x + self.package.linear_scan(gate.sigmoid(), x, **self.options)
        return x + self.package.gated_scan(gate, x, layer="mingru", **self.options)


def _sharded(rank, ranks, compiles, kind):
    from flashscan import distributed
    from torch.distributed.fsdp import fully_shard

    torch.manual_seed(3)
    device = torch.device(kind, rank) if kind == "cuda" else torch.device(kind)
    steps = (9, 5)
    over_ranks = torch.nn.Sequential(*(Mixer(distributed, steps=steps) for _ in range(2))).double().to(device)
    whole = torch.nn.Sequential(Mixer(ft), Mixer(ft)).double().to(device)
    whole.load_state_dict(over_ranks.state_dict())
    mesh = torch.distributed.device_mesh.init_device_mesh(kind, (ranks,))
    for layer in (*over_ranks, over_ranks):
        fully_shard(layer, mesh=mesh)
        layer.set_gradient_divide_factor(1.0)  # the losses of all ranks are added
    run_over_ranks = torch.compile(over_ranks, backend="aot_eager") if compiles else over_ranks
    x = torch.rand(2, 14, 6, dtype=torch.float64).to(device)
    mine = slice(9 * rank, 9 if rank == 0 else 14)
    optimizers = [torch.optim.SGD(model.parameters(), lr=0.1) for model in (over_ranks, whole)]
    for _ in range(3):
        y, want = run_over_ranks(x[:, mine]), whole(x)
        close(y, want[:, mine])
        for loss, optimizer in zip((y.square().sum() / 28, want.square().sum() / 28), optimizers):
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    for got, want in zip(over_ranks.parameters(), whole.parameters()):
        close(got.full_tensor(), want)


@pytest.mark.skipif(tuple(map(int, torch.__version__.split(".")[:2])) < (2, 6), reason="fully_shard needs 2.6")
@pytest.mark.parametrize("compiles", [False, True])
@pytest.mark.parametrize("kind, backend", [("cpu", "gloo"), pytest.param("cuda", "nccl", marks=needs_two_gpus)])
def test_parameters_sharded_over_the_same_ranks(compiles, kind, backend, tmp_path):
    run(_sharded, 2, tmp_path, compiles, kind, backend=backend)


def _replicated(rank, ranks, name):
    torch.manual_seed(3)
    make = {
        "lstm": lambda: ft.LSTM(5, 7, 2, bidirectional=True, batch_first=True),
        "gru": lambda: ft.GRU(5, 7, batch_first=True),
    }[name]
    alone = make().double()
    layer = make().double()
    layer.load_state_dict(alone.state_dict())
    replica = torch.nn.parallel.DistributedDataParallel(layer)
    x = Numbers("cpu").uniform(4, 6, 5)
    optimizers = [torch.optim.SGD(each.parameters(), lr=0.1) for each in (replica, alone)]
    for _ in range(3):
        for module, rows, optimizer in ((replica, x[rank::ranks], optimizers[0]), (alone, x, optimizers[1])):
            optimizer.zero_grad()
            # Gradients are averaged over ranks, each of which has as many rows.
            module(rows)[0].square().mean().backward()
            optimizer.step()
    for got, want in zip(layer.parameters(), alone.parameters()):
        assert got.grad.abs().max() > 0
        close(got, want)


@pytest.mark.parametrize("name", ["lstm", "gru"])
def test_networks_trained_by_data_parallel_processes(name, tmp_path):
    run(_replicated, 2, tmp_path, name)
