#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# usage: description.sh check|update LIBRARY HEADERS DESCRIPTION
# The exported functions and the types of the headers, as the library's debug information has them: compared with the
# stored description, or written in its place. Numbers of enumerators are pinned in layout.c, for no function uses them.
set -eu
action=$1 library=$2 headers=$3 description=$4
if ! command -v abidw >/dev/null || ! command -v abidiff >/dev/null; then
    echo "SKIPPED: abidw and abidiff (package abigail-tools) are not here"
    exit 77
fi

describe() {
    abidw --headers-dir "$headers" --drop-private-types --drop-undefined-syms --exported-interfaces-only \
        --no-architecture --no-comp-dir-path --no-corpus-path --no-elf-needed --no-show-locs --out-file "$1" "$library"
}

if [ "$action" = update ]; then
    describe "$description"
    exit
fi
built=$(mktemp)
trap 'rm -f "$built"' EXIT
describe "$built"
# A library without debug information has symbols alone.
grep -q "class-decl name='flashscan_options'" "$built" || { echo "FAILED: $library has no debug information"; exit 1; }
if abidiff --harmless "$description" "$built"; then
    echo "the interface is as described"
else
    echo "FAILED: the interface changed. If it is meant to, CONTRIBUTING.md says how to update the description."
    exit 1
fi
