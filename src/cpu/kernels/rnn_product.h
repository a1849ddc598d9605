// SPDX-License-Identifier: Apache-2.0
// Matrix products with a few rows: y[r][j] = sum over k of x[r][k] m[k][j].
//
// m is packed in panels of two vectors: panel q holds m[k][q width .. (q + 1) width) for k = 0, 1, ... one after
// another, so that the inner loop reads it in order. A tile of sums stays in registers: R rows of x times P panels are
// 2 R P vectors, which fit in registers beside the factors. Each k reads R numbers of x, which are broadcast, and 2 P
// vectors of m; a panel is read once for every R rows. Each sum runs over k in order, whatever R, P and the number of
// rows are, so that the bits of a row do not depend on the rows beside it.
#pragma once

#include "cpu/kernels/simd.h"

namespace flashscan::cpu::FLASHSCAN_ISA {

template <typename T>
inline constexpr int panel_width = 2 * Simd<T>::width;
// The greatest R P: so many sums, of two vectors each, fit in registers beside the factors.
inline constexpr int tile_sums = vector_bytes == 64 ? 12 : 6;

template <typename T>
FLASHSCAN_INLINE int64_t padded_width(int64_t n) {
    return (n + panel_width<T> - 1) / panel_width<T> * panel_width<T>;
}
template <typename T>
FLASHSCAN_INLINE int64_t padded_depth(int64_t n) {
    return (n + Simd<T>::width - 1) / Simd<T>::width * Simd<T>::width;
}

// How x lies in memory.
enum class Left {
    blocks,  // x[r][k] is at ((k / W) pitch + r) W + k % W, with W the width of a vector
    rows,    // x[r][k] is at r pitch + k
    columns  // x[r][k] is at k pitch + r
};

template <typename T>
struct Product {
    const T* x;
    int64_t pitch;
    int64_t rows, depth;  // depth is a multiple of W with Left::blocks
    const T* panels;
    int64_t num_panels;
    T* y;
    int64_t y_pitch;
    bool add;                           // says whether the product is added to what y holds
    int64_t y_vector = Simd<T>::width;  // the distance of one vector of a row of y from the next
    // The distance of one k from the next in a panel, and of one panel from the next. With other values a row-major
    // matrix of whole panels is read without packing.
    int64_t k_step = panel_width<T>, panel_step = depth * panel_width<T>;
};

template <Left Form, int R, int P, typename T>
void tile(const Product<T>& m, int64_t row, int64_t panel) {
    constexpr int W = Simd<T>::width;
    constexpr int inner = Form == Left::blocks ? W : 1;
    const int64_t row_step = Form == Left::blocks ? W : Form == Left::rows ? m.pitch : 1;
    const int64_t x_step = Form == Left::rows ? 1 : m.pitch * inner, panel_size = m.panel_step;
    const T* x = m.x + row * row_step;
    const T* right = m.panels + panel * panel_size;
    T* y = m.y + row * m.y_pitch + panel * 2 * m.y_vector;
    Vec<T> sum[size_t{R}][size_t{2 * P}];
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 16
        for (int p = 0; p < 2 * P; ++p) sum[r][p] = m.add ? load(y + r * m.y_pitch + p * m.y_vector) : Vec<T>{};
    for (int64_t k = 0; k < m.depth; k += inner, x += x_step)
        for (int i = 0; i < inner; ++i, right += m.k_step) {
            Vec<T> factor[size_t{2 * P}];
#pragma GCC unroll 16
            for (int p = 0; p < 2 * P; ++p) factor[p] = load(right + p / 2 * panel_size + p % 2 * W);
#pragma GCC unroll 16
            for (int r = 0; r < R; ++r) {
                const Vec<T> left = splat<T>(x[r * row_step + i]);
#pragma GCC unroll 16
                for (int p = 0; p < 2 * P; ++p) sum[r][p] = fused(left, factor[p], sum[r][p]);
            }
        }
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 16
        for (int p = 0; p < 2 * P; ++p) store<T>(y + r * m.y_pitch + p * m.y_vector, sum[r][p]);
}

// Few rows are multiplied by several panels at once, so that enough independent sums overlap.
constexpr int panels_at_once(int64_t rows) { return rows <= tile_sums / 4 ? 4 : rows <= tile_sums / 2 ? 2 : 1; }

template <Left Form, int R, typename T>
void tile_of_rows(const Product<T>& m, int64_t row, int64_t rows, int64_t begin, int64_t end) {
    if constexpr (R > 1)
        if (rows < R) return tile_of_rows<Form, R - 1>(m, row, rows, begin, end);
    constexpr int P = panels_at_once(R);
    int64_t panel = begin;
    for (; panel + P <= end; panel += P) tile<Form, R, P>(m, row, panel);
    for (; panel < end; ++panel) tile<Form, R, 1>(m, row, panel);
}

// Cuts the rows into tiles of about the same size. All tiles use some panels before the next panels are read.
template <Left Form, typename T>
void multiply(const Product<T>& m) {
    if (m.rows == 0) return;
    const int64_t tiles = (m.rows + tile_sums - 1) / tile_sums, step = panels_at_once(m.rows / tiles);
    for (int64_t begin = 0; begin < m.num_panels; begin += step) {
        const int64_t end = begin + step < m.num_panels ? begin + step : m.num_panels;
        for (int64_t i = 0; i < tiles; ++i) {
            const int64_t row = i * m.rows / tiles, rows = (i + 1) * m.rows / tiles - row;
            tile_of_rows<Form, tile_sums>(m, row, rows, begin, end);
        }
    }
}

}  // namespace flashscan::cpu::FLASHSCAN_ISA
