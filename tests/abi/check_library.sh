#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# usage: check_library.sh LIBRARY HEADER PINNED CC
# The exported symbols, the functions that the header declares and the pinned list are the same; NEEDED names nothing of
# CUDA and no C++ runtime; the SONAME carries the major version.
set -eu
library=$1 header=$2 pinned=$3 cc=$4
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

fail() {
    echo "FAILED: $1"
    failed=1
}

nm -D --defined-only "$library" | awk '{ print $3 }' | sort >"$work/exported"
"$cc" -E -P "$header" | tr '\n' ' ' | tr ';' '\n' | grep 'visibility("default")' |
    grep -o 'flashscan_[a-z0-9_]* *(' | tr -d ' (' | sort >"$work/declared"
sort "$pinned" >"$work/pinned"
diff "$work/pinned" "$work/exported" || fail "exports differ from the pinned list"
diff "$work/pinned" "$work/declared" || fail "declarations differ from the pinned list"

readelf -d "$library" >"$work/dynamic"
grep -iE 'NEEDED.*(cuda|cublas|nvrtc|nvjitlink|nvidia)' "$work/dynamic" && fail "NEEDED names a CUDA library"
if ! grep -qE 'NEEDED.*lib[atu]san' "$work/dynamic"; then
    grep -E 'NEEDED.*lib(stdc\+\+|gcc_s|fmt)' "$work/dynamic" && fail "NEEDED names a library that is to be inside"
fi
major=$(sed -n 's/^#define FLASHSCAN_VERSION_MAJOR //p' "$header")
grep -qF "[libflashscan.so.$major]" "$work/dynamic" || fail "SONAME is not libflashscan.so.$major"
grep 'NEEDED\|SONAME' "$work/dynamic"
[ "$failed" -eq 0 ] && echo "$(wc -l <"$work/exported") symbols: exported, declared and pinned"
exit "$failed"
