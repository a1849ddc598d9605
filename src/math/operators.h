// SPDX-License-Identifier: Apache-2.0
// Associative operators on numbers: y = l o r and its adjoint. Compiles as C++, CUDA C++ and with NVRTC. T is a number,
// a complex number where the operator has no order, or a vector with arithmetic, comparisons, select and the functions
// of math/activation.h.
//
//     identity()           of combine, exact for every r but for the sign of a zero
//     combine(l, r)        l o r
//     left_slope(l, r)     what a gradient of y is multiplied by to give that of l: the conjugate derivative
//     right_slope(l, r)    and that of r
//
// min and max take the earlier of equal operands and the first NaN, so that no bracketing changes a bit.
#pragma once

#include "math/activation.h"

namespace flashscan {

// log(1 + x) for 0 <= x <= 1.
FLASHSCAN_HD float log1p_of_fraction(float x) { return log1p_of(x); }
FLASHSCAN_HD double log1p_of_fraction(double x) { return log1p_of(x); }

namespace combine {

inline constexpr double infinity = __builtin_bit_cast(double, 0x7ff0000000000000ULL);

struct Add {
    FLASHSCAN_HD static constexpr double identity() { return 0; }
    template <typename T>
    FLASHSCAN_HD static T combine(T l, T r) {
        return l + r;
    }
    template <typename T>
    FLASHSCAN_HD static T left_slope(T, T) {
        return T(1);
    }
    template <typename T>
    FLASHSCAN_HD static T right_slope(T, T) {
        return T(1);
    }
    template <typename T>
    FLASHSCAN_HD static Complex<T> left_slope(Complex<T>, Complex<T>) {
        return {T(1), T(0)};
    }
    template <typename T>
    FLASHSCAN_HD static Complex<T> right_slope(Complex<T>, Complex<T>) {
        return {T(1), T(0)};
    }
};

struct Mul {
    FLASHSCAN_HD static constexpr double identity() { return 1; }
    template <typename T>
    FLASHSCAN_HD static T combine(T l, T r) {
        return l * r;
    }
    template <typename T>
    FLASHSCAN_HD static T left_slope(T, T r) {
        return r;
    }
    template <typename T>
    FLASHSCAN_HD static T right_slope(T l, T) {
        return l;
    }
    template <typename T>
    FLASHSCAN_HD static Complex<T> left_slope(Complex<T>, Complex<T> r) {
        return conj(r);
    }
    template <typename T>
    FLASHSCAN_HD static Complex<T> right_slope(Complex<T> l, Complex<T>) {
        return conj(l);
    }
};

template <bool Max>
struct Extremum {
    FLASHSCAN_HD static constexpr double identity() { return Max ? -infinity : infinity; }
    // a where r is taken, else b.
    template <typename T>
    FLASHSCAN_HD static T choose(T l, T r, T a, T b) {
        const T beaten = Max ? select(r > l, a, b) : select(r < l, a, b);
        return select(l == l, select(r == r, beaten, a), b);
    }
    template <typename T>
    FLASHSCAN_HD static T combine(T l, T r) {
        return choose(l, r, r, l);
    }
    template <typename T>
    FLASHSCAN_HD static T left_slope(T l, T r) {
        return choose(l, r, T(0), T(1));
    }
    template <typename T>
    FLASHSCAN_HD static T right_slope(T l, T r) {
        return choose(l, r, T(1), T(0));
    }
};
using Min = Extremum<false>;
using Max = Extremum<true>;

struct LogAddExp {
    FLASHSCAN_HD static constexpr double identity() { return -infinity; }
    // l - r, and 0 for equal infinities.
    template <typename T>
    FLASHSCAN_HD static T difference(T l, T r) {
        return select(l == r, T(0), l - r);
    }
    template <typename T>
    FLASHSCAN_HD static T combine(T l, T r) {
        const T d = difference(l, r);
        return select(l < r, r, l) + log1p_of_fraction(exp_of(select(d > T(0), -d, d)));
    }
    template <typename T>
    FLASHSCAN_HD static T left_slope(T l, T r) {
        return sigmoid(difference(l, r));
    }
    template <typename T>
    FLASHSCAN_HD static T right_slope(T l, T r) {
        return sigmoid(difference(r, l));
    }
};

}  // namespace combine

}  // namespace flashscan
