// SPDX-License-Identifier: Apache-2.0
// Products of a few rows with a matrix that is not packed: y[r][j] = sum over k of x[r][k] m[j][k], k innermost in
// memory.
//
// Packing a matrix into panels (rnn_product.h) costs more than multiplying one row by it, so calls of few products read
// it in place. A tile of J rows of m times R rows of x keeps J R vectors of partial sums, whose lanes are added up at
// the end. m is read from memory once, for the first R rows of x, and from the innermost cache for the others. The bits
// of a row of y do not depend on the other rows, nor on which thread has which rows of m.
#pragma once

#include "cpu/kernels/rnn_memory.h"

namespace flashscan::cpu::FLASHSCAN_ISA {

template <typename T>
struct DirectProduct {
    const T* x;  // x[r][k] is at ((k / W) pitch + r) W + k % W, and 0 for k from `depth` on
    int64_t pitch, rows, depth;
    const char* m;  // its numbers have the type `number`; row j begins at element j depth
    Number number;
    int64_t m_rows;
    T* y;
    int64_t y_pitch;
};

template <typename T>
FLASHSCAN_INLINE T lane_sum(Vec<T> v) {
    T parts[Simd<T>::width];
    store<T>(parts, v);
    for (int half = Simd<T>::width / 2; half > 0; half /= 2)
        for (int i = 0; i < half; ++i) parts[i] += parts[i + half];
    return parts[0];
}

template <int J, int R, typename Form, typename T>
FLASHSCAN_INLINE void direct_tile(const DirectProduct<T>& p, int64_t j, int64_t row) {
    constexpr int W = Simd<T>::width;
    const auto* m = reinterpret_cast<const typename Form::Type*>(p.m) + j * p.depth;
    const T* x = p.x + row * W;
    Vec<T> sum[size_t{J}][size_t{R}] = {};
    int64_t k = 0;
    for (; k + W <= p.depth; k += W, x += p.pitch * W)
#pragma GCC unroll 8
        for (int i = 0; i < J; ++i) {
            const Vec<T> factor = widen(m + i * p.depth + k);
#pragma GCC unroll 8
            for (int r = 0; r < R; ++r) sum[i][r] = fused(load(x + r * W), factor, sum[i][r]);
        }
    for (int i = 0; k < p.depth && i < J; ++i) {
        const Vec<T> factor = get<T>(p.number, p.m, (j + i) * p.depth + k, p.depth - k);
        for (int r = 0; r < R; ++r) sum[i][r] = fused(load(x + r * W), factor, sum[i][r]);
    }
    for (int i = 0; i < J; ++i)
        for (int r = 0; r < R; ++r) p.y[(row + r) * p.y_pitch + j + i] = lane_sum<T>(sum[i][r]);
}

template <int J, typename Form, typename T>
FLASHSCAN_INLINE void direct_rows(const DirectProduct<T>& p, int64_t j) {
    int64_t row = 0;
    for (; row + 3 <= p.rows; row += 3) direct_tile<J, 3, Form, T>(p, j, row);
    if (p.rows - row == 2) return direct_tile<J, 2, Form, T>(p, j, row);
    if (p.rows - row == 1) direct_tile<J, 1, Form, T>(p, j, row);
}

template <typename T>
void multiply_rows(const DirectProduct<T>& p) {
    with_number<T>(p.number, [&](auto form) {
        using Form = decltype(form);
        int64_t j = 0;
        for (; j + 4 <= p.m_rows; j += 4) direct_rows<4, Form, T>(p, j);
        for (; j < p.m_rows; ++j) direct_rows<1, Form, T>(p, j);
    });
}

}  // namespace flashscan::cpu::FLASHSCAN_ISA
