// SPDX-License-Identifier: Apache-2.0
// Executing plans: counts, memory that may be shared, workspace, offsets, and what only CUDA plans refuse.
#include "api/scene.h"

namespace api {
namespace {

TEST(Execute, NullPointersAndCounts) {
    Scene s(small_problem(), FLASHSCAN_PASS_FORWARD);
    s.call->prepare();
    const auto& args = s.call->arguments();
    const auto count = static_cast<int32_t>(args.size());
    expect_failure(flashscan_execute(nullptr, FLASHSCAN_PASS_FORWARD, args.data(), count, nullptr),
                   FLASHSCAN_STATUS_INVALID_ARGUMENT, {"plan is NULL"});
    expect_failure(flashscan_execute(nullptr, FLASHSCAN_PASS_BACKWARD, args.data(), count, nullptr),
                   FLASHSCAN_STATUS_INVALID_ARGUMENT, {"plan is NULL"});
    expect_failure(flashscan_execute(s.plan.get(), FLASHSCAN_PASS_FORWARD, nullptr, count, nullptr),
                   FLASHSCAN_STATUS_INVALID_ARGUMENT, {"args is NULL"});
    expect_failure(flashscan_execute(s.plan.get(), FLASHSCAN_PASS_FORWARD, args.data(), -1, nullptr),
                   FLASHSCAN_STATUS_INVALID_ARGUMENT, {"num_args is -1"});
    expect_failure(flashscan_execute(s.plan.get(), FLASHSCAN_PASS_FORWARD, args.data(), 1000, nullptr),
                   FLASHSCAN_STATUS_INVALID_ARGUMENT, {"num_args is 1000"});
    s.call->collect();
    EXPECT_TRUE(s.call->outputs_untouched());
}

TEST(Execute, AllowedPairsMayBeTheSameMemory) {
    Problem p = small_problem();
    p.in_place = true;
    for (const int32_t pass : {FLASHSCAN_PASS_FORWARD, FLASHSCAN_PASS_BACKWARD}) {
        Scene s(p, pass);
        EXPECT_EQ(s.call->run(s.plan.get()), FLASHSCAN_STATUS_OK) << flashscan_last_error();
        EXPECT_EQ(s.call->damage(), "");
    }
}

TEST(Execute, StatesOfPackedSequencesMayNotShareMemory) {
    Problem p = small_problem();
    p.batch = 1;
    p.sequences = 2;
    Scene forward(p, FLASHSCAN_PASS_FORWARD), backward(p, FLASHSCAN_PASS_BACKWARD);
    forward.arg(FLASHSCAN_ARG_STATE_OUT).data = forward.arg(FLASHSCAN_ARG_STATE_IN).data;
    backward.arg(grad | FLASHSCAN_ARG_STATE_IN).data = backward.arg(grad | FLASHSCAN_ARG_STATE_OUT).data;
    for (Scene* scene : {&forward, &backward}) {
        scene->call->prepare();
        expect_failure(scene->call->execute(scene->plan.get()), FLASHSCAN_STATUS_ALIASING, {"STATE_OUT", "STATE_IN"});
        scene->call->collect();
        EXPECT_TRUE(scene->call->outputs_untouched());
    }
}

TEST(Execute, SamePairWithOtherStridesIsRefused) {
    Problem p = small_problem();
    p.in_place = true;
    flashscan_linear_desc desc = desc_of(p);
    desc.output = {30, 6, 2};
    const Plan plan(desc, options_of(p, FLASHSCAN_BACKEND_CPU, ""));
    ASSERT_TRUE(plan) << plan.message();
    std::vector<float> both(60), gate(30);
    const flashscan_arg args[] = {{FLASHSCAN_ARG_INPUT, 0, both.data(), 240},
                                  {FLASHSCAN_ARG_OUTPUT, 0, both.data(), 240},
                                  {FLASHSCAN_ARG_GATE, 0, gate.data(), 120}};
    expect_failure(flashscan_execute(plan.get(), FLASHSCAN_PASS_FORWARD, args, 3, nullptr), FLASHSCAN_STATUS_ALIASING,
                   {"INPUT and OUTPUT overlap without being the same"});
}

TEST(Execute, InputsMayOverlapEachOther) {
    Scene s(small_problem(), FLASHSCAN_PASS_FORWARD);
    s.arg(FLASHSCAN_ARG_GATE).data = s.arg(FLASHSCAN_ARG_INPUT).data;
    EXPECT_EQ(s.call->run(s.plan.get()), FLASHSCAN_STATUS_OK) << flashscan_last_error();
}

TEST(Execute, OptionalArgumentsMayBeNull) {
    Scene s(small_problem(), FLASHSCAN_PASS_FORWARD);
    s.arg(FLASHSCAN_ARG_STATE_IN).data = nullptr;
    s.arg(FLASHSCAN_ARG_STATE_OUT).data = nullptr;
    s.call->prepare();
    EXPECT_EQ(s.call->execute(s.plan.get()), FLASHSCAN_STATUS_OK) << flashscan_last_error();
}

TEST(Execute, EmptyArgumentsNeedNoMemory) {
    Problem p = small_problem();
    p.batch = 0;
    const Plan plan(p, {});
    ASSERT_TRUE(plan) << plan.message();
    EXPECT_EQ(flashscan_execute(plan.get(), FLASHSCAN_PASS_FORWARD, nullptr, 0, nullptr), FLASHSCAN_STATUS_OK)
        << flashscan_last_error();
    const flashscan_arg args[] = {{FLASHSCAN_ARG_INPUT, 0, nullptr, 0}, {FLASHSCAN_ARG_OUTPUT, 0, nullptr, 0}};
    EXPECT_EQ(flashscan_execute(plan.get(), FLASHSCAN_PASS_FORWARD, args, 2, nullptr), FLASHSCAN_STATUS_OK)
        << flashscan_last_error();
}

TEST(Execute, CallersWorkspaceMustBePassed) {
    for (const int32_t backend : {FLASHSCAN_BACKEND_CPU, FLASHSCAN_BACKEND_CUDA}) {
        if (unavailable(backend) != nullptr) continue;
        Problem p;
        p.time = 300000;
        p.caller_scratch = true;
        const Plan plan(p, {backend, ""});
        ASSERT_TRUE(plan) << plan.message();
        const size_t bytes = plan.bytes(FLASHSCAN_PASS_FORWARD, FLASHSCAN_ARG_SCRATCH);
        if (bytes == 0) continue;
        Scene s(p, FLASHSCAN_PASS_FORWARD, backend);
        s.arg(FLASHSCAN_ARG_SCRATCH).bytes = bytes - 1;
        s.call->prepare();
        expect_failure(s.call->execute(s.plan.get()), FLASHSCAN_STATUS_BUFFER_TOO_SMALL,
                       {"SCRATCH has", std::to_string(bytes)});
        remove(s, FLASHSCAN_ARG_SCRATCH);
        expect_failure(s.call->execute(s.plan.get()), FLASHSCAN_STATUS_MISSING_ARGUMENT,
                       {"SCRATCH", std::to_string(bytes)});
        s.call->collect();
        EXPECT_TRUE(s.call->outputs_untouched());
    }
}

struct BadOffsets {
    const char* name;
    std::vector<int64_t> offsets;
    std::vector<std::string> words;
};

class Offsets : public testing::TestWithParam<std::tuple<BadOffsets, int32_t, int32_t>> {};

// CUDA plans look at the offsets where FLASHSCAN_CHECK=1, which ctest sets for this executable.
TEST_P(Offsets, AreChecked) {
    const auto& [bad, offsets_dtype, backend] = GetParam();
    if (const char* reason = unavailable(backend)) GTEST_SKIP() << reason;
    for (const int32_t pass : {FLASHSCAN_PASS_FORWARD, FLASHSCAN_PASS_BACKWARD}) {
        Problem p = small_problem();
        p.batch = 1;
        p.sequences = 3;
        p.offsets_dtype = offsets_dtype;
        const Plan plan(p, {backend, ""});
        ASSERT_TRUE(plan) << plan.message();
        Data data = make_data(p);
        data.output = data.input;
        const int64_t end = data.offsets.back();
        data.offsets = bad.offsets;
        Call call = pass == FLASHSCAN_PASS_FORWARD ? forward_call(p, plan, backend, data, Guard::end)
                                                   : backward_call(p, plan, backend, data, Guard::end);
        call.prepare();
        expect_failure(call.execute(plan.get()), FLASHSCAN_STATUS_INVALID_ARGUMENT, bad.words);
        call.collect();
        EXPECT_TRUE(call.outputs_untouched()) << end;
    }
}

const BadOffsets bad_offsets[] = {
    {"Start", {1, 2, 3, 5}, {"SEQ_OFFSETS[0] is 1", "accepted is 0"}},
    {"Negative", {-1, 2, 3, 5}, {"SEQ_OFFSETS[0] is -1"}},
    {"Decrease", {0, 4, 3, 5}, {"SEQ_OFFSETS[2] is 3", "SEQ_OFFSETS[1] = 4", "decrease"}},
    {"PastEnd", {0, 2, 3, 6}, {"SEQ_OFFSETS[3] is 6", "time = 5"}},
};
INSTANTIATE_TEST_SUITE_P(Execute, Offsets,
                         testing::Combine(testing::ValuesIn(bad_offsets),
                                          testing::Values(FLASHSCAN_DTYPE_I32, FLASHSCAN_DTYPE_I64),
                                          testing::Values(FLASHSCAN_BACKEND_CPU, FLASHSCAN_BACKEND_CUDA)),
                         [](const auto& i) {
                             return std::string(std::get<0>(i.param).name) + "_" + name_of(std::get<1>(i.param)) +
                                    (std::get<2>(i.param) == FLASHSCAN_BACKEND_CUDA ? "_cuda" : "_cpu");
                         });

TEST(Execute, HostPointersOfACudaPlanAreRefusedUnderCheck_cuda) {
    if (const char* reason = unavailable(FLASHSCAN_BACKEND_CUDA)) GTEST_SKIP() << reason;
    Scene s(small_problem(), FLASHSCAN_PASS_FORWARD, FLASHSCAN_BACKEND_CUDA);
    std::vector<float> host(30, 1.0F);
    s.arg(FLASHSCAN_ARG_INPUT).data = host.data();
    s.call->prepare();
    expect_failure(s.call->execute(s.plan.get()), FLASHSCAN_STATUS_INVALID_POINTER, {"INPUT is at 0x", "host"});
    s.call->collect();
    EXPECT_TRUE(s.call->outputs_untouched());
}

TEST(Execute, NoSuchDevice_cuda) {
    if (const char* reason = unavailable(FLASHSCAN_BACKEND_CUDA)) GTEST_SKIP() << reason;
    const flashscan_linear_desc desc = desc_of(small_problem());
    flashscan_options options = options_of(small_problem(), FLASHSCAN_BACKEND_CUDA, "");
    options.device = 99;
    flashscan_plan* plan = nullptr;
    expect_failure(flashscan_plan_linear(&plan, &desc, &options), FLASHSCAN_STATUS_NO_DEVICE, {"device is 99"});
    options.device = -1;
    expect_failure(flashscan_plan_linear(&plan, &desc, &options), FLASHSCAN_STATUS_NO_DEVICE, {"device is -1"});
    options.device = 0;
    options.threads = 2;
    expect_failure(flashscan_plan_linear(&plan, &desc, &options), FLASHSCAN_STATUS_INVALID_ARGUMENT, {"threads is 2"});
    EXPECT_EQ(plan, nullptr);
}

}  // namespace
}  // namespace api
