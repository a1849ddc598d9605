# SPDX-License-Identifier: Apache-2.0
"""What a call from Python costs beside its work: calls on arrays of a few elements, whose plans are cached.

    python3 bench/python_overhead.py [--json overhead.json] [--limit 10]

Microseconds a call by one thread, the least of 20 rounds, on NumPy arrays and, where PyTorch and CuPy are
installed, on their arrays on the CPU and on a GPU; there the stream is waited for after each round only. With --limit the exit status tells whether every
call on the CPU stays below it.
"""

import argparse
import json
import sys
import timeit

import numpy as np

import flashscan

try:
    import torch
except ImportError:
    torch = None
try:
    import cupy
except ImportError:
    cupy = None


def calls_on(convert, threads):
    """Calls by name."""
    linear, states = np.full((1, 4, 1), 0.5, np.float32), np.zeros((1, 1), np.float32)
    gate, x, state = (convert(array) for array in (linear, linear, states))
    Wx, R, b = (convert(np.full(shape, 0.1, np.float32)) for shape in ((1, 1, 4, 1, 2), (4, 1, 2, 2), (4, 1, 2)))
    W = convert(np.full((4, 1, 1), 0.5, np.float32))
    vectors = convert(np.full((4, 1), 0.5, np.float32))
    h = flashscan.linear_scan(gate, x)
    return {
        "linear_scan": lambda: flashscan.linear_scan(gate, x, threads=threads),
        "linear_scan, states": lambda: flashscan.linear_scan(gate, x, state, return_final_state=True, threads=threads),
        "linear_scan_backward": lambda: flashscan.linear_scan_backward(gate, h, x, threads=threads),
        "rnn": lambda: flashscan.rnn(Wx, R, b, threads=threads),
        "prefix_scan add": lambda: flashscan.prefix_scan(x, "add", axis=1, threads=threads),
        "affine_scan": lambda: flashscan.affine_scan(W, vectors, threads=threads),
    }


def microseconds(call, finish):
    call(), call()

    def round_of(number):
        for _ in range(number):
            call()
        finish()

    return min(timeit.repeat(lambda: round_of(500), number=1, repeat=20)) / 500 * 1e6


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", help="file to write the results to")
    parser.add_argument("--limit", type=float, help="microseconds that no call on the CPU may reach")
    args = parser.parse_args()
    kinds = {"NumPy": (lambda array: array, lambda: None)}
    if torch is not None:
        kinds["torch cpu"] = (torch.from_numpy, lambda: None)
        if torch.cuda.is_available() and flashscan.device_count("cuda"):
            kinds["torch cuda"] = (lambda array: torch.from_numpy(array).cuda(), torch.cuda.synchronize)
    if cupy is not None and cupy.cuda.is_available() and flashscan.device_count("cuda"):
        kinds["cupy cuda"] = (cupy.asarray, cupy.cuda.runtime.deviceSynchronize)
    results, slow = {}, []
    for kind, (convert, finish) in kinds.items():
        for name, call in calls_on(convert, threads=0 if "cuda" in kind else 1).items():
            try:
                time = microseconds(call, finish)
            except flashscan.FlashscanError as error:
                print(f"{kind:10}  {name:22}  {error}")
                continue
            results.setdefault(kind, {})[name] = round(time, 2)
            print(f"{kind:10}  {name:22}  {time:6.2f} us")
            if args.limit and "cuda" not in kind and time >= args.limit:
                slow.append(f"{kind} {name}")
    if args.json:
        with open(args.json, "w") as file:
            json.dump({"flashscan": flashscan.__version__, "microseconds": results}, file, indent=1)
    if slow:
        sys.exit(f"{args.limit} us or more: {', '.join(slow)}")


if __name__ == "__main__":
    main()
