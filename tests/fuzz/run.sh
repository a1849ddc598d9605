#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# All parts of flashscan_fuzz at once: run.sh PROGRAM SECONDS FOLDER [--backend cuda] [--seed S] ...
# Writes what each found to FOLDER, and all of it to FOLDER/fuzz.json. Ends with 1 where there are findings.
set -eu
program=$1 seconds=$2 folder=$3
shift 3
mkdir -p "$folder"
export OMP_WAIT_POLICY=passive MALLOC_MMAP_THRESHOLD_=4294967296 MALLOC_TRIM_THRESHOLD_=4294967296
parts="problems api invariance life"
for part in $parts; do
    "$program" "$part" --seconds "$seconds" --json "$folder/$part.json" "$@" >"$folder/$part.txt" 2>&1 &
done
wait
failed=0
for part in $parts; do
    grep -A1 '^FINDING' "$folder/$part.txt" || true
    tail -n 1 "$folder/$part.txt"
    tail -n 1 "$folder/$part.txt" | grep -q ', 0 findings' || failed=1
done
{
    printf '{"reports": ['
    separator=''
    for part in $parts; do
        printf '%s' "$separator"
        cat "$folder/$part.json"
        separator=', '
    done
    printf ']}\n'
} >"$folder/fuzz.json"
exit $failed
