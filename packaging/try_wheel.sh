#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Tries a wheel in a fresh root of another distribution, as root:
#
#     packaging/try_wheel.sh WHEEL SUITE [MIRROR]
#     packaging/try_wheel.sh dist/flashscan-*-manylinux_2_28_x86_64.whl bullseye
#
# Where the distribution's Python is 3.10 or newer the package is installed and scans; where it is older, a C program
# scans with the wheel's library, built with the distribution's GCC. Needs debootstrap; MIRROR is debootstrap's, and so
# are the words of DEBOOTSTRAP_OPTIONS, as --keyring=FILE.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
wheel=$(realpath "$1")
suite=$2
mirror=${3:-}
root=$(mktemp -d)
leave() {
    ! mountpoint -q "$root/proc" || umount "$root/proc"
    rm -rf "$root"
}
trap leave EXIT

# Ubuntu has pip in a component of its own.
components=main
grep -q ubuntu "/usr/share/debootstrap/scripts/$suite" && components=main,universe
# shellcheck disable=SC2086
debootstrap ${DEBOOTSTRAP_OPTIONS:-} --variant=minbase --components="$components" \
    --include=python3,python3-venv,ca-certificates "$suite" "$root" $mirror >"$root.log" 2>&1 ||
    { tail -n 20 "$root.log"; exit 1; }
rm -f "$root.log"
mount -t proc proc "$root/proc"
cp /etc/resolv.conf "$root/etc"

enter() { env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
    PIP_CERT=/etc/ssl/certs/ca-certificates.crt chroot "$root" "$@"; }

enter ldd --version | sed -n 1p
enter python3 --version
if enter python3 -c 'import sys; sys.exit(sys.version_info < (3, 10))'; then
    mkdir "$root/wheel"
    cp "$wheel" "$root/wheel"
    # Whom this machine trusts.
    cp /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs"
    enter python3 -m venv /venv
    enter /venv/bin/pip install -q --disable-pip-version-check "/wheel/$(basename "$wheel")"
    enter /venv/bin/python -m flashscan info
    cp "$here/try_package.py" "$root"
    enter /venv/bin/python /try_package.py
else
    python3 -m zipfile -e "$wheel" "$root/wheel"
    cp "$here/../tests/install/consumer/consumer.c" "$root"
    enter apt-get install -q -y --no-install-recommends gcc libc6-dev >"$root/apt.log" 2>&1 ||
        { cat "$root/apt.log"; exit 1; }
    enter gcc --version | sed -n 1p
    library=/wheel/flashscan/lib
    enter gcc -std=c99 -I/wheel/flashscan/include -o /consumer /consumer.c -L$library -lflashscan -Wl,-rpath,$library
    enter /consumer
fi
echo "works in $suite"
