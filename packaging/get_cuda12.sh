#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Puts CUDA 12.4's compiler, headers and static runtime into a folder, laid out as a toolkit:
#
#     packaging/get_cuda12.sh FOLDER
#
# They are of Debian 13's non-free section. A gigabyte is fetched, of which 200 MB stay.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
folder=$1

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$here/get_debian.sh" "$work" amd64 trixie "main non-free" nvidia-cuda-toolkit nvidia-cuda-dev libcu++-dev libcudart12
rm -rf "$folder"
mkdir -p "$folder"/{bin,lib64,nvvm/bin}
dpkg-deb -x "$work"/nvidia-cuda-toolkit_*.deb "$work/root"
dpkg-deb -x "$work"/libcu++-dev_*.deb "$work/root"
dpkg-deb -x "$work"/libcudart12_*.deb "$work/root"
# Reading ends at the last file that is needed, before gigabytes of other libraries.
dpkg-deb --fsys-tarfile "$work"/nvidia-cuda-dev_*.deb 2>/dev/null | python3 -c "
import sys, tarfile
with tarfile.open(fileobj=sys.stdin.buffer, mode='r|') as archive:
    for member in archive:
        if '/usr/include/' in member.name or member.name.endswith(('libcudadevrt.a', 'libcudart_static.a')):
            archive.extract(member, sys.argv[1])
        if member.name.endswith('libcudart_static.a'): break
" "$work/root" || [ -f "$work/root/usr/lib/x86_64-linux-gnu/libcudart_static.a" ]
cp "$work/root/usr/bin"/{cudafe++,fatbinary,nvlink,ptxas} "$folder/bin"
cp -r "$work/root/usr/lib/nvidia-cuda-toolkit/bin"/{crt,nvcc} "$folder/bin"
cp "$work/root/usr/lib/nvidia-cuda-toolkit/bin/cicc" "$folder/nvvm/bin"
cp -r "$work/root/usr/lib/nvidia-cuda-toolkit/libdevice" "$folder/nvvm"
cp -r "$work/root/usr/include" "$folder"
cp "$work/root/usr/lib/x86_64-linux-gnu"/libcud{adevrt,art_static}.a "$folder/lib64"
# Nothing is linked with it; CMake looks for the other two where it lies.
cp "$work/root/usr/lib/x86_64-linux-gnu/libcudart.so.12" "$folder/lib64/libcudart.so"
# Debian's names the folders of an installed system.
cat >"$folder/bin/nvcc.profile" <<'PROFILE'
TOP = $(_HERE_)/..
NVVMIR_LIBRARY_DIR = $(TOP)/nvvm/libdevice
PATH += $(TOP)/nvvm/bin:$(_HERE_):
INCLUDES += "-I$(TOP)/include" $(_SPACE_)
LIBRARIES =+ $(_SPACE_) "-L$(TOP)/lib64"
PROFILE
