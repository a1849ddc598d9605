// SPDX-License-Identifier: Apache-2.0
// What happens when memory runs out: the n-th allocation of a call fails, for every n until the call needs no more.
#include "api/fixture.h"
#include "support/failing_memory.h"
#include "support/operator_check.h"

namespace api {
namespace {

using namespace support;

// Runs both passes of `calls` out of memory; outputs stay as they were.
void expect_untouched(const Plan& plan, std::initializer_list<Call*> calls, bool all_after) {
    for (Call* call : calls) {
        ASSERT_EQ(call->run(plan.get()), FLASHSCAN_STATUS_OK) << flashscan_last_error();
        call->prepare();
        bool untouched = true;
        exhaust(all_after, [&] {
            const flashscan_status status = call->execute(plan.get());
            if (status == FLASHSCAN_STATUS_OK) return status;
            const bool on = std::exchange(ledger.on, false);
            call->collect();
            untouched = untouched && call->outputs_untouched();
            ledger.on = on;
            return status;
        });
        EXPECT_TRUE(untouched) << "outputs were written by a call that failed";
    }
}

std::vector<Problem> problems() {
    std::vector<Problem> list(4, small_problem());
    list[1].batch = list[1].channels = 1;
    list[1].time = 20000;
    list[1].broadcast = FLASHSCAN_BROADCAST_TIME;
    list[2].batch = 1;
    list[2].sequences = 3;
    list[2].broadcast = FLASHSCAN_BROADCAST_CHANNELS;
    list[3].dtype = FLASHSCAN_DTYPE_BF16;
    list[3].layout = FLASHSCAN_LAYOUT_BCT;
    list[3].broadcast = 7;
    for (Problem& p : list) {
        p.threads = 1;  // GCC's OpenMP runtime ends the process when it gets no memory for a team
        p.gate_dtype = p.dtype;
    }
    return list;
}

class Allocation : public testing::TestWithParam<std::tuple<size_t, bool>> {
  protected:
    void SetUp() override { make_room_for_sentences(); }
    Problem problem() const { return problems()[std::get<0>(GetParam())]; }
    bool all_after() const { return std::get<1>(GetParam()); }
};

TEST_P(Allocation, PlanSurvivesFailure) {
    const flashscan_linear_desc desc = desc_of(problem());
    const flashscan_options options = options_of(problem(), FLASHSCAN_BACKEND_CPU, "");
    const int64_t needed = exhaust(all_after(), [&] {
        auto* plan = reinterpret_cast<flashscan_plan*>(0x10);
        const flashscan_status status = flashscan_plan_linear(&plan, &desc, &options);
        EXPECT_TRUE(status == FLASHSCAN_STATUS_OK || plan == nullptr);
        flashscan_plan_destroy(plan);
        return status;
    });
    EXPECT_GT(needed, 0) << "the library's allocations do not arrive here";
}

TEST_P(Allocation, PassesSurviveFailure) {
    const Problem p = problem();
    Data data = make_data(p);
    data.output = data.input;
    const Plan plan(p, {});
    ASSERT_TRUE(plan) << plan.message();
    Call forward = forward_call(p, plan, FLASHSCAN_BACKEND_CPU, data, Guard::end);
    Call backward = backward_call(p, plan, FLASHSCAN_BACKEND_CPU, data, Guard::end);
    expect_untouched(plan, {&forward, &backward}, all_after());
}

// A failure whose sentence finds no memory still has a status.
TEST_P(Allocation, ErrorsSurviveFailure) {
    flashscan_linear_desc desc = desc_of(problem());
    desc.layout = 5;
    for (int64_t n = 1; n < 20; ++n) {
        ledger = {true, all_after(), n, 0, 0, false};
        flashscan_plan* plan = nullptr;
        const flashscan_status status = flashscan_plan_linear(&plan, &desc, nullptr);
        ledger.on = false;
        EXPECT_TRUE(status == FLASHSCAN_STATUS_INVALID_ARGUMENT ||
                    (ledger.fired && status == FLASHSCAN_STATUS_OUT_OF_MEMORY));
        EXPECT_EQ(ledger.live, 0) << n;
        EXPECT_STRNE(flashscan_last_error(), "");
    }
}

class OperatorAllocation : public testing::TestWithParam<std::tuple<const char*, bool>> {
  protected:
    void SetUp() override { make_room_for_sentences(); }
};

TEST_P(OperatorAllocation, PassesSurviveFailure) {
    const auto [line, all_after] = GetParam();
    OperatorProblem p = operator_problem_of(line);
    p.threads = 1;
    const OperatorData data = make_data(p);
    const Plan plan(desc_of(p), options_of(p, FLASHSCAN_BACKEND_CPU, ""));
    ASSERT_TRUE(plan) << plan.message();
    Call forward = forward_call(p, plan, FLASHSCAN_BACKEND_CPU, data, Guard::end);
    ASSERT_EQ(forward.run(plan.get()), FLASHSCAN_STATUS_OK) << flashscan_last_error();
    Call backward =
        backward_call(p, plan, FLASHSCAN_BACKEND_CPU, data, forward.values(FLASHSCAN_ARG_OUTPUT), Guard::end);
    expect_untouched(plan, {&forward, &backward}, all_after);
}

INSTANTIATE_TEST_SUITE_P(
    Api, OperatorAllocation,
    testing::Combine(testing::Values("operator add inclusive f32 b2 t50 c3 state-in state-out",
                                     "operator matmul inclusive f32 b2 t50 c1 d5 state-in state-out",
                                     "operator matmul reduction f64 b1 t900 c1 d2 state-in state-out",
                                     "operator affine exclusive f32 b2 t50 c1 d3 state-in state-out"),
                     testing::Bool()),
    [](const auto& i) { return std::to_string(i.index); });

// A custom operator by a batched callback, whose prefixes lie in OUTPUT.
TEST(CustomAllocation, ScansSurviveFailure) {
    make_room_for_sentences();
    flashscan_custom_operator custom{};
    custom.struct_size = sizeof custom;
    custom.element_bytes = 4;
    custom.batched = [](void*, const void* l, int64_t l_stride, const void* r, int64_t r_stride, void* out,
                        int64_t out_stride, int64_t count, void*) {
        for (int64_t i = 0; i < count; ++i) {
            float sum = *reinterpret_cast<const float*>(static_cast<const char*>(l) + i * l_stride);
            sum += *reinterpret_cast<const float*>(static_cast<const char*>(r) + i * r_stride);
            *reinterpret_cast<float*>(static_cast<char*>(out) + i * out_stride) = sum;
        }
        return int32_t{0};
    };
    flashscan_operator_desc desc{};
    desc.struct_size = sizeof desc;
    desc.kind = FLASHSCAN_OPERATOR_CUSTOM;
    desc.batch = 2;
    desc.time = 37;
    desc.channels = 3;
    desc.custom = &custom;
    const Plan plan(desc, make_options(FLASHSCAN_BACKEND_CPU, "", 1, false, false));
    ASSERT_TRUE(plan) << plan.message();
    for (const bool all_after : {false, true}) {
        Call call(FLASHSCAN_BACKEND_CPU, FLASHSCAN_PASS_FORWARD, Guard::end);
        const Tensor tensor = dense_tensor(2 * 37, 3);
        call.input(FLASHSCAN_ARG_INPUT, FLASHSCAN_DTYPE_F32, tensor, Values(2 * 37 * 3, 1.0));
        call.output(FLASHSCAN_ARG_OUTPUT, FLASHSCAN_DTYPE_F32, tensor, tensor.extents[1]);
        expect_untouched(plan, {&call}, all_after);
    }
}

INSTANTIATE_TEST_SUITE_P(Api, Allocation, testing::Combine(testing::Range<size_t>(0, 4), testing::Bool()),
                         [](const auto& i) {
                             return "problem" + std::to_string(std::get<0>(i.param)) +
                                    (std::get<1>(i.param) ? "_all_after" : "_one");
                         });

}  // namespace
}  // namespace api
