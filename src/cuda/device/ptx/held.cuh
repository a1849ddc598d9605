// SPDX-License-Identifier: Apache-2.0
// Functions that make the compiler keep a value in a register. It would otherwise compute it again wherever it is used,
// and special registers and kernel parameters are slow to read.
#pragma once

#include <cstdint>

namespace flashscan::cuda::ptx {

__device__ __forceinline__ uint32_t held(uint32_t x) {
    asm volatile("" : "+r"(x));
    return x;
}
__device__ __forceinline__ int held(int x) { return static_cast<int>(held(static_cast<uint32_t>(x))); }
__device__ __forceinline__ int64_t held(int64_t x) {
    asm volatile("" : "+l"(x));
    return x;
}

// Makes the compiler wait here for the load of `x`. Otherwise it waits where x is used first. Where that is in a loop,
// it waits in every round, by a scoreboard that loads of the loop may share, so that each round waits for those as
// well. The block may have up to two dimensions: threadIdx.z is then 0, which the compiler does not know.
__device__ __forceinline__ void await_load(uint32_t& x) {
    asm volatile("xor.b32 %0, %0, %1;" : "+r"(x) : "r"(threadIdx.z));
}

// The same as held for an address of each lane. All lanes of the warp must call it: it uses a shuffle, which the
// compiler does not repeat.
template <typename T>
__device__ __forceinline__ T* held_shared(T* shared) {
    const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(shared));
    const uint32_t kept = __shfl_sync(0xffffffffU, address, static_cast<int>(threadIdx.x) % 32);
    return static_cast<T*>(__cvta_shared_to_generic(kept));
}
template <typename T>
__device__ __forceinline__ T* held_global(T* memory) {
    const auto address = reinterpret_cast<unsigned long long>(memory);
    return reinterpret_cast<T*>(__shfl_sync(0xffffffffU, address, static_cast<int>(threadIdx.x) % 32));
}

}  // namespace flashscan::cuda::ptx
