// SPDX-License-Identifier: Apache-2.0
// Formulas of the linear recurrence: the gate forms and their derivatives. Steps are h' = a h + x and, backward,
// g = dh + c, c' = conj(a) g (arXiv 1709.04057, section 2.2).
#pragma once

#include <cmath>

#include "math/number.h"

namespace flashscan {

FLASHSCAN_HD float exp_of(float x) { return ::expf(x); }
FLASHSCAN_HD double exp_of(double x) { return ::exp(x); }
FLASHSCAN_HD Complex<float> exp_of(Complex<float> x) {
    const float r = ::expf(x.re);
    return {r * ::cosf(x.im), r * ::sinf(x.im)};
}
FLASHSCAN_HD Complex<double> exp_of(Complex<double> x) {
    const double r = ::exp(x.re);
    return {r * ::cos(x.im), r * ::sin(x.im)};
}

FLASHSCAN_HD double reciprocal(double x) { return 1.0 / x; }
FLASHSCAN_HD float reciprocal(float x) {
#if defined(__CUDA_ARCH__)
    return __fdividef(1.0F, x);  // within 2 units in the last place, and no branch
#else
    return 1.0F / x;
#endif
}

// 1 / (1 + exp(-g)), without overflow for either sign of a real g.
template <typename T>
FLASHSCAN_HD T sigmoid(T g) {
    const T e = exp_of(g < T(0) ? g : -g);
    const T s = reciprocal(T(1) + e);
    return g < T(0) ? e * s : s;
}

// The same for complex g: exp is taken where it cannot overflow.
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
