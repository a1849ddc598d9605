# SPDX-License-Identifier: Apache-2.0
"""scikit-build-core, but source distributions carry the library's sources, which lie outside this folder in a clone."""

import os
import re
import shutil
import tempfile
from pathlib import Path

from scikit_build_core import build as _build
from scikit_build_core.build import (  # noqa: F401
    build_editable,
    build_wheel,
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
    get_requires_for_build_wheel,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)

# What the library is built from, and where it goes in a source distribution.
SOURCES = (
    "CMakeLists.txt",
    "LICENSE",
    "bindings/julia",
    "bindings/rust",
    "capi",
    "include",
    "packaging/old_glibc.c",
    "src",
)
FOLDER = "library"


def _copy(source, target):
    if source.is_dir():
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__", "build", "target", ".*"))
    else:
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source, target)


def _fmt():
    """The folder of fmt's headers, of which a source distribution carries a copy."""
    folder = Path(os.environ.get("FLASHSCAN_FMT_INCLUDE", "/usr/include")) / "fmt"
    if not (folder / "format.h").is_file():
        raise FileNotFoundError(f"{folder} has no format.h; install fmt or set FLASHSCAN_FMT_INCLUDE")
    return folder


def _stage(package, staged):
    _copy(package, staged)
    root = package.parents[1]
    for name in SOURCES:
        _copy(root / name, staged / FOLDER / name)
    _copy(_fmt(), staged / FOLDER / "third_party" / "fmt")
    project = staged / "pyproject.toml"
    text, replaced = re.subn(r'"\.\./\.\./include/', f'"{FOLDER}/include/', project.read_text())
    if replaced != 1:
        raise RuntimeError("pyproject.toml does not say where the version stands")
    project.write_text(text)


def build_sdist(sdist_directory, config_settings=None):
    package = Path.cwd()
    if (package / FOLDER).exists():  # this is a source distribution
        return _build.build_sdist(sdist_directory, config_settings)
    target = str(Path(sdist_directory).resolve())
    with tempfile.TemporaryDirectory() as scratch:
        staged = Path(scratch) / "package"
        _stage(package, staged)
        os.chdir(staged)
        try:
            return _build.build_sdist(target, config_settings)
        finally:
            os.chdir(package)
