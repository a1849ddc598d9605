#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# usage: check_install.sh BUILD WORK CONSUMER CMAKE CC CXX KIND EXAMPLES
# Installs BUILD under WORK and builds and runs CONSUMER with the installed files alone, and by CMake the EXAMPLES; KIND is
# cmake or pkg-config.
set -eu
build=$1 work=$2 consumer=$3 cmake=$4 cc=$5 cxx=$6 kind=$7 examples=$8
rm -rf "$work"
mkdir -p "$work"
"$cmake" --install "$build" --prefix "$work/prefix" --component flashscan >"$work/install.log"
# What was installed must not depend on where.
mv "$work/prefix" "$work/moved"
prefix=$work/moved
library=$(find "$prefix" -name 'libflashscan.so.[0-9]' | head -n 1)
[ -n "$library" ] || { echo "FAILED: no libflashscan.so.MAJOR in $prefix"; exit 1; }
folder=$(dirname "$library")

case $kind in
cmake)
    "$cmake" -S "$consumer" -B "$work/consumer" -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_C_COMPILER="$cc" \
        -DCMAKE_CXX_COMPILER="$cxx"
    "$cmake" --build "$work/consumer"
    "$work/consumer/consumer_c"
    "$work/consumer/consumer_cpp"
    "$cmake" -S "$examples" -B "$work/examples" -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_C_COMPILER="$cc" \
        -DCMAKE_CXX_COMPILER="$cxx"
    "$cmake" --build "$work/examples"
    (cd "$work/examples" && ctest --output-on-failure --no-tests=error)
    ;;
pkg-config)
    PKG_CONFIG_PATH=$folder/pkgconfig
    export PKG_CONFIG_PATH
    pkg-config --modversion flashscan
    flags="-Wall -Wextra -Wpedantic -Werror $(pkg-config --cflags --libs flashscan) -Wl,-rpath,$folder"
    # shellcheck disable=SC2086
    "$cc" -std=c99 "$consumer/consumer.c" -o "$work/consumer_c" $flags
    # shellcheck disable=SC2086
    "$cxx" -std=c++17 "$consumer/consumer.cpp" -o "$work/consumer_cpp" $flags
    "$work/consumer_c"
    "$work/consumer_cpp"
    ;;
esac
