// SPDX-License-Identifier: Apache-2.0
// Prefix products of real matrices of D = 2, 3 or 4 rows, where a matrix is one vector of D D numbers (of 4 x 4 for D =
// 3):
//
//     y x = sum over k of rows(y, k) columns(x, k)     where rows takes y[i][k] and columns x[k][j] to lane (i, j)
//
// One thread walks a chain. A step waits for a shuffle, a multiplication and the additions, and only x and y go through
// memory.
#pragma once

#include <bit>

#include "cpu/kernels/convert.h"
#include "cpu/kernels/operator.h"

namespace flashscan::cpu::FLASHSCAN_ISA {

template <typename T, int D>
struct Tiny {
    static constexpr int pitch = static_cast<int>(std::bit_ceil(static_cast<unsigned>(D))), lanes = pitch * pitch;
    typedef T Vector __attribute__((vector_size(lanes * sizeof(T))));

    template <int K, int... I>
    static FLASHSCAN_INLINE Vector term(Vector y, Vector x, std::integer_sequence<int, I...>) {
        return __builtin_shufflevector(y, y, (I / pitch * pitch + K)...) *
               __builtin_shufflevector(x, x, (K * pitch + I % pitch)...);
    }
    static FLASHSCAN_INLINE Vector multiply(Vector y, Vector x) {
        constexpr std::make_integer_sequence<int, lanes> all{};
        const Vector even = term<0>(y, x, all) + term<1>(y, x, all);
        if constexpr (D == 2) return even;
        if constexpr (D == 3) return even + term<2>(y, x, all);
        if constexpr (D == 4) return even + (term<2>(y, x, all) + term<3>(y, x, all));
    }
    template <typename Form>
    static FLASHSCAN_INLINE Vector get(Form, const typename Form::Type* from) {
        Vector v = {};
        if constexpr (sizeof(typename Form::Type) == sizeof(T) && D == pitch) {
            __builtin_memcpy(&v, from, sizeof v);
        } else {
            for (int i = 0; i < D * D; ++i) v[i / D * pitch + i % D] = Form::get(from[i]);
        }
        return v;
    }
    template <typename Form>
    static FLASHSCAN_INLINE void put(Form, Vector v, typename Form::Type* to) {
        if constexpr (sizeof(typename Form::Type) == sizeof(T) && D == pitch) {
            __builtin_memcpy(to, &v, sizeof v);
        } else {
            for (int i = 0; i < D * D; ++i) to[i] = Form::put(v[i / D * pitch + i % D]);
        }
    }
};

template <typename T, int D>
class TinyWalk {
  public:
    TinyWalk(const MatrixCall& call, const OperatorPiece& piece) : p_(call), q_(piece) {}

    void forward(char* carry) const {
        with_number<T>(p_.number, [&](auto form) {
            using Own = std::conditional_t<sizeof(T) == 8, AsF64, AsF32>;
            using V = typename Tiny<T, D>::Vector;
            auto* numbers = reinterpret_cast<T*>(carry);
            V y = {};
            if (!q_.start) y = Tiny<T, D>::get(Own{}, numbers);
            y = run(form, y);
            Tiny<T, D>::put(Own{}, y, numbers);
        });
    }

  private:
    template <typename Form, typename V>
    FLASHSCAN_INLINE V run(Form form, V y) const {
        using Type = typename Form::Type;
        const int64_t step = (p_.ascending ? 1 : -1) * p_.time_stride * D * D;
        const int64_t time = p_.ascending ? q_.begin + q_.first : q_.end - 1 - q_.first;
        const Type* x = reinterpret_cast<const Type*>(p_.x) + (q_.base + time * p_.time_stride) * D * D;
        Type* to =
            p_.y == nullptr ? nullptr : reinterpret_cast<Type*>(p_.y) + (q_.base + time * p_.time_stride) * D * D;
        V before = {};
        for (int i = 0; i < D; ++i) before[i * Tiny<T, D>::pitch + i] = 1;
        for (int64_t i = 0; i < q_.steps; ++i, x += step) {
            const V now = Tiny<T, D>::get(form, x);
            if (i > 0 || !q_.start) before = y;
            y = i == 0 && q_.start ? now : Tiny<T, D>::multiply(y, now);
            if (to == nullptr) continue;
            Tiny<T, D>::put(form, p_.exclusive ? before : y, to);
            to += step;
        }
        return y;
    }

    const MatrixCall& p_;
    const OperatorPiece& q_;
};

}  // namespace flashscan::cpu::FLASHSCAN_ISA
