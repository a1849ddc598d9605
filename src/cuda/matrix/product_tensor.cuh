// SPDX-License-Identifier: Apache-2.0
// A Tile of walk_general.cuh: a block's product of its rows with a matrix on tensor cores (mma.sync), in f32 accuracy
// by splitting f32 into two tf32.
//
// A factor x is split into hi + lo of tf32 with 11 significant bits each, and x y = hi hi + hi lo + lo hi up to an
// error of 2^-20 |x y|, which is less than the error d 2^-24 that a sum of d products in f32 may have (Ootomo and
// Yokota 2022). 16-bit matrices have no lo. Tensor cores round towards zero, and these errors would accumulate. So they
// sum only 8 products, and those sums are added in f32, corrected for what they lack on average (MakeUp).
//
// Ownership  A block has RowWarps x ColumnWarps warps, and a warp has 16 row_tiles x 8 column_tiles sums. The layout in
//            shared memory makes the loads free of bank conflicts.
// Limits     Infinite factors, and those within 2^-12 of the largest f32, give NaN.
#pragma once

#include "cuda/device/ptx/mma.cuh"
#include "cuda/matrix/numbers.cuh"

namespace flashscan::cuda {

template <int Rows, int Dim, int RowWarps, int ColumnWarps, int KTile, int Stages>
struct TensorTile : MatrixRows<float, Rows, Dim + 4> {
    using Number = float;
    using MatrixRows<float, Rows, Dim + 4>::row_stride;
    static constexpr int rows = Rows, dim = Dim, k_tile = KTile, stages = Stages;
    static constexpr int threads = 32 * RowWarps * ColumnWarps;
    static constexpr int row_tiles = Rows / (16 * RowWarps), column_tiles = Dim / (8 * ColumnWarps);
    static constexpr int k_tile_stride = Dim + 8;
    static constexpr int depth_unit = 8;  // the depth of a product is a multiple of it
    static constexpr bool on_tensor_cores = true, by_warpgroups = false;
    static constexpr int eights = 1;

    float sum[row_tiles][column_tiles][4];
    MakeUp<1> make_up;

    static __device__ __forceinline__ int first_row() {
        return static_cast<int>(threadIdx.x / 32) / ColumnWarps * (16 * row_tiles);
    }
    static __device__ __forceinline__ int first_column() {
        return static_cast<int>(threadIdx.x / 32) % ColumnWarps * (8 * column_tiles);
    }

    __device__ __forceinline__ void clear() {
#pragma unroll
        for (auto& tiles : sum)
#pragma unroll
            for (auto& tile : tiles)
#pragma unroll
                for (float& s : tile) s = 0;
    }

    // sum += rows[.][k .. k + depth) matrix[0 .. depth)[.] for `columns` columns. `exact` tells that tf32 holds the
    // matrix exactly, as it has 16-bit numbers; `rounded` that both factors may be rounded to tf32.
    __device__ __forceinline__ void multiply(const float* rows_of_r, int k, const float* matrix, int depth, int columns,
                                             bool exact, bool rounded, bool) {
        if (first_column() >= columns) return;
        const int r = static_cast<int>(threadIdx.x % 32) / 4, q = static_cast<int>(threadIdx.x % 4);
        const float* const left = rows_of_r + (first_row() + r) * row_stride + q + k;
        matrix += q * k_tile_stride + first_column() + r;
        if (rounded)
            multiply<1>(left, matrix, depth);
        else if (exact)
            multiply<2>(left, matrix, depth);
        else
            multiply<3>(left, matrix, depth);
    }

    // Stores the sums of `columns` columns, and zeros after them.
    __device__ __forceinline__ void store(float* to, int columns) const {
        const int r = static_cast<int>(threadIdx.x % 32) / 4, q = static_cast<int>(threadIdx.x % 4);
        to += (first_row() + r) * row_stride;
#pragma unroll
        for (int j = 0; j < column_tiles; ++j) {
            const int column = first_column() + 8 * j + 2 * q;
            const bool one = column < columns, two = column + 1 < columns;
#pragma unroll
            for (int i = 0; i < row_tiles; ++i)
#pragma unroll
                for (int half = 0; half < 2; ++half)
                    *reinterpret_cast<float2*>(to + (16 * i + 8 * half) * row_stride + column) =
                        make_float2(one ? sum[i][j][2 * half] : 0.0F, two ? sum[i][j][2 * half + 1] : 0.0F);
        }
    }

  private:
    static constexpr int group = column_tiles % 2 == 0 ? 2 : 1;  // column tiles whose products are interleaved

    template <int Products>
    __device__ __forceinline__ void multiply(const float* left, const float* matrix, int depth) {
#pragma unroll(row_tiles* column_tiles <= 2 ? 4 : 1)
        for (int k = 0; k < depth; k += 8) {
            const float factor = make_up.next();
            uint32_t high[row_tiles][4], low[row_tiles][4];
#pragma unroll
            for (int i = 0; i < row_tiles; ++i)
#pragma unroll
                for (int part = 0; part < 4; ++part)
                    split_tf32(left[(16 * i + part % 2 * 8) * row_stride + k + part / 2 * 4], high[i][part],
                               low[i][part]);
#pragma unroll
            for (int j = 0; j < column_tiles; j += group) {
                uint32_t right_high[group][2], right_low[group][2];
                float part[group][row_tiles][4] = {};
#pragma unroll
                for (int n = 0; n < group; ++n)
#pragma unroll
                    for (int half = 0; half < 2; ++half)
                        split_tf32(matrix[(k + 4 * half) * k_tile_stride + 8 * (j + n)], right_high[n][half],
                                   right_low[n][half]);
                if constexpr (Products == 3) add_products(part, high, right_low);
                if constexpr (Products >= 2) add_products(part, low, right_high);
                add_products(part, high, right_high);
#pragma unroll
                for (int n = 0; n < group; ++n)
#pragma unroll
                    for (int i = 0; i < row_tiles; ++i)
#pragma unroll
                        for (int s = 0; s < 4; ++s) sum[i][j + n][s] = fmaf(part[n][i][s], factor, sum[i][j + n][s]);
            }
        }
    }
    static __device__ __forceinline__ void add_products(float (&part)[group][row_tiles][4],
                                                        const uint32_t (&left)[row_tiles][4],
                                                        const uint32_t (&right)[group][2]) {
#pragma unroll
        for (int n = 0; n < group; ++n)
#pragma unroll
            for (int i = 0; i < row_tiles; ++i) ptx::multiply_add_tf32(part[n][i], left[i], right[n]);
    }
};

}  // namespace flashscan::cuda
