# SPDX-License-Identifier: Apache-2.0
"""Times layers in PyTorch on a GPU: selective scans and gated layers, forward and backward, and steps of decoding.

    python3 bench/layers.py --commit $(git rev-parse --short HEAD) --json layers.json

A time is the median of five rounds of calls between CUDA events, with data that stays in memory between calls; each is a
replay of a CUDA graph, which leaves out what PyTorch does on the host. Steps of decoding are 40 calls captured in one graph,
divided by 40. `stream` is the share of --bandwidth (GB/s, what a copy
reaches) that the named arrays alone would need: for a selective scan u, delta, z and the output, with their gradients; for
a gated layer its tensors and the output, in backward h, the output's gradient and all gradients. Where mamba_ssm has its
extension its selective scan is timed beside ours on the same data, and gated layers beside their composition of linear_scan
and PyTorch's functions. Needs PyTorch and the flashscan package, for which FLASHSCAN_LIBRARY may name a library that is not
installed.
"""

import argparse
import datetime
import json
import statistics

import torch

import flashscan.torch
from flashscan.torch._composed import composed

SELECTIVE = [
    (8, 2048, 2048, 16, "bf16"),
    (8, 1536, 8192, 16, "bf16"),
    (1, 4096, 32768, 16, "bf16"),
    (1, 2048, 131072, 16, "bf16"),
    (64, 768, 196, 16, "bf16"),
    (16, 1024, 512, 64, "bf16"),
    (8, 2048, 2048, 16, "f32"),
]
GATED = [(layer, 8, 4096, 2560) for layer in ("rglru", "mingru", "minlstm", "hgrn", "qrnn")]
DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}
LAYOUTS = ("btc", "bct")
STEPS = 40


def time_us(call, calls):
    for _ in range(3):
        call()
    rounds = []
    for _ in range(5):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for _ in range(calls):
            call()
        end.record()
        torch.cuda.synchronize()
        rounds.append(start.elapsed_time(end) * 1000 / calls)
    return statistics.median(rounds)


def captured(call, count=1):
    """A graph of `count` calls on the current stream, after a few that settle what is done once."""
    for _ in range(3):
        call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=torch.cuda.current_stream()):
        for _ in range(count):
            call()
    return graph


def graph_us(call):
    """A call's time in a graph of many."""
    return time_us(captured(call, STEPS).replay, 10) / STEPS


def draw(*shape, dtype=torch.float32, scale=1.0):
    return (scale * torch.randn(*shape, device="cuda")).to(dtype)


def selective_data(batch, channels, time, states, dtype, layout):
    turned = (lambda b, t, c: (b, c, t)) if layout == "bct" else (lambda b, t, c: (b, t, c))
    wide, narrow = turned(batch, time, channels), turned(batch, time, states)
    u, delta, z = (draw(*wide, dtype=dtype) for _ in range(3))
    A = -torch.rand(channels, states, device="cuda") * 4 - 0.1
    B, C = (draw(*narrow, dtype=dtype) for _ in range(2))
    return u, delta, A, B, C, draw(channels), z, draw(channels, scale=0.1)


def mamba():
    try:
        from mamba_ssm.ops.selective_scan_interface import selective_scan_fn
    except ImportError:
        return None
    return selective_scan_fn


def forward_and_backward(call, inputs):
    """Times of both passes, the second as autograd runs it."""
    with torch.no_grad():
        forward = time_us(captured(call).replay, 10)
    given = [each.requires_grad_() for each in inputs]
    result = call()
    sent = torch.randn_like(result)
    backward = time_us(captured(lambda: torch.autograd.grad(result, given, sent, retain_graph=True)).replay, 5)
    for each in given:
        each.requires_grad_(False)
    return {"forward_us": round(forward, 1), "backward_us": round(backward, 1)}


def shares(row, array, forward, backward, bandwidth):
    row["stream_forward"] = round(array * forward / row["forward_us"] / 1e3 / bandwidth, 3)
    row["stream_backward"] = round(array * backward / row["backward_us"] / 1e3 / bandwidth, 3)


def selective_rows(bandwidth):
    for batch, channels, time, states, dtype in SELECTIVE:
        for layout in LAYOUTS:
            data = selective_data(batch, channels, time, states, DTYPES[dtype], layout)
            call = lambda: flashscan.torch.selective_scan(*data, delta_softplus=True, layout=layout)
            row = dict(family="selective", batch=batch, channels=channels, time=time, states=states, dtype=dtype)
            row |= dict(layout=layout) | forward_and_backward(call, list(data))
            shares(row, data[0].numel() * data[0].element_size(), 4, 8, bandwidth)
            peer = mamba() if layout == "bct" else None
            if peer is not None:
                row["mamba"] = forward_and_backward(lambda: peer(*data, delta_softplus=True), list(data))
            yield row


def gated_rows(bandwidth):
    for layer, batch, time, channels in GATED:
        for dtype in DTYPES:
            for layout in LAYOUTS:
                shape = (batch, channels, time) if layout == "bct" else (batch, time, channels)
                tensors = {"gate": 1, "input": 1, "second_gate": layer == "minlstm", "input_gate": layer == "rglru"}
                tensors |= {"output_gate": layer == "qrnn"}
                data = {name: draw(*shape, dtype=DTYPES[dtype]) for name, there in tensors.items() if there}
                if layer in ("rglru", "hgrn"):
                    data["param"] = torch.rand(channels, device="cuda").to(DTYPES[dtype])
                call = lambda: flashscan.torch.gated_scan(**data, layer=layer, layout=layout)
                row = dict(family="gated", layer=layer, batch=batch, time=time, channels=channels, dtype=dtype)
                row |= dict(layout=layout) | forward_and_backward(call, list(data.values()))
                inputs = len(data) - ("param" in data)
                array = data["gate"].numel() * data["gate"].element_size()
                shares(row, array, inputs + 1, 2 * inputs + 2, bandwidth)
                if layout == "btc":
                    names = ("gate", "input", None, "second_gate", "input_gate", "output_gate", "param")
                    given = [data.get(name) for name in names]
                    parts = (layer, "", "one", "none", "none", False, 0.0, 0.0, layout, False)
                    peer = lambda: composed(*given, None, None, None, *parts)[0]
                    row["composed"] = forward_and_backward(peer, list(data.values()))
                yield row


def step_rows(_bandwidth):
    states = 16
    for batch, channels in [(1, 2048), (16, 2048), (64, 4096), (256, 4096)]:
        data = selective_data(batch, channels, 1, states, torch.bfloat16, "btc")
        gate, x, input_gate = (draw(batch, 1, channels, dtype=torch.bfloat16) for _ in range(3))
        param = torch.rand(channels, device="cuda").to(torch.bfloat16)
        first = torch.zeros(batch, channels, device="cuda")
        state = torch.zeros(batch, channels, states, device="cuda")
        last = dict(return_final_state=True)
        rglru = dict(input_gate=input_gate, param=param, layer="rglru")
        calls = {
            "linear": lambda: flashscan.torch.linear_scan(gate, x, first, **last),
            "mingru": lambda: flashscan.torch.gated_scan(gate, x, first, layer="mingru", **last),
            "rglru": lambda: flashscan.torch.gated_scan(gate, x, first, **rglru, **last),
            "selective": lambda: flashscan.torch.selective_scan(*data, state, delta_softplus=True, **last),
        }
        for layer, call in calls.items():
            with torch.no_grad():
                yield dict(family="step", layer=layer, batch=batch, channels=channels, us=round(graph_us(call), 2))


FAMILIES = {"selective": selective_rows, "gated": gated_rows, "steps": step_rows}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", required=True, metavar="FILE", help="where the times are written")
    parser.add_argument("--commit", default="", help="what was built")
    parser.add_argument("--bandwidth", type=float, default=4200, help="GB/s of a copy on this card (H200: 4200)")
    parser.add_argument("--only", choices=FAMILIES, help="one family of rows")
    settings = parser.parse_args()
    torch.manual_seed(0)
    rows = []
    # Autograd runs backward on the stream of forward, which is to be captured and so is not the default one.
    with torch.cuda.stream(torch.cuda.Stream()):
        for name, family in FAMILIES.items():
            for row in family(settings.bandwidth) if settings.only in (None, name) else ():
                print(json.dumps(row), flush=True)
                rows.append(row)
    report = dict(commit=settings.commit, card=torch.cuda.get_device_name(), date=str(datetime.date.today()))
    with open(settings.json, "w") as file:
        json.dump(report | dict(bandwidth_GBs=settings.bandwidth, layers=rows), file, indent=1)
        file.write("\n")


if __name__ == "__main__":
    main()
