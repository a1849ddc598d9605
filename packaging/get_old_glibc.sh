#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Unpacks the C library of Debian 11, to link with, and its OpenMP runtime, to bundle, into a folder:
#
#     packaging/get_old_glibc.sh FOLDER [amd64|arm64]
#
# The packages come from the mirror from which this machine takes Debian, signatures checked; what is installed on this
# machine stays as it is.
set -euo pipefail
folder=$1
architecture=${2:-$(dpkg --print-architecture)}
suite=bullseye

mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Label: Debian' | sed -n '1s|/*$||p')
[ -n "$mirror" ] || { echo "apt knows no mirror of Debian" >&2; exit 1; }
apt=$(mktemp -d)
trap 'rm -rf "$apt"' EXIT
mkdir -p "$apt/lists/partial" "$apt/archives/partial"
touch "$apt/status"
echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $suite main" >"$apt/sources.list"
cat >"$apt/apt.conf" <<CONFIGURATION
APT::Architecture "$architecture";
APT::Architectures "$architecture";
APT::Sandbox::User "root";
Dir::State "$apt";
Dir::State::status "$apt/status";
Dir::Cache "$apt";
Dir::Etc::sourcelist "$apt/sources.list";
Dir::Etc::sourceparts "/dev/null";
Dir::Etc::preferencesparts "/dev/null";
CONFIGURATION
export APT_CONFIG=$apt/apt.conf
apt-get update -qq
(cd "$apt" && apt-get download -qq libc6 libc6-dev libgcc-s1 libgomp1)

rm -rf "$folder"
mkdir -p "$folder/openmp"
for package in "$apt"/*.deb; do dpkg -x "$package" "$folder"; done
# Links to /lib would lead into this machine's.
find "$folder" -type l -lname '/*' | while read -r link; do ln -snfr "$folder$(readlink "$link")" "$link"; done
# By itself, to be found without the C library beside it.
cp "$folder"/usr/lib/*-linux-gnu/libgomp.so.1 "$folder/openmp"
