#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Downloads packages of another suite of Debian into a folder:
#
#     packaging/get_debian.sh FOLDER ARCHITECTURE SUITE COMPONENTS PACKAGE...
#
# They come from the mirror from which this machine takes Debian, signatures checked; what is installed on this machine
# stays as it is.
set -euo pipefail
folder=$1 architecture=$2 suite=$3 components=$4
shift 4

mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Label: Debian' | sed -n '1s|/*$||p')
[ -n "$mirror" ] || { echo "apt knows no mirror of Debian" >&2; exit 1; }
apt=$(mktemp -d)
trap 'rm -rf "$apt"' EXIT
mkdir -p "$apt/lists/partial" "$apt/archives/partial"
touch "$apt/status"
echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $suite $components" >"$apt/sources.list"
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
mkdir -p "$folder"
(cd "$folder" && apt-get download -qq "$@")
