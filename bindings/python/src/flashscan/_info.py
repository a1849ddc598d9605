# SPDX-License-Identifier: Apache-2.0
"""What is loaded and what it can do."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
from pathlib import Path
from typing import Any

from . import _library as lib
from ._call import choose
from ._errors import FlashscanError

_BACKENDS = {"cpu": lib.CPU, "cuda": lib.CUDA}
_DENSE = ((0, 0, 0),) * 6
# Fields of descriptors of usual problems, by a name for each.
_PROBLEMS = {
    "linear [8, 1024, 256] f32": ("linear", (lib.F32, 0, 0, 0, 0, 0, 0, 8, 1024, 256, 0, 0, 0, *_DENSE)),
    "linear [8, 256, 1024] f32": ("linear", (lib.F32, 0, lib.LAYOUT_BCT, 0, 0, 0, 0, 8, 1024, 256, 0, 0, 0, *_DENSE)),
    "lstm [16, 256, 4, 1, 256] bf16": ("rnn", (lib.BF16, 0, 0, lib.CELL_LSTM, 0, lib.RNN_FLAG_TRAINING, 0, 16, 256, 1, 256, 0, 0.0)),
    "lstm [16, 256, 4, 1, 256] f32": ("rnn", (lib.F32, 0, 0, lib.CELL_LSTM, 0, lib.RNN_FLAG_TRAINING, 0, 16, 256, 1, 256, 0, 0.0)),
    "add [8, 1024, 256] f32": ("operator", (lib.F32, lib.OPERATOR_ADD, 0, 0, 0, 0, 0, 8, 1024, 256, 0, 0, None)),
    "matmul [8, 1024, 16, 16] f32": ("operator", (lib.F32, lib.OPERATOR_MATMUL, 0, 0, 0, 0, 0, 8, 1024, 1, 16, 0, None)),
    "affine [8, 1024, 16] f32": ("operator", (lib.F32, lib.OPERATOR_AFFINE, 0, 0, 0, 0, 0, 8, 1024, 1, 16, 0, None)),
}


def device_count(backend: str = "cuda") -> int:
    """The number of devices of a backend, "cpu" or "cuda"; 0 where there is no driver or no such backend."""
    return lib.device_count(choose("backend", backend, _BACKENDS))


def _kernel(family: str, fields: tuple[Any, ...], backend: int) -> str:
    """The name of the kernel and what it says first about itself, or why there is none."""
    try:
        description = lib.Plan(family, fields, 0, backend).describe()
    except FlashscanError as error:
        return str(error).splitlines()[0]
    line = next(line for line in description.splitlines() if line.startswith("kernel "))
    return line.removeprefix("kernel ").partition(";")[0]


def _devices(name: str) -> str:
    count = device_count(name)
    if _BACKENDS[name] == lib.CPU:
        return f"{os.cpu_count()} threads"
    if not count:
        return str(lib.build_info()["cuda_unusable"])
    torch = importlib.util.find_spec("torch") and importlib.import_module("torch")
    if torch and torch.cuda.device_count() == count:
        return ", ".join(torch.cuda.get_device_name(index) for index in range(count))
    return f"{count} devices" if count > 1 else "1 device"


def _build() -> str:
    build = lib.build_info()
    toolkit = build["cuda_toolkit"]
    driver = max(toolkit // 1000 * 1000, 12040)  # of the same major version, and one that unpacks the library's code
    of_toolkit, of_driver = (f"CUDA {version // 1000}.{version % 1000 // 10}" for version in (toolkit, driver))
    cuda = f"and {of_toolkit} for {build['cuda_architectures']}, which needs a driver of {of_driver} or newer"
    return f"built for the CPU ({build['cpu_instruction_sets']}), {cuda if toolkit else 'without CUDA'}"


def _packages() -> list[str]:
    """A line where packages of two names, flashscan and flashscan-cu12, share the folder."""
    names = sorted(set(importlib.metadata.packages_distributions().get("flashscan", [])))
    both = " and ".join(names)
    return [f"{both} are installed and have written over each other: uninstall both, then install one"] * (len(names) > 1)


def prefix() -> Path:
    """The folder with lib/ and include/, for programs in other languages."""
    folder = Path(__file__).parent
    if not (folder / "include").is_dir():
        raise FileNotFoundError(f"{folder} has no include/: this package was installed without the library ({lib.path()})")
    return folder


def info() -> str:
    """The version, the library's file, what it was built for, and for each backend its devices, or why there are none,
    and the kernels that usual problems get."""
    lines = [f"flashscan {lib.version()}", f"library {lib.path()}", _build(), *_packages()]
    for name, number in _BACKENDS.items():
        lines += ["", f"{name}: {_devices(name)}"]
        if device_count(name):
            lines += [f"  {problem:32}{_kernel(*what, number)}" for problem, what in _PROBLEMS.items()]
    return "\n".join(lines)
