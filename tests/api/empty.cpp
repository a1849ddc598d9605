// SPDX-License-Identifier: Apache-2.0
// Problems without elements, however large their other extents: a call takes no time and no memory but for the states
// and the gradients that are there.
#include "api/fixture.h"

namespace api {
namespace {

using namespace support;

constexpr int32_t grad = FLASHSCAN_GRAD;
constexpr int64_t many = 1000000000;

// Runs a pass of a plan within a second of all threads, SCRATCH of nothing, on arguments of nothing but `real` ones.
void expect_quick(const flashscan_plan* plan, int32_t pass, const std::vector<int32_t>& ids,
                  std::vector<flashscan_arg> args = {}) {
    size_t scratch = 1;
    ASSERT_EQ(flashscan_plan_arg_bytes(plan, pass, FLASHSCAN_ARG_SCRATCH, &scratch), FLASHSCAN_STATUS_OK)
        << flashscan_last_error();
    EXPECT_EQ(scratch, 0U);
    ASSERT_LT(scratch, size_t{1} << 33) << "the call is not made";
    char nothing = 0;
    for (const int32_t id : ids) args.push_back({id, 0, &nothing, 0});
    const double start = cpu_seconds(CLOCK_PROCESS_CPUTIME_ID);
    const auto count = static_cast<int32_t>(args.size());
    const flashscan_status status = pass == FLASHSCAN_PASS_FORWARD
                                        ? flashscan_execute(plan, FLASHSCAN_PASS_FORWARD, args.data(), count, nullptr)
                                        : flashscan_execute(plan, FLASHSCAN_PASS_BACKWARD, args.data(), count, nullptr);
    EXPECT_EQ(status, FLASHSCAN_STATUS_OK) << flashscan_last_error();
    EXPECT_LT(cpu_seconds(CLOCK_PROCESS_CPUTIME_ID) - start, 1.0);
}

flashscan_options options_of(const char* kernel) {
    flashscan_options options{};
    options.struct_size = sizeof options;
    options.kernel = kernel;
    return options;
}

struct Extents {
    int64_t batch, time, channels;
};

class EmptyLinear : public testing::TestWithParam<Extents> {};

TEST_P(EmptyLinear, TakesNoTime) {
    for (const char* kernel : {"stream", "reference"}) {
        flashscan_linear_desc d{};
        d.struct_size = sizeof d;
        d.dtype = FLASHSCAN_DTYPE_F32;
        d.batch = GetParam().batch, d.time = GetParam().time, d.channels = GetParam().channels;
        const Plan plan(d, options_of(kernel));
        ASSERT_TRUE(plan) << plan.message();
        expect_quick(plan.get(), FLASHSCAN_PASS_FORWARD,
                     {FLASHSCAN_ARG_INPUT, FLASHSCAN_ARG_GATE, FLASHSCAN_ARG_OUTPUT});
        expect_quick(plan.get(), FLASHSCAN_PASS_BACKWARD,
                     {FLASHSCAN_ARG_GATE, FLASHSCAN_ARG_OUTPUT, grad | FLASHSCAN_ARG_OUTPUT, grad | FLASHSCAN_ARG_INPUT,
                      grad | FLASHSCAN_ARG_GATE});
    }
}
INSTANTIATE_TEST_SUITE_P(Sizes, EmptyLinear,
                         testing::Values(Extents{1 << 20, 1 << 15, 0}, Extents{many, 0, 4}, Extents{0, many, many / 2},
                                         Extents{1, many, 0}, Extents{many, 0, 0}));

class EmptyRnn : public testing::TestWithParam<Extents> {};

TEST_P(EmptyRnn, TakesNoTimeButForTheGradientsOfWeights) {
    for (const std::string kernel : {"diagonal", "blocked", "reference"})
        for (const int32_t cell : {FLASHSCAN_CELL_LSTM, FLASHSCAN_CELL_SLSTM}) {
            flashscan_rnn_desc d{};
            d.struct_size = sizeof d;
            d.dtype = FLASHSCAN_DTYPE_F32;
            d.cell = cell;
            d.flags = FLASHSCAN_RNN_FLAG_TRAINING;
            d.heads = 2, d.head_dim = kernel == "diagonal" ? 1 : 3;
            d.batch = GetParam().batch, d.time = GetParam().time;
            const Plan plan(d, options_of(kernel.c_str()));
            ASSERT_TRUE(plan) << plan.message();
            const auto biases = static_cast<size_t>(4 * d.heads * d.head_dim), dim = static_cast<size_t>(d.head_dim);
            std::vector<float> weight(biases * dim, 1.0F), grad_weight(weight), grad_bias(biases, 1.0F);
            const flashscan_arg given{FLASHSCAN_ARG_WEIGHT, 0, weight.data(), weight.size() * 4};
            expect_quick(plan.get(), FLASHSCAN_PASS_FORWARD,
                         {FLASHSCAN_ARG_INPUT, FLASHSCAN_ARG_OUTPUT, FLASHSCAN_ARG_RESERVE}, {given});
            expect_quick(
                plan.get(), FLASHSCAN_PASS_BACKWARD,
                {FLASHSCAN_ARG_OUTPUT, FLASHSCAN_ARG_RESERVE, grad | FLASHSCAN_ARG_OUTPUT, grad | FLASHSCAN_ARG_INPUT},
                {given,
                 {grad | FLASHSCAN_ARG_WEIGHT, 0, grad_weight.data(), grad_weight.size() * 4},
                 {grad | FLASHSCAN_ARG_BIAS, 0, grad_bias.data(), grad_bias.size() * 4}});
            EXPECT_EQ(grad_weight, std::vector<float>(grad_weight.size()));
            EXPECT_EQ(grad_bias, std::vector<float>(grad_bias.size()));
        }
}
INSTANTIATE_TEST_SUITE_P(Sizes, EmptyRnn, testing::Values(Extents{many, 0, 0}, Extents{0, many, 0}));

class EmptyOperator : public testing::TestWithParam<std::tuple<int32_t, Extents>> {};

TEST_P(EmptyOperator, TakesNoTime) {
    const auto& [kind, extents] = GetParam();
    flashscan_custom_operator custom{};
    custom.struct_size = sizeof custom;
    custom.element_bytes = 4;
    custom.host = [](void*, const void*, const void*, void*) {};
    custom.host_adjoint = [](void*, const void*, const void*, const void*, void*, void*) {};
    custom.batched = [](void*, const void*, int64_t, const void*, int64_t, void*, int64_t, int64_t, void*) {
        return int32_t{0};
    };
    custom.batched_adjoint = [](void*, const void*, const void*, const void*, void*, void*, int64_t, void*) {
        return int32_t{0};
    };
    std::vector<const char*> kernels{nullptr, "reference"};
    if (kind == FLASHSCAN_OPERATOR_CUSTOM) kernels.push_back("host");
    for (const char* kernel : kernels) {
        flashscan_operator_desc d{};
        d.struct_size = sizeof d;
        d.dtype = FLASHSCAN_DTYPE_F32;
        d.kind = kind;
        if (kind == FLASHSCAN_OPERATOR_MATMUL || kind == FLASHSCAN_OPERATOR_AFFINE) d.dim = 2;
        if (kind == FLASHSCAN_OPERATOR_CUSTOM) d.custom = &custom;
        d.batch = extents.batch, d.time = extents.time, d.channels = extents.channels;
        const Plan plan(d, options_of(kernel));
        ASSERT_TRUE(plan) << plan.message();
        std::vector<int32_t> gate;
        if (kind == FLASHSCAN_OPERATOR_AFFINE) gate.push_back(FLASHSCAN_ARG_GATE);
        std::vector<int32_t> ids{FLASHSCAN_ARG_INPUT, FLASHSCAN_ARG_OUTPUT};
        ids.insert(ids.end(), gate.begin(), gate.end());
        expect_quick(plan.get(), FLASHSCAN_PASS_FORWARD, ids);
        ids = {grad | FLASHSCAN_ARG_OUTPUT, grad | FLASHSCAN_ARG_INPUT};
        ids.insert(ids.end(), gate.begin(), gate.end());
        if (kind != FLASHSCAN_OPERATOR_ADD && kind != FLASHSCAN_OPERATOR_AFFINE) ids.push_back(FLASHSCAN_ARG_INPUT);
        expect_quick(plan.get(), FLASHSCAN_PASS_BACKWARD, ids);
    }
}
INSTANTIATE_TEST_SUITE_P(
    Sizes, EmptyOperator,
    testing::Combine(testing::Values(FLASHSCAN_OPERATOR_ADD, FLASHSCAN_OPERATOR_MUL, FLASHSCAN_OPERATOR_MATMUL,
                                     FLASHSCAN_OPERATOR_AFFINE, FLASHSCAN_OPERATOR_CUSTOM),
                     testing::Values(Extents{many, 0, 2}, Extents{1 << 20, 1 << 15, 0}, Extents{0, many, 2})));

// T = 0 with states in memory: they pass, whatever the kernel.
TEST(EmptyOperators, PassStates) {
    for (const char* kernel : {static_cast<const char*>(nullptr), "reference"})
        for (const int32_t kind : {FLASHSCAN_OPERATOR_MUL, FLASHSCAN_OPERATOR_MATMUL}) {
            const int64_t dim = kind == FLASHSCAN_OPERATOR_MATMUL ? 2 : 0, element = dim > 0 ? 4 : 1;
            flashscan_operator_desc d{};
            d.struct_size = sizeof d;
            d.dtype = FLASHSCAN_DTYPE_BF16;
            d.kind = kind;
            d.mode = FLASHSCAN_MODE_REDUCTION;
            d.dim = dim;
            d.batch = 3, d.channels = 2;
            const Plan plan(d, options_of(kernel));
            ASSERT_TRUE(plan) << plan.message();
            const auto numbers = static_cast<size_t>(6 * element);
            std::vector<float> in(numbers), out(numbers, -1.0F);
            std::vector<uint16_t> reduced(numbers, 1);
            for (size_t i = 0; i < numbers; ++i) in[i] = 0.5F + static_cast<float>(i);
            std::vector<flashscan_arg> args{{FLASHSCAN_ARG_STATE_OUT, 0, out.data(), numbers * 4},
                                            {FLASHSCAN_ARG_OUTPUT, 0, reduced.data(), numbers * 2}};
            expect_quick(plan.get(), FLASHSCAN_PASS_FORWARD, {FLASHSCAN_ARG_INPUT}, args);
            for (size_t i = 0; i < numbers; ++i) {
                const bool is_one = dim == 0 || i % 4 == 0 || i % 4 == 3;
                EXPECT_EQ(out[i], is_one ? 1.0F : 0.0F);
                EXPECT_EQ(reduced[i], is_one ? 0x3F80 : 0);
            }
            args.push_back({FLASHSCAN_ARG_STATE_IN, 0, in.data(), numbers * 4});
            expect_quick(plan.get(), FLASHSCAN_PASS_FORWARD, {FLASHSCAN_ARG_INPUT}, args);
            EXPECT_EQ(out, in);
            EXPECT_EQ(reduced[0], 0x3F00);
            // The gradient of STATE_IN is that of STATE_OUT and of OUTPUT together.
            std::vector<float> passed(numbers, -1.0F);
            expect_quick(plan.get(), FLASHSCAN_PASS_BACKWARD, {FLASHSCAN_ARG_INPUT},
                         {{FLASHSCAN_ARG_STATE_IN, 0, in.data(), numbers * 4},
                          {grad | FLASHSCAN_ARG_STATE_OUT, 0, in.data(), numbers * 4},
                          {grad | FLASHSCAN_ARG_OUTPUT, 0, reduced.data(), numbers * 2},
                          {grad | FLASHSCAN_ARG_STATE_IN, 0, passed.data(), numbers * 4}});
            EXPECT_EQ(passed[0], 1.0F);
            EXPECT_EQ(passed[1], 3.0F);
        }
}

}  // namespace
}  // namespace api
