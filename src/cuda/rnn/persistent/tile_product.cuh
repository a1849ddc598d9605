// SPDX-License-Identifier: Apache-2.0
// A warp's product of 16 rows of a matrix by 8 vectors, over a range of k:
//
//     out[m, n] = sum over k of row(m)[k] column(n)[k]
//
// Both operands have k innermost and are loaded 16 bytes at a time; `load(row, k)` returns zeros past the last k. All
// are multiplied on tensor cores, f32 as two tf32 each (split_tf32.cuh); the order of k within a step is chosen so that
// the 16 bytes that a lane loads are the operand that it has to hold.
#pragma once

#include "cuda/device/math/split_tf32.cuh"
#include "cuda/device/math/types.cuh"
#include "cuda/device/ptx/mma.cuh"
#include "cuda/device/ptx/mma_f64.cuh"

namespace flashscan::cuda {

template <typename X>
struct RnnTileProduct {
    static constexpr int depth = 32;  // the extent of k in a step

    template <typename Row, typename Column, typename Load, typename Store>
    static __device__ __forceinline__ void run(int first, int end, const Row& row, const Column& column,
                                               const Load& load, const Store& store) {
        const int lane = static_cast<int>(threadIdx.x) % 32, m = lane / 4, n = lane % 4 * 2;
        const X *const low = row(m), *const high = row(m + 8), *const right = column(m);
        float c[2][4] = {};
#pragma unroll 2
        for (int step = first; step < end; ++step) {
            const int k = step * depth + lane % 4 * 8;
            const uint4 a = load(low, k), b = load(high, k), v = load(right, k);
            ptx::multiply_add<X>(c[0], {a.x, b.x, a.y, b.y}, v.x, v.y);
            ptx::multiply_add<X>(c[1], {a.z, b.z, a.w, b.w}, v.z, v.w);
        }
#pragma unroll
        for (int i = 0; i < 4; ++i) store(m + i / 2 * 8, n + i % 2, c[0][i] + c[1][i]);
    }
};

template <>
struct RnnTileProduct<double> {
    static constexpr int depth = 8;

    template <typename Row, typename Column, typename Load, typename Store>
    static __device__ __forceinline__ void run(int first, int end, const Row& row, const Column& column,
                                               const Load& load, const Store& store) {
        const int lane = static_cast<int>(threadIdx.x) % 32, m = lane / 4, n = lane % 4 * 2;
        const double *const low = row(m), *const high = row(m + 8), *const right = column(m);
        double c[4] = {};
#pragma unroll 4
        for (int step = first; step < end; ++step) {
            const int k = step * depth + lane % 4 * 2;
            const double2 a = as_pair(load(low, k)), b = as_pair(load(high, k)), v = as_pair(load(right, k));
            ptx::multiply_add(c, {a.x, b.x, a.y, b.y}, {v.x, v.y});
        }
#pragma unroll
        for (int i = 0; i < 4; ++i) store(m + i / 2 * 8, n + i % 2, c[i]);
    }
    static __device__ __forceinline__ double2 as_pair(const uint4& v) { return *reinterpret_cast<const double2*>(&v); }
};

template <>
struct RnnTileProduct<float> {
    static constexpr int depth = 16;

    template <typename Row, typename Column, typename Load, typename Store>
    static __device__ __forceinline__ void run(int first, int end, const Row& row, const Column& column,
                                               const Load& load, const Store& store) {
        const int lane = static_cast<int>(threadIdx.x) % 32, m = lane / 4, n = lane % 4 * 2;
        const float *const low = row(m), *const high = row(m + 8), *const right = column(m);
        float c[2][4] = {};
#pragma unroll 2
        for (int step = first; step < end; ++step) {
            const int k = step * depth + lane % 4 * 4;
            const float4 a = as_four(load(low, k)), b = as_four(load(high, k)), v = as_four(load(right, k));
            multiply_add(c[0], {a.x, b.x, a.y, b.y}, {v.x, v.y});
            multiply_add(c[1], {a.z, b.z, a.w, b.w}, {v.z, v.w});
        }
#pragma unroll
        for (int i = 0; i < 4; ++i) store(m + i / 2 * 8, n + i % 2, c[0][i] + c[1][i]);
    }

  private:
    static __device__ __forceinline__ void multiply_add(float (&c)[4], const float (&a)[4], const float (&v)[2]) {
        uint32_t a_high[4], a_low[4], v_high[2], v_low[2];
#pragma unroll
        for (int i = 0; i < 4; ++i) split_tf32(a[i], a_high[i], a_low[i]);
#pragma unroll
        for (int i = 0; i < 2; ++i) split_tf32(v[i], v_high[i], v_low[i]);
        ptx::multiply_add_tf32(c, a_low, v_high);
        ptx::multiply_add_tf32(c, a_high, v_low);
        ptx::multiply_add_tf32(c, a_high, v_high);
    }
    static __device__ __forceinline__ float4 as_four(const uint4& v) { return *reinterpret_cast<const float4*>(&v); }
};

}  // namespace flashscan::cuda
