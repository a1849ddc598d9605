// SPDX-License-Identifier: Apache-2.0
// QuickDouble: f64 with fast sigmoid and tanh, for the cells of recurrent networks in f64. They are accurate to 3 units
// in the last place and have no branches, and their polynomials are evaluated as trees. Every step waits for the cells
// of a few elements, so the latency of these functions counts.
#pragma once

#include "cuda/device/ptx/near_reciprocal.cuh"
#include "math/activation.h"

namespace flashscan::cuda {

struct QuickDouble {
    double value;
    QuickDouble() = default;
    __device__ __forceinline__ QuickDouble(double x) : value(x) {}  // NOLINT: numbers convert
};

// 1 / y for a y that is neither subnormal nor near the largest.
__device__ __forceinline__ double quick_reciprocal(double y) {
    const double near = ptx::near_reciprocal(y), off = fma(-y, near, 1.0);
    return fma(near, fma(off, off, off), near);
}

__device__ __forceinline__ QuickDouble operator+(QuickDouble a, QuickDouble b) { return a.value + b.value; }
__device__ __forceinline__ QuickDouble operator-(QuickDouble a, QuickDouble b) { return a.value - b.value; }
__device__ __forceinline__ QuickDouble operator*(QuickDouble a, QuickDouble b) { return a.value * b.value; }
__device__ __forceinline__ QuickDouble operator/(QuickDouble a, QuickDouble b) { return a.value / b.value; }
__device__ __forceinline__ QuickDouble operator-(QuickDouble a) { return -a.value; }
__device__ __forceinline__ QuickDouble& operator+=(QuickDouble& a, QuickDouble b) { return a = a + b; }
__device__ __forceinline__ bool operator<(QuickDouble a, QuickDouble b) { return a.value < b.value; }
__device__ __forceinline__ bool operator>(QuickDouble a, QuickDouble b) { return a.value > b.value; }
__device__ __forceinline__ bool operator==(QuickDouble a, QuickDouble b) { return a.value == b.value; }

constexpr double quick_power_least = -708.0;  // about the logarithm of the least normal number

// exp(x) = scale (1 + more) for x <= 0; smaller x than -708 count as -708. `scale` is a power of two and
// more = exp(r) - 1 with |r| <= log(2) / 2, computed as r + r^2 / 2 + r^3 times a polynomial (Chebyshev, with a
// relative error of 7e-17).
struct QuickPower {
    double scale, more;
    __device__ __forceinline__ explicit QuickPower(double x) {
        constexpr double shift = 6755399441055744.0;  // 1.5 2^52: adding it rounds to an integer, held in the last bits
        x = x < quick_power_least ? quick_power_least : x;
        const double shifted = fma(x, 1.4426950408889634, shift), n = shifted - shift;
        scale = __hiloint2double((__double2loint(shifted) + 1023) << 20, 0);
        const double r = fma(n, -2.3190468138462996e-17, fma(n, -0.6931471805599453, x)), r2 = r * r;
        const double a = fma(r, 0.041666666666651305946, 0.16666666666666666667);
        const double b = fma(r, 0.0013888888905922381151, 0.0083333333333321519736);
        const double c = fma(r, 0.00002480153630713627827, 0.00019841269854370017739);
        const double d = fma(r2, 2.5095589467479503422e-8, fma(r, 2.7613852100963250739e-7, 2.7557280004299092685e-6));
        const double u = fma(r2 * r2, fma(r2, d, c), fma(r2, b, a));
        more = fma(r2, fma(r, u, 0.5), r);
    }
};

__device__ __forceinline__ QuickDouble exp_of(QuickDouble x) { return ::exp(x.value); }
__device__ __forceinline__ QuickDouble log_sigmoid(QuickDouble x) { return flashscan::log_sigmoid(x.value); }
// The result is 0 where it would be less than 2^-1021.
__device__ __forceinline__ QuickDouble sigmoid(QuickDouble x) {
    const QuickPower p(-fabs(x.value));
    const double e = fma(p.scale, p.more, p.scale), s = quick_reciprocal(1.0 + e);
    const double small = x.value < quick_power_least ? 0.0 : e * s;
    return x.value < 0.0 ? small : s;
}
// |tanh(x)| = (1 - e) / (1 + e) with e = exp(-2 |x|). 1 - e loses no digits, because scale is 1 where e is near 1.
__device__ __forceinline__ QuickDouble tanh_of(QuickDouble x) {
    const QuickPower p(-2.0 * fabs(x.value));
    const double less = fma(-p.scale, p.more, 1.0 - p.scale), sum = fma(p.scale, p.more, 1.0 + p.scale);
    return copysign(less * quick_reciprocal(sum), x.value);
}

}  // namespace flashscan::cuda
