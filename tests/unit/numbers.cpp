// SPDX-License-Identifier: Apache-2.0
// The library's 16-bit conversions against the tests' own, and the gate forms in f32.
#include <flashscan/flashscan.h>
#include <gtest/gtest.h>

#include <cmath>

#include "math/linear.h"
#include "math/number.h"
#include "support/number.h"

namespace unit {
namespace {

using namespace flashscan;

double widened(int32_t dtype, uint16_t bits) {
    unsigned char bytes[2];
    std::memcpy(bytes, &bits, 2);
    return support::load(bytes, dtype).real();
}

uint16_t narrowed(int32_t dtype, float value) {
    unsigned char bytes[2];
    support::store(bytes, dtype, value);
    uint16_t bits;
    std::memcpy(&bits, bytes, 2);
    return bits;
}

TEST(Numbers, EverySixteenBitNumberWidensAndReturns) {
    for (uint32_t i = 0; i < 0x10000; ++i) {
        const auto bits = static_cast<uint16_t>(i);
        const float half = to_float(F16{bits}), bfloat = to_float(Bf16{bits});
        if (std::isnan(widened(FLASHSCAN_DTYPE_F16, bits)))
            EXPECT_TRUE(std::isnan(half) && std::isnan(to_float(to_f16(half)))) << i;
        else {
            EXPECT_EQ(half, widened(FLASHSCAN_DTYPE_F16, bits)) << i;
            EXPECT_EQ(to_f16(half).bits, bits);
        }
        if (std::isnan(widened(FLASHSCAN_DTYPE_BF16, bits)))
            EXPECT_TRUE(std::isnan(bfloat) && std::isnan(to_float(to_bf16(bfloat)))) << i;
        else {
            EXPECT_EQ(bfloat, widened(FLASHSCAN_DTYPE_BF16, bits)) << i;
            EXPECT_EQ(to_bf16(bfloat).bits, bits);
        }
    }
}

// Around every 16-bit number: the midpoint to the next one, and its neighbours.
TEST(Numbers, RoundsToNearestEven) {
    for (const int32_t dtype : {FLASHSCAN_DTYPE_F16, FLASHSCAN_DTYPE_BF16})
        for (uint32_t i = 0; i < 0x7f80; ++i) {
            const double low = widened(dtype, static_cast<uint16_t>(i));
            const double high = widened(dtype, static_cast<uint16_t>(i + 1));
            if (!std::isfinite(high)) break;
            const auto middle = static_cast<float>((low + high) / 2);
            for (const float x : {middle, std::nextafterf(middle, INFINITY), std::nextafterf(middle, 0.0F)})
                for (const float value : {x, -x}) {
                    const uint16_t got = dtype == FLASHSCAN_DTYPE_F16 ? to_f16(value).bits : to_bf16(value).bits;
                    ASSERT_EQ(got, narrowed(dtype, value)) << value;
                }
        }
}

TEST(Numbers, OverflowsToInfinity) {
    EXPECT_EQ(to_f16(65519.0F).bits, 0x7bff);
    EXPECT_EQ(to_f16(65520.0F).bits, 0x7c00);
    EXPECT_EQ(to_f16(-INFINITY).bits, 0xfc00);
    EXPECT_EQ(to_bf16(3.4e38F).bits, 0x7f80);
    EXPECT_EQ(to_f16(1e-9F).bits, 0);
    EXPECT_EQ(to_f16(-1e-9F).bits, 0x8000);
}

TEST(Gates, SigmoidNeitherOverflowsNorCancels) {
    for (const float g : {-300.0F, -88.0F, -20.0F, -1.0F, 0.0F, 1.0F, 20.0F, 300.0F}) {
        const double exact = 1 / (1 + std::exp(-static_cast<double>(g)));
        const double rest = 1 / (1 + std::exp(static_cast<double>(g)));
        EXPECT_NEAR(sigmoid(g), exact, 4e-7 * exact + 1e-38) << g;
        EXPECT_NEAR(sigmoid(negative(g)), rest, 4e-7 * rest + 1e-38) << g;
    }
}

TEST(Gates, ComplexFormsEqualStd) {
    for (const double re : {-700.0, -2.0, 0.0, 1.5, 700.0})
        for (const double im : {-1.0, 0.0, 0.5}) {
            const std::complex<double> g(re, im), exact = 1.0 / (1.0 + std::exp(-g));
            const Complex<double> got = sigmoid(Complex<double>{re, im});
            if (re > -700) {
                EXPECT_NEAR(got.re, exact.real(), 1e-15);
                EXPECT_NEAR(got.im, exact.imag(), 1e-15);
            } else {
                EXPECT_LT(std::hypot(got.re, got.im), 1e-300);
            }
        }
}

TEST(Gates, PartOfAGradientForARealGate) {
    EXPECT_EQ(gate_part<float>(Complex<float>{2, 3}), 2);
    EXPECT_EQ(gate_part<Complex<float>>(Complex<float>{2, 3}).im, 3);
    EXPECT_EQ(gate_part<double>(4.0), 4);
}

}  // namespace
}  // namespace unit
