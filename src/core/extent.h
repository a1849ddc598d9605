// SPDX-License-Identifier: Apache-2.0
// Extents that users give, and the counts and sizes formed of them.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>

#include "core/error.h"

namespace flashscan {

// Arithmetic on an Extent throws Error{size_overflow} where the exact result does not fit. `what` names the size that
// is formed, for the sentence; a result has the name of its left operand, or of the right one where that has none.
class Extent {
  public:
    constexpr Extent() = default;
    // The conversions are implicit, so that extents can be used like other numbers where nothing is computed from them.
    template <std::integral T>
    constexpr Extent(T value, const char* what = nullptr) : value_(static_cast<int64_t>(value)), what_(what) {
        if (!std::in_range<int64_t>(value)) overflow(std::numeric_limits<int64_t>::max(), '+', 1);
    }
    constexpr operator int64_t() const { return value_; }

    // Gives the size a name, which error sentences use from here on.
    constexpr Extent named(const char* what) const { return {value_, what}; }

    friend constexpr Extent operator+(Extent a, Extent b) {
        int64_t sum = 0;
        return __builtin_add_overflow(a.value_, b.value_, &sum) ? overflow(a, '+', b) : Extent(sum, name(a, b));
    }
    friend constexpr Extent operator-(Extent a, Extent b) {
        int64_t difference = 0;
        return __builtin_sub_overflow(a.value_, b.value_, &difference) ? overflow(a, '-', b)
                                                                       : Extent(difference, name(a, b));
    }
    friend constexpr Extent operator*(Extent a, Extent b) {
        int64_t product = 0;
        return __builtin_mul_overflow(a.value_, b.value_, &product) ? overflow(a, '*', b) : Extent(product, name(a, b));
    }
    friend constexpr Extent operator/(Extent a, Extent b) { return {a.value_ / b.value_, name(a, b)}; }
    friend constexpr Extent operator%(Extent a, Extent b) { return {a.value_ % b.value_, name(a, b)}; }
    constexpr Extent& operator+=(Extent b) { return *this = *this + b; }

    // Because of the conversions an operator of an Extent and a number would be ambiguous between those above and the
    // built-in ones.
#define FLASHSCAN_WITH_NUMBERS(op)                       \
    template <std::integral T>                           \
    friend constexpr Extent operator op(Extent a, T b) { \
        return a op Extent(b);                           \
    }                                                    \
    template <std::integral T>                           \
    friend constexpr Extent operator op(T a, Extent b) { \
        return Extent(a) op b;                           \
    }
    FLASHSCAN_WITH_NUMBERS(+)
    FLASHSCAN_WITH_NUMBERS(-)
    FLASHSCAN_WITH_NUMBERS(*)
    FLASHSCAN_WITH_NUMBERS(/)
    FLASHSCAN_WITH_NUMBERS(%)
#undef FLASHSCAN_WITH_NUMBERS

    friend constexpr Extent max(Extent a, Extent b) { return a.value_ < b.value_ ? b : a; }
    friend constexpr Extent min(Extent a, Extent b) { return b.value_ < a.value_ ? b : a; }
    friend constexpr auto format_as(Extent e) { return e.value_; }

  private:
    static constexpr const char* name(Extent a, Extent b) { return a.what_ != nullptr ? a.what_ : b.what_; }
    [[noreturn]] static Extent overflow(Extent a, char op, Extent b);

    int64_t value_ = 0;
    const char* what_ = nullptr;
};

}  // namespace flashscan
