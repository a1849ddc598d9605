# SPDX-License-Identifier: Apache-2.0
"""Checks that libraries need nothing newer than manylinux_2_28 has. Exits with 1 and names the symbols if they do.

    python3 packaging/check_symbols.py FILE.whl|FILE.so...

Needs objdump, of binutils for the architecture of the libraries or for many.
"""

import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

# The newest version of each library's symbols that manylinux_2_28 has: glibc 2.28 and the runtimes of GCC 8.
NEWEST = {"GLIBC": "2.28", "GLIBCXX": "3.4.25", "CXXABI": "1.3.11", "GCC": "7.0.0"}
# What every Linux with that glibc has; other libraries must lie in the same file.
SYSTEM = re.compile(r"(libc|libm|libdl|librt|libpthread|libgcc_s|libstdc\+\+|ld-linux-[\w-]+)\.so\.\d+")
UNDEFINED = re.compile(r"\*UND\*\s+[0-9a-f]+\s+\(?(\w+?)_([\d.]+)\)?\s+(\S+)")


def numbers(version):
    return [int(number) for number in version.split(".")]


def objdump(option, path):
    return subprocess.run(["objdump", option, path], check=True, capture_output=True, text=True).stdout


def too_new(path):
    """Sentences about what the library needs that manylinux_2_28 has not."""
    symbols = UNDEFINED.findall(objdump("-T", path))
    if not symbols:
        yield "has no symbol with a version; not a shared library?"
    for library, version, symbol in symbols:
        if library in NEWEST and numbers(version) > numbers(NEWEST[library]):
            yield f"{symbol} is of {library}_{version}; accepted is up to {NEWEST[library]}"


def missing(path, beside):
    for name in re.findall(r"NEEDED\s+(\S+)", objdump("-p", path)):
        if not SYSTEM.fullmatch(name) and not any(name == other or name == soname for other, soname in beside):
            yield f"needs {name}, which is neither promised by manylinux_2_28 nor beside it"


def soname(path):
    found = re.search(r"SONAME\s+(\S+)", objdump("-p", path))
    return found.group(1) if found else path.name


def libraries(path, scratch):
    if path.suffix != ".whl":
        return [path]
    folder = Path(scratch) / path.stem
    with zipfile.ZipFile(path) as wheel:
        wheel.extractall(folder)
    # libflashscan.so is a line for the linker.
    return sorted(file for file in folder.rglob("*.so*") if file.is_file() and file.read_bytes()[:4] == b"\x7fELF")


def main():
    faults = 0
    with tempfile.TemporaryDirectory() as scratch:
        for path in map(Path, sys.argv[1:]):
            found = libraries(path, scratch)
            if not found:
                sys.exit(f"{path}: holds no library")
            beside = [(library.name, soname(library)) for library in found]
            for library in found:
                sentences = [*too_new(library), *(missing(library, beside) if path.suffix == ".whl" else ())]
                faults += len(sentences)
                print(f"{path.name}: {library.name}: {'' if sentences else 'nothing above manylinux_2_28'}")
                print("".join(f"  {sentence}\n" for sentence in sentences), end="")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
