// SPDX-License-Identifier: Apache-2.0
// Boxes of tensors that the bulk copy engine (TMA) moves between global and shared memory. Loads count their bytes at a
// barrier in shared memory (cluster.cuh); what lies outside the tensor is read as zeros and not written. Addresses are
// those of the shared window; other compute capabilities than 9.0 and newer have none of it.
#pragma once

#include <cuda.h>

#include <cstdint>

namespace flashscan::cuda::ptx {

// The box that begins at element (x, y, z), x innermost.
__device__ __forceinline__ void load_box(uint32_t to, const CUtensorMap* map, int x, int y, int z, uint32_t barrier) {
    asm volatile(
        "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4}], [%5];" ::
            "r"(to),
        "l"(map), "r"(x), "r"(y), "r"(z), "r"(barrier)
        : "memory");
}
__device__ __forceinline__ void store_box(uint32_t from, const CUtensorMap* map, int x, int y, int z) {
    asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.bulk_group [%1, {%2, %3, %4}], [%0];" ::"r"(from),
                 "l"(map), "r"(x), "r"(y), "r"(z)
                 : "memory");
}

// Ends the group of the stores begun since the last.
__device__ __forceinline__ void end_store_group() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }

// Waits until at most Newer of the thread's groups, the newest, still read shared memory.
template <int Newer>
__device__ __forceinline__ void wait_for_stores_to_read() {
    asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(Newer) : "memory");
}

}  // namespace flashscan::cuda::ptx
