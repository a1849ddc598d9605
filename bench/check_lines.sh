#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# check_lines.sh DRIVER BENCH_FOLDER WORK_FOLDER: the driver understands every line of the problem sets and every name in
# committed results, prints names of results as they are there but for words that were renamed, and takes what it prints.
set -eu
driver=$1 folder=$2 work=$3
rm -rf "$work" && mkdir -p "$work"
list() { "$driver" --backend cpu --problems-dir "$work" --set "$1" --list; }

cat "$folder"/problems/*.txt | sed 's/#.*//; /^[[:space:]]*$/d' > "$work/sets.txt"
find "$folder/results" -name '*.json' -exec grep -oh '"problem": *"[^"]*"' {} + | sed 's/.*: *"//; s/"$//' |
    grep -E '^(linear|rnn|operator|gated|selective) ' | sort -u > "$work/results.txt"
test -s "$work/sets.txt" && test -s "$work/results.txt"

list sets > "$work/sets_printed.txt"
list sets_printed | cmp - "$work/sets_printed.txt"
test "$(wc -l < "$work/sets.txt")" -eq "$(wc -l < "$work/sets_printed.txt")"
sed -E 's/ states( |$)/ state-in state-out\1/; s/ (log|logit)( |$)/ form-\1\2/; s/ misaligned( |$)/ place-misaligned\1/' \
    "$work/results.txt" > "$work/results_renamed.txt"
list results | diff - "$work/results_renamed.txt"

# The driver refuses lines that leave out what decides the problem, or that contradict themselves.
for line in "linear fwd f32 BTC b2 t3" "linear f32 BTC b2 t3 c4" "linear fwd f32 BTC b2 t3 c4 grads-x" \
    "linear bwd f32 BTC b2 t3 c4 grads-s" "linear fwd f32 BTC b2 t0 c4" "linear fwd f32 BTC b2 t3 c4 in-place" \
    "linear fwd f32 BTC b2 t3 c4 strided broadcast-b" "linear fwd f32 BTC b2 t3 c4 sequences2" \
    "rnn fwd f32 b2 t3 h1 d4" "rnn lstm fwd c64 b2 t3 h1 d4" "operator matmul fwd f32 b2 t3 c4" \
    "operator add fwd f32 b2 t3 c4 d2" "operator max fwd f32 b2 t3 c4 custom" "operator add bwd i32 b2 t3 c4" \
    "gated fwd f32 BTC b2 t3 c4 mingru @2us/step" "scan fwd f32"; do
    status=0
    "$driver" --backend cpu --list --problem "$line" > "$work/refused.txt" 2>&1 || status=$?
    test "$status" -eq 2 || { echo "'$line' was not refused" && exit 1; }
done
