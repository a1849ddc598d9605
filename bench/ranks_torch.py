# SPDX-License-Identifier: Apache-2.0
"""What flashscan.distributed.linear_scan, gated_scan or selective_scan takes over the GPUs of a host, whose time is cut,
against the whole on one of them.

    torchrun --nproc-per-node 2 bench/ranks_torch.py [--mb 256,1024] [--runs 20] [--batch 8] [--channels 1024]
        [--layer mingru|gilr|selective]

A JSON line for each pass ("forward", or "both": that and its backward), and for each way: "one", the whole on the GPU of
rank 0, and "ranks"; called from Python, or as a graph that is replayed. --mb is of an array on each GPU, of f32. Before
each call all GPUs meet in an all-reduce; the time is that of the slowest, and the median over runs.
"""

import argparse
import functools
import json
import os

import torch
import torch.distributed as dist

import flashscan.distributed
import flashscan.torch


def captured(call):
    for _ in range(3):
        call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
        call()
    return graph.replay


def time_call(call, runs, device):
    """Microseconds of the slowest rank: the median and the least. A rank without a call has none."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    meeting, times = torch.zeros(1, device=device), []
    for run in range(-3, runs):
        dist.all_reduce(meeting)
        begin.record()
        if call is not None:
            call()
        end.record()
        end.synchronize()
        if run >= 0:
            times.append(1e3 * begin.elapsed_time(end) if call is not None else 0)
    slowest = torch.tensor(times, dtype=torch.float64, device=device)  # also of a rank whose times are the integer 0
    dist.all_reduce(slowest, dist.ReduceOp.MAX)
    return slowest.median().item(), slowest.min().item()


def selective_scan_of(package, batch, steps, channels, device):
    """A function of the step sizes and the input, as the other layers are of gates and inputs; of 16 states."""
    A, B, C = -torch.rand(channels, 16, device=device), *torch.rand(2, batch, steps, 16, device=device)
    return lambda delta, u: package.selective_scan(u, delta, A, B, C, delta_softplus=True)


def calls_of(scan, batch, steps, channels, device):
    """Forward, and forward with backward, on arrays of their own."""
    gate, x, grad = (torch.rand(batch, steps, channels, device=device).requires_grad_(i < 2) for i in range(3))

    def forward():
        with torch.no_grad():
            scan(gate, x)

    return {"forward": forward, "both": lambda: torch.autograd.grad(scan(gate, x), (gate, x), grad)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mb", default="256,1024", type=lambda text: [int(word) for word in text.split(",")])
    parser.add_argument("--runs", default=20, type=int)
    parser.add_argument("--batch", default=8, type=int)
    parser.add_argument("--channels", default=1024, type=int)
    parser.add_argument("--layer", help="of two inputs: mingru, gilr or selective; none: the linear recurrence")
    given = parser.parse_args()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", device_id=device)
    rank, ranks = dist.get_rank(), dist.get_world_size()
    for mb in given.mb:
        steps = (mb << 20) // 4 // given.batch // given.channels
        whole = {}
        for way in ("one", "ranks"):
            package = flashscan.torch if way == "one" else flashscan.distributed
            works = way == "ranks" or rank == 0
            extent = ranks * steps if way == "one" else steps
            scan = functools.partial(package.gated_scan, layer=given.layer) if given.layer else package.linear_scan
            if given.layer == "selective" and works:
                scan = selective_scan_of(package, given.batch, extent, given.channels, device)
            calls = calls_of(scan, given.batch, extent, given.channels, device) if works else {}
            for name in ("forward", "both"):
                for graph in (False, True):
                    call = calls.get(name)
                    if call is not None:
                        call = captured(call) if graph else call
                    us, least = time_call(call, given.runs, device)
                    whole.setdefault((name, graph), us)
                    row = {"pass": name, "way": way, "ranks": ranks if way == "ranks" else 1, "rank_mb": mb}
                    row.update(layer=given.layer or "linear", batch=given.batch, channels=given.channels)
                    row.update(us=round(us, 1), min_us=round(least, 1))
                    row.update(of_one=round(us / whole[name, graph], 3), graph=graph)
                    row["device"] = torch.cuda.get_device_name(device)
                    if rank == 0:
                        print(json.dumps(row), flush=True)
                    del call
            calls.clear()
            torch.cuda.empty_cache()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
