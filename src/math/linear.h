// SPDX-License-Identifier: Apache-2.0
// Formulas of the linear recurrence: the gate forms and their derivatives. Steps are h' = a h + x and, backward,
// g = dh + c, c' = conj(a) g (arXiv 1709.04057, section 2.2).
#pragma once

#include "math/activation.h"

namespace flashscan {

// sigmoid for complex g: exp is taken where it cannot overflow.
template <typename T>
FLASHSCAN_HD Complex<T> sigmoid(Complex<T> g) {
    const bool negative = g.re < T(0);
    const Complex<T> e = exp_of(negative ? g : Complex<T>{-g.re, -g.im});
    const Complex<T> d{T(1) + e.re, e.im};
    const T scale = T(1) / (d.re * d.re + d.im * d.im);
    const Complex<T> inverse{d.re * scale, -d.im * scale};
    return negative ? e * inverse : inverse;
}

// 1 - a of a logit gate without cancellation is sigmoid(-g).
FLASHSCAN_HD float negative(float x) { return -x; }
FLASHSCAN_HD double negative(double x) { return -x; }
template <typename T>
FLASHSCAN_HD Complex<T> negative(Complex<T> x) {
    return {-x.re, -x.im};
}

// The part of a gradient that a gate of type G receives: all of it, or its real part for a real gate of complex data.
template <typename G, typename T>
FLASHSCAN_HD G gate_part(T x) {
    return x;
}
template <typename G, typename T>
FLASHSCAN_HD G gate_part(Complex<T> x) {
    if constexpr (sizeof(G) == sizeof(T))
        return x.re;
    else
        return x;
}

}  // namespace flashscan
