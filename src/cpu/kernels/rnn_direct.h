// SPDX-License-Identifier: Apache-2.0
// Products of a few rows with a matrix that is not packed: y[r][j] = sum over k of x[r][k] m[j][k], k innermost in
// memory.
//
// Packing a matrix into panels (rnn_product.h) costs more than multiplying a few rows by it, so calls of few products
// read it in place. A tile of J rows of m times R rows of x keeps J R vectors of partial sums, whose lanes are added up
// at the end. The J rows are far apart, so that each of the streams that memory sees is a long one. m is read from
// memory once, for the first R rows of x, and from a cache for the others. The bits of a row of y do not depend on the
// other rows, nor on which thread has which rows of m.
#pragma once

#include "cpu/kernels/rnn_memory.h"

namespace flashscan::cpu::FLASHSCAN_ISA {

template <typename T>
struct DirectProduct {
    const T* x;                  // x[r][k] is at ((k / W) pitch + r) W + k % W, and 0 for k from `depth` on
    int64_t pitch, rows, depth;  // depth >= W
    const char* m;               // its numbers have the type `number`; row j begins at element j depth
    Number number;
    int64_t m_rows;
    T* y;
    int64_t y_pitch;
};

// The rows of m and of x in a tile, whose sums stay in registers beside a vector of each row of x.
template <typename T>
inline constexpr int direct_lines = Simd<T>::width < 4 ? Simd<T>::width : 4;
inline constexpr int direct_rows = vector_bytes == 64 ? 6 : 3;
// About so many bytes of m are used by all rows of x before the next ones are.
inline constexpr int64_t direct_bytes = 65536;

// Adds up the lanes of each of J vectors; lane i of what it returns is the sum of vector i. Each pass adds the upper
// half of what is left of a vector to the lower half.
template <typename T>
FLASHSCAN_INLINE Vec<T> half_sums(Vec<T> a, Vec<T> b) {
    const Two<T> pair{a, b};
    return low_half(pair) + high_half(pair);
}
template <int J, typename T>
FLASHSCAN_INLINE Vec<T> lane_sums(const Vec<T> (&v)[size_t{J}]) {
    constexpr int W = Simd<T>::width;
    Vec<T> sum = v[0];
    if constexpr (J == 2) sum = half_sums<T>(v[0], v[1]);
    if constexpr (J == 4) sum = half_sums<T>(half_sums<T>(v[0], v[2]), half_sums<T>(v[1], v[3]));
    if constexpr (W > 8 * J) sum += shift<8 * J, true, T>(sum, Vec<T>{});
    if constexpr (W > 4 * J) sum += shift<4 * J, true, T>(sum, Vec<T>{});
    if constexpr (W > 2 * J) sum += shift<2 * J, true, T>(sum, Vec<T>{});
    if constexpr (W > J) sum += shift<J, true, T>(sum, Vec<T>{});
    return sum;
}

// Moves lanes up by `count`, which is at most their number; the lowest ones become 0.
template <typename T>
FLASHSCAN_INLINE Vec<T> moved_up(Vec<T> v, int64_t count) {
    T lanes[2 * Simd<T>::width] = {};
    store<T>(lanes + count, v);
    return load<T>(lanes);
}

// Multiplies rows [row, row + R) of x by the rows j + i apart of m, with i < J, for each j from `begin` to `end`.
template <int J, int R, typename Form, typename T>
void direct_tile(const DirectProduct<T>& p, int64_t row, int64_t begin, int64_t end, int64_t apart) {
    constexpr int W = Simd<T>::width;
    const int64_t depth = p.depth, pitch = p.pitch, whole = depth / W * W, next = apart * depth;
    const T* x = p.x + row * W;
    T* y = p.y + row * p.y_pitch;
    // The last numbers of a row of m are read as the end of a whole vector; what is before them becomes 0 here and in
    // x.
    const int64_t last = depth - W;
    Vec<T> last_left[size_t{R}] = {};
    for (int r = 0; whole < depth && r < R; ++r)
        last_left[r] = moved_up<T>(load(x + whole * pitch + r * W), whole - last);
    using Int = typename Simd<T>::Int;
    const Int kept = reinterpret_cast<Int>(moved_up<T>(reinterpret_cast<Vec<T>>(~Int{}), whole - last));
    for (int64_t j = begin; j < end; ++j) {
        const auto* m = reinterpret_cast<const typename Form::Type*>(p.m) + j * depth;
        Vec<T> sum[size_t{R}][size_t{J}] = {};
        const auto add = [&](auto left, auto right) {
            Vec<T> lefts[size_t{R}];
#pragma GCC unroll 8
            for (int r = 0; r < R; ++r) lefts[r] = left(r);
#pragma GCC unroll 8
            for (int i = 0; i < J; ++i) {
                const Vec<T> factor = right(m + i * next);
#pragma GCC unroll 8
                for (int r = 0; r < R; ++r) sum[r][i] = fused(lefts[r], factor, sum[r][i]);
            }
        };
        for (int64_t k = 0; k < whole; k += W)
            add([&](int r) { return load(x + k * pitch + r * W); },
                [&](const auto* line) {
                    if (R > 2) prefetch(line + k + 64);  // the caches' own prefetching is ahead of fewer rows
                    return widen(line + k);
                });
        if (whole < depth)
            add([&](int r) { return last_left[r]; },
                [&](const auto* line) {
                    return reinterpret_cast<Vec<T>>(reinterpret_cast<Int>(widen(line + last)) & kept);
                });
#pragma GCC unroll 8
        for (int r = 0; r < R; ++r) {
            T sums[Simd<T>::width];
            store<T>(sums, lane_sums<J, T>(sum[r]));
#pragma GCC unroll 8
            for (int i = 0; i < J; ++i) y[r * p.y_pitch + i * apart + j] = sums[i];
        }
    }
}

template <int J, int R, typename Form, typename T>
void direct_tile_of_rows(const DirectProduct<T>& p, int64_t row, int64_t rows, int64_t begin, int64_t end,
                         int64_t apart) {
    if constexpr (R > 1)
        if (rows < R) return direct_tile_of_rows<J, R - 1, Form, T>(p, row, rows, begin, end, apart);
    direct_tile<J, R, Form, T>(p, row, begin, end, apart);
}

// Cuts the rows of x into tiles of about the same size. All tiles use some rows of m before the next ones are read.
template <int J, typename T>
void multiply_rows_of(const DirectProduct<T>& p, int64_t begin, int64_t end, int64_t apart) {
    const int64_t tiles = (p.rows + direct_rows - 1) / direct_rows;
    const int64_t step = direct_bytes / (J * p.depth * bytes_of(p.number)) + 1;
    with_number<T>(p.number, [&](auto form) {
        for (int64_t j = begin; j < end; j += step)
            for (int64_t i = 0; i < tiles; ++i) {
                const int64_t row = i * p.rows / tiles, rows = (i + 1) * p.rows / tiles - row;
                direct_tile_of_rows<J, direct_rows, decltype(form), T>(p, row, rows, j, j + step < end ? j + step : end,
                                                                       apart);
            }
    });
}

template <typename T>
void multiply_rows(const DirectProduct<T>& p) {
    constexpr int J = direct_lines<T>;
    const int64_t apart = p.m_rows / J;
    multiply_rows_of<J>(p, 0, apart, apart);
    multiply_rows_of<1>(p, J * apart, p.m_rows, 0);
}

}  // namespace flashscan::cpu::FLASHSCAN_ISA
