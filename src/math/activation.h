// SPDX-License-Identifier: Apache-2.0
// Functions of gates and activations, accurate for any argument and without overflow. Compiles as C++ and CUDA C++.
#pragma once

#if !defined(__CUDACC_RTC__)
#include <cmath>
#endif

#include "math/number.h"

namespace flashscan {

// condition ? a : b, both of them evaluated.
template <typename T>
FLASHSCAN_HD T select(bool condition, T a, T b) {
    return condition ? a : b;
}

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

// exp(-|x|), which cannot overflow.
template <typename T>
FLASHSCAN_HD T exp_of_minus_magnitude(T x) {
    return exp_of(select(x < T(0), x, -x));
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

FLASHSCAN_HD float tanh_of(float x) { return ::tanhf(x); }
FLASHSCAN_HD double tanh_of(double x) { return ::tanh(x); }
FLASHSCAN_HD float sqrt_of(float x) { return ::sqrtf(x); }
FLASHSCAN_HD double sqrt_of(double x) { return ::sqrt(x); }
FLASHSCAN_HD float log1p_of(float x) { return ::log1pf(x); }
FLASHSCAN_HD double log1p_of(double x) { return ::log1p(x); }

// exp(x) and 1 - exp(x), which keeps relative accuracy where x is near 0.
template <typename V>
struct ExpAndRest {
    V exp, rest;
};
FLASHSCAN_HD ExpAndRest<float> exp_and_rest(float x) { return {::expf(x), -::expm1f(x)}; }
FLASHSCAN_HD ExpAndRest<double> exp_and_rest(double x) { return {::exp(x), -::expm1(x)}; }
// The same for x <= 0.
template <typename V>
FLASHSCAN_HD ExpAndRest<V> exp_and_rest_of_negative(V x) {
    return exp_and_rest(x);
}

// log(sigmoid(x)): x - log(1 + exp(x)) where x is negative, so that neither end cancels or overflows.
template <typename T>
FLASHSCAN_HD T log_sigmoid(T x) {
    return (x < T(0) ? x : T(0)) - log1p_of(exp_of(x < T(0) ? x : -x));
}

}  // namespace flashscan
