// SPDX-License-Identifier: Apache-2.0
// wgmma: asynchronous matrix products of a warpgroup (4 warps) on tensor cores. Compute capability 9.0 alone (sm_90a).
//
// A 64 x N sum is increased by a 64 x 8 matrix times an 8 x N matrix of tf32. The left operand and the sum are in
// registers: with r = lane / 4, q = lane % 4 and w = warp % 4, a lane holds of the left operand (16 w + r, q),
// (16 w + r + 8, q), (16 w + r, q + 4), (16 w + r + 8, q + 4), and of the sum, for every 8 columns from c on,
// (16 w + r, c + 2q), (16 w + r, c + 2q + 1), (16 w + r + 8, c + 2q), (16 w + r + 8, c + 2q + 1). The right operand is
// in shared memory; a descriptor tells its layout.
#pragma once

#include <cstdint>

namespace flashscan::cuda::ptx {

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define FLASHSCAN_HAS_WGMMA 1
#endif

// The descriptor of columns of 32 words of 32 bits, 128 bytes apart, with the 128-byte swizzle: the 16-byte vector i of
// column c is at i ^ (c % 8). `address` is a multiple of 1024; each 32 bytes more begin 8 words later in the columns.
__device__ __forceinline__ uint64_t describe_columns(uint32_t address) {
    constexpr uint64_t eight_columns = 1024 >> 4, swizzle_128 = 1;
    return static_cast<uint64_t>((address & 0x3ffffU) >> 4) | uint64_t{1} << 16 | eight_columns << 32 |
           swizzle_128 << 62;
}
// The descriptor of a layout without swizzle: the words of four k of a column lie next to those of the following
// columns, and those of the next four k lie `k_bytes` further.
__device__ __forceinline__ uint64_t describe_words(uint32_t address, uint32_t k_bytes) {
    constexpr uint64_t eight_columns = 128 >> 4;
    return static_cast<uint64_t>((address & 0x3ffffU) >> 4) | static_cast<uint64_t>(k_bytes >> 4) << 16 |
           eight_columns << 32;
}

// Sets the registers of each thread of the warpgroup to Count (setmaxnreg): warpgroups that give some up let others
// take more.
template <int Count>
__device__ __forceinline__ void give_registers_up() {
#ifdef FLASHSCAN_HAS_WGMMA
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(Count));
#endif
}
template <int Count>
__device__ __forceinline__ void take_registers() {
#ifdef FLASHSCAN_HAS_WGMMA
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(Count));
#endif
}

// To be called before products whose registers have been written since the last product.
__device__ __forceinline__ void fence_products() {
#ifdef FLASHSCAN_HAS_WGMMA
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#endif
}
// Makes a group of the products that were started since the last group.
__device__ __forceinline__ void end_products() {
#ifdef FLASHSCAN_HAS_WGMMA
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
#endif
}
// Waits for all groups but the last `Later`.
template <int Later = 0>
__device__ __forceinline__ void wait_for_ended_products() {
#ifdef FLASHSCAN_HAS_WGMMA
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(Later) : "memory");
#endif
}
__device__ __forceinline__ void wait_for_products() {
    end_products();
    wait_for_ended_products();
}
// To be called after the wait for products with the left operand `a`: until then the compiler must not reuse its
// registers.
__device__ __forceinline__ void release_operand(const uint32_t (&a)[4]) {
    asm volatile("" ::"r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]) : "memory");
}

// N = 16. Unless `accumulate`, the sum starts from zeros.
__device__ __forceinline__ void multiply_columns(float (&d)[8], const uint32_t (&a)[4], uint64_t columns,
                                                 bool accumulate) {
#ifdef FLASHSCAN_HAS_WGMMA
    asm volatile(
        "{\n\t.reg .pred p;\n\tsetp.ne.b32 p, %13, 0;\n\t"
        "wgmma.mma_async.sync.aligned.m64n16k8.f32.tf32.tf32 {%0, %1, %2, %3, %4, %5, %6, %7}, "
        "{%8, %9, %10, %11}, %12, p, 1, 1;\n\t}"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(columns), "r"(static_cast<int>(accumulate)));
#endif
}

// N = 32. Unless `accumulate`, the sum starts from zeros.
__device__ __forceinline__ void multiply_columns(float (&d)[16], const uint32_t (&a)[4], uint64_t columns,
                                                 bool accumulate) {
#ifdef FLASHSCAN_HAS_WGMMA
    asm volatile(
        "{\n\t.reg .pred p;\n\tsetp.ne.b32 p, %21, 0;\n\t"
        "wgmma.mma_async.sync.aligned.m64n32k8.f32.tf32.tf32 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, "
        "%13, %14, %15}, "
        "{%16, %17, %18, %19}, %20, p, 1, 1;\n\t}"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]),
          "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(columns), "r"(static_cast<int>(accumulate)));
#endif
}

// N = 64. Unless `accumulate`, the sum starts from zeros.
__device__ __forceinline__ void multiply_columns(float (&d)[32], const uint32_t (&a)[4], uint64_t columns,
                                                 bool accumulate) {
#ifdef FLASHSCAN_HAS_WGMMA
    asm volatile(
        "{\n\t.reg .pred p;\n\tsetp.ne.b32 p, %37, 0;\n\t"
        "wgmma.mma_async.sync.aligned.m64n64k8.f32.tf32.tf32 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, "
        "%13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
        "{%32, %33, %34, %35}, %36, p, 1, 1;\n\t}"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]),
          "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]),
          "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]),
          "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(columns), "r"(static_cast<int>(accumulate)));
#endif
}

}  // namespace flashscan::cuda::ptx
