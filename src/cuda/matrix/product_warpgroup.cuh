// SPDX-License-Identifier: Apache-2.0
// A Tile of walk_general.cuh: a block's product of its rows with a matrix on tensor cores by warpgroups (wgmma), in f32
// accuracy like product_tensor.cuh, but twice as fast.
//
// It computes the transpose of the product, M^T r^T. The rows are the right operand and are kept in shared memory,
// split into their high and low parts.
//
// Ownership  A warpgroup has 64 columns of M at a time as its left operand; its lanes split the numbers that they load
//            into high and low parts in registers.
// Limits     Compute capability 9.0 alone (sm_90a).
#pragma once

#include "cuda/device/ptx/async_proxy.cuh"
#include "cuda/device/ptx/cluster.cuh"
#include "cuda/device/ptx/wgmma.cuh"
#include "cuda/matrix/numbers.cuh"

namespace flashscan::cuda {

// Tensor cores sum 8 Eights products; these sums are then added in f32.
template <int Rows, int Dim, int Groups, int KTile, int Stages, int Eights>
struct WarpgroupTile {
    using Number = float;
    using Word = MatrixWord<float>;
    static constexpr int rows = Rows, dim = Dim, k_tile = KTile, stages = Stages;
    static constexpr int threads = 128 * Groups;
    static constexpr int tiles = Dim / (64 * Groups);
    static constexpr int row_numbers = 2 * Rows * Dim, k_tile_stride = Dim + 8;
    static constexpr int depth_unit = 8 * Eights;
    static constexpr bool on_tensor_cores = true, by_warpgroups = true;
    static constexpr int eights = Eights;
    static_assert(tiles >= 1 && Dim % 64 == 0 && KTile % (8 * Eights) == 0);

    float sum[tiles][Rows / 2];
    MakeUp<Eights> make_up;

    // The high part of number (row, column) is here, in the 128-byte swizzle; the low parts follow all high parts.
    static __device__ __forceinline__ int place(int row, int column) {
        return column / 32 * (32 * Rows) + row * 32 + ((column % 32 / 4) ^ (row % 8)) * 4 + column % 4;
    }
    static __device__ __forceinline__ Word read(const float* rows_of_r, int row, int column) {
        const Word high = *reinterpret_cast<const Word*>(rows_of_r + place(row, column));
        Word x = *reinterpret_cast<const Word*>(rows_of_r + Rows * Dim + place(row, column));
#pragma unroll
        for (int n = 0; n < 4; ++n) x.n[n] += high.n[n];
        return x;
    }
    static __device__ __forceinline__ void write(float* rows_of_r, int row, int column, const Word& x) {
        Word high, low;
#pragma unroll
        for (int n = 0; n < 4; ++n) split_tf32(x.n[n], high.n[n], low.n[n]);
        *reinterpret_cast<Word*>(rows_of_r + place(row, column)) = high;
        *reinterpret_cast<Word*>(rows_of_r + Rows * Dim + place(row, column)) = low;
    }
    static __device__ __forceinline__ void put(float* rows_of_r, int row, int column, float x) {
        float high, low;
        split_tf32(x, high, low);
        rows_of_r[place(row, column)] = high;
        rows_of_r[Rows * Dim + place(row, column)] = low;
    }
    static __device__ __forceinline__ void publish() { ptx::fence_async_proxy(); }

    __device__ __forceinline__ void clear() {
#pragma unroll
        for (auto& tile : sum)
#pragma unroll
            for (float& s : tile) s = 0;
    }

    // The warpgroup's first column in tile t, and the offset of the lane's first column from it.
    static __device__ __forceinline__ int column(int t) {
        return (static_cast<int>(threadIdx.x) / 128 * tiles + t) * 64;
    }
    static __device__ __forceinline__ int own_column() {
        return static_cast<int>(threadIdx.x) % 128 / 32 * 16 + static_cast<int>(threadIdx.x) % 32 / 4;
    }

    // sum += rows[.][k .. k + depth) matrix[0 .. depth)[.]; see TensorTile.
    __device__ __forceinline__ void multiply(const float* rows_of_r, int k, const float* matrix, int depth, int columns,
                                             bool exact, bool rounded, bool) {
        if (rounded)
            multiply<1>(rows_of_r, k, matrix, depth, columns);
        else if (exact)
            multiply<2>(rows_of_r, k, matrix, depth, columns);
        else
            multiply<3>(rows_of_r, k, matrix, depth, columns);
    }

    // Stores the sums of `columns` columns, and zeros after them.
    __device__ __forceinline__ void store(float* to, int columns) const {
        const int q = static_cast<int>(threadIdx.x % 4);
#pragma unroll
        for (int t = 0; t < tiles; ++t)
#pragma unroll
            for (int i = 0; i < Rows / 2; ++i) {
                const int at = column(t) + own_column() + i / 2 % 2 * 8;
                put(to, i / 4 * 8 + 2 * q + i % 2, at, at < columns ? sum[t][i] : 0.0F);
            }
    }

  private:
    template <int Products>
    __device__ __forceinline__ void multiply(const float* rows_of_r, int k, const float* matrix, int depth,
                                             int columns) {
        const uint32_t row_address = ptx::shared_address(rows_of_r);
        constexpr uint32_t to_low = Rows * Dim * sizeof(float);
        const float* const own = matrix + static_cast<int>(threadIdx.x % 4) * k_tile_stride + own_column();
        const MakeUp<Eights> first = make_up;
#pragma unroll
        for (int t = 0; t < tiles; ++t) {
            if (column(t) >= columns) return;
            make_up = first;
            // A k-tile begins a whole number of k-tiles after the start of one of the rows' panels of 32 columns.
            const uint32_t panel = row_address + static_cast<uint32_t>((k / 32 * (32 * Rows) + k % 32) * 4);
#pragma unroll
            for (int deep = 0; deep < KTile; deep += depth_unit) {
                if (deep >= depth) break;
                uint32_t high[Eights][4], low[Eights][4];
#pragma unroll
                for (int c = 0; c < Eights; ++c)
#pragma unroll
                    for (int part = 0; part < 4; ++part)
                        split_tf32(own[(deep + 8 * c + part / 2 * 4) * k_tile_stride + column(t) + part % 2 * 8],
                                   high[c][part], low[c][part]);
                const float factor = make_up.next();
                float part[Rows / 2];
                ptx::fence_products();
                // The small products come first, because the error of rounding towards zero is proportional to the sum.
                if constexpr (Products == 3)
#pragma unroll
                    for (int c = 0; c < Eights; ++c)
                        ptx::multiply_columns(part, low[c], rows_at(panel, deep + 8 * c), c > 0);
                if constexpr (Products >= 2)
#pragma unroll
                    for (int c = 0; c < Eights; ++c)
                        ptx::multiply_columns(part, high[c], rows_at(panel + to_low, deep + 8 * c),
                                              Products == 3 || c > 0);
#pragma unroll
                for (int c = 0; c < Eights; ++c)
                    ptx::multiply_columns(part, high[c], rows_at(panel, deep + 8 * c), Products >= 2 || c > 0);
                ptx::wait_for_products();
#pragma unroll
                for (int i = 0; i < Rows / 2; ++i) sum[t][i] = fmaf(part[i], factor, sum[t][i]);
            }
        }
    }
    static __device__ __forceinline__ uint64_t rows_at(uint32_t panel, int column) {
        return ptx::describe_columns(panel + static_cast<uint32_t>((column / 32 * (32 * Rows) + column % 32) * 4));
    }
};

}  // namespace flashscan::cuda
