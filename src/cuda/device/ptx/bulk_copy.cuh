// SPDX-License-Identifier: Apache-2.0
// Copies of boxes of tensors between global and shared memory by the bulk copy engine (TMA). Loads report their bytes
// to an mbarrier (cluster.cuh). Elements outside of the tensor are read as zeros and are not written. Shared memory is
// given by 32-bit addresses of the shared window. Compute capability 9.0 and newer.
#pragma once

#include <cuda.h>

#include <cstdint>

namespace flashscan::cuda::ptx {

// The box begins at element (x, y, z), x being the innermost axis.
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

// Makes a group of the stores that were started since the last group.
__device__ __forceinline__ void end_store_group() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }

// Waits until at most the Newer newest of the thread's groups still read shared memory.
template <int Newer>
__device__ __forceinline__ void wait_for_stores_to_read() {
    asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(Newer) : "memory");
}

}  // namespace flashscan::cuda::ptx
