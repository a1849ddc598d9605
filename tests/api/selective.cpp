// SPDX-License-Identifier: Apache-2.0
// Plans for selective scans with one wrong field, calls with one wrong argument, and a pool of states.
#include "api/fixture.h"
#include "support/selective_check.h"

namespace api {
namespace {

using namespace support;

SelectiveProblem small_selective() {
    return selective_problem_of(
        "selective f32 b2 t5 c4 n3 g2 b-per-step c-per-step softplus gate skip bias state-in state-out reset");
}

struct BadSelective {
    const char* name;
    std::function<void(flashscan_selective_desc&)> change;
    flashscan_status status;
    std::vector<std::string> words;
};

class BadSelectiveDescs : public testing::TestWithParam<BadSelective> {};

TEST_P(BadSelectiveDescs, AreRefusedByName) {
    flashscan_selective_desc desc = desc_of(small_selective());
    GetParam().change(desc);
    auto* plan = reinterpret_cast<flashscan_plan*>(0x10);
    expect_failure(flashscan_plan_selective(&plan, &desc, nullptr), GetParam().status, GetParam().words);
    EXPECT_EQ(plan, nullptr);
}

constexpr flashscan_status invalid = FLASHSCAN_STATUS_INVALID_ARGUMENT;
const BadSelective bad_descs[] = {
    {"StructSizeShort", [](auto& d) { d.struct_size = 439; }, FLASHSCAN_STATUS_INVALID_STRUCT, {"439", "440"}},
    {"DtypeMissing", [](auto& d) { d.dtype = 0; }, invalid, {"dtype is 0", "DTYPE_F32 (201)"}},
    {"DtypeComplex", [](auto& d) { d.dtype = FLASHSCAN_DTYPE_C64; }, invalid, {"dtype is c64", "f64"}},
    {"MatrixWide", [](auto& d) { d.matrix_dtype = FLASHSCAN_DTYPE_F64; }, invalid, {"matrix_dtype is f64", "f32, c64"}},
    {"MatrixOfNarrowData",
     [](auto& d) { d.dtype = FLASHSCAN_DTYPE_BF16, d.matrix_dtype = FLASHSCAN_DTYPE_C64; },
     invalid,
     {"matrix_dtype is c64 with dtype bf16", "accepted: f32"}},
    {"Layout", [](auto& d) { d.layout = 303; }, invalid, {"layout is 303"}},
    {"Direction", [](auto& d) { d.direction = 2; }, invalid, {"direction is 2"}},
    {"Flags", [](auto& d) { d.flags = 1; }, invalid, {"flags is 1", "SELECTIVE_FLAG_SOFTPLUS (33554432)"}},
    {"Reserved", [](auto& d) { d.reserved = 4; }, invalid, {"reserved is 4"}},
    {"Batch", [](auto& d) { d.batch = -1; }, invalid, {"batch is -1", ">= 0"}},
    {"Time", [](auto& d) { d.time = -1; }, invalid, {"time is -1", ">= 0"}},
    {"Channels", [](auto& d) { d.channels = -1; }, invalid, {"channels is -1", ">= 0"}},
    {"StatesNone", [](auto& d) { d.states = 0; }, invalid, {"states is 0", "1 to 256"}},
    {"StatesMany", [](auto& d) { d.states = 257; }, invalid, {"states is 257", "1 to 256"}},
    {"GroupsUneven", [](auto& d) { d.groups = 3; }, invalid, {"groups is 3 with channels 4", "divisors"}},
    {"GroupsNegative", [](auto& d) { d.groups = -1; }, invalid, {"groups is -1"}},
    {"GroupsOfConstants", [](auto& d) { d.flags = 0; }, invalid, {"groups is 2", "B and C are constant", "0 and 1"}},
    {"PackedBatch", [](auto& d) { d.num_sequences = 2; }, invalid, {"batch is 2", "batch 1"}},
    {"StrideNegative", [](auto& d) { d.delta.time = -3; }, invalid, {"delta.time stride is -3", ">= 0"}},
    {"StridesOfConstant",
     [](auto& d) { d.flags &= ~uint32_t{FLASHSCAN_SELECTIVE_FLAG_B_PER_STEP}, d.grad_b.time = 7; },
     invalid,
     {"grad_b has strides", "constant"}},
    {"StridesOverlap",
     [](auto& d) {
         d.grad_c = {1, 1, 1};
     },
     invalid,
     {"grad_c strides"}},
    {"StatesOverlap", [](auto& d) { d.state_out.row = 1; }, invalid, {"state_out strides"}},
    {"StatePool", [](auto& d) { d.state_pool = -1; }, invalid, {"state_pool is -1"}},
    {"Huge",
     [](auto& d) { d.batch = d.time = int64_t{1} << 30; },
     FLASHSCAN_STATUS_SIZE_OVERFLOW,
     {"batch * time * channels * states"}},
};
INSTANTIATE_TEST_SUITE_P(Api, BadSelectiveDescs, testing::ValuesIn(bad_descs),
                         [](const auto& tested) { return std::string(tested.param.name); });

TEST(Selective, CallsAreRefusedByName) {
    const SelectiveProblem p = small_selective();
    const SelectiveData data = make_data(p);
    const Plan plan(desc_of(p), options_of(p, FLASHSCAN_BACKEND_CPU, ""));
    ASSERT_TRUE(plan) << plan.message();
    for (const auto& [id, word] : {std::pair{FLASHSCAN_ARG_A, "A is not given"},
                                   {FLASHSCAN_ARG_B, "B is not given"},
                                   {FLASHSCAN_ARG_DELTA, "DELTA is not given"},
                                   {FLASHSCAN_ARG_RESET, "RESET is not"}}) {
        Call call = forward_call(p, plan, FLASHSCAN_BACKEND_CPU, data, Guard::end);
        drop(call, id);
        expect_failure(call.run(plan.get()), FLASHSCAN_STATUS_MISSING_ARGUMENT, {word});
        EXPECT_TRUE(call.outputs_untouched());
    }
    Call call = backward_call(p, plan, FLASHSCAN_BACKEND_CPU, data, Guard::end);
    drop(call, FLASHSCAN_ARG_OUTPUT_GATE);
    expect_failure(call.run(plan.get()), FLASHSCAN_STATUS_MISSING_ARGUMENT,
                   {"OUTPUT_GATE is not given", "GRAD|OUTPUT_GATE"});
    EXPECT_TRUE(call.outputs_untouched());
}

TEST(Selective, PlansSayWhatTheyAre) {
    const SelectiveProblem p = small_selective();
    const Plan plan(desc_of(p), options_of(p, FLASHSCAN_BACKEND_CPU, ""));
    ASSERT_TRUE(plan) << plan.message();
    const std::string text = plan.describe();
    EXPECT_NE(text.find("selective f32 BTC b2 t5 c4 n3 g2 b-per-step c-per-step softplus reset"), std::string::npos)
        << text;
    EXPECT_EQ(plan.bytes(FLASHSCAN_PASS_FORWARD, FLASHSCAN_ARG_B), 2 * 5 * 2 * 3 * sizeof(float));
    EXPECT_EQ(plan.bytes(FLASHSCAN_PASS_FORWARD, FLASHSCAN_ARG_A), 4 * 3 * sizeof(float));
    EXPECT_EQ(plan.bytes(FLASHSCAN_PASS_BACKWARD, FLASHSCAN_GRAD | FLASHSCAN_ARG_STATE_IN), 2 * 4 * 3 * sizeof(float));
}

}  // namespace
}  // namespace api
