// SPDX-License-Identifier: Apache-2.0
// Division and rounding up to whole units, for numbers that are not negative.
#pragma once

#include <type_traits>

namespace flashscan {

template <typename T>
constexpr T ceil_div(T a, std::type_identity_t<T> b) {
    return a / b + (a % b != T{0} ? T{1} : T{0});
}

template <typename T>
constexpr T round_up(T a, std::type_identity_t<T> unit) {
    return ceil_div(a, unit) * unit;
}

}  // namespace flashscan
