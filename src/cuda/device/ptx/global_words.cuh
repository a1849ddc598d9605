// SPDX-License-Identifier: Apache-2.0
// Relaxed stores and loads of 8-byte words in global memory through which blocks of one launch pass data to later
// blocks.
#pragma once

#include <cstdint>

namespace flashscan::cuda::ptx {

// A word holds this before it is written.
inline constexpr uint64_t empty_word = 0xffffffffffffffffULL;

__device__ __forceinline__ void store_word(uint64_t* to, uint64_t word) {
    asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(to), "l"(word) : "memory");
}

__device__ __forceinline__ uint64_t load_word(const uint64_t* from) {
    uint64_t word;
    asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(word) : "l"(from) : "memory");
    return word;
}

}  // namespace flashscan::cuda::ptx
