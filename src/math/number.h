// SPDX-License-Identifier: Apache-2.0
// Number types of the formulas: complex numbers and 16-bit storage. Compiles as C++, CUDA C++ and with NVRTC.
#pragma once

#if defined(__CUDACC_RTC__)
// NVRTC has no headers; these are its names for them.
using uint16_t = unsigned short;
using uint32_t = unsigned int;
#else
#include <cstdint>
#include <cstring>
#endif

#if defined(__CUDACC__)
#define FLASHSCAN_HD __host__ __device__ __forceinline__
#else
// Forced: the CPU kernels compile these formulas once per instruction set, and a shared out-of-line copy of one of them
// would run wider instructions than the machine has.
#define FLASHSCAN_HD inline __attribute__((always_inline))
#endif

namespace flashscan {

template <typename T>
struct Complex {
    T re, im;
};

template <typename T>
FLASHSCAN_HD Complex<T> operator+(Complex<T> a, Complex<T> b) {
    return {a.re + b.re, a.im + b.im};
}
template <typename T>
FLASHSCAN_HD Complex<T> operator*(Complex<T> a, Complex<T> b) {
    return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}
template <typename T>
FLASHSCAN_HD Complex<T> operator*(T a, Complex<T> b) {
    return {a * b.re, a * b.im};
}
template <typename T>
FLASHSCAN_HD Complex<T> operator*(Complex<T> a, T b) {
    return {a.re * b, a.im * b};
}

FLASHSCAN_HD float conj(float a) { return a; }
FLASHSCAN_HD double conj(double a) { return a; }
template <typename T>
FLASHSCAN_HD Complex<T> conj(Complex<T> a) {
    return {a.re, -a.im};
}

// bfloat16 and IEEE binary16 as they lie in memory.
struct Bf16 {
    uint16_t bits;
};
struct F16 {
    uint16_t bits;
};

FLASHSCAN_HD uint32_t bits_of(float x) {
#if defined(__CUDA_ARCH__)
    return __float_as_uint(x);
#else
    uint32_t bits;
    std::memcpy(&bits, &x, sizeof bits);
    return bits;
#endif
}
FLASHSCAN_HD float float_of(uint32_t bits) {
#if defined(__CUDA_ARCH__)
    return __uint_as_float(bits);
#else
    float x;
    std::memcpy(&x, &bits, sizeof x);
    return x;
#endif
}

FLASHSCAN_HD float to_float(Bf16 x) { return float_of(static_cast<uint32_t>(x.bits) << 16); }

// Round to nearest, ties to even; NaN stays NaN.
FLASHSCAN_HD Bf16 to_bf16(float x) {
    const uint32_t bits = bits_of(x);
    if ((bits & 0x7fffffffU) > 0x7f800000U) return {static_cast<uint16_t>((bits >> 16) | 0x40U)};
    return {static_cast<uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16)};
}

FLASHSCAN_HD float to_float(F16 x) {
    const uint32_t sign = static_cast<uint32_t>(x.bits & 0x8000U) << 16;
    const uint32_t rest = static_cast<uint32_t>(x.bits & 0x7fffU) << 13;
    // Scaling by 2^112 moves the exponent bias from 15 to 127 and makes subnormals come out right.
    const float magnitude = float_of(rest) * float_of(0x77800000U);
    const uint32_t special = rest >= 0x0f800000U ? 0x7f800000U : 0;  // infinity and NaN keep an all-ones exponent
    return float_of(sign | bits_of(magnitude) | special);
}

// Round to nearest, ties to even; overflow gives infinity, NaN stays NaN.
FLASHSCAN_HD F16 to_f16(float x) {
    const uint32_t sign = (bits_of(x) >> 16) & 0x8000U;
    const uint32_t bits = bits_of(x) & 0x7fffffffU;
    uint32_t half;
    if (bits > 0x7f800000U) {
        half = 0x7e00U;
    } else if (bits >= 0x477ff000U) {
        half = 0x7c00U;  // 65520 and more round to infinity
    } else if (bits < 0x38800000U) {
        // Adding 0.5 aligns the mantissa so that the float adder rounds at the subnormal's last place.
        half = bits_of(float_of(bits) + 0.5F) - 0x3f000000U;
    } else {
        half = (bits - 0x38000000U + 0xfffU + ((bits >> 13) & 1U)) >> 13;
    }
    return {static_cast<uint16_t>(sign | half)};
}

}  // namespace flashscan
