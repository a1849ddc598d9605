#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A commit that changes the description of the ABI changes CHANGELOG.md too; so does what is not committed yet.
set -eu
cd "$(dirname "$0")/.."
description=tests/abi/flashscan.abi
if ! git rev-parse -q --verify HEAD >/dev/null 2>&1; then
    echo "SKIPPED: there is no history here"
    exit
fi

failed=0
# Called with a name and the paths that changed under it.
check() {
    echo "$2" | grep -qx CHANGELOG.md && return
    echo "FAILED: $1 changes $description without CHANGELOG.md"
    failed=1
}
for commit in $(git log --no-merges --diff-filter=MD --format=%h -- "$description"); do
    check "$commit" "$(git diff-tree --no-commit-id --name-only -r "$commit")"
done
git diff --quiet --diff-filter=MD HEAD -- "$description" || check "the working tree" "$(git diff --name-only HEAD)"
[ "$failed" -eq 0 ] && echo "every change of $description is in CHANGELOG.md"
exit "$failed"
