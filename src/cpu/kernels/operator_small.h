// SPDX-License-Identifier: Apache-2.0
// Prefix products of real matrices of D = 8 or 16 rows, where a row is one vector of D numbers:
//
//     y[i] = sum over k of y[i][k] x[k]
//
// x is read from memory without panels and stays in registers for all rows of y, whose numbers are broadcast from a
// small array. A thread owns some rows of y, as in operator_matrix.h.
#pragma once

#include "cpu/kernels/convert.h"
#include "cpu/kernels/operator.h"

namespace flashscan::cpu::FLASHSCAN_ISA {

template <typename T, int D>
class SmallWalk {
  public:
    SmallWalk(const MatrixCall& call, const OperatorPiece& piece, int64_t row, int64_t rows)
        : p_(call), q_(piece), row_(row), rows_(rows) {}

    static bool takes(const MatrixCall& call) {
        return call.dim == D && call.parts == 1 && same_number<T>(call.number) && call.prefix == nullptr;
    }

    void forward(char* carry) {
        T* numbers = reinterpret_cast<T*>(carry) + row_ * D;
        if (!q_.start) copy(numbers, y_);
        const int64_t time = p_.ascending ? q_.begin + q_.first : q_.end - 1 - q_.first;
        const int64_t step = (p_.ascending ? 1 : -1) * p_.time_stride * D * D;
        const int64_t at = (q_.base + time * p_.time_stride) * D * D;
        const T* x = reinterpret_cast<const T*>(p_.x) + at;
        T* to = p_.y == nullptr ? nullptr : reinterpret_cast<T*>(p_.y) + at + row_ * D;
        for (int64_t i = 0; i < q_.steps; ++i, x += step) {
            const bool first = i == 0 && q_.start;
            if (to != nullptr && p_.exclusive) first ? unit(to) : copy(y_, to);
            first ? copy(x + row_ * D, y_) : multiply(x);
            if (to == nullptr) continue;
            if (!p_.exclusive) copy(y_, to);
            to += step;
        }
        copy(y_, numbers);
    }

  private:
    typedef T Vector __attribute__((vector_size(D * sizeof(T))));

    void copy(const T* from, T* to) const { __builtin_memcpy(to, from, static_cast<size_t>(rows_) * D * sizeof(T)); }
    void unit(T* to) const {
        for (int64_t i = 0; i < rows_ * D; ++i) to[i] = i % D == row_ + i / D ? T(1) : T(0);
    }
    static FLASHSCAN_INLINE Vector add_product(T factor, Vector v, Vector sum) {
        if constexpr (sizeof(Vector) == vector_bytes)
            return fused(splat<T>(factor), v, sum);
        else
            return factor * v + sum;
    }
    void multiply(const T* x) {
        Vector right[size_t{D}];
        __builtin_memcpy(right, x, sizeof right);
        for (int64_t r = 0; r < rows_; ++r) {
            T* y = y_ + r * D;
            Vector even = y[0] * right[0], odd = y[1] * right[1];
#pragma GCC unroll 16
            for (int k = 2; k < D; k += 2) {
                even = add_product(y[k], right[k], even);
                odd = add_product(y[k + 1], right[k + 1], odd);
            }
            even += odd;
            __builtin_memcpy(y, &even, sizeof even);
        }
    }

    const MatrixCall& p_;
    const OperatorPiece& q_;
    int64_t row_, rows_;
    alignas(64) T y_[size_t{D} * D];
};

}  // namespace flashscan::cpu::FLASHSCAN_ISA
