// SPDX-License-Identifier: Apache-2.0
// flashscan.hpp: ownership, arguments of any kind of range, failures as exceptions or as a status.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <flashscan/flashscan.hpp>
#include <span>
#include <thread>
#include <vector>

#include "api/no_exceptions.h"

namespace {

using flashscan::in;
using flashscan::out;

flashscan::LinearDesc small_desc() {
    flashscan::LinearDesc what;
    what.dtype = FLASHSCAN_DTYPE_F32;
    what.batch = what.channels = 1;
    what.time = 4;
    return what;
}

TEST(Cpp, PlansMoveAndDoNotCopy) {
    static_assert(!std::is_copy_constructible_v<flashscan::Plan> && !std::is_copy_assignable_v<flashscan::Plan>);
    static_assert(std::is_nothrow_move_constructible_v<flashscan::Plan>);
    flashscan::Plan plan(small_desc());
    flashscan_plan* const handle = plan.get();
    flashscan::Plan moved = std::move(plan);
    EXPECT_EQ(moved.get(), handle);
    EXPECT_FALSE(plan);  // NOLINT(bugprone-use-after-move)
    EXPECT_EQ(plan.try_forward({}), FLASHSCAN_STATUS_INVALID_ARGUMENT);
    flashscan_plan_destroy(moved.release());
    EXPECT_FALSE(moved);
}

TEST(Cpp, ArgumentsAreAnythingContiguous) {
    const flashscan::Plan plan(small_desc());
    const std::vector<float> gate = {0.5F, 0.5F, 0.5F, 0.5F};
    const std::array<float, 4> input = {1, 1, 1, 1};
    float output[4] = {};
    plan.forward({in(FLASHSCAN_ARG_GATE, gate), in(FLASHSCAN_ARG_INPUT, input), out(FLASHSCAN_ARG_OUTPUT, output)});
    EXPECT_EQ(output[3], 1.875F);
    std::vector<float> again(8);
    const flashscan_arg args[] = {in(FLASHSCAN_ARG_GATE, std::span(gate)), in(FLASHSCAN_ARG_INPUT, input),
                                  out(FLASHSCAN_ARG_OUTPUT, std::span(again).subspan(2, 4))};
    plan.forward(args, std::size(args));
    EXPECT_EQ(again[5], 1.875F);
    EXPECT_EQ(again[6], 0);
}

TEST(Cpp, FailuresAreErrorsWithStatusAndSentence) {
    flashscan::LinearDesc what = small_desc();
    what.batch = -1;
    try {
        const flashscan::Plan plan(what);
        FAIL() << "a negative batch was taken";
    } catch (const flashscan::Error& error) {
        EXPECT_EQ(error.status(), FLASHSCAN_STATUS_INVALID_ARGUMENT);
        EXPECT_STREQ(error.status_name(), "FLASHSCAN_STATUS_INVALID_ARGUMENT");
        EXPECT_NE(std::string(error.what()).find("batch is -1"), std::string::npos) << error.what();
    }
    const flashscan::Plan plan(small_desc());
    const std::vector<float> gate(4), input(3);
    std::vector<float> output(4);
    try {
        plan.forward({in(FLASHSCAN_ARG_GATE, gate), in(FLASHSCAN_ARG_INPUT, input), out(FLASHSCAN_ARG_OUTPUT, output)});
        FAIL() << "a short input was taken";
    } catch (const flashscan::Error& error) {
        EXPECT_EQ(error.status(), FLASHSCAN_STATUS_BUFFER_TOO_SMALL);
    }
    EXPECT_THROW(plan.arg_bytes(FLASHSCAN_PASS_FORWARD, FLASHSCAN_ARG_WEIGHT), flashscan::Error);
}

TEST(Cpp, FailedPlansAreEmpty) {
    flashscan::Plan plan(small_desc());
    flashscan::LinearDesc what = small_desc();
    what.dtype = 99;
    EXPECT_EQ(flashscan::Plan::make(plan, what), FLASHSCAN_STATUS_INVALID_ARGUMENT);
    EXPECT_FALSE(plan);
}

TEST(Cpp, OptionsSizesAndDescription) {
    flashscan::Options how;
    how.threads = 1;
    how.kernel = "reference";
    const flashscan::Plan plan(small_desc(), how);
    EXPECT_EQ(plan.arg_bytes(FLASHSCAN_PASS_FORWARD, FLASHSCAN_ARG_OUTPUT), 16U);
    EXPECT_NE(plan.describe().find("kernel reference"), std::string::npos) << plan.describe();
    EXPECT_EQ(plan.describe().find('\0'), std::string::npos);
    EXPECT_EQ(flashscan::device_count(FLASHSCAN_BACKEND_CPU), 1);
    EXPECT_EQ(flashscan::version(), FLASHSCAN_VERSION);
}

TEST(Cpp, NetworksTrainWithAReserve) {
    flashscan::RnnDesc what;
    what.dtype = FLASHSCAN_DTYPE_F64;
    what.cell = FLASHSCAN_CELL_ELMAN;
    what.flags = FLASHSCAN_RNN_FLAG_TRAINING;
    what.batch = what.heads = what.head_dim = 1;
    what.time = 2;
    const flashscan::Plan plan(what);
    flashscan::HostBuffer reserve(plan.arg_bytes(FLASHSCAN_PASS_FORWARD, FLASHSCAN_ARG_RESERVE));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(reserve.data()) % 256, 0U);
    const double input[] = {0.5, 0}, weight[] = {2}, grad_output[] = {0, 1};
    double output[2], grad_weight[1];
    plan.forward({in(FLASHSCAN_ARG_INPUT, input), in(FLASHSCAN_ARG_WEIGHT, weight), out(FLASHSCAN_ARG_OUTPUT, output),
                  out(FLASHSCAN_ARG_RESERVE, reserve)});
    EXPECT_NEAR(output[1], std::tanh(2 * std::tanh(0.5)), 1e-15);
    plan.backward({in(FLASHSCAN_ARG_WEIGHT, weight), in(FLASHSCAN_ARG_OUTPUT, output),
                   in(FLASHSCAN_ARG_RESERVE, reserve), in(FLASHSCAN_GRAD | FLASHSCAN_ARG_OUTPUT, grad_output),
                   out(FLASHSCAN_GRAD | FLASHSCAN_ARG_WEIGHT, grad_weight)});
    EXPECT_NEAR(grad_weight[0], (1 - output[1] * output[1]) * output[0], 1e-15);
}

struct Affine {
    double scale, shift;
};

TEST(Cpp, CustomOperatorsAreCallables) {
    // The earlier map is applied first.
    const auto compose = [](const Affine& l, const Affine& r) {
        return Affine{r.scale * l.scale, r.scale * l.shift + r.shift};
    };
    const flashscan::CustomOperator custom = flashscan::custom_operator<Affine>(compose);
    flashscan::OperatorDesc what;
    what.kind = FLASHSCAN_OPERATOR_CUSTOM;
    what.batch = what.channels = 1;
    what.time = 3;
    what.custom = &custom;
    const flashscan::Plan plan(what);
    const std::vector<Affine> maps = {{0.5, 1}, {0.5, 2}, {2, 3}};
    std::vector<Affine> prefixes(3);
    plan.forward({in(FLASHSCAN_ARG_INPUT, maps), out(FLASHSCAN_ARG_OUTPUT, prefixes)});
    EXPECT_EQ(prefixes[2].scale, 0.5);
    EXPECT_EQ(prefixes[2].shift, 8);
}

TEST(Cpp, WorksWithoutExceptions) { EXPECT_EQ(sum_without_exceptions(), 1.875F); }

}  // namespace
