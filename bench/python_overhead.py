# SPDX-License-Identifier: Apache-2.0
"""What a call from Python costs beside its work: calls on arrays of a few elements, whose plans are cached.

    python3 bench/python_overhead.py [--json overhead.json] [--limit 10] [--only rnn]

Microseconds until a call returns, by one thread, the least of 20 rounds, on NumPy arrays and, where PyTorch and CuPy are
installed, on their arrays on the CPU and on a GPU. There a round is shorter than the queue of launches, so that none waits
for the GPU; `in turn` is the time of a call with the wait for the last one, which may be the GPU's. Of a call, `library`
is what its call of the library takes (on a GPU: to launch the kernels), `memory` what its package takes to make the
arrays that are returned, and `overhead` the rest. With --limit the exit status tells whether every overhead stays below it;
one that does not is measured twice again, since other work on the machine can only add to it.
"""

import argparse
import functools
import json
import sys
import time
from unittest import mock

import numpy as np

import flashscan
from flashscan import _affine, _library, _linear, _operator, _rnn, _step

try:
    import torch
except ImportError:
    torch = None
try:
    import cupy
except ImportError:
    cupy = None


class Package:
    """A package's arrays: how they are made of NumPy's, made anew like others, and waited for."""

    def __init__(self, convert, like, finish=lambda: None, cuda=False):
        self.convert, self.like, self.finish, self.cuda, self.threads = convert, like, finish, cuda, 0 if cuda else 1


def packages():
    """By name, those that are here."""
    found = {"NumPy": Package(lambda array: array, np.empty_like)}
    on_gpu = flashscan.device_count("cuda")
    if torch is not None:
        found["torch cpu"] = Package(torch.from_numpy, torch.empty_like)
    if torch is not None and on_gpu and torch.cuda.is_available():
        convert = lambda array: torch.from_numpy(array).cuda()
        found["torch cuda"] = Package(convert, torch.empty_like, torch.cuda.synchronize, True)
    if cupy is not None and on_gpu and cupy.cuda.is_available():
        like = lambda array: cupy.ndarray(array.shape, array.dtype)
        found["cupy cuda"] = Package(cupy.asarray, like, cupy.cuda.runtime.deviceSynchronize, True)
    return found


def calls_on(convert, threads):
    """Calls by name."""
    linear, states = np.full((1, 4, 1), 0.5, np.float32), np.zeros((1, 1), np.float32)
    gate, x, state = (convert(array) for array in (linear, linear, states))
    Wx, R, b = (convert(np.full(shape, 0.1, np.float32)) for shape in ((1, 1, 4, 1, 2), (4, 1, 2, 2), (4, 1, 2)))
    W = convert(np.full((4, 1, 1), 0.5, np.float32))
    vectors = convert(np.full((4, 1), 0.5, np.float32))
    # One step of decoding: states of a row, and of a row of a pool.
    now, one = Wx[:, 0], gate[:, 0]
    pool, place = convert(np.zeros((2, 1, 1, 2), np.float32)), convert(np.zeros(1, np.int32))
    h, into = flashscan.linear_scan(gate, x), convert(np.zeros((1, 1, 2), np.float32))
    held = functools.partial(flashscan.RnnStep, R, b, pool, state_indices=place, threads=threads)
    return {
        "linear_scan": lambda: flashscan.linear_scan(gate, x, threads=threads),
        "linear_scan, states": lambda: flashscan.linear_scan(gate, x, state, return_final_state=True, threads=threads),
        "linear_scan_backward": lambda: flashscan.linear_scan_backward(gate, h, x, threads=threads),
        "linear_step": lambda: flashscan.linear_step(one, one, state, threads=threads),
        "rnn": lambda: flashscan.rnn(Wx, R, b, threads=threads),
        "RnnStep": functools.partial(held(), now),
        "RnnStep, out": functools.partial(held(out=into), now),
        "rnn_step": lambda: flashscan.rnn_step(now, R, b, pool, state_indices=place, threads=threads),
        "prefix_scan add": lambda: flashscan.prefix_scan(x, "add", axis=1, threads=threads),
        "affine_scan": lambda: flashscan.affine_scan(W, vectors, threads=threads),
    }


@functools.cache
def empty_operator():
    from flashscan.torch._register import register

    make = lambda gate, x, state: (torch.empty_like(x), torch.empty_like(gate))
    schema = "(Tensor gate, Tensor x, Tensor? state) -> (Tensor, Tensor)"
    gradients = register("nothing_backward", schema, make, make, function="nothing")
    save = lambda ctx, inputs, output: ctx.save_for_backward(inputs[0], output[0])
    backward = lambda ctx, *grads: (*gradients(*ctx.saved_tensors, None), None)
    return register("nothing", schema, make, make, save, backward, function="nothing")


def operators_on(convert):
    """Calls of flashscan.torch, which PyTorch dispatches, and of an operator that does nothing but make two tensors."""
    from flashscan.torch import linear_scan

    gate, x, grad = (convert(np.full((1, 4, 1), 0.5, np.float32)) for _ in range(3))
    leaves = [tensor.clone().requires_grad_() for tensor in (gate, x)]
    nothing = empty_operator()
    return {
        "operator, empty": lambda: nothing(gate, x, None),
        "empty with gradients": lambda: torch.autograd.grad(nothing(*leaves, None)[0], leaves, grad),
        "operator linear_scan": lambda: linear_scan(gate, x),
        "operator with gradients": lambda: torch.autograd.grad(linear_scan(*leaves), leaves, grad),
    }


def library_call(call):
    """The call of the library that ``call`` makes, on the same memory, and the arrays that ``call`` makes."""
    made, execute = [], _library.execute
    kinds = [getattr(module, name) for module in (_linear, _affine, _operator, _rnn) for name in ("forward", "backward")]
    kinds += [_step._linear_call, _step._rnn_call]
    for kind in kinds:
        kind.cached.cache_clear()
    results_of = lambda results: results if isinstance(results, tuple) else (results,)
    with mock.patch.object(_library, "execute", lambda *args: made.append(args) or execute(*args)):
        results = results_of(call())
    for kind in kinds:
        kind.cached.cache_clear()
    if isinstance(getattr(call, "func", None), flashscan.RnnStep):
        call.func._known = None  # it prepares its call anew
    (args,) = made
    return (lambda: execute(*args)), [one for one, again in zip(results, results_of(call())) if one is not again]


def microseconds(call, finish, calls=250):
    """Of a call until it returns, and until its work is done where one follows another."""
    call(), call()
    best = [float("inf")] * 2
    for _ in range(20):
        finish()
        begin = time.perf_counter()
        for _ in range(calls):
            call()
        returned = time.perf_counter()
        finish()
        best = [min(pair) for pair in zip(best, (returned - begin, time.perf_counter() - begin))]
    return [seconds / calls * 1e6 for seconds in best]


def measure(call, package):
    inner, results = library_call(call)
    whole, in_turn = microseconds(call, package.finish)
    parts = {"call": whole, "library": microseconds(inner, package.finish)[0]}
    parts["memory"] = sum(microseconds(lambda: package.like(result), package.finish)[0] for result in results)
    parts["overhead"] = parts["call"] - parts["library"] - parts["memory"]
    if package.cuda:
        parts["in turn"] = in_turn
    return {part: round(value, 2) for part, value in parts.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", help="file to write the results to")
    parser.add_argument("--limit", type=float, help="microseconds that no overhead may reach")
    parser.add_argument("--only", default="", help="only lines that contain this, as 'torch cuda, rnn'")
    args = parser.parse_args()
    results, slow = {}, []
    wanted = lambda name, what: args.only in f"{name}, {what}"
    for name, package in packages().items():
        for what, call in calls_on(package.convert, package.threads).items():
            if not wanted(name, what):
                continue
            try:
                parts = measure(call, package)
                for _ in range(2):
                    if args.limit and parts["overhead"] >= args.limit:
                        parts = measure(call, package)
            except flashscan.FlashscanError as error:
                print(f"{name:10}  {what:22}  {error}")
                continue
            results.setdefault(name, {})[what] = parts
            print(f"{name:10}  {what:22}" + "".join(f"  {part} {us:6.2f}" for part, us in parts.items()))
            if args.limit and parts["overhead"] >= args.limit:
                slow.append(f"{name} {what}")
        if name.startswith("torch"):
            for what, call in operators_on(package.convert).items():
                if not wanted(name, what):
                    continue
                parts = results.setdefault(name, {})[what] = {"call": round(microseconds(call, package.finish)[0], 2)}
                print(f"{name:10}  {what:22}  call {parts['call']:6.2f}")
    if args.json:
        with open(args.json, "w") as file:
            json.dump({"flashscan": flashscan.__version__, "microseconds": results}, file, indent=1)
    if slow:
        sys.exit(f"overhead of {args.limit} us or more: {', '.join(slow)}")


if __name__ == "__main__":
    main()
