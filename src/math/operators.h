// SPDX-License-Identifier: Apache-2.0
// Associative operators on numbers: y = l o r and its adjoint. Compiles as C++ and CUDA C++. T is a number or a complex
// number as the operator's row says, or a vector with arithmetic, comparisons, select and the functions of
// math/activation.h.
//
//     identity<T>()        of combine, exact for every r but for the sign of a zero
//     combine(l, r)        l o r
//     left_slope(l, r)     what a gradient of y is multiplied by to give that of l: the conjugate derivative
//     right_slope(l, r)    and that of r
//     is_long              there if it takes tens of instructions
//     chooses              there if y is one of the operands; takes_right(l, r) then tells whether it is r
//
// min and max take the earlier of equal operands and the first NaN, so that no bracketing changes a bit.
#pragma once

#include "math/activation.h"
#include "math/operator_table.h"

namespace flashscan {

// log(1 + exp(x)) for x <= 0.
FLASHSCAN_HD float log1p_of_exp(float x) { return log1p_of(exp_of(x)); }
FLASHSCAN_HD double log1p_of_exp(double x) { return log1p_of(exp_of(x)); }

namespace combine {

inline constexpr double infinity = __builtin_bit_cast(double, 0x7ff0000000000000ULL);

// The smallest and the largest value of a type.
template <typename T>
struct Ends {
    static constexpr T smallest = T(-infinity), largest = T(infinity);
};
template <>
struct Ends<int32_t> {
    static constexpr int32_t largest = 0x7fffffff, smallest = -largest - 1;
};
template <>
struct Ends<int64_t> {
    static constexpr int64_t largest = 0x7fffffffffffffff, smallest = -largest - 1;
};
template <>
struct Ends<uint8_t> {
    static constexpr uint8_t largest = 0xff, smallest = 0;
};

// Sums and products, of integers modulo 2^n.
template <typename T>
FLASHSCAN_HD T sum(T l, T r) {
    return l + r;
}
template <typename T>
FLASHSCAN_HD T product(T l, T r) {
    return l * r;
}
FLASHSCAN_HD int32_t sum(int32_t l, int32_t r) {
    return static_cast<int32_t>(static_cast<uint32_t>(l) + static_cast<uint32_t>(r));
}
FLASHSCAN_HD int64_t sum(int64_t l, int64_t r) {
    return static_cast<int64_t>(static_cast<uint64_t>(l) + static_cast<uint64_t>(r));
}
FLASHSCAN_HD uint8_t sum(uint8_t l, uint8_t r) { return static_cast<uint8_t>(l + r); }
FLASHSCAN_HD int32_t product(int32_t l, int32_t r) {
    return static_cast<int32_t>(static_cast<uint32_t>(l) * static_cast<uint32_t>(r));
}
FLASHSCAN_HD int64_t product(int64_t l, int64_t r) {
    return static_cast<int64_t>(static_cast<uint64_t>(l) * static_cast<uint64_t>(r));
}
FLASHSCAN_HD uint8_t product(uint8_t l, uint8_t r) { return static_cast<uint8_t>(l * r); }

struct Add {
    template <typename T>
    FLASHSCAN_HD static constexpr T identity() {
        return T(0);
    }
    template <typename T>
    FLASHSCAN_HD static T combine(T l, T r) {
        return sum(l, r);
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
    template <typename T>
    FLASHSCAN_HD static constexpr T identity() {
        return T(1);
    }
    template <typename T>
    FLASHSCAN_HD static T combine(T l, T r) {
        return product(l, r);
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
    static constexpr bool chooses = true;
    template <typename T>
    FLASHSCAN_HD static constexpr T identity() {
        return Max ? Ends<T>::smallest : Ends<T>::largest;
    }
    // a where r is taken, else b.
    template <typename T>
    FLASHSCAN_HD static T choose(T l, T r, T a, T b) {
        // A comparison with NaN is false.
        const T unless_beaten = Max ? select(r <= l, b, a) : select(r >= l, b, a);
        return select(l == l, unless_beaten, b);
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
    // Whether r is taken, of numbers.
    template <typename T>
    FLASHSCAN_HD static bool takes_right(T l, T r) {
        return right_slope(l, r) != T(0);
    }
};
using Min = Extremum<false>;
using Max = Extremum<true>;

struct LogAddExp {
    static constexpr bool is_long = true;
    template <typename T>
    FLASHSCAN_HD static constexpr T identity() {
        return Ends<T>::smallest;
    }
    // l - r, and 0 for equal infinities.
    template <typename T>
    FLASHSCAN_HD static T difference(T l, T r) {
        return select(l == r, T(0), l - r);
    }
    template <typename T>
    FLASHSCAN_HD static T combine(T l, T r) {
        const T d = difference(l, r);
        return select(l < r, r, l) + log1p_of_exp(select(d > T(0), -d, d));
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

// Bitwise, of integers, which have no gradients.
struct And {
    template <typename T>
    FLASHSCAN_HD static constexpr T identity() {
        return static_cast<T>(-1);
    }
    template <typename T>
    FLASHSCAN_HD static T combine(T l, T r) {
        return static_cast<T>(l & r);
    }
};

struct Or {
    template <typename T>
    FLASHSCAN_HD static constexpr T identity() {
        return T(0);
    }
    template <typename T>
    FLASHSCAN_HD static T combine(T l, T r) {
        return static_cast<T>(l | r);
    }
};

struct Xor {
    template <typename T>
    FLASHSCAN_HD static constexpr T identity() {
        return T(0);
    }
    template <typename T>
    FLASHSCAN_HD static T combine(T l, T r) {
        return static_cast<T>(l ^ r);
    }
};

// The identity of numbers of type T, which may be complex.
template <typename Op, typename T>
struct Identity {
    FLASHSCAN_HD static constexpr T get() { return Op::template identity<T>(); }
};
template <typename Op, typename T>
struct Identity<Op, Complex<T>> {
    FLASHSCAN_HD static constexpr Complex<T> get() { return {Op::template identity<T>(), T(0)}; }
};

// The row of a formula.
template <typename Op>
struct RowOf;
#define FLASHSCAN_ROW(name, CONSTANT, number_, word, formula, takes_, has_slopes_, ...) \
    template <>                                                                         \
    struct RowOf<formula> {                                                             \
        static constexpr int number = number_;                                          \
        static constexpr unsigned takes = takes_;                                       \
        static constexpr bool has_slopes = has_slopes_;                                 \
    };
FLASHSCAN_NUMBER_OPERATORS(FLASHSCAN_ROW)
#undef FLASHSCAN_ROW

template <typename T>
inline constexpr unsigned kind_of_number = real_number;
template <typename T>
inline constexpr unsigned kind_of_number<Complex<T>> = complex_number;
template <>
inline constexpr unsigned kind_of_number<int32_t> = integer_number;
template <>
inline constexpr unsigned kind_of_number<int64_t> = integer_number;
template <>
inline constexpr unsigned kind_of_number<uint8_t> = integer_number;
template <typename Op, typename T>
inline constexpr bool takes = (RowOf<Op>::takes & kind_of_number<T>) != 0;

// Calls f with each formula that takes numbers of type T; on the host.
template <typename T, typename F>
void for_each_operator(F&& f) {
#define FLASHSCAN_ROW(name, CONSTANT, number, word, formula, takes_, ...) \
    if constexpr (takes<formula, T>) f(formula{});
    FLASHSCAN_NUMBER_OPERATORS(FLASHSCAN_ROW)
#undef FLASHSCAN_ROW
}
// The same with that of one row alone; false if it does not take them or there is no such row.
template <typename T, typename F>
bool with_operator(int number, F&& f) {
#define FLASHSCAN_ROW(name, CONSTANT, number_, word, formula, takes_, ...) \
    if constexpr (takes<formula, T>)                                       \
        if (number == number_) return f(formula{}), true;
    FLASHSCAN_NUMBER_OPERATORS(FLASHSCAN_ROW)
#undef FLASHSCAN_ROW
    return false;
}

}  // namespace combine

}  // namespace flashscan
