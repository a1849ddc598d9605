// SPDX-License-Identifier: Apache-2.0
#include "support/number.h"

#include <flashscan/flashscan.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

namespace support {
namespace {

// A binary format: digits of the significand, frexp exponent of the smallest normal number, largest finite number.
struct Format {
    int digits;
    int min_exponent;
    double largest;
};

Format format_of(int32_t dtype) {
    switch (dtype) {
    case FLASHSCAN_DTYPE_BF16: return {8, -125, 0x1.fep127};
    case FLASHSCAN_DTYPE_F16: return {11, -13, 65504.0};
    case FLASHSCAN_DTYPE_F32:
    case FLASHSCAN_DTYPE_C64: return {24, -125, std::numeric_limits<float>::max()};
    default: return {53, -1021, std::numeric_limits<double>::max()};
    }
}

// Tests round more numbers than kernels do: these two are frexp and ldexp of 1 for normal doubles, by their bits.
// Smaller doubles have the exponent of the largest of them.
int exponent_of(double x) { return static_cast<int>(std::bit_cast<uint64_t>(x) >> 52 & 0x7ff) - 1022; }
double power_of_two(int exponent) { return std::bit_cast<double>(static_cast<uint64_t>(exponent + 1023) << 52); }

double round_to(const Format& format, double x) {
    if (!std::isfinite(x) || x == 0 || format.digits == 53) return x;
    constexpr double inf = std::numeric_limits<double>::infinity();
    if (std::abs(x) > 2 * format.largest) return std::copysign(inf, x);
    // A sum with a number whose last digit is that of the result has no further one.
    const double large = 1.5 * power_of_two(std::max(exponent_of(x), format.min_exponent) - format.digits + 52);
    const double result = (x + large) - large;
    return std::copysign(std::abs(result) > format.largest ? inf : result, x);
}

template <typename T>
T read(const unsigned char* from) {
    T value;
    std::memcpy(&value, from, sizeof value);
    return value;
}

template <typename T>
void write(unsigned char* to, T value) {
    std::memcpy(to, &value, sizeof value);
}

uint16_t half_bits(double x) {
    const auto sign = static_cast<uint16_t>(std::signbit(x) ? 0x8000 : 0);
    if (std::isnan(x)) return static_cast<uint16_t>(sign | 0x7e00);
    const double magnitude = std::abs(x);
    if (magnitude > 65504.0) return static_cast<uint16_t>(sign | 0x7c00);
    if (magnitude < 0x1p-14) return static_cast<uint16_t>(sign | static_cast<int>(magnitude * 0x1p24));
    const int significand = static_cast<int>(std::bit_cast<uint64_t>(magnitude) >> 42 & 0x3ff);
    return static_cast<uint16_t>(sign | ((exponent_of(magnitude) + 14) << 10) | significand);
}

double half_value(uint16_t bits) {
    const double sign = (bits & 0x8000) != 0 ? -1.0 : 1.0;
    const int exponent = (bits >> 10) & 31, significand = bits & 0x3ff;
    if (exponent == 31) return significand != 0 ? std::nan("") : sign * std::numeric_limits<double>::infinity();
    if (exponent == 0) return sign * significand * 0x1p-24;
    return sign * (significand + 1024) * power_of_two(exponent - 25);
}

uint16_t bfloat_bits(double x) {
    uint32_t bits;
    const auto single = static_cast<float>(x);
    std::memcpy(&bits, &single, sizeof bits);
    return static_cast<uint16_t>(std::isnan(x) ? 0x7fc0U : bits >> 16);
}

double bfloat_value(uint16_t half) {
    const uint32_t bits = static_cast<uint32_t>(half) << 16;
    float single;
    std::memcpy(&single, &bits, sizeof single);
    return single;
}

}  // namespace

size_t size_of(int32_t dtype) {
    switch (dtype) {
    case FLASHSCAN_DTYPE_U8: return 1;
    case FLASHSCAN_DTYPE_BF16:
    case FLASHSCAN_DTYPE_F16: return 2;
    case FLASHSCAN_DTYPE_F32:
    case FLASHSCAN_DTYPE_I32: return 4;
    case FLASHSCAN_DTYPE_C128: return 16;
    default: return 8;
    }
}

bool is_integer(int32_t dtype) {
    return dtype == FLASHSCAN_DTYPE_I32 || dtype == FLASHSCAN_DTYPE_I64 || dtype == FLASHSCAN_DTYPE_U8;
}

Value of_integer(int64_t x) {
    constexpr int64_t exact = int64_t{1} << 53, low = (int64_t{1} << 32) - 1;
    if (-exact <= x && x <= exact) return static_cast<double>(x);
    return {static_cast<double>(x & ~low), static_cast<double>(x & low)};
}
int64_t integer_of(Value value) { return static_cast<int64_t>(value.real()) + static_cast<int64_t>(value.imag()); }

bool is_complex(int32_t dtype) { return dtype == FLASHSCAN_DTYPE_C64 || dtype == FLASHSCAN_DTYPE_C128; }

static constexpr const char* dtype_names[] = {"f32", "bf16", "f16", "f64", "c64", "c128", "i32", "i64", "u8"};

const char* name_of(int32_t dtype) { return dtype_names[dtype - FLASHSCAN_DTYPE_F32]; }

int32_t dtype_named(std::string_view name) {
    for (int32_t dtype = FLASHSCAN_DTYPE_F32; dtype <= FLASHSCAN_DTYPE_U8; ++dtype)
        if (name == name_of(dtype)) return dtype;
    return 0;
}

int32_t state_dtype(int32_t dtype) {
    return dtype == FLASHSCAN_DTYPE_BF16 || dtype == FLASHSCAN_DTYPE_F16 ? static_cast<int32_t>(FLASHSCAN_DTYPE_F32)
                                                                         : dtype;
}

int32_t wide_dtype(int32_t dtype) {
    return is_integer(dtype) ? dtype : is_complex(dtype) ? FLASHSCAN_DTYPE_C128 : FLASHSCAN_DTYPE_F64;
}

double unit_roundoff(int32_t dtype) { return std::ldexp(1.0, -format_of(dtype).digits); }

double largest(int32_t dtype) { return format_of(dtype).largest; }

double ulp(int32_t dtype, double magnitude) {
    const Format format = format_of(dtype);
    const int own = std::isfinite(magnitude) ? exponent_of(std::abs(magnitude)) : format.min_exponent;
    const int exponent = std::max(own, format.min_exponent) - format.digits;
    return exponent > -1023 ? power_of_two(exponent) : std::ldexp(1.0, exponent);
}

Value load(const unsigned char* from, int32_t dtype) {
    switch (dtype) {
    case FLASHSCAN_DTYPE_BF16: return bfloat_value(read<uint16_t>(from));
    case FLASHSCAN_DTYPE_F16: return half_value(read<uint16_t>(from));
    case FLASHSCAN_DTYPE_F32: return read<float>(from);
    case FLASHSCAN_DTYPE_F64: return read<double>(from);
    case FLASHSCAN_DTYPE_C64: return {read<float>(from), read<float>(from + 4)};
    case FLASHSCAN_DTYPE_I32: return of_integer(read<int32_t>(from));
    case FLASHSCAN_DTYPE_I64: return of_integer(read<int64_t>(from));
    case FLASHSCAN_DTYPE_U8: return of_integer(*from);
    default: return {read<double>(from), read<double>(from + 8)};
    }
}

void store(unsigned char* to, int32_t dtype, Value value) {
    value = rounded(dtype, value);
    switch (dtype) {
    case FLASHSCAN_DTYPE_I32: return write(to, static_cast<int32_t>(integer_of(value)));
    case FLASHSCAN_DTYPE_I64: return write(to, integer_of(value));
    case FLASHSCAN_DTYPE_U8: return write(to, static_cast<uint8_t>(integer_of(value)));
    case FLASHSCAN_DTYPE_BF16: return write(to, bfloat_bits(value.real()));
    case FLASHSCAN_DTYPE_F16: return write(to, half_bits(value.real()));
    case FLASHSCAN_DTYPE_F32: return write(to, static_cast<float>(value.real()));
    case FLASHSCAN_DTYPE_F64: return write(to, value.real());
    case FLASHSCAN_DTYPE_C64:
        write(to, static_cast<float>(value.real()));
        return write(to + 4, static_cast<float>(value.imag()));
    default: write(to, value.real()); return write(to + 8, value.imag());
    }
}

Value rounded(int32_t dtype, Value value) {
    if (is_integer(dtype)) return value;
    const Format format = format_of(dtype);
    return {round_to(format, value.real()), is_complex(dtype) ? round_to(format, value.imag()) : 0.0};
}

}  // namespace support
