# SPDX-License-Identifier: Apache-2.0
"""Times of flashscan.signal beside scipy, pandas, torchaudio and CuPy, those that are installed.

    python3 bench/filters.py [--signals 64] [--steps 48000] [--json filters.json]

Milliseconds a call, the least of 15 after one that is not counted, of signals of float32 and float64; on the CPU, and
where PyTorch or CuPy finds a GPU, there too, with the GPU waited for after each call. torchaudio and scipy have a
row where they have the function. `sosfilt+grad` is a call and the gradients of the signal and the coefficients.
"""

import argparse
import json
import time

import numpy as np
import scipy.signal

from flashscan import signal

try:
    import torch
except ImportError:
    torch = None
try:
    import torchaudio.functional
except ImportError:
    torchaudio = None
try:
    import cupy
    import cupyx.scipy.signal
except ImportError:
    cupy = None
try:
    import pandas
except ImportError:
    pandas = None

SECTIONS = (1, 2, 4, 8)


def least(call, wait):
    call()
    wait()
    times = []
    for _ in range(15):
        start = time.perf_counter()
        call()
        wait()
        times.append((time.perf_counter() - start) * 1e3)
    return min(times)


def learn(sos, x):
    sos, x = sos.detach().requires_grad_(), x.detach().requires_grad_()
    signal.sosfilt(sos, x).square().sum().backward()


def rows_of(package, convert, coefficients, x):
    """Functions of a package's arrays: name, by whom, and call. flashscan takes the coefficients as NumPy's arrays."""
    sos, b, a = coefficients
    yield f"sosfilt {len(sos)}", "flashscan", lambda: signal.sosfilt(sos, x)
    yield f"sosfiltfilt {len(sos)}", "flashscan", lambda: signal.sosfiltfilt(sos, x, padlen=50)
    yield f"lfilter {len(a) - 1}", "flashscan", lambda: signal.lfilter(b, a, x)
    sos, b, a = map(convert, coefficients)
    theirs = {"numpy": scipy.signal, "cupy": cupy and cupyx.scipy.signal}.get(package)
    if theirs:
        yield f"sosfilt {len(sos)}", theirs.__name__, lambda: theirs.sosfilt(sos, x)
        yield f"sosfiltfilt {len(sos)}", theirs.__name__, lambda: theirs.sosfiltfilt(sos, x, padlen=50)
        yield f"lfilter {len(a) - 1}", theirs.__name__, lambda: theirs.lfilter(b, a, x)
    if package == "torch":
        yield f"sosfilt+grad {len(sos)}", "flashscan", lambda: learn(sos, x)
        if torchaudio:
            lfilter = torchaudio.functional.lfilter
            yield f"lfilter {len(a) - 1}", "torchaudio", lambda: lfilter(x, a, b, clamp=False)


def packages():
    """Name, where, how its arrays are made of NumPy's, and what waits for them."""
    yield "numpy", "cpu", lambda array: array, lambda: None
    if torch:
        yield "torch", "cpu", torch.from_numpy, lambda: None
    if torch and torch.cuda.is_available():
        to_gpu = lambda array: torch.from_numpy(array).cuda()
        yield "torch", torch.cuda.get_device_name(), to_gpu, torch.cuda.synchronize
    if cupy and cupy.cuda.is_available():
        name = cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()
        yield "cupy", name, cupy.asarray, lambda: cupy.cuda.get_current_stream().synchronize()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--signals", type=int, default=64)
    parser.add_argument("--steps", type=int, default=48000)
    parser.add_argument("--json")
    options = parser.parse_args()
    found = []

    def report(package, where, name, by, dtype, call, wait):
        row = {"package": package, "device": where, "what": name, "by": by, "dtype": dtype, "ms": least(call, wait)}
        found.append(row)
        print(f"{package:6} {where:24} {name:16} {by:20} {dtype:8} {row['ms']:9.3f} ms", flush=True)

    for dtype in ("float32", "float64"):
        x = np.random.default_rng(0).standard_normal((options.signals, options.steps)).astype(dtype)
        for package, where, convert, wait in packages():
            values = convert(x)
            for sections in SECTIONS:
                sos = scipy.signal.butter(2 * sections, 0.1, output="sos").astype(dtype)
                b, a = (each.astype(dtype) for each in scipy.signal.butter(2 * sections, 0.3))
                for name, by, call in rows_of(package, convert, (sos, b, a), values):
                    report(package, where, name, by, dtype, call, wait)
            mean = lambda: signal.ewm_mean(values, span=20, axis=1)
            report(package, where, "ewm_mean", "flashscan", dtype, mean, wait)
        if pandas:
            frame = pandas.DataFrame(x.T.copy())
            report("pandas", "cpu", "ewm_mean", "pandas", dtype, lambda: frame.ewm(span=20).mean(), lambda: None)
    if options.json:
        with open(options.json, "w") as file:
            json.dump(found, file, indent=1)


if __name__ == "__main__":
    main()
