# SPDX-License-Identifier: Apache-2.0
# To compile the CPU backend for 64-bit ARM on another machine, with Debian's cross compiler g++-aarch64-linux-gnu. Tests
# run there where Debian's qemu-user is installed:
#
#     cmake -G Ninja -S . -B build/aarch64 --toolchain packaging/aarch64.cmake
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
set(CMAKE_C_COMPILER ${CMAKE_LIBRARY_ARCHITECTURE}-gcc)
set(CMAKE_CXX_COMPILER ${CMAKE_LIBRARY_ARCHITECTURE}-g++)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64 -L /usr/${CMAKE_LIBRARY_ARCHITECTURE})
set(FLASHSCAN_CUDA OFF CACHE STRING "Build the CUDA backend: OFF where the compiler is one for another machine")
# The library uses the headers of fmt alone, and those are the same for every machine.
file(GLOB fmt_DIR /usr/lib/*-linux-gnu/cmake/fmt)
