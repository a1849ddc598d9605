# SPDX-License-Identifier: Apache-2.0
"""Times prefix products of matrices on the CPU beside the same scan written in NumPy, a tree of 2n batched products.

    python3 bench/peers_operator.py --threads 2 --json peers_operator.json

Both write into memory that they allocate, from the same arrays, in one process. Needs NumPy and the flashscan package,
for which FLASHSCAN_LIBRARY may name a library that is not installed. OMP_NUM_THREADS and the like limit NumPy's threads.
"""

import argparse
import json
import statistics
import time

import numpy as np

import flashscan

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


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=0, help="of flashscan; 0: all")
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--json", help="write the times here")
    options = parser.parse_args()
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
    if options.json:
        with open(options.json, "w") as file:
            json.dump({"numpy": np.__version__, "threads": options.threads, "rows": rows}, file, indent=2)


if __name__ == "__main__":
    main()
