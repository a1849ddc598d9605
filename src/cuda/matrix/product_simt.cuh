// SPDX-License-Identifier: Apache-2.0
// A Tile of walk_general.cuh: a block's product of its rows with a matrix by multiply-adds, for any dtype.
//
// Ownership  A block has RowThreads x ColumnThreads threads. A thread has the sums of every RowThreads-th row and, in
//            words of 16 bytes, of every ColumnThreads-th word of columns.
#pragma once

#include "cuda/matrix/numbers.cuh"

namespace flashscan::cuda {

template <typename Number_, int Rows, int Dim, int RowThreads, int ColumnThreads, int KTile>
struct SimtTile : MatrixRows<Number_, Rows, Dim + MatrixWord<Number_>::width> {
    using Number = Number_;
    using Layout = MatrixRows<Number, Rows, Dim + MatrixWord<Number>::width>;
    using Word = typename Layout::Word;
    static constexpr int rows = Rows, dim = Dim, k_tile = KTile, stages = 2;
    static constexpr int threads = RowThreads * ColumnThreads;
    static constexpr int width = MatrixWord<Number>::width;
    static constexpr int own_rows = Rows / RowThreads, own_words = Dim / ColumnThreads / width;
    static constexpr int k_tile_stride = Dim;
    static constexpr int depth_unit = width;
    static constexpr bool on_tensor_cores = false, by_warpgroups = false;
    static constexpr int eights = 1;
    static_assert(own_rows >= 1 && own_words >= 1 && KTile % width == 0);

    Number sum[own_rows][own_words][width];

    static __device__ __forceinline__ int row(int i) {
        return static_cast<int>(threadIdx.x) / ColumnThreads + i * RowThreads;
    }
    static __device__ __forceinline__ int column(int j) {
        return (static_cast<int>(threadIdx.x) % ColumnThreads + j * ColumnThreads) * width;
    }

    __device__ __forceinline__ void clear() {
#pragma unroll
        for (auto& words : sum)
#pragma unroll
            for (auto& word : words)
#pragma unroll
                for (Number& s : word) s = Number{};
    }

    // sum += rows[.][k0 .. k0 + depth) matrix[0 .. depth)[.], with the conjugate of the matrix if `conjugate`.
    __device__ __forceinline__ void multiply(const Number* rows_of_r, int k0, const Number* matrix, int depth, int,
                                             bool, bool, bool conjugate) {
#pragma unroll 2
        for (int k = 0; k < depth; k += width) {
            Word factors[own_rows];
#pragma unroll
            for (int i = 0; i < own_rows; ++i) factors[i] = Layout::read(rows_of_r, row(i), k0 + k);
#pragma unroll
            for (int deep = 0; deep < width; ++deep)
#pragma unroll
                for (int j = 0; j < own_words; ++j) {
                    Word right = *reinterpret_cast<const Word*>(matrix + (k + deep) * k_tile_stride + column(j));
#pragma unroll
                    for (int n = 0; n < width; ++n) {
                        if (conjugate) right.n[n] = conj(right.n[n]);
#pragma unroll
                        for (int i = 0; i < own_rows; ++i)
                            sum[i][j][n] = multiply_add(factors[i].n[deep], right.n[n], sum[i][j][n]);
                    }
                }
        }
    }

    // Stores the sums of `columns` columns, and zeros after them.
    __device__ __forceinline__ void store(Number* to, int columns) const {
#pragma unroll
        for (int i = 0; i < own_rows; ++i)
#pragma unroll
            for (int j = 0; j < own_words; ++j) {
                Word word;
#pragma unroll
                for (int n = 0; n < width; ++n) word.n[n] = column(j) + n < columns ? sum[i][j][n] : Number{};
                Layout::write(to, row(i), column(j), word);
            }
    }
};

}  // namespace flashscan::cuda
