#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: make_deb.sh FOLDER [dpkg-buildpackage's arguments...]
# Builds Debian packages of the library with the CPU backend and of the Python package, on Debian 12 (packages debhelper,
# dh-python, lintian and what debian/control names), checks them with lintian, and tries them in a folder. The version is
# the project's.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(dirname "$here")
mkdir -p "$1"
out=$(cd "$1" && pwd)
shift
version=$(sed -n 's/^#define FLASHSCAN_VERSION_\(MAJOR\|MINOR\|PATCH\) //p' "$root/include/flashscan/flashscan.h" | paste -sd.)
tree=$out/flashscan-$version
rm -rf "$tree" "$out/root" "$out"/*.deb "$out"/*.changes
mkdir -p "$tree" "$out/root"
cd "$root"
git ls-files -z -- CMakeLists.txt LICENSE bindings/python/src capi include packaging/old_glibc.c src |
    tar -c --null -T - | tar -x -C "$tree"
cp -r packaging/debian "$tree/debian"
maintainer=$(sed -n 's/^Maintainer: //p' packaging/debian/control)
cat >"$tree/debian/changelog" <<CHANGELOG
flashscan ($version) UNRELEASED; urgency=medium

  * As CHANGELOG.md of the repository says.

 -- $maintainer  $(git log -1 --format=%cD)
CHANGELOG

cd "$tree"
dpkg-buildpackage -b -us -uc "$@"
cd "$out"
lintian --fail-on error flashscan_*.changes

for package in ./*.deb; do dpkg -x "$package" root; done
library=$(dirname "$(find root -name libflashscan.so)")
export LD_LIBRARY_PATH=$out/$library PYTHONPATH=$out/root/usr/lib/python3/dist-packages
cc -std=c99 -Iroot/usr/include "$root/tests/install/consumer/consumer.c" -L"$library" -lflashscan -o consumer
./consumer
/usr/bin/python3 -m flashscan info
