#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Unpacks the C library of Debian 11, to link with, and its OpenMP runtime, to bundle, into a folder:
#
#     packaging/get_old_glibc.sh FOLDER [amd64|arm64]
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
folder=$1
architecture=${2:-$(dpkg --print-architecture)}

packages=$(mktemp -d)
trap 'rm -rf "$packages"' EXIT
"$here/get_debian.sh" "$packages" "$architecture" bullseye main libc6 libc6-dev libgcc-s1 libgomp1

rm -rf "$folder"
mkdir -p "$folder/openmp"
for package in "$packages"/*.deb; do dpkg -x "$package" "$folder"; done
# Links to /lib would lead into this machine's.
find "$folder" -type l -lname '/*' | while read -r link; do ln -snfr "$folder$(readlink "$link")" "$link"; done
# By itself, to be found without the C library beside it.
cp "$folder"/usr/lib/*-linux-gnu/libgomp.so.1 "$folder/openmp"
