# SPDX-License-Identifier: Apache-2.0
"""Times recurrent layers of other packages beside flashscan's: one process, the same tensors.

    python3 bench/peers_rnn.py --library build/sm90a/src/libflashscan.so --json peers_rnn.json
    python3 bench/peers_rnn.py --device cpu --threads 2
    python3 bench/peers_rnn.py --table large
    python3 bench/peers_rnn.py --table diagonal

On a GPU PyTorch's layers are cuDNN's. They include the product of input and input weights, which flashscan takes as
given: it is timed by itself, with PyTorch, and "recurrence" is the layer's time less the product's. FlashRNN is timed
with --flashrnn where it is installed: it compiles for about a minute per shape. Table "large" has many rows, in f32 with
the factors of products rounded to tf32 by both or by none. Table "diagonal" has heads of one unit beside loops of torch.compile: a
compiled step called for each step, the same captured in a CUDA graph, and a compiled function of 32 steps captured for all
of them; one function of 4096 steps would take torch.compile minutes. Times of a GPU are medians of calls
between two CUDA events, with the L2 cache flushed before; what takes longer than the budget is timed once. A cell's outputs and
gradient of R are compared with PyTorch's in f64 before anything is timed. The JSON is written after every time.
"""

import argparse
import dataclasses
import datetime
import json
import statistics
import sys
import time

import torch

import flashscan_ctypes as fs
from peers import default_library

DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}
LAYERS = {"lstm": (torch.nn.LSTM, 4), "gru": (torch.nn.GRU, 3), "elman": (torch.nn.RNN, 1), "slstm": (None, 4)}


@dataclasses.dataclass
class Case:
    cell: str
    dtype: str
    batch: int
    heads: int
    dim: int
    time: int = 1024
    inputs: int = 0  # 0: as many as outputs
    tf32: bool = False

    gates = property(lambda self: LAYERS[self.cell][1])
    width = property(lambda self: self.heads * self.dim)
    name = property(lambda self: f"{self.cell} {self.dtype} b{self.batch} t{self.time} h{self.heads} d{self.dim}"
                    f"{' tf32' if self.tf32 else ''}")


def cases_of(table):
    if table == "cpu":
        cases = [Case(cell, "f32", 16, 1, 256, 200, inputs) for cell in ("lstm", "gru", "elman") for inputs in (1, 256)]
        return cases + [Case("lstm", "f32", batch, 1, dim, time, 1) for batch, dim, time in (
            (1, 256, 64), (1, 1024, 64), (16, 1024, 64), (64, 256, 64), (1, 256, 1), (1, 1024, 1), (16, 256, 1), (16, 1024, 1))]
    if table == "large":
        return [Case("lstm", dtype, *shape, 256, 0, tf32) for shape in ((64, 1, 1024), (128, 1, 1024), (256, 1, 768))
                for dtype, tf32 in (("f16", False), ("f32", False), ("f32", True))]
    if table == "diagonal":
        return [Case(cell, dtype, 8, 1024, 1, 4096, 1) for cell in ("gru", "lstm") for dtype in ("f32", "bf16")]
    shapes = [(16, 1, 64), (16, 1, 128), (16, 1, 256), (16, 1, 512), (16, 1, 768), (16, 1, 1024), (64, 1, 768),
              (1, 1, 768), (16, 12, 64), (16, 6, 128), (16, 3, 256)]
    cases = [Case("lstm", dtype, *shape) for shape in shapes for dtype in ("f16", "bf16")]
    cases += [Case(cell, dtype, 16, 1, 768) for cell in ("gru", "elman") for dtype in ("f16", "bf16")]
    return cases + [Case("slstm", "bf16", 16, 12, 64), Case("slstm", "bf16", 16, 1, 768)]


class Timer:
    """Microseconds of a call: the median on a GPU, the least on a CPU, which other work shares."""

    def __init__(self, device, runs, budget_s):
        self.cuda, self.runs, self.budget_s = device == "cuda", runs, budget_s
        if self.cuda:
            cache = torch.cuda.get_device_properties(0).L2_cache_size if hasattr(
                torch.cuda.get_device_properties(0), "L2_cache_size") else 64 << 20
            self.flush_buffer = torch.empty(4 * cache, dtype=torch.uint8, device="cuda")

    def once(self, call):
        if not self.cuda:
            begin = time.perf_counter()
            call()
            return (time.perf_counter() - begin) * 1e6
        start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        self.flush_buffer.zero_()
        torch.cuda._sleep(200_000)  # the host runs ahead, so that its own part before the first launch does not count
        start.record()
        call()
        stop.record()
        stop.synchronize()
        return start.elapsed_time(stop) * 1e3

    def __call__(self, call):
        call()
        slow = self.once(call) * 1e-6 > self.budget_s
        begin, times = time.monotonic(), []
        while len(times) < self.runs and (len(times) < 3 or time.monotonic() - begin < self.budget_s):
            times.append(self.once(call))
            if slow:
                break
        return statistics.median(times) if self.cuda else min(times)


class Data:
    """A layer's tensors; x and output are [time, batch, ...]."""

    def __init__(self, case, device):
        self.case = case
        generator = torch.Generator(device).manual_seed(1)
        dtype, inputs = DTYPES[case.dtype], case.inputs or case.width

        def make(scale, *shape):
            return torch.empty(shape, device=device).uniform_(-scale, scale, generator=generator).to(dtype)

        scale = case.dim ** -0.5
        self.x = make(1, case.time, case.batch, inputs)
        self.weight_in = make(inputs ** -0.5, case.gates, case.heads, case.dim, inputs)
        self.weight = make(scale, case.gates, case.heads, case.dim, case.dim)
        self.bias_in = make(scale, case.gates, case.heads, case.dim)
        self.bias = make(scale, case.gates, case.heads, case.dim)
        self.grad = make(1, case.time, case.batch, case.heads, case.dim)

    def input_product(self):
        """[time, batch, gates, heads, dim]"""
        case = self.case
        product = self.x @ self.weight_in.reshape(-1, self.x.shape[-1]).t()
        return product.reshape(case.time, case.batch, case.gates, case.heads, case.dim)

    def joined_bias(self):
        """As flashscan takes it: GRU's n has one outside and one inside of the reset."""
        if self.case.cell == "gru":
            return torch.cat([self.bias_in[:2] + self.bias[:2], self.bias_in[2:], self.bias[2:]]).contiguous()
        return self.bias_in + self.bias

    def layer(self, head, dtype):
        """PyTorch's layer of one head."""
        case = self.case
        layer = LAYERS[case.cell][0](self.x.shape[-1], case.dim, device=self.x.device, dtype=dtype)
        with torch.no_grad():
            for name, value in (("weight_ih_l0", self.weight_in), ("weight_hh_l0", self.weight),
                                ("bias_ih_l0", self.bias_in), ("bias_hh_l0", self.bias)):
                parameter = getattr(layer, name)
                parameter.copy_(value[:, head].reshape(parameter.shape))
        layer.flatten_parameters()
        return layer


    def reference(self, head, dtype):
        """The output and the gradient of R of PyTorch's layer of one head."""
        layer = self.layer(head, dtype)
        output = layer(self.x.to(dtype))[0]
        output.backward(self.grad[:, :, head].to(dtype))
        return output.detach(), layer.weight_hh_l0.grad.reshape(self.weight[:, head].shape)


class Flashscan:
    def __init__(self, library, data, device, threads, kernel):
        case = data.case
        options = {"backend": fs.CUDA if device == "cuda" else fs.CPU, "threads": threads, "kernel": kernel,
                   "tf32": case.tf32}
        stream = torch.cuda.current_stream().cuda_stream if device == "cuda" else None
        make = lambda training: fs.RnnPlan(library, case.cell, case.dtype, "TBGHD", case.batch, case.time, case.heads,
                                           case.dim, training, **options)
        inference, training = make(False), make(True)
        self.kernel = training.kernel()
        self.output = torch.empty_like(data.grad)
        self.grad_weight = torch.empty_like(data.weight)
        self.kept = [data.input_product().contiguous(), data.joined_bias(), inference, training]
        wx, bias = self.kept[:2]
        reserve = torch.empty(training.arg_bytes(False, fs.RESERVE) + 256, dtype=torch.uint8, device=data.x.device)
        aligned = (reserve.data_ptr() + 255) // 256 * 256
        self.grads = [torch.empty_like(wx), torch.empty_like(bias), reserve]
        forward = {fs.INPUT: wx.data_ptr(), fs.WEIGHT: data.weight.data_ptr(), fs.BIAS: bias.data_ptr(),
                   fs.OUTPUT: self.output.data_ptr()}
        backward = {fs.WEIGHT: data.weight.data_ptr(), fs.OUTPUT: self.output.data_ptr(), fs.RESERVE: aligned,
                    fs.GRAD | fs.OUTPUT: data.grad.data_ptr(), fs.GRAD | fs.INPUT: self.grads[0].data_ptr(),
                    fs.GRAD | fs.WEIGHT: self.grad_weight.data_ptr(), fs.GRAD | fs.BIAS: self.grads[1].data_ptr()}
        self.forward = inference.bind(False, forward, None, stream)
        self.forward_training = training.bind(False, {**forward, fs.RESERVE: aligned}, None, stream)
        self.backward = training.bind(True, backward, None, stream)

    def both(self):
        self.forward_training()
        self.backward()

    def time(self, timer):
        times = {"forward": timer(self.forward), "forward_training": timer(self.forward_training),
                 "backward": timer(self.backward)}
        return {**times, "both": timer(self.both), "kernel": self.kernel}

    def compare(self, data):
        """The largest error of the output and of R's gradient, that of PyTorch in f32 at the same place, and whether ours is
        accepted. Errors are from PyTorch in f64, relative to the head's largest value. They have no fixed bound in f32: a
        head of one unit has gradients that are sums of all steps, and may nearly cancel."""
        self.both()
        if LAYERS[data.case.cell][0] is None:
            right = bool(torch.isfinite(self.output.float()).all())
            return 0.0 if right else float("nan"), 0.0, right
        limit = 1e-4 if data.case.dtype == "f32" and not data.case.tf32 else 5e-2
        worst, right = (0.0, 0.0), True
        for head in sorted({0, data.case.heads - 1}):
            exact, plain = (data.reference(head, dtype) for dtype in (torch.float64, torch.float32))
            for got, want, other in zip((self.output[:, :, head], self.grad_weight[:, head]), exact, plain):
                pair = tuple(((each.double() - want).abs().max() / want.abs().max()).item() for each in (got, other))
                right = right and pair[0] <= max(limit, 8 * pair[1])
                worst = max(worst, pair)
        return *worst, right


def time_torch(data, timer):
    case = data.case
    layer = data.layer(0, DTYPES[case.dtype])
    x, grad = data.x.clone().requires_grad_(), data.grad[:, :, 0].contiguous()

    def forward():
        with torch.no_grad():
            layer(x)

    def both():
        layer.zero_grad(set_to_none=True)
        x.grad = None
        layer(x)[0].backward(grad)

    layer.eval()
    inference = timer(forward)
    layer.train()
    times = {"forward": inference, "forward_training": timer(lambda: layer(x)), "both": timer(both)}
    rows, weight = data.x.reshape(-1, x.shape[-1]), data.weight_in.reshape(-1, x.shape[-1])
    grad_rows = torch.ones(rows.shape[0], weight.shape[0], dtype=x.dtype, device=x.device)
    product = timer(lambda: rows @ weight.t())
    products = product + timer(lambda: (grad_rows @ weight, grad_rows.t() @ rows))
    return {**times, "product": product, "products": products,
            "recurrence": {"forward": times["forward"] - product, "both": times["both"] - products}}


def gru_step(wx, states, R, b):
    """A step of heads of one unit: wx [B, G, H], R and b [G, H] (b of 4 gates)."""
    (h,) = states
    r, z = torch.sigmoid(wx[:, :2] + R[:2] * h.unsqueeze(1) + b[:2]).unbind(1)
    n = torch.tanh(wx[:, 2] + b[2] + r * (R[2] * h + b[3]))
    return ((1 - z) * n + z * h,)


def lstm_step(wx, states, R, b):
    h, c = states
    i, f, z, o = (wx + R * h.unsqueeze(1) + b).unbind(1)
    c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(z)
    return torch.sigmoid(o) * torch.tanh(c), c


def in_a_graph(call):
    """`call` captured in a CUDA graph: its replay."""
    call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    return graph.replay


def compiled_loops(data, ours, timer, keep, steps=32):
    """Keeps the times of loops over the steps of heads of one unit by torch.compile. Their states are in the data's dtype,
    where flashscan's are f32."""
    case, cuda = data.case, data.x.device.type == "cuda"
    step = {"gru": gru_step, "lstm": lstm_step}[case.cell]
    wx, R, b = ours.kept[0].flatten(-2), data.weight.flatten(1), ours.kept[1].flatten(1)
    grad = data.grad.flatten(-2)
    start = (torch.zeros_like(grad[0]),) * (2 if case.cell == "lstm" else 1)

    def many(wx, states, R, b):
        outputs = []
        for t in range(wx.shape[0]):
            states = step(wx[t], states, R, b)
            outputs.append(states[0])
        return torch.stack(outputs), states

    one, some = (torch.compile(function, fullgraph=True, dynamic=False) for function in (step, many))

    def loop(wx, R, b):
        states, outputs = start, []
        for part in wx.unbind():
            states = one(part, states, R, b)
            outputs.append(states[0])
        return torch.stack(outputs)

    @torch.no_grad()
    def forward():
        return loop(wx, R, b)

    @torch.no_grad()
    def forward_some():
        states, outputs = start, []
        for part in wx.split(steps):
            output, states = some(part, states, R, b)
            outputs.append(output)
        return torch.cat(outputs)

    def both():
        given = [each.detach().requires_grad_() for each in (wx, R, b)]
        torch.autograd.grad(loop(*given), given, grad)

    ours.forward()
    difference = ((forward() - ours.output.flatten(-2)).abs().max() / ours.output.abs().max()).item()
    times = {"forward": timer(forward), "difference": difference}
    keep("torch.compile, a step", times)
    if cuda:
        keep("the same in a graph", {"forward": timer(in_a_graph(forward))})
        keep(f"{steps} steps, in a graph", {"forward": timer(in_a_graph(forward_some))})
    keep("torch.compile, a step", {**times, "both": timer(both)})


def time_flashrnn(data, timer):
    from flashrnn import flashrnn

    case = data.case
    wx = data.input_product().transpose(0, 1).contiguous().requires_grad_()
    weight, bias = data.weight.clone().requires_grad_(), data.joined_bias().requires_grad_()
    grad = data.grad.transpose(0, 1).contiguous()
    name = {"f32": "float32", "bf16": "bfloat16", "f16": "float16"}[case.dtype]
    backend = "cuda" if case.cell == "gru" else "cuda_fused"

    def run():
        return flashrnn(wx, weight, bias, function=case.cell, backend=backend, dtype=name)[0][0]

    def forward():
        with torch.no_grad():
            run()

    def both():
        wx.grad = weight.grad = bias.grad = None
        run().backward(grad.reshape(case.batch, case.time, case.heads, case.dim))

    return {"forward": timer(forward), "both": timer(both), "backend": backend}


def run_case(case, library, timer, options, row, save):
    """Fills in the row, and saves after each of the results."""
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    data = Data(case, options.device)
    ours = Flashscan(library, data, options.device, options.threads, options.kernel)
    error, error_f32, right = ours.compare(data)
    row.update(inputs=case.inputs or case.width, time=case.time, error=error, error_f32=error_f32, unit="us", results={})

    def keep(name, result):
        row["results"][name] = result
        save()

    if not right:
        return keep("flashscan", "WRONG")
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = case.tf32
    keep("flashscan", ours.time(timer))
    peers = {}
    if case.dim == 1:
        for kernel in ("diagonal", "diagonal_newton") if options.device == "cuda" else ():
            keep(f"flashscan, {kernel}", Flashscan(library, data, options.device, 0, kernel).time(timer))
        peers["torch.compile"] = lambda: compiled_loops(data, ours, timer, keep)
    if LAYERS[case.cell][0] is not None and case.heads == 1:
        name = "cuDNN" if options.device == "cuda" else "torch"
        peers[name] = lambda: keep(name, time_torch(data, timer))
    if options.flashrnn:
        peers["FlashRNN"] = lambda: keep("FlashRNN", time_flashrnn(data, timer))
    for name, measure in peers.items():
        try:
            measure()
        except Exception as failure:  # one peer's failure must not lose the others' times
            keep(name, f"{type(failure).__name__}: {str(failure).splitlines()[0][:160] if str(failure) else ''}")


def print_row(row):
    ours, steps = row["results"]["flashscan"], row["time"]
    print(f"{row['problem']}, {row['inputs']} inputs, error {row['error']:.1e}, PyTorch's in f32 {row['error_f32']:.1e}")
    for name, times in row["results"].items():
        if isinstance(times, str):
            print(f"    {name:<22} {times}")
            continue
        for label, part in ((name, times), (name + ", recurrence", times.get("recurrence", {}))):
            if not part:
                continue
            cells = "".join(f"{part[key] / steps:12.3f}" if key in part else " " * 11 + "–"
                            for key in ("forward", "forward_training", "both"))
            ratio = "" if name == "flashscan" else "   ratio" + "".join(
                f" {part[key] / ours[key]:.2f}" for key in ("forward", "both") if key in part)
            print(f"    {label:<22}{cells}{ratio}{'   ' + part['kernel'] if 'kernel' in part else ''}"
                  f"{'   difference %.1e' % part['difference'] if 'difference' in part else ''}")
    sys.stdout.flush()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", default=default_library(), help="libflashscan.so (default: newest build)")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--table", choices=["cuda", "cpu", "large", "diagonal"],
                        help="the problems of a table, instead of those for the device")
    parser.add_argument("--kernel", help="force flashscan's kernel")
    parser.add_argument("--cells", nargs="+", choices=LAYERS, default=list(LAYERS))
    parser.add_argument("--only", default="", help="only problems whose name contains this")
    parser.add_argument("--steps", type=int, help="instead of the cases' own")
    parser.add_argument("--threads", type=int, default=1, help="of the CPU")
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--budget-s", type=float, default=0.3, help="for the runs of one time")
    parser.add_argument("--flashrnn", action="store_true")
    parser.add_argument("--json")
    parser.add_argument("--commit", default="")
    parser.add_argument("--note", default="", help="kept in the JSON: the machine, PyTorch's BLAS")
    options = parser.parse_args()
    if options.device == "cuda":
        options.threads = 0
    else:
        torch.set_num_threads(options.threads)
    library, timer = fs.Library(options.library), Timer(options.device, options.runs, options.budget_s)
    device = torch.cuda.get_device_name(0) if options.device == "cuda" else f"CPU, {options.threads} threads"
    report = {"format": "flashscan_peers_rnn 1", "library_version": library.version(), "commit": options.commit,
              "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"), "device": device,
              "torch": torch.__version__, "cudnn": torch.backends.cudnn.version(), "note": options.note, "cases": []}
    print(f"{device}; us a step: forward, forward of a training plan, forward + backward")

    def save():
        if options.json:
            with open(options.json, "w", encoding="utf-8") as file:
                json.dump(report, file, indent=1)

    for case in cases_of(options.table or options.device):
        if case.cell not in options.cells or options.only not in case.name:
            continue
        case.time = options.steps or case.time
        row = {"problem": case.name}
        report["cases"].append(row)
        try:
            run_case(case, library, timer, options, row, save)
        except RuntimeError as failure:
            row.setdefault("results", {})["flashscan"] = str(failure)[:300]
            save()
        print_row({"inputs": "?", "time": 1, "error": float("nan"), "error_f32": float("nan"), **row})


if __name__ == "__main__":
    main()
