// SPDX-License-Identifier: Apache-2.0
// A warp's product of 16 rows of a matrix by 8 vectors, over a range of k:
//
//     out[m, n] = sum over k of row(m)[k] column(n)[k]
//
// Both operands have k innermost and are loaded 16 bytes at a time; `load(row, k)` returns zeros past the last k. f64
// and 16-bit numbers are multiplied on tensor cores; the order of k within a step is chosen so that the 16 bytes that a
// lane loads are the operand that it has to hold. f32 is computed by multiply-adds: each lane takes an eighth of k, and
// the sums of lanes are added in a fixed order.
#pragma once

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
    static constexpr int depth = 32;

    template <typename Row, typename Column, typename Load, typename Store>
    static __device__ __forceinline__ void run(int first, int end, const Row& row, const Column& column,
                                               const Load& load, const Store& store) {
        const int lane = static_cast<int>(threadIdx.x) % 32, m = lane / 8 * 4;
        const float *const rows[] = {row(m), row(m + 1), row(m + 2), row(m + 3)}, *const right = column(0);
        const int64_t next = column(1) - right;
        float c[4][8] = {};
#pragma unroll 1
        for (int step = first; step < end; ++step) {
            const int k = step * depth + lane % 8 * 4;
            float4 a[4];
#pragma unroll
            for (int i = 0; i < 4; ++i) a[i] = as_four(load(rows[i], k));
#pragma unroll
            for (int j = 0; j < 8; ++j) {
                const float4 v = as_four(load(right + j * next, k));
#pragma unroll
                for (int i = 0; i < 4; ++i)
                    c[i][j] = fmaf(a[i].w, v.w, fmaf(a[i].z, v.z, fmaf(a[i].y, v.y, fmaf(a[i].x, v.x, c[i][j]))));
            }
        }
        add_lanes<4>(c, lane);
        add_lanes<2>(c, lane);
        add_lanes<1>(c, lane);
#pragma unroll
        for (int i = 0; i < 4; ++i) store(m + i, lane % 8, c[i][0]);
    }

  private:
    // One stage of a reduce-scatter over lanes: lanes that differ in bit Half add their sums, and each keeps those of
    // the columns whose bit Half equals its own.
    template <int Half>
    static __device__ __forceinline__ void add_lanes(float (&c)[4][8], int lane) {
        const bool upper = (lane & Half) != 0;
#pragma unroll
        for (int i = 0; i < 4; ++i)
#pragma unroll
            for (int j = 0; j < Half; ++j) {
                const float given = upper ? c[i][j] : c[i][j + Half];
                c[i][j] = (upper ? c[i][j + Half] : c[i][j]) + __shfl_xor_sync(0xffffffffU, given, Half);
            }
    }
    static __device__ __forceinline__ float4 as_four(const uint4& v) { return *reinterpret_cast<const float4*>(&v); }
};

}  // namespace flashscan::cuda
