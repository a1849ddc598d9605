#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# usage: description.sh check|keep|update LIBRARY HEADERS DESCRIPTION
# The exported functions and the types of the headers, as the library's debug information has them.
#   check   they are as the stored description has them
#   keep    a program of the stored description finds all that it uses: there may be more functions, and more fields at
#           the end of structs that begin with struct_size
#   update  writes the description
# Numbers of enumerators are pinned in layout.c, for no function uses them.
set -eu
action=$1 library=$2 headers=$3 description=$4
if ! command -v abidw >/dev/null || ! command -v abidiff >/dev/null; then
    echo "SKIPPED: abidw and abidiff (package abigail-tools) are not here"
    exit 77
fi

describe() {
    abidw --headers-dir "$headers" --drop-private-types --drop-undefined-syms --exported-interfaces-only \
        --no-architecture --no-comp-dir-path --no-corpus-path --no-elf-needed --no-show-locs --out-file "$1" "$library"
    # The path of the clone is no part of the interface.
    sed -i "s|\(<abi-instr .*path='\)[^']*/capi/|\1capi/|" "$1"
}

# Prints the built description without the fields that structs with struct_size have behind those of the stored one: so
# does the library see them when a program says the old size. abidiff's own suppressions (has_data_member_inserted_at) do
# not tell an appended field from one whose type or place has changed, and the bit of its status that stands for
# "incompatible" is not set for a change of a type. Nothing else may differ therefore.
without_appended_fields() {
    awk '
        function attribute(name) {
            if (!match($0, " " name "=\047[^\047]*\047")) return ""
            return substr($0, RSTART + length(name) + 3, RLENGTH - length(name) - 4)
        }
        FNR == 1 { ++file }
        /<class-decl / { struct = attribute("name"); bits = attribute("size-in-bits"); first = 1; limit = 0 }
        file == 1 && /<var-decl / { if (first && attribute("name") == "struct_size") old[struct] = bits; first = 0 }
        file == 1 { next }
        /<class-decl / && struct in old && bits + 0 > old[struct] + 0 {
            limit = old[struct]
            sub("size-in-bits=\047" bits "\047", "size-in-bits=\047" limit "\047")
        }
        /<data-member / && limit > 0 && attribute("layout-offset-in-bits") + 0 >= limit + 0 { appended = 1 }
        !appended { print }
        /<\/data-member>/ { appended = 0 }
        /<\/class-decl>/ { limit = 0 }
    ' "$description" "$1"
}

if [ "$action" = update ]; then
    describe "$description"
    exit
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
built=$work/built.abi
describe "$built"
# A library without debug information has symbols alone.
grep -q "class-decl name='flashscan_options'" "$built" || { echo "FAILED: $library has no debug information"; exit 1; }
if [ "$action" = keep ]; then
    without_appended_fields "$built" >"$work/kept.abi"
    if abidiff --no-added-syms "$description" "$work/kept.abi"; then
        echo "programs of $description find what they use"
    else
        echo "FAILED: programs of $description would break. docs/promises.md says what may change."
        exit 1
    fi
elif abidiff --harmless "$description" "$built"; then
    echo "the interface is as described"
else
    echo "FAILED: the interface changed. If it is meant to, CONTRIBUTING.md says how to update the description."
    exit 1
fi
