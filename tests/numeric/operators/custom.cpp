// SPDX-License-Identifier: Apache-2.0
// Custom operators: structs, operators that do not commute, elements of any size, callbacks, adjoints, and an operator
// that notices every element that is none of the caller's.
#include <gtest/gtest.h>

#include "support/custom_scene.h"

namespace numeric {
namespace {

using namespace support;
using namespace support::custom;

constexpr int32_t grad = FLASHSCAN_GRAD;

flashscan_status run(const flashscan_operator_desc& desc, std::vector<flashscan_arg> arguments, int32_t threads = 0) {
    const Plan plan(desc, make_options(FLASHSCAN_BACKEND_CPU, "", threads, false, false));
    if (!plan) return plan.status();
    return flashscan_execute(plan.get(), FLASHSCAN_PASS_FORWARD, arguments.data(),
                             static_cast<int32_t>(arguments.size()), nullptr);
}

TEST(OperatorCustom, ExactMatricesMatchTheFoldAndNothingElseIsCombined) {
    for (const bool batched : {false, true})
        for (const Shape& s : shapes()) {
            flashscan_custom_operator custom = custom_of(sizeof(Exact));
            custom.host = batched ? nullptr : multiply_exact;
            custom.batched = batched ? multiply_exact_batched : nullptr;
            Arrays got(s, sizeof(Exact));
            fill_exact(got.input, 1);
            fill_exact(got.state_in, 2);
            Arrays want = got;
            combined = strays = calls = 0;
            ASSERT_EQ(run(desc_of(s, custom), got.arguments(), s.threads), FLASHSCAN_STATUS_OK)
                << flashscan_last_error();
            const int64_t steps = s.batch * s.time * s.channels + got.rows * s.channels;
            EXPECT_EQ(strays, 0);
            EXPECT_LE(combined, 2 * steps);
            EXPECT_LE(static_cast<double>(calls), 2 * std::log2(static_cast<double>(s.time + 2)) + 2);
            fold(want, [](const void* l, const void* r, void* out) { multiply_exact(nullptr, l, r, out); });
            const std::string where = std::string(batched ? "batched" : "host") + " t" + std::to_string(s.time) +
                                      " mode" + std::to_string(s.mode) + " sequences" + std::to_string(s.sequences) +
                                      (s.reverse ? " reverse" : "") + (s.state ? " state" : "");
            EXPECT_TRUE(got.output == want.output) << where;
            EXPECT_TRUE(got.state_out == want.state_out) << where;
        }
}

TEST(OperatorCustom, RunningMeanAndVariance) {
    constexpr int64_t time = 10007;
    const Shape s{1, time, 1, 0, 0, FLASHSCAN_MODE_INCLUSIVE, false, false, 0};
    flashscan_custom_operator custom = custom_of(sizeof(Moments));
    custom.host = merge_moments;
    Arrays a(s, sizeof(Moments));
    std::vector<double> values;
    for (int64_t t = 0; t < time; ++t) {
        values.push_back(1e3 + uniform(5, 1, static_cast<uint64_t>(t)));
        const Moments one{1, values.back(), 0};
        std::memcpy(a.input.data() + static_cast<size_t>(t) * sizeof one, &one, sizeof one);
    }
    ASSERT_EQ(run(desc_of(s, custom), a.arguments()), FLASHSCAN_STATUS_OK) << flashscan_last_error();
    double sum = 0;
    for (int64_t t = 0; t < time; ++t) {
        sum += values[static_cast<size_t>(t)];
        if (t % 997 != 0 && t != time - 1) continue;
        Moments y;
        std::memcpy(&y, a.output.data() + static_cast<size_t>(t) * sizeof y, sizeof y);
        const double count = static_cast<double>(t + 1), mean = sum / count;
        double deviation = 0;
        for (int64_t i = 0; i <= t; ++i) deviation += std::pow(values[static_cast<size_t>(i)] - mean, 2);
        EXPECT_EQ(y.count, count);
        EXPECT_NEAR(y.mean, mean, 1e-9);
        EXPECT_NEAR(y.deviation, deviation, 1e-9 * (deviation + 1));
    }
}

// l and r are bytes of any size: concatenation in the sense of "last element wins but for the first byte".
TEST(OperatorCustom, ElementsOfAnySize) {
    for (const int64_t bytes : {1, 2, 3, 5, 7, 12, 63, 64, 100, 4096}) {
        const Shape s{2, 37, 1, 0, 0, FLASHSCAN_MODE_INCLUSIVE, false, false, 2};
        int64_t size = bytes;
        flashscan_custom_operator custom = custom_of(bytes);
        custom.state = &size;
        custom.host = [](void* state, const void* l, const void* r, void* out) {
            const auto n = static_cast<size_t>(*static_cast<int64_t*>(state));
            for (size_t i = 0; i < n; ++i)
                static_cast<unsigned char*>(out)[i] = static_cast<unsigned char>(
                    static_cast<const unsigned char*>(l)[i] + static_cast<const unsigned char*>(r)[i]);
        };
        Arrays got(s, static_cast<size_t>(bytes));
        for (size_t i = 0; i < got.input.size(); ++i) got.input[i] = static_cast<unsigned char>(i * 37 + 11);
        Arrays want = got;
        ASSERT_EQ(run(desc_of(s, custom), got.arguments(), s.threads), FLASHSCAN_STATUS_OK) << flashscan_last_error();
        fold(want, [&](const void* l, const void* r, void* out) { custom.host(&size, l, r, out); });
        EXPECT_TRUE(got.output == want.output) << bytes;
    }
}

TEST(OperatorCustom, AdjointsGiveTheGradientsOfTheBuiltInOperator) {
    for (const bool batched : {false, true})
        for (const Shape& s : shapes()) {
            if (s.time > 200) continue;
            flashscan_custom_operator custom = custom_of(16);
            if (batched)
                custom.batched = multiply_pair_batched, custom.batched_adjoint = multiply_pair_batched_adjoint;
            else
                custom.host = multiply_pair, custom.host_adjoint = multiply_pair_adjoint;
            flashscan_operator_desc own = desc_of(s, custom), built_in = own;
            own.dtype = FLASHSCAN_DTYPE_F64;
            built_in.dtype = FLASHSCAN_DTYPE_C128;
            built_in.kind = FLASHSCAN_OPERATOR_MUL;
            built_in.custom = nullptr;
            Arrays a(s, 16);
            const auto randomise = [](Bytes& bytes, uint64_t stream) {
                for (size_t i = 0; i < bytes.size() / 8; ++i) {
                    const double value = i % 2 == 0 ? 0.9 + 0.2 * uniform(9, stream, i) : 0.2 * uniform(9, stream, i);
                    std::memcpy(bytes.data() + 8 * i, &value, 8);
                }
            };
            randomise(a.input, 1), randomise(a.state_in, 2);
            Bytes grad_output(a.output.size()), grad_state_out(a.state_out.size());
            randomise(grad_output, 3), randomise(grad_state_out, 4);
            std::vector<Bytes> results[2];
            for (const bool mine : {false, true}) {
                Bytes grad_input(a.input.size()), grad_state_in(a.state_in.size());
                std::vector<flashscan_arg> args = a.arguments();
                args.erase(args.begin() + 1, args.begin() + 3);
                args.push_back({grad | FLASHSCAN_ARG_OUTPUT, 0, grad_output.data(), grad_output.size()});
                args.push_back({grad | FLASHSCAN_ARG_STATE_OUT, 0, grad_state_out.data(), grad_state_out.size()});
                args.push_back({grad | FLASHSCAN_ARG_INPUT, 0, grad_input.data(), grad_input.size()});
                if (s.state)
                    args.push_back({grad | FLASHSCAN_ARG_STATE_IN, 0, grad_state_in.data(), grad_state_in.size()});
                const Plan plan(mine ? own : built_in,
                                make_options(FLASHSCAN_BACKEND_CPU, "", s.threads, false, false));
                ASSERT_TRUE(plan) << plan.message();
                ASSERT_EQ(flashscan_execute(plan.get(), FLASHSCAN_PASS_BACKWARD, args.data(),
                                            static_cast<int32_t>(args.size()), nullptr),
                          FLASHSCAN_STATUS_OK)
                    << flashscan_last_error();
                results[mine ? 1 : 0] = {grad_input, grad_state_in};
            }
            for (size_t which = 0; which < 2; ++which)
                for (size_t i = 0; i < results[0][which].size(); i += 8) {
                    double want, got;
                    std::memcpy(&want, results[0][which].data() + i, 8);
                    std::memcpy(&got, results[1][which].data() + i, 8);
                    ASSERT_NEAR(got, want, 1e-9 * (1 + std::abs(want)))
                        << (batched ? "batched" : "host") << " t" << s.time << " mode " << s.mode << " array " << which
                        << " number " << i / 8;
                }
        }
}

}  // namespace
}  // namespace numeric
