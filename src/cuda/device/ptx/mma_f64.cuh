// SPDX-License-Identifier: Apache-2.0
// mma.sync: a matrix product of a warp in f64 on tensor cores. A 16 x 8 sum is increased by a 16 x 8 matrix times an
// 8 x 8 matrix. With r = lane / 4 and q = lane % 4 a lane holds of the left operand (r, q), (r + 8, q), (r, q + 4),
// (r + 8, q + 4); of the right one (q, r), (q + 4, r); of the sum (r, 2q), (r, 2q + 1), (r + 8, 2q), (r + 8, 2q + 1).
#pragma once

namespace flashscan::cuda::ptx {

__device__ __forceinline__ void multiply_add(double (&c)[4], const double (&a)[4], const double (&b)[2]) {
#if __CUDA_ARCH__ >= 900
    asm("mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+d"(c[0]), "+d"(c[1]), "+d"(c[2]), "+d"(c[3])
        : "d"(a[0]), "d"(a[1]), "d"(a[2]), "d"(a[3]), "d"(b[0]), "d"(b[1]));
#else
    for (int half = 0; half < 2; ++half)
        for (int k = 0; k < 2; ++k)
            asm("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0,%1}, {%2}, {%3}, {%0,%1};"
                : "+d"(c[2 * half]), "+d"(c[2 * half + 1])
                : "d"(a[2 * k + half]), "d"(b[k]));
#endif
}

}  // namespace flashscan::cuda::ptx
