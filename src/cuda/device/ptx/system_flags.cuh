// SPDX-License-Identifier: Apache-2.0
// Flags of 32 bits that GPUs of one host read and write in each other's memory. What a thread wrote before it set a
// flag is seen by one that has read the flag.
#pragma once

#include <cstdint>

namespace flashscan::cuda::ptx {

__device__ __forceinline__ void set_system_flag(uint32_t* flag, uint32_t value) {
    asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(flag), "r"(value) : "memory");
}

__device__ __forceinline__ uint32_t read_system_flag(const uint32_t* flag) {
    uint32_t value;
    asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(flag) : "memory");
    return value;
}

}  // namespace flashscan::cuda::ptx
