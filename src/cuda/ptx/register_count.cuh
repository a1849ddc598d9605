// SPDX-License-Identifier: Apache-2.0
// Registers of a thread from here on, a multiple of 8; all warps of a warpgroup. Compute capability 9.0 alone.
#pragma once

namespace flashscan::cuda::ptx {

// From those that the kernel began with: fewer, or more as soon as others have given theirs.
template <int Registers, int Before>
__device__ __forceinline__ void set_registers() {
    if constexpr (Registers > Before)
        asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(Registers));
    else if constexpr (Registers < Before)
        asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(Registers));
}

}  // namespace flashscan::cuda::ptx
