// SPDX-License-Identifier: Apache-2.0
// Bytes that lie together, moved by the bulk copy engine: counts and both addresses are multiples of 16. Loads count
// their bytes at a barrier in shared memory (cluster.cuh); bulk_copy.cuh has what groups of stores need. Addresses are
// those of the shared window; other compute capabilities than 9.0 and newer have none of it.
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
