// SPDX-License-Identifier: Apache-2.0
// States that lie in a pool: what plans say of them, what they refuse, and the pool in one call.
#include <vector>

#include "api/fixture.h"
#include "support/call.h"
#include "support/rnn_problem.h"

namespace api {
namespace {

using namespace support;

flashscan_arg_info argument_of(const Plan& plan, int32_t pass, int32_t id) {
    flashscan_arg_info infos[16] = {};
    infos[0].struct_size = sizeof(flashscan_arg_info);
    int32_t count = 0;
    EXPECT_EQ(flashscan_plan_args(plan.get(), pass, infos, 16, &count), FLASHSCAN_STATUS_OK);
    for (int32_t i = 0; i < count; ++i)
        if (infos[i].id == id) return infos[i];
    ADD_FAILURE() << "no argument " << id;
    return {};
}

flashscan_linear_desc linear_desc() { return desc_of(problem_of("linear f32 BTC b3 t2 c4 state-in state-out")); }
flashscan_rnn_desc rnn_desc() { return desc_of(rnn_problem_of("rnn lstm fwd f32 b3 t2 h1 d4 state-in state-out")); }
const flashscan_options on_cpu = make_options(FLASHSCAN_BACKEND_CPU, "", 1, false, false);

TEST(StridedStates, AreInTheListOfArguments) {
    flashscan_linear_desc desc = linear_desc();
    desc.state_in.row = 10;
    const Plan plan(desc, on_cpu);
    ASSERT_TRUE(plan) << plan.message();
    const flashscan_arg_info in = argument_of(plan, FLASHSCAN_PASS_FORWARD, FLASHSCAN_ARG_STATE_IN);
    EXPECT_EQ(in.strides[0], 10);
    EXPECT_EQ(in.strides[1], 1);
    EXPECT_EQ(in.bytes, (2 * 10 + 4) * sizeof(float));
    const flashscan_arg_info out = argument_of(plan, FLASHSCAN_PASS_FORWARD, FLASHSCAN_ARG_STATE_OUT);
    EXPECT_EQ(out.strides[0], 4);
    EXPECT_EQ(out.bytes, 3 * 4 * sizeof(float));
    EXPECT_NE(plan.describe().find("copied through scratch: STATE_IN"), std::string::npos) << plan.describe();

    flashscan_rnn_desc cell = rnn_desc();
    cell.state_out = {100, 20};
    const Plan rnn(cell, on_cpu);
    ASSERT_TRUE(rnn) << rnn.message();
    const flashscan_arg_info states = argument_of(rnn, FLASHSCAN_PASS_FORWARD, FLASHSCAN_ARG_STATE_OUT);
    EXPECT_EQ(states.strides[0], 20);
    EXPECT_EQ(states.strides[1], 100);
    EXPECT_EQ(states.bytes, (20 + 2 * 100 + 4) * sizeof(float));
}

TEST(StridedStates, AreRefusedByName) {
    const auto refused = [](auto desc, flashscan_status status, const std::vector<std::string>& words) {
        const Plan plan(desc, on_cpu);
        EXPECT_EQ(plan.status(), status);
        for (const std::string& word : words)
            EXPECT_NE(plan.message().find(word), std::string::npos) << word << " in: " << plan.message();
    };
    flashscan_linear_desc desc = linear_desc();
    desc.state_in.row = -1;
    refused(desc, FLASHSCAN_STATUS_INVALID_ARGUMENT, {"state_in.row is -1", ">= 0"});
    desc = linear_desc();
    desc.grad_state_out.row = 3;
    refused(desc, FLASHSCAN_STATUS_INVALID_ARGUMENT, {"grad_state_out", "row 3", "3 rows of 4 elements overlap"});
    desc = linear_desc();
    desc.state_out = {8, 4};
    refused(desc, FLASHSCAN_STATUS_INVALID_ARGUMENT, {"state_out.state is 4", "accepted is 0"});
    desc = linear_desc();
    desc.grad_state_in.row = int64_t{1} << 61;
    refused(desc, FLASHSCAN_STATUS_SIZE_OVERFLOW, {"grad_state_in"});
    flashscan_rnn_desc cell = rnn_desc();
    cell.state_in = {6, 12};
    refused(cell, FLASHSCAN_STATUS_INVALID_ARGUMENT, {"state_in", "row 6, state 12", "2 states of 3 rows"});
    cell = rnn_desc();
    cell.state_in.state = -2;
    refused(cell, FLASHSCAN_STATUS_INVALID_ARGUMENT, {"state_in.state is -2"});
}

// A pool of 3 rows, each with the states of two layers: this plan updates the second layer's in place.
TEST(StridedStates, AreUpdatedInAPool) {
    flashscan_linear_desc desc = linear_desc();
    desc.state_in.row = desc.state_out.row = 8;
    const Plan plan(desc, on_cpu);
    ASSERT_TRUE(plan) << plan.message();
    std::vector<float> pool(3 * 8, 7), x(3 * 2 * 4, 1), gate(x.size(), 0.5F), out(x.size());
    const size_t bytes = x.size() * sizeof(float), state_bytes = (2 * 8 + 4) * sizeof(float);
    const flashscan_arg args[] = {flashscan_in(FLASHSCAN_ARG_INPUT, x.data(), bytes),
                                  flashscan_in(FLASHSCAN_ARG_GATE, gate.data(), bytes),
                                  flashscan_out(FLASHSCAN_ARG_OUTPUT, out.data(), bytes),
                                  flashscan_in(FLASHSCAN_ARG_STATE_IN, pool.data() + 4, state_bytes),
                                  flashscan_out(FLASHSCAN_ARG_STATE_OUT, pool.data() + 4, state_bytes)};
    ASSERT_EQ(flashscan_execute(plan.get(), FLASHSCAN_PASS_FORWARD, args, 5, nullptr), FLASHSCAN_STATUS_OK)
        << flashscan_last_error();
    for (size_t i = 0; i < pool.size(); ++i) EXPECT_EQ(pool[i], i % 8 < 4 ? 7.0F : 7 * 0.25F + 1.5F) << i;
    // The first layer's states as STATE_IN interleave with the second's; a row that overlaps is refused.
    flashscan_arg shifted[] = {args[0], args[1], args[2], args[3], args[4]};
    shifted[3].data = pool.data();
    EXPECT_EQ(flashscan_execute(plan.get(), FLASHSCAN_PASS_FORWARD, shifted, 5, nullptr), FLASHSCAN_STATUS_OK)
        << flashscan_last_error();
    shifted[3].data = pool.data() + 1;
    expect_failure(flashscan_execute(plan.get(), FLASHSCAN_PASS_FORWARD, shifted, 5, nullptr),
                   FLASHSCAN_STATUS_ALIASING, {"STATE_IN", "STATE_OUT"});
}

}  // namespace
}  // namespace api
