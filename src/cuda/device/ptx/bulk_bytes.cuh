// SPDX-License-Identifier: Apache-2.0
// Copies of contiguous bytes by the bulk copy engine (TMA). Counts and both addresses must be multiples of 16. Loads
// report their bytes to an mbarrier (cluster.cuh); bulk_copy.cuh has the functions to wait for stores. Shared memory is
// given by 32-bit addresses of the shared window. Compute capability 9.0 and newer.
#pragma once

#include <cstdint>

namespace flashscan::cuda::ptx {

__device__ __forceinline__ void load_bytes(uint32_t to, const void* from, uint32_t bytes, uint32_t barrier) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
                 "l"(from), "r"(bytes), "r"(barrier)
                 : "memory");
}
__device__ __forceinline__ void store_bytes(void* to, uint32_t from, uint32_t bytes) {
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to), "r"(from), "r"(bytes)
                 : "memory");
}

}  // namespace flashscan::cuda::ptx
