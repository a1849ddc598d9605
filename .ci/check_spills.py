# SPDX-License-Identifier: Apache-2.0
"""Fails when a kernel spills registers: check_spills.py BUILD_LOG ALLOWED.

The log is that of a build with -Xptxas=-v. Each line of ALLOWED is a regular expression on the demangled name of a
kernel and, after '#', the reason why its spills are accepted.
"""

import re
import shutil
import subprocess
import sys
from pathlib import Path

COMPILING = re.compile(r"Compiling entry function '(\S+)' for '(\S+)'")
PROPERTIES = re.compile(r"Function properties for (\S+)")
SPILLS = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")


def demangled(names: list[str]) -> dict[str, str]:
    if not names or shutil.which("c++filt") is None:
        return {name: name for name in names}
    lines = subprocess.run(["c++filt"], input="\n".join(names), capture_output=True, text=True, check=True).stdout
    return dict(zip(names, lines.splitlines()))


def read_allowed(path: Path) -> list[re.Pattern]:
    lines = [line for line in path.read_text().splitlines() if line.strip() and not line.startswith("#")]
    for line in lines:
        if not line.partition("#")[2].strip():
            sys.exit(f"{path}: no reason is given in: {line}")
    return [re.compile(line.partition("#")[0].strip()) for line in lines]


def main() -> int:
    log, allowed = Path(sys.argv[1]).read_text(errors="replace"), read_allowed(Path(sys.argv[2]))
    architecture = function = ""
    functions, spilling = set(), []
    for line in log.splitlines():
        if match := COMPILING.search(line):
            function, architecture = match.groups()
        elif match := PROPERTIES.search(line):
            function = match.group(1)
        elif match := SPILLS.search(line):
            functions.add((function, architecture))
            if int(match.group(2)) > 0:
                spilling.append((function, architecture, *match.groups()[1:]))
    names = demangled([entry[0] for entry in spilling])
    refused = [entry for entry in spilling if not any(pattern.search(names[entry[0]]) for pattern in allowed)]
    for function, architecture, stores, loads in refused:
        print(f"{architecture}: {names[function]}: {stores} bytes spill stores, {loads} bytes spill loads")
    print(f"{len(functions)} kernels and architectures, {len(spilling)} spill, {len(refused)} of them not accepted")
    if not functions:
        print("no kernel was found in the build log; it must be that of a build from scratch with -Xptxas=-v")
    return 1 if refused or not functions else 0


if __name__ == "__main__":
    sys.exit(main())
