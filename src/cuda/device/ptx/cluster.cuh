// SPDX-License-Identifier: Apache-2.0
// Thread block clusters, and mbarriers: barriers in shared memory that also count the bytes of asynchronous copies.
// Shared memory is given by 32-bit addresses of the shared window. Compute capability 9.0 and newer; functions that say
// what they do on older devices exist there too, where a block is alone in its cluster.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace flashscan::cuda::ptx {

__device__ __forceinline__ uint32_t shared_address(const void* pointer) {
    return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

// Waits for all threads of the cluster; what they wrote before is visible after. On older devices, a barrier of the
// block.
__device__ __forceinline__ void cluster_barrier() {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
    asm volatile("barrier.cluster.arrive.release.aligned;\n\tbarrier.cluster.wait.acquire.aligned;" ::: "memory");
#else
    __syncthreads();
#endif
}

// The same in two halves, for warps whose threads may have diverged. On older devices, a barrier of the block.
__device__ __forceinline__ void arrive_in_cluster() {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
    asm volatile("barrier.cluster.arrive.release;" ::: "memory");
#endif
}
__device__ __forceinline__ void wait_for_cluster() {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
    asm volatile("barrier.cluster.wait.acquire;" ::: "memory");
#else
    __syncthreads();
#endif
}

// The address in the cluster of what lies at `address` in the shared memory of block `rank` (mapa).
__device__ __forceinline__ uint32_t address_in(uint32_t address, int rank) {
    uint32_t there;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address), "r"(rank));
    return there;
}

// The same for a pointer to shared memory. On older devices, the pointer.
template <typename T>
__device__ __forceinline__ T* pointer_in(T* pointer, int rank) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
    uint64_t there;
    asm volatile("mapa.u64 %0, %1, %2;" : "=l"(there) : "l"(pointer), "r"(rank));
    return reinterpret_cast<T*>(there);
#else
    return pointer;
#endif
}

// Stores 16 bytes into the shared memory of a block of the cluster and reports them to an mbarrier there (st.async).
__device__ __forceinline__ void store_async(uint32_t to, uint4 v, uint32_t barrier) {
    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%0], {%1, %2, %3, %4}, [%5];" ::"r"(to),
                 "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w), "r"(barrier)
                 : "memory");
}

// Initialises an mbarrier whose phases need one arrival, that of expect_bytes.
__device__ __forceinline__ void make_byte_barrier(uint32_t barrier) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;\n\tfence.mbarrier_init.release.cluster;" ::"r"(barrier)
                 : "memory");
}
// Initialises an mbarrier whose phases need `arrivals` arrivals of the block's own threads.
__device__ __forceinline__ void make_barrier(uint32_t barrier, int arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}
__device__ __forceinline__ void arrive(uint32_t barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
// Arrives, and lets the phase end only when `bytes` bytes have been reported.
__device__ __forceinline__ void expect_bytes(uint32_t barrier, uint32_t bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}
// Waits until the phase of the given parity has ended; the first phase has parity 0.
__device__ __forceinline__ void wait_for_phase(uint32_t barrier, uint32_t parity) {
    asm volatile(
        "{\n\t.reg .pred done;\n"
        "again:\n\tmbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n\t"
        "@!done bra again;\n\t}" ::"r"(barrier),
        "r"(parity)
        : "memory");
}

}  // namespace flashscan::cuda::ptx
