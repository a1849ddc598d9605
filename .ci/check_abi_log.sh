#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A commit that changes the description of the ABI changes CHANGELOG.md too; so does what is not committed yet. A folder
# of tests/abi/frozen is as the tag of its version has it; before there is one, its header is today's.
set -eu
cd "$(dirname "$0")/.."
description=tests/abi/flashscan.abi
header=include/flashscan/flashscan.h
if ! git rev-parse -q --verify HEAD >/dev/null 2>&1; then
    echo "SKIPPED: there is no history here"
    exit
fi

failed=0
fail() {
    echo "FAILED: $1"
    failed=1
}
# Called with a name and the paths that changed under it.
check() {
    echo "$2" | grep -qx CHANGELOG.md || fail "$1 changes $description without CHANGELOG.md"
}
for commit in $(git log --no-merges --diff-filter=MD --format=%h -- "$description"); do
    check "$commit" "$(git diff-tree --no-commit-id --name-only -r "$commit")"
done
git diff --quiet --diff-filter=MD HEAD -- "$description" || check "the working tree" "$(git diff --name-only HEAD)"

version=$(sed -n 's/^#define FLASHSCAN_VERSION_\(MAJOR\|MINOR\|PATCH\) //p' "$header" | paste -sd.)
for folder in tests/abi/frozen/*; do
    frozen=$(basename "$folder" | tr -d v | tr _ .).0
    if git rev-parse -q --verify "refs/tags/v$frozen" >/dev/null; then
        git diff --quiet "v$frozen" -- "$folder" || fail "$folder is not as version $frozen had it"
    elif [ "$version" = "$frozen" ]; then
        cmp "$header" "$folder/include/flashscan/flashscan.h" || fail "$folder does not have the header of $version"
    else
        echo "SKIPPED: there is no tag v$frozen here, with which to compare $folder"
    fi
done
[ "$failed" -eq 0 ] && echo "every change of $description is in CHANGELOG.md, and frozen versions are as they were"
exit "$failed"
