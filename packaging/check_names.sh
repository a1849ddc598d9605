#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Checks that what a library with CUDA needs beyond one without it has been in the C library of get_old_glibc.sh, under
# any version: the linker of a wheel would miss other names. So whole wheels with CUDA need not be built to know it.
#
#     packaging/check_names.sh GLIBC_FOLDER LIBRARY_WITH_CUDA LIBRARY_WITHOUT
set -euo pipefail
glibc=$1 with_cuda=$2 without=$3

# Of files older headers ask by functions of other names.
needed() { objdump -T "$1" | awk '/\*UND\*/ && $NF !~ /^[fl]?stat(at)?(64)?$/ { print $NF }' | sort -u; }
offered() {
    objdump -T "$glibc"/lib/*-linux-gnu/{libc,libm,libdl,librt,libpthread,libgcc_s}.so.* |
        awk '!/\*UND\*/ { print $NF }' | sort -u
}

[ -n "$(needed "$without")" ] || { echo "$without needs no names; not a shared library?" >&2; exit 2; }
missing=$(comm -23 <(comm -23 <(needed "$with_cuda") <(needed "$without")) <(offered))
if [ -n "$missing" ]; then
    echo "$with_cuda needs what the C library in $glibc has not:" $missing >&2
    exit 1
fi
echo "$with_cuda needs no name that the C library in $glibc has not"
