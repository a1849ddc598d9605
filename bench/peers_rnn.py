# SPDX-License-Identifier: Apache-2.0
"""Times PyTorch's LSTM, GRU and RNN on the CPU beside flashscan's, on the same weights and with the same threads.

    python3 bench/peers_rnn.py --threads 2 --json peers_rnn.json

PyTorch's layers include the product of input and input weights, flashscan's do not. With an input of one number that
product is next to nothing and the times compare as they are. For --inputs above 1 it is timed by itself, with PyTorch,
and added to flashscan's: forward once, and in backward for the gradients of the input and of the input weights.
Needs PyTorch and the flashscan package, for which FLASHSCAN_LIBRARY may name a library that is not installed.
"""

import argparse
import json
import statistics
import time

import numpy as np
import torch

import flashscan

LAYERS = {"lstm": (torch.nn.LSTM, 4), "gru": (torch.nn.GRU, 3), "elman": (torch.nn.RNN, 1)}


def median_ms(call, runs):
    call()
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        call()
        times.append((time.perf_counter() - start) * 1e3)
    return statistics.median(times)


def time_torch(layer, x, runs):
    def forward():
        with torch.no_grad():
            layer(x)

    def both():
        layer.zero_grad(set_to_none=True)
        x.grad = None
        layer(x)[0].sum().backward()

    return median_ms(forward, runs), median_ms(both, runs)


def time_input_product(layer, x, runs):
    weight, rows = layer.weight_ih_l0.detach(), x.detach().reshape(-1, x.shape[-1])
    gradient = torch.ones(rows.shape[0], weight.shape[0])
    forward = median_ms(lambda: rows @ weight.t(), runs)
    return forward, forward + median_ms(lambda: (gradient @ weight, gradient.t() @ rows), runs)


def time_flashscan(cell, layer, x, threads, runs):
    gates, dim = LAYERS[cell][1], layer.hidden_size
    batch, steps = x.shape[:2]
    with torch.no_grad():
        product = (x @ layer.weight_ih_l0.t()).numpy().reshape(batch, steps, gates, 1, dim)
        recurrent = layer.weight_hh_l0.numpy().reshape(gates, 1, dim, dim)
        inside, outside = layer.bias_hh_l0.numpy().reshape(gates, 1, dim), layer.bias_ih_l0.numpy().reshape(gates, 1, dim)
        expected = layer(x)[0].numpy()
    bias = inside + outside
    if cell == "gru":  # r, z, n, and n's within the reset
        bias = np.concatenate([bias[:2], outside[2:], inside[2:]])
    ones = np.ones((batch, steps, 1, dim), np.float32)
    options = {"cell": cell, "threads": threads}

    def forward():
        return flashscan.rnn(product, recurrent, bias, **options)

    def both():
        output, reserve = flashscan.rnn(product, recurrent, bias, return_reserve=True, **options)
        flashscan.rnn_backward(recurrent, output, reserve, ones, **options)

    error = float(np.abs(forward()[:, :, 0] - expected).max())
    if error > 1e-5:
        raise SystemExit(f"{cell}: the outputs differ by {error}")
    return median_ms(forward, runs), median_ms(both, runs), error


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("batch", 16), ("steps", 200), ("dim", 256), ("runs", 20), ("threads", 1)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--cells", nargs="+", choices=LAYERS, default=list(LAYERS))
    parser.add_argument("--inputs", type=int, nargs="+", default=[1, 256])
    parser.add_argument("--json")
    parser.add_argument("--note", default="", help="kept in the JSON: the machine, PyTorch's BLAS")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    cases = []
    print(f"B {options.batch}, T {options.steps}, D {options.dim}, f32, {options.threads} threads; milliseconds,"
          " forward and forward + backward")
    for cell in options.cells:
        for inputs in options.inputs:
            layer = LAYERS[cell][0](inputs, options.dim, batch_first=True)
            x = torch.randn(options.batch, options.steps, inputs, requires_grad=True)
            peer = time_torch(layer, x, options.runs)
            product = time_input_product(layer, x, options.runs) if inputs > 1 else (0.0, 0.0)
            forward, both, error = time_flashscan(cell, layer, x, options.threads, options.runs)
            ours = (forward + product[0], both + product[1])
            print(f"{cell:<6} input {inputs:<5} torch {peer[0]:9.2f} {peer[1]:9.2f}   flashscan {ours[0]:9.2f}"
                  f" {ours[1]:9.2f}   ratio {peer[0] / ours[0]:6.2f} {peer[1] / ours[1]:6.2f}")
            cases.append({"cell": cell, "inputs": inputs, "torch_ms": peer, "flashscan_ms": (forward, both),
                          "input_product_ms": product, "difference": error})
    if options.json:
        report = {"torch": torch.__version__, "options": vars(options), "cases": cases}
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(report, file, indent=1)


if __name__ == "__main__":
    main()
