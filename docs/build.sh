#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the site into build/docs/html (or into the folder given), in an environment of its own. Every warning is an error:
# links to pages, headings and files that are not there, pages that no other page leads to, names that do not resolve.
set -euo pipefail
cd "$(dirname "$0")/.."

out=${1:-build/docs}
mkdir -p "$out"
python=${PYTHON:-python3}
"$python" -m venv "$out/venv"
"$out/venv/bin/pip" install -q --disable-pip-version-check -r docs/requirements.txt
"$out/venv/bin/python" docs/figures/draw.py --check
"$out/venv/bin/sphinx-build" -q -W --keep-going -E -b html -d "$out/doctrees" docs "$out/html"
echo "the site is in $out/html/index.html"
