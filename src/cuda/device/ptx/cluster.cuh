// SPDX-License-Identifier: Apache-2.0
// Blocks of a cluster, and barriers in shared memory that count the bytes that arrive. Addresses are those of the
// shared window; other compute capabilities than 9.0 and newer have none of it.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace flashscan::cuda::ptx {

__device__ __forceinline__ uint32_t shared_address(const void* pointer) {
    return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

// Waits for all threads of the cluster; what they wrote before is seen after.
__device__ __forceinline__ void cluster_barrier() {
    asm volatile("barrier.cluster.arrive.release.aligned;\n\tbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}

// The same in two halves, for threads of a warp that may have parted.
__device__ __forceinline__ void arrive_in_cluster() { asm volatile("barrier.cluster.arrive.release;" ::: "memory"); }
__device__ __forceinline__ void wait_for_cluster() { asm volatile("barrier.cluster.wait.acquire;" ::: "memory"); }

// The address of block `rank`'s copy of `address`.
__device__ __forceinline__ uint32_t address_in(uint32_t address, int rank) {
    uint32_t there;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address), "r"(rank));
    return there;
}

// Stores 16 bytes in a block of the cluster and counts them at its barrier.
__device__ __forceinline__ void store_async(uint32_t to, uint4 v, uint32_t barrier) {
    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%0], {%1, %2, %3, %4}, [%5];" ::"r"(to),
                 "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w), "r"(barrier)
                 : "memory");
}

// A barrier of one arrival a phase.
__device__ __forceinline__ void make_byte_barrier(uint32_t barrier) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;\n\tfence.mbarrier_init.release.cluster;" ::"r"(barrier)
                 : "memory");
}
// A barrier of `arrivals` a phase, for the block's own threads.
__device__ __forceinline__ void make_barrier(uint32_t barrier, int arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}
__device__ __forceinline__ void arrive(uint32_t barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
// The phase ends when `bytes` have arrived.
__device__ __forceinline__ void expect_bytes(uint32_t barrier, uint32_t bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}
__device__ __forceinline__ void wait_for_phase(uint32_t barrier, uint32_t parity) {
    asm volatile(
        "{\n\t.reg .pred done;\n"
        "again:\n\tmbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n\t"
        "@!done bra again;\n\t}" ::"r"(barrier),
        "r"(parity)
        : "memory");
}

}  // namespace flashscan::cuda::ptx
