#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# usage: check_install.sh BUILD WORK CONSUMER CMAKE CC KIND
# Installs BUILD under WORK and builds and runs CONSUMER with the installed files alone; KIND is cmake or pkg-config.
set -eu
build=$1 work=$2 consumer=$3 cmake=$4 cc=$5 kind=$6
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
    "$cmake" -S "$consumer" -B "$work/consumer" -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_C_COMPILER="$cc"
    "$cmake" --build "$work/consumer"
    "$work/consumer/consumer"
    ;;
pkg-config)
    PKG_CONFIG_PATH=$folder/pkgconfig
    export PKG_CONFIG_PATH
    pkg-config --modversion flashscan
    # shellcheck disable=SC2046
    "$cc" "$consumer/consumer.c" -o "$work/program" $(pkg-config --cflags --libs flashscan) "-Wl,-rpath,$folder"
    "$work/program"
    ;;
esac
