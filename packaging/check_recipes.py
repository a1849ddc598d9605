# SPDX-License-Identifier: Apache-2.0
"""Checks what the recipes of this folder and the bindings repeat of the project: its version and SONAME, CMake options.

    python packaging/check_recipes.py            a second, with nothing but Python
    python packaging/check_recipes.py --render   renders the conda recipe too (pip install py-rattler-build)

Prints what differs.
"""

import ast
import json
import re
import sys
from pathlib import Path

PACKAGING = Path(__file__).resolve().parent
ROOT = PACKAGING.parent
HEADER = ROOT / "include" / "flashscan" / "flashscan.h"
VERSION = ".".join(re.findall(r"#define FLASHSCAN_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)", HEADER.read_text()))
SONAME = VERSION.split(".")[0]

# File, what its every match repeats, what the match has to be.
REPEATED = [
    ("packaging/vcpkg/flashscan/vcpkg.json", r'"version": "(.*)"', VERSION),
    ("packaging/conda/recipe.yaml", r'^  version: "(.*)"', VERSION),
    ("packaging/debian/control", r"\blibflashscan(\d+)", SONAME),
    ("packaging/README.md", r"\blibflashscan(\d+)", SONAME),
    ("packaging/make_wheel.sh", r"libflashscan\.so\.(\d+)", SONAME),
    ("bindings/rust/flashscan/Cargo.toml", r'(?<!-)\bversion = "(.*?)"', VERSION),
    ("bindings/rust/flashscan-sys/Cargo.toml", r'(?<!-)\bversion = "(.*?)"', VERSION),
    ("bindings/rust/flashscan-sys/build.rs", r"flashscan >= (\d+)", SONAME),
    ("bindings/julia/FlashScan/Project.toml", r'^version = "(.*)"', VERSION),
    ("bindings/julia/FlashScan/src/FlashScan.jl", r"libflashscan\.so\.(\d+)", SONAME),
    ("bindings/julia/FlashScan/src/library.jl", r"libflashscan\.so\.(\d+)", SONAME),
    ("bindings/python/src/flashscan/_library.py", r"libflashscan\.so\.(\d+)", SONAME),
    ("tests/install/consumer/CMakeLists.txt", r"find_package\(flashscan (\d+)\.\d+ REQUIRED", SONAME),
]


def recipes() -> list[Path]:
    made = {"__pycache__", "build"}  # by tools that read them
    files = (path for folder in PACKAGING.iterdir() if folder.name not in made for path in folder.rglob("*"))
    return sorted(path for path in files if path.is_file() and not made & set(path.relative_to(PACKAGING).parts))


def different_versions() -> list[str]:
    found = []
    for name, pattern, wanted in REPEATED:
        matches = re.findall(pattern, (ROOT / name).read_text(), re.MULTILINE)
        found += [f"{name} says {match}; the header's version is {VERSION}" for match in matches if match != wanted]
        if not matches:
            found.append(f"{name} has nothing that looks like {pattern}")
    installs = [path.name for path in PACKAGING.glob("debian/libflashscan[0-9]*")]
    found += [f"debian/{n} is not of SONAME {SONAME}" for n in installs if n != f"libflashscan{SONAME}.install"]
    return found


def unknown_options() -> list[str]:
    """CMake ignores an option that it does not know, and the tests are built after all."""
    files = [ROOT / "CMakeLists.txt", ROOT / "bindings" / "python" / "CMakeLists.txt"]
    known = {o for f in files for o in re.findall(r"^(?:option|set)\((FLASHSCAN_\w+)", f.read_text(), re.MULTILINE)}
    used = {(path, option) for path in recipes() for option in re.findall(r"FLASHSCAN_(?!VERSION_)\w+", path.read_text())}
    return [f"{path.relative_to(ROOT)}: the project has no option {o}" for path, o in sorted(used) if o not in known]


def unreadable() -> list[str]:
    found = []
    for path in recipes():
        try:
            if path.suffix == ".json":
                json.loads(path.read_text())
            elif path.suffix == ".py":
                ast.parse(path.read_text())
        except (SyntaxError, json.JSONDecodeError) as error:
            found.append(f"{path.relative_to(ROOT)}: {error}")
    return found


def render() -> list[str]:
    from rattler_build import RattlerBuildError, RenderConfig, Stage0Recipe, VariantConfig

    variant = VariantConfig({"c_stdlib": ["sysroot"], "c_stdlib_version": ["2.28"]})
    try:
        made = Stage0Recipe.from_file(str(PACKAGING / "conda" / "recipe.yaml")).render(variant, RenderConfig())
        versions = [each.recipe.package.version for each in made]
    except RattlerBuildError as error:
        return [f"packaging/conda/recipe.yaml: {error}"]
    return [] if versions == [VERSION] else [f"packaging/conda/recipe.yaml renders versions {versions}"]


def main(arguments: list[str]) -> int:
    if arguments not in ([], ["--render"]):
        sys.exit(__doc__)
    found = different_versions() + unknown_options() + unreadable()
    found += render() if arguments else []
    print("\n".join([*found, f"{len(recipes())} files of recipes, version {VERSION}, {len(found)} differences"]))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
