# SPDX-License-Identifier: Apache-2.0
"""Times prefix products of matrices beside what else is there, on the CPU or, with --cuda, on a GPU.

    python3 bench/peers_operator.py --threads 2 --json peers_operator.json
    python3 bench/peers_operator.py --cuda --json peers_operator.json

On the CPU: the same scan written in NumPy, a tree of 2n batched products. On a GPU: prefix_scan and reduce_scan of
torch_parallel_scan with torch.matmul, if that package is installed; median of calls between CUDA events. Both work on
the same arrays in one process and write into memory that they allocate. Needs NumPy or PyTorch and the flashscan package,
for which FLASHSCAN_LIBRARY may name a library that is not installed. OMP_NUM_THREADS and the like limit NumPy's threads.
"""

import argparse
import json
import statistics
import time

import numpy as np

import flashscan

CUDA_SHAPES = [
    (1000, 32),
    (1000, 64),
    (1000, 128),
    (1000, 256),
    (1000, 512),
    (8192, 64),
    (8192, 16),
    (65536, 4),
    (1048576, 2),
]
SHAPES = [(65536, 4), (8192, 8), (8192, 16), (1000, 32), (1000, 64), (1000, 128)]


def tree(x):
    """Prefixes by pairs, recursively: products of neighbours, their prefixes, and those in between."""
    n = len(x)
    if n == 1:
        return x.copy()
    y = np.empty_like(x)
    y[0] = x[0]
    y[1::2] = tree(x[: n - 1 : 2] @ x[1::2])
    np.matmul(y[1 : n - 1 : 2], x[2::2], out=y[2::2])
    return y


def median_us(call, runs):
    call()
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        call()
        times.append((time.perf_counter() - start) * 1e6)
    return statistics.median(times)


def cuda_us(torch, call, runs):
    for _ in range(3):
        call()
    times = []
    for _ in range(runs):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        call()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end) * 1e3)
    return statistics.median(times)


def on_gpu(options):
    import torch
    import torch_parallel_scan as peer

    rows = []
    print(f"{'n x d x d, f32':<20} {'what':<7} {'torch_parallel_scan us':>23} {'flashscan us':>13} {'ratio':>6}")
    for n, d in CUDA_SHAPES:
        x = torch.rand(n, d, d, device="cuda")
        x /= x.sum(-1, keepdim=True)
        calls = {
            "prefix": (lambda: peer.prefix_scan(x, torch.matmul, dim=-3), lambda: flashscan.prefix_scan(x, "matmul")),
            "reduce": (lambda: peer.reduce_scan(x, torch.matmul, dim=-3), lambda: flashscan.reduce(x, "matmul")),
        }
        for what, (theirs, ours) in calls.items():
            want, got = theirs(), ours()
            assert torch.allclose(got, want.reshape(got.shape), rtol=2e-3, atol=1e-6), (n, d, what)
            del want, got
            runs = max(5, min(options.runs, 20_000_000 // (n * d)))
            peer_us, own_us = cuda_us(torch, theirs, runs), cuda_us(torch, ours, options.runs)
            print(f"{f'{n} x {d} x {d}':<20} {what:<7} {peer_us:>23.0f} {own_us:>13.1f} {peer_us / own_us:>6.1f}")
            rows.append({"n": n, "d": d, "what": what, "peer_us": peer_us, "flashscan_us": own_us})
            rows[-1]["ratio"] = peer_us / own_us
    return {"torch": torch.__version__, "device": torch.cuda.get_device_name(), "rows": rows}


def on_cpu(options):
    rng, rows = np.random.default_rng(0), []
    print(f"{'n x d x d, f32':<16} {'NumPy us':>10} {'flashscan us':>13} {'ratio':>6}")
    for n, d in SHAPES:
        x = rng.random((n, d, d), dtype=np.float32)
        x /= x.sum(-1, keepdims=True)
        got, want = flashscan.prefix_scan(x, "matmul", threads=options.threads), tree(x)
        assert np.allclose(got, want, rtol=1e-3, atol=1e-6), (n, d)
        numpy_us = median_us(lambda: tree(x), options.runs)
        own_us = median_us(lambda: flashscan.prefix_scan(x, "matmul", threads=options.threads), options.runs)
        print(f"{f'{n} x {d} x {d}':<16} {numpy_us:>10.0f} {own_us:>13.0f} {numpy_us / own_us:>6.1f}")
        rows.append({"n": n, "d": d, "numpy_us": numpy_us, "flashscan_us": own_us, "ratio": numpy_us / own_us})
    return {"numpy": np.__version__, "threads": options.threads, "rows": rows}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=0, help="of flashscan; 0: all")
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--json", help="write the times here")
    parser.add_argument("--cuda", action="store_true", help="on a GPU, beside torch_parallel_scan")
    options = parser.parse_args()
    report = {"format": "flashscan_peers_operator 1", **(on_gpu(options) if options.cuda else on_cpu(options))}
    if options.json:
        with open(options.json, "w") as file:
            json.dump(report, file, indent=2)


if __name__ == "__main__":
    main()
