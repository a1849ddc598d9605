# SPDX-License-Identifier: Apache-2.0
"""Checks that includes follow the direction of dependencies that ARCHITECTURE.md draws. Prints what does not."""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# Layer -> layers whose headers it may include besides its own. The longest layer that holds a file counts.
PUBLIC = "include/flashscan"
# Inside src/cuda, families of kernels see what they share and never each other; what is shared sees no family.
CUDA_BASE = {"src/core", "src/math", "src/cuda/runtime.h"}
CUDA_SHARED = CUDA_BASE | {"src/cuda/device", "src/cuda/launch", "src/cuda/loader", "src/cuda/jit"}
CUDA_FAMILIES = {f"src/cuda/{family}" for family in ("gated", "linear", "matrix", "operators", "rnn", "selective")}
ALLOWED = {
    PUBLIC: set(),
    "src/core": {"src/math"},
    "src/math": set(),
    "src/reference": {"src/core", "src/math"},
    "src/cpu": {"src/core", "src/math", "src/reference"},
    "src/cuda/runtime.h": {"src/core", "src/cuda/loader"},
    "src/cuda/device": {"src/math"},
    "src/cuda/launch": CUDA_BASE | {"src/cuda/device", "src/cuda/loader"},
    "src/cuda/loader": CUDA_BASE,
    "src/cuda/jit": CUDA_BASE | {"src/cuda/loader"},
    **{family: CUDA_SHARED for family in CUDA_FAMILIES},
    "src/cuda/ranks": CUDA_SHARED,
    "src/cuda/backend.cpp": CUDA_SHARED | {"src/cuda/backend.h", "src/cuda/candidates.h"},
    "src/cuda/candidates.cpp": CUDA_SHARED | CUDA_FAMILIES | {"src/cuda/ranks", "src/cuda/candidates.h"},
    "src/cuda/candidates.h": {"src/core"},
    "src/cuda/backend.h": {"src/core"},
    "src/backends.cpp": {"src/core", "src/cpu", "src/cuda/backend.h"},
    "capi": {PUBLIC, "src/core"},
    "bench": {PUBLIC, "src/math", "tests/support"},
    "bindings": {PUBLIC},
    "examples": {PUBLIC},
    "tests/support": {PUBLIC, "src/core", "src/math", "src/reference"},
    "tests/api": {PUBLIC, "tests/support", "tests/fake"},
    "tests/fake": set(),
    "tests/abi": {PUBLIC, "tests/support"},
    "tests/golden": {PUBLIC, "tests/support"},
    "tests/install": {PUBLIC},
    "tests/numeric": {PUBLIC, "tests/support"},
    "tests/unit": CUDA_SHARED | CUDA_FAMILIES | {"src/cuda/ranks", PUBLIC, "tests/support", "tests/fuzz", "src/reference", "src/cpu"},
    "tests/fuzz": {PUBLIC, "tests/support"},
}
# System headers that a layer may not see: the core knows no CUDA and no instruction set.
FORBIDDEN = {
    "src/core": re.compile(r"cuda|cub/|nv|immintrin|omp\.h"),
    "src/math": re.compile(r"cuda_runtime|cub/|immintrin|omp\.h"),
    "src/reference": re.compile(r"cuda|immintrin|omp\.h"),
    "src/cpu": re.compile(r"cuda"),
    "capi": re.compile(r"cuda"),
}
# Made by the build, beside no source.
GENERATED = {"interposed_names.h"}
SOURCES = {".c", ".h", ".cpp", ".hpp", ".cu", ".cuh", ".inc"}
INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]')


def layer_of(path: Path) -> str:
    name = path.relative_to(ROOT).as_posix()
    return max((layer for layer in ALLOWED if name == layer or name.startswith(layer + "/")), key=len, default="")


def target_of(source: Path, name: str) -> Path | None:
    """The file of ours that an include names."""
    for folder in (source.parent, ROOT / "src", ROOT / "include", ROOT / "tests", ROOT):
        path = (folder / name).resolve()
        if path.is_file() and ROOT in path.parents:
            return path
    return None


def problems(source: Path) -> list[str]:
    layer, found = layer_of(source), []
    if not layer:
        return [f"{source.relative_to(ROOT)}: its folder is no known layer; add it to .ci/check_includes.py"]
    for number, line in enumerate(source.read_text().splitlines(), 1):
        match = INCLUDE.match(line)
        if not match:
            continue
        quote, name = match.groups()
        place = f"{source.relative_to(ROOT)}:{number}"
        target = target_of(source, name)
        if target is None:
            if quote == '"' and name not in GENERATED:
                found.append(f'{place}: "{name}" is no file of this project; system headers take <>')
            elif layer in FORBIDDEN and FORBIDDEN[layer].match(name):
                found.append(f"{place}: {layer} may not include <{name}>")
            continue
        other = layer_of(target)
        if other != layer and other not in ALLOWED[layer]:
            accepted = ", ".join(sorted(ALLOWED[layer])) or "nothing else"
            found.append(f"{place}: {layer} includes {other} ({name}); accepted are its own headers and {accepted}")
    return found


def main() -> int:
    folders = ["bench", "bindings", "capi", "examples", "include", "src", "tests"]
    sources = [p for f in folders for p in sorted((ROOT / f).rglob("*")) if p.suffix in SOURCES and p.is_file()]
    found = [problem for source in sources for problem in problems(source)]
    print("\n".join(found + [f"{len(sources)} files, {len(found)} includes against the direction of dependencies"]))
    return 1 if found or not sources else 0


if __name__ == "__main__":
    sys.exit(main())
