// SPDX-License-Identifier: Apache-2.0
// Random values by hashing an index, and their store in every dtype. Compiles as C++ and CUDA C++, so that both
// backends see the same data.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "flashscan/flashscan.h"

#if defined(__CUDACC__)
#define BENCH_HD __host__ __device__ inline
#else
#define BENCH_HD inline
#endif

namespace bench {

// What an element stands for; decides the range of its values.
enum class Kind {
    data,        // (-1, 1)
    gate_value,  // (0.9, 1); complex: of that modulus, any phase
    gate_log,    // the logarithm of such a gate
    gate_logit,  // its logit
    weight,      // (-1/32, 1/32): recurrent matrices of up to 1024 rows do not amplify
    integer,     // odd, from -127 to 127, of u8 modulo 256: their products do not become 0
    reset        // 1 at one step in 256
};

BENCH_HD uint64_t hash(uint64_t index, uint64_t seed) {
    uint64_t x = index + seed * 0x9e3779b97f4a7c15ULL + 0x632be59bd9b4e019ULL;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
    return x ^ (x >> 31);
}

struct Pair {
    float re, im;
};

BENCH_HD Pair random_value(Kind kind, bool complex, uint64_t index, uint64_t seed) {
    const uint64_t bits = hash(index, seed);
    // The middle of one of 2^23 cells of (0, 1): never 0 or 1.
    const float u = (static_cast<float>(bits >> 41) + 0.5F) * 0x1p-23F;
    const float v = (static_cast<float>(bits & 0x7fffffU) + 0.5F) * 0x1p-23F;
    const float modulus = 0.9F + 0.0999F * u;
    const float phase = 6.2831853F * v;
    switch (kind) {
    case Kind::data: return {2 * u - 1, complex ? 2 * v - 1 : 0};
    case Kind::gate_value: return complex ? Pair{modulus * cosf(phase), modulus * sinf(phase)} : Pair{modulus, 0};
    case Kind::gate_log: return {logf(modulus), complex ? phase : 0};
    case Kind::gate_logit: return {logf(modulus / (1 - modulus)), complex ? 0.2F * (v - 0.5F) : 0};
    case Kind::weight: return {(2 * u - 1) / 32, 0};
    case Kind::integer: return {2 * floorf(128 * u) - 127, 0};
    case Kind::reset: return {(bits & 0xffU) == 0 ? 1.0F : 0.0F, 0};
    }
    return {0, 0};
}

BENCH_HD uint16_t to_bf16(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return static_cast<uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16);
}

// For finite values of the normal range of f16 and zero-ward truncated subnormals.
BENCH_HD uint16_t to_f16(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    const uint32_t sign = (bits >> 16) & 0x8000U, magnitude = bits & 0x7fffffffU;
    if (magnitude < 0x38800000U) return static_cast<uint16_t>(sign | static_cast<uint32_t>(fabsf(x) * 0x1p24F));
    return static_cast<uint16_t>(sign | ((magnitude - 0x38000000U + 0xfffU + ((magnitude >> 13) & 1U)) >> 13));
}

inline double from_bf16(uint16_t x) {
    const uint32_t bits = static_cast<uint32_t>(x) << 16;
    float value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
}

inline double from_f16(uint16_t x) {
    const double sign = (x & 0x8000U) != 0 ? -1 : 1;
    const int exponent = (x >> 10) & 0x1f, fraction = x & 0x3ff;
    if (exponent == 31) return fraction != 0 ? NAN : sign * INFINITY;
    return sign * (exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25));
}

// A whole number; u8 takes it modulo 256.
BENCH_HD void store_integer(void* data, int32_t dtype, int64_t index, double value) {
    switch (dtype) {
    case FLASHSCAN_DTYPE_I32: static_cast<int32_t*>(data)[index] = static_cast<int32_t>(value); return;
    case FLASHSCAN_DTYPE_I64: static_cast<int64_t*>(data)[index] = static_cast<int64_t>(value); return;
    default: static_cast<uint8_t*>(data)[index] = static_cast<uint8_t>(static_cast<int>(value));
    }
}

// Bytes (dtype 0) hold the reset mask.
BENCH_HD void store(void* data, int32_t dtype, int64_t index, Pair value) {
    switch (dtype) {
    case FLASHSCAN_DTYPE_F32: static_cast<float*>(data)[index] = value.re; return;
    case FLASHSCAN_DTYPE_BF16: static_cast<uint16_t*>(data)[index] = to_bf16(value.re); return;
    case FLASHSCAN_DTYPE_F16: static_cast<uint16_t*>(data)[index] = to_f16(value.re); return;
    case FLASHSCAN_DTYPE_F64: static_cast<double*>(data)[index] = static_cast<double>(value.re); return;
    case FLASHSCAN_DTYPE_C64:
        static_cast<float*>(data)[2 * index] = value.re;
        static_cast<float*>(data)[2 * index + 1] = value.im;
        return;
    case FLASHSCAN_DTYPE_C128:
        static_cast<double*>(data)[2 * index] = static_cast<double>(value.re);
        static_cast<double*>(data)[2 * index + 1] = static_cast<double>(value.im);
        return;
    default: store_integer(data, dtype, index, static_cast<double>(value.re));
    }
}

}  // namespace bench
