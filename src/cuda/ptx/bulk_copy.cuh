// SPDX-License-Identifier: Apache-2.0
// The bulk tensor copy engine (TMA) and the barriers in shared memory that its loads complete on; sm_90 and up.
#pragma once

#include <cuda.h>

#include <cstdint>

namespace flashscan::cuda::ptx {

__device__ __forceinline__ uint32_t shared_address(const void* pointer) {
    return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

__device__ __forceinline__ void barrier_init(uint64_t* barrier) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(barrier)) : "memory");
}

// Makes barrier_init visible to the copy engine.
__device__ __forceinline__ void fence_barrier_init() {
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

// The phase completes when `bytes` have arrived.
__device__ __forceinline__ void barrier_expect(uint64_t* barrier, uint32_t bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)), "r"(bytes)
                 : "memory");
}

__device__ __forceinline__ void barrier_wait(uint64_t* barrier, uint32_t parity) {
    asm volatile(
        "{\n"
        ".reg .pred done;\n"
        "again:\n"
        "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
        "@!done bra again;\n"
        "}\n" ::"r"(shared_address(barrier)),
        "r"(parity)
        : "memory");
}

// Orders this thread's ordinary accesses to shared memory before later ones of the copy engine.
__device__ __forceinline__ void fence_copy_engine() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

__device__ __forceinline__ void bulk_load_3d(uint32_t shared, const CUtensorMap* map, uint64_t* barrier, int c0, int c1,
                                             int c2) {
    asm volatile(
        "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5}], [%2];" ::
            "r"(shared),
        "l"(map), "r"(shared_address(barrier)), "r"(c0), "r"(c1), "r"(c2)
        : "memory");
}

__device__ __forceinline__ void bulk_load_5d(uint32_t shared, const CUtensorMap* map, uint64_t* barrier, int c0, int c1,
                                             int c2, int c3, int c4) {
    asm volatile(
        "cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6, %7}], "
        "[%2];" ::"r"(shared),
        "l"(map), "r"(shared_address(barrier)), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "r"(c4)
        : "memory");
}

__device__ __forceinline__ void bulk_store_3d(uint32_t shared, const CUtensorMap* map, int c0, int c1, int c2) {
    asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.bulk_group [%1, {%2, %3, %4}], [%0];" ::"r"(shared),
                 "l"(map), "r"(c0), "r"(c1), "r"(c2)
                 : "memory");
}

__device__ __forceinline__ void bulk_store_5d(uint32_t shared, const CUtensorMap* map, int c0, int c1, int c2, int c3,
                                              int c4) {
    asm volatile(
        "cp.async.bulk.tensor.5d.global.shared::cta.bulk_group [%1, {%2, %3, %4, %5, %6}], [%0];" ::"r"(shared),
        "l"(map), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "r"(c4)
        : "memory");
}

__device__ __forceinline__ void commit_bulk_stores() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }

// Waits until at most Pending of this thread's latest groups of stores still read shared memory.
template <int Pending>
__device__ __forceinline__ void wait_bulk_reads() {
    asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(Pending) : "memory");
}

#else  // older cards never get a bulk view; these only let the kernels compile

__device__ __forceinline__ void barrier_init(uint64_t*) {}
__device__ __forceinline__ void fence_barrier_init() {}
__device__ __forceinline__ void barrier_expect(uint64_t*, uint32_t) {}
__device__ __forceinline__ void barrier_wait(uint64_t*, uint32_t) {}
__device__ __forceinline__ void fence_copy_engine() {}
__device__ __forceinline__ void bulk_load_3d(uint32_t, const CUtensorMap*, uint64_t*, int, int, int) {}
__device__ __forceinline__ void bulk_load_5d(uint32_t, const CUtensorMap*, uint64_t*, int, int, int, int, int) {}
__device__ __forceinline__ void bulk_store_3d(uint32_t, const CUtensorMap*, int, int, int) {}
__device__ __forceinline__ void bulk_store_5d(uint32_t, const CUtensorMap*, int, int, int, int, int) {}
__device__ __forceinline__ void commit_bulk_stores() {}
template <int Pending>
__device__ __forceinline__ void wait_bulk_reads() {}

#endif

}  // namespace flashscan::cuda::ptx
