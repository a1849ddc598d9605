// SPDX-License-Identifier: Apache-2.0
// mma.sync: a matrix product of a warp on tensor cores. A 16 x 8 sum in f32 is increased by a 16 x 16 matrix times a
// 16 x 8 matrix of 16-bit elements. With r = lane / 4 and q = lane % 4, and (row, column) the first of the two elements
// of a word, a lane holds of the left operand (r, 2q), (r + 8, 2q), (r, 2q + 8), (r + 8, 2q + 8); of the right one the
// pairs of rows (2q, r), (2q + 8, r); of the sum the elements (r, 2q), (r, 2q + 1), (r + 8, 2q), (r + 8, 2q + 1).
#pragma once

#include <cuda_bf16.h>

#include <cstdint>
#include <type_traits>

namespace flashscan::cuda::ptx {

template <typename X>
__device__ __forceinline__ void multiply_add(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    if constexpr (std::is_same_v<X, __nv_bfloat16>)
        asm volatile(
            "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
            "{%0,%1,%2,%3};"
            : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
    else
        asm volatile(
            "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
            "{%0,%1,%2,%3};"
            : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// The product of a 16 x 8 and an 8 x 8 matrix of tf32: f32 words whose last 13 bits are not read. A lane holds of the
// left operand (r, q), (r + 8, q), (r, q + 4), (r + 8, q + 4); of the right one (q, r), (q + 4, r); of the sum as
// above.
__device__ __forceinline__ void multiply_add_tf32(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

}  // namespace flashscan::cuda::ptx
