# SPDX-License-Identifier: Apache-2.0
"""Times other packages' linear recurrences and prefixes beside flashscan: one process, one GPU, the same tensors.

    python3 bench/peers.py --library build/sm90a/src/libflashscan.so --json peers.json
    python3 bench/peers.py --table prefix --json peers_prefix.json

Each time is the median of single calls between two CUDA events, with the L2 cache flushed before; a short wait on the
GPU lets the host run ahead, so that nobody's Python is measured. jax runs on streams of its own: wall clock over
several calls, caches not flushed. Backward is the gradient of gate and input. Packages that are not installed are
reported and left out.

The table prefix has forward alone: torch.cumsum, cumprod, logcumsumexp and cummax, whose values and indices stand
beside MAX with INDEX, and CUB's DeviceScan for sums, which cub_scan.cu describes. A copy of the elements is timed too.
"""

import argparse
import datetime
import glob
import json
import os
import statistics
import sys
import time

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

import numpy as np
import torch

import flashscan_ctypes as fs
from peer_packages import TORCH_PREFIXES, Case, all_peers, target_ratio

TORCH_DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16, "f64": torch.float64,
                "i32": torch.int32, "i64": torch.int64}

TABLES = {
    # accelerated-scan's own table, time innermost
    "time-innermost": [Case(dtype, "BCT", 8, 2**power, 1536) for dtype in ("f32", "bf16", "f16")
                       for power in range(7, 17)],
    # the shapes of sequential_scan and fla, channel innermost
    "channel-innermost": [Case("bf16", "BTC", 8, 8192, 1024), Case("f32", "BTC", 8, 8192, 1024),
                          Case("bf16", "BTC", 8, 32768, 1536)],
    # 2^26 elements: one row, and many rows in both layouts. Of one row torch.cummax takes four seconds.
    "prefix": [Case(dtype, *shape, operator)
               for shape in (("BTC", 1, 2**26, 1), ("BCT", 8, 8192, 1024), ("BTC", 8, 8192, 1024))
               for dtype in ("f32", "bf16", "f64", "i32", "i64") for operator in TORCH_PREFIXES
               if (operator != "max" or shape[1] > 1) and (operator == "add" or dtype[0] != "i")],
}


class Timer:
    def __init__(self, runs, budget_s):
        self.runs, self.budget_s = runs, budget_s
        cache = torch.cuda.get_device_properties(0).L2_cache_size
        self.flush_buffer = torch.empty(max(4 * cache, 256 << 20), dtype=torch.uint8, device="cuda")

    def on_gpu(self, call):
        """Microseconds of single calls, caches flushed."""
        begin = time.monotonic()
        for _ in range(3):
            call()
        torch.cuda.synchronize()
        times = []
        while len(times) < self.runs and (len(times) < 3 or time.monotonic() - begin < self.budget_s):
            pairs = [(torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)) for _ in range(8)]
            for start, stop in pairs:
                self.flush_buffer.fill_(len(times) & 0xFF)
                torch.cuda._sleep(1_000_000)
                start.record()
                call()
                stop.record()
            torch.cuda.synchronize()
            times += [start.elapsed_time(stop) * 1e3 for start, stop in pairs]
        return times

    def by_wall_clock(self, call, wait):
        """Microseconds of a call among ten, `wait` returning when the last is done."""
        wait(call())
        times = []
        for _ in range(5):
            begin = time.perf_counter()
            for _ in range(10):
                last = call()
            wait(last)
            times.append((time.perf_counter() - begin) * 1e5)
        return times


def random_tensors(case):
    """make(low, high) -> a tensor of the case's shape and dtype."""
    shape = (case.batch, case.time, case.channels) if case.layout == "BTC" else (case.batch, case.channels, case.time)
    generator = torch.Generator("cuda").manual_seed(1)
    return lambda low, high: torch.empty(shape, device="cuda").uniform_(low, high, generator=generator).to(
        TORCH_DTYPES[case.dtype])


class Data:
    """Random tensors of one case, and the recurrence in double precision on a few rows of them."""

    def __init__(self, case):
        self.case = case
        make = random_tensors(case)
        self.gate, self.x, self.grad = make(0.9, 0.999), make(-1, 1), make(-1, 1)
        self.num_bytes = self.x.numel() * self.x.element_size()
        gate, x, grad = self.rows(self.gate), self.rows(self.x), self.rows(self.grad)
        h, g = np.zeros_like(x), np.zeros_like(x)
        for t in range(case.time):
            h[:, t] = x[:, t] + (gate[:, t] * h[:, t - 1] if t else 0)
        for t in reversed(range(case.time)):
            g[:, t] = grad[:, t] + (gate[:, t + 1] * g[:, t + 1] if t + 1 < case.time else 0)
        before = np.concatenate([np.zeros_like(h[:, :1]), h[:, :-1]], axis=1)
        self.expected = {"fwd": [h], "bwd": [g * before, g]}

    def required_bytes(self, backward):
        return self.num_bytes * (5 if backward else 3)

    def rows(self, tensor):
        """Some [row, time] of a tensor, as float64 on the host."""
        first, last = tensor[0], tensor[-1]
        if self.case.layout == "BTC":
            first, last = first.t(), last.t()
        return torch.cat([first[:2], last[-2:]]).detach().to("cpu", torch.float64).numpy()

    def error(self, direction, tensors):
        """Largest difference over the largest value."""
        return max(float(np.abs(self.rows(got) - want).max() / np.abs(want).max())
                   for got, want in zip(tensors, self.expected[direction]))


class PrefixData:
    """Random elements of one case, and their prefixes in double precision, by PyTorch."""

    def __init__(self, case):
        self.case, self.axis = case, case.layout.index("T")
        most = 1000 if case.dtype[0] == "i" else 1
        self.x = random_tensors(case)(-most, most)
        if case.operator == "mul":
            self.x = torch.ones_like(self.x).copysign(self.x)  # products of other numbers overflow or vanish
        self.num_bytes = self.x.numel() * self.x.element_size()
        prefixes = getattr(torch, TORCH_PREFIXES[case.operator])(self.x.double(), self.axis)
        self.expected = prefixes[0] if case.operator == "max" else prefixes

    def required_bytes(self, backward):
        return 2 * self.num_bytes + (8 * self.x.numel() if self.case.operator == "max" else 0)

    def error(self, direction, tensors):
        """Largest difference over the largest value; of an index, that of the element that it names."""
        values, *indices = tensors
        return max(float((got.double() - self.expected).abs().max() / self.expected.abs().max())
                   for got in (values, *(self.x.gather(self.axis, index) for index in indices)))


def time_flashscan(library, timer, data, backward):
    case = data.case
    plan = fs.LinearPlan(library, case.dtype, case.layout, case.batch, case.time, case.channels)
    stream = torch.cuda.current_stream().cuda_stream
    output = torch.empty_like(data.x)
    forward = plan.bind(False, {fs.INPUT: data.x.data_ptr(), fs.GATE: data.gate.data_ptr(),
                                fs.OUTPUT: output.data_ptr()}, data.num_bytes, stream)
    if not backward:
        times = timer.on_gpu(forward)
        return times, data.error("fwd", [output])
    forward()
    grad_gate, grad_x = torch.empty_like(data.gate), torch.empty_like(data.x)
    call = plan.bind(True, {fs.GATE: data.gate.data_ptr(), fs.OUTPUT: output.data_ptr(),
                            fs.GRAD | fs.OUTPUT: data.grad.data_ptr(), fs.GRAD | fs.INPUT: grad_x.data_ptr(),
                            fs.GRAD | fs.GATE: grad_gate.data_ptr()}, data.num_bytes, stream)
    times = timer.on_gpu(call)
    return times, data.error("bwd", [grad_gate, grad_x])


def time_flashscan_prefix(library, timer, data, backward):
    case = data.case
    plan = fs.OperatorPlan(library, case.operator, case.dtype, case.layout, case.batch, case.time, case.channels)
    outputs = {fs.OUTPUT: torch.empty_like(data.x)}
    if case.operator == "max":
        outputs[fs.INDEX] = torch.empty_like(data.x, dtype=torch.int64)
    pointers = {key: tensor.data_ptr() for key, tensor in {fs.INPUT: data.x, **outputs}.items()}
    times = timer.on_gpu(plan.bind(False, pointers, None, torch.cuda.current_stream().cuda_stream))
    return times, data.error("fwd", outputs.values())


def time_prefix_peer(peer, timer, data, backward):
    error = data.error("fwd", peer.scan(data.x))
    return timer.on_gpu(lambda: peer.scan(data.x)), error


def time_torch_peer(peer, timer, data, backward):
    gate = torch.log(data.gate.float()).to(data.gate.dtype) if peer.log_gate else data.gate.clone()
    x = data.x.clone()
    if not backward:
        with torch.no_grad():
            error = data.error("fwd", [peer.scan(gate, x)])
            return timer.on_gpu(lambda: peer.scan(gate, x)), error
    gate.requires_grad_(), x.requires_grad_()
    output = peer.scan(gate, x)
    call = lambda: torch.autograd.grad(output, (gate, x), data.grad, retain_graph=True)
    grad_gate, grad_x = call()
    # d/dg of exp(g) is exp(g) times d/da.
    error = data.error("bwd", [grad_gate / data.gate if peer.log_gate else grad_gate, grad_x])
    return timer.on_gpu(call), error


def time_jax_peer(peer, timer, data, backward):
    import jax

    gate, x, grad = (jax.dlpack.from_dlpack(t) for t in (data.gate, data.x, data.grad))
    to_torch = lambda array: torch.utils.dlpack.from_dlpack(array)
    if not backward:
        function = jax.jit(peer.scan)
        error = data.error("fwd", [to_torch(function(gate, x))])
        return timer.by_wall_clock(lambda: function(gate, x), jax.block_until_ready), error
    # Forward is part of it: jax keeps nothing between the two that could be timed apart.
    function = jax.jit(lambda gate, x, grad: jax.vjp(peer.scan, gate, x)[1](grad))
    error = data.error("bwd", [to_torch(array) for array in function(gate, x, grad)])
    return timer.by_wall_clock(lambda: function(gate, x, grad), jax.block_until_ready), error


def entry(name, times, error, required_bytes, note=""):
    median = statistics.median(times)
    return {"name": name, "median_us": round(median, 3), "min_us": round(min(times), 3), "runs": len(times),
            "gbps": round(required_bytes / median * 1e-3, 1), "error": error, "note": note}


def run_case(case, backward, data, library, peers, timer):
    required = data.required_bytes(backward)
    time_ours = time_flashscan_prefix if case.operator else time_flashscan
    results = [entry("flashscan", *time_ours(library, timer, data, backward), required)]
    for peer in peers:
        if (peer.operator, peer.layout) != (case.operator, case.layout):
            continue
        reason = peer.refuses(case, backward)
        if reason is None:
            try:
                time_peer = time_prefix_peer if case.operator else time_jax_peer if peer.jax else time_torch_peer
                note = ("wall clock, forward included" if backward else "wall clock") if peer.jax else ""
                results.append(entry(peer.name, *time_peer(peer, timer, data, backward), required, note))
                continue
            except Exception as failure:  # one peer's failure must not lose the others' times
                reason = f"{type(failure).__name__}: {str(failure).splitlines()[0][:160] if str(failure) else ''}"
        results.append({"name": peer.name, "note": reason})
    for result in results[1:]:
        if "median_us" in result:
            result["ratio"] = round(result["median_us"] / results[0]["median_us"], 2)
            result["target_ratio"] = target_ratio(result["name"], case.dtype, case.time)
    direction = "bwd" if backward else "fwd"
    row = {"problem": problem_of(case, direction), "pass": direction, "dtype": case.dtype, "layout": case.layout,
           "batch": case.batch, "time": case.time, "channels": case.channels, "required_bytes": required,
           "results": results}
    if case.operator:
        output = torch.empty_like(data.x)
        row["copy_us"] = round(statistics.median(timer.on_gpu(lambda: output.copy_(data.x))), 3)
    return row


def problem_of(case, direction):
    """The case as a line of flashscan_bench."""
    extents = f"b{case.batch} t{case.time} c{case.channels}"
    if not case.operator:
        return f"linear {direction} {case.dtype} {case.layout} {extents}"
    options = (" BCT" if case.layout == "BCT" else "") + (" index" if case.operator == "max" else "")
    return f"operator {case.operator} {direction} {case.dtype} {extents}{options}"


def print_case(row):
    print(row["problem"] + (f", a copy {row['copy_us']:.1f} us" if "copy_us" in row else ""))
    for result in row["results"]:
        if "median_us" not in result:
            print(f"    {result['name']:<26} {result['note']}")
            continue
        ratio = f"{result['ratio']:6.2f} x" if "ratio" in result else " " * 8
        target = result.get("target_ratio")
        verdict = f"(target {target:g} x, {'met' if result['ratio'] >= target else 'MISSED'})" if target else ""
        print(f"    {result['name']:<26} {result['median_us']:>10.1f} us {result['gbps']:>7.0f} GB/s {ratio} {verdict:<22}"
              f" error {result['error']:.1e}  {result['note']}")
    sys.stdout.flush()


def default_library():
    root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
    found = sorted(glob.glob(os.path.join(root, "build", "*", "src", "libflashscan.so")), key=os.path.getmtime)
    return found[-1] if found else "libflashscan.so"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", default=default_library(), help="libflashscan.so with CUDA (default: newest build)")
    parser.add_argument("--table", choices=[*TABLES, "all"], default="all")
    parser.add_argument("--dtype", choices=TORCH_DTYPES, action="append", help="only these dtypes; may be repeated")
    parser.add_argument("--peers", default="", help="comma-separated parts of names; only these peers")
    parser.add_argument("--max-time", type=int, default=1 << 30, help="leave out longer sequences")
    parser.add_argument("--runs", type=int, default=30)
    parser.add_argument("--budget-s", type=float, default=3.0, help="for the runs of one package on one case")
    parser.add_argument("--json")
    parser.add_argument("--commit", default="")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit("peers.py: torch sees no CUDA device")
    library = fs.Library(options.library)
    tables = TABLES if options.table == "all" else {options.table: TABLES[options.table]}
    peers, missing = all_peers({case.operator for table in tables.values() for case in table})
    wanted = [part for part in options.peers.split(",") if part]
    peers = [peer for peer in peers if not wanted or any(part in peer.name for part in wanted)]
    for name, reason in missing.items():
        print(f"{name}: {reason}")
    timer = Timer(options.runs, options.budget_s)
    report = {"format": "flashscan_peers 1", "library_version": library.version(), "commit": options.commit,
              "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
              "device": torch.cuda.get_device_name(0), "torch": torch.__version__, "runs": options.runs,
              "missing": missing, "cases": []}
    for case in (case for table in tables.values() for case in table):
        if case.time > options.max_time or options.dtype and case.dtype not in options.dtype:
            continue
        data = (PrefixData if case.operator else Data)(case)
        for backward in (False,) if case.operator else (False, True):
            row = run_case(case, backward, data, library, peers, timer)
            print_case(row)
            report["cases"].append(row)
            if options.json:
                with open(options.json, "w", encoding="utf-8") as file:
                    json.dump(report, file, indent=1)
        del data
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
