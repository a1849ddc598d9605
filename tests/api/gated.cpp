// SPDX-License-Identifier: Apache-2.0
// Plans for gated layers with one wrong field, calls with one wrong argument, and what plans say of themselves.
#include <algorithm>

#include "api/fixture.h"
#include "api/sweep.h"
#include "support/gated_check.h"

namespace api {
namespace {

GatedProblem small_gated() {
    return gated_problem_of(
        "gated f32 b2 t5 c3 decay-softplus scale-sqrt input-gate epilogue-silu state-in state-out reset");
}

struct BadGated {
    const char* name;
    std::function<void(flashscan_gated_desc&)> change;
    flashscan_status status;
    std::vector<std::string> words;
};

class BadGatedDescs : public testing::TestWithParam<BadGated> {};

TEST_P(BadGatedDescs, AreRefusedByName) {
    flashscan_gated_desc desc = desc_of(small_gated());
    GetParam().change(desc);
    auto* plan = reinterpret_cast<flashscan_plan*>(0x10);
    expect_failure(flashscan_plan_gated(&plan, &desc, nullptr), GetParam().status, GetParam().words);
    EXPECT_EQ(plan, nullptr);
}

constexpr flashscan_status invalid = FLASHSCAN_STATUS_INVALID_ARGUMENT;
const BadGated bad_descs[] = {
    {"StructSizeShort", [](auto& d) { d.struct_size = 455; }, FLASHSCAN_STATUS_INVALID_STRUCT, {"455", "456"}},
    {"DtypeMissing", [](auto& d) { d.dtype = 0; }, invalid, {"dtype is 0", "DTYPE_F32 (201)"}},
    {"DtypeComplex", [](auto& d) { d.dtype = FLASHSCAN_DTYPE_C64; }, invalid, {"dtype is c64", "f64"}},
    {"GateNarrow", [](auto& d) { d.gate_dtype = FLASHSCAN_DTYPE_F16; }, invalid, {"gate_dtype is f16", "f32"}},
    {"ParamWide", [](auto& d) { d.param_dtype = FLASHSCAN_DTYPE_F64; }, invalid, {"param_dtype is f64", "f32"}},
    {"Layout", [](auto& d) { d.layout = 303; }, invalid, {"layout is 303", "LAYOUT_BCT (302)"}},
    {"Layer",
     [](auto& d) { d.layer = 1607, d.decay = d.scale = d.input_gating = d.epilogue = 0; },
     invalid,
     {"layer is 1607", "GATED_LAYER_RGLRU (1504)"}},
    {"LayerAndPart",
     [](auto& d) { d.layer = FLASHSCAN_GATED_LAYER_HGRN; },
     invalid,
     {"decay is 1606 with layer 1503", "accepted is 0"}},
    {"DecayMissing", [](auto& d) { d.decay = 0; }, invalid, {"decay is 0", "GATED_DECAY_SIGMOID (1603)"}},
    {"Scale", [](auto& d) { d.scale = 1; }, invalid, {"scale is 1;", "GATED_SCALE_SQRT (1703)"}},
    {"Activation", [](auto& d) { d.activation = -1; }, invalid, {"activation is -1", "GATED_ACTIVATION_TANH"}},
    {"InputGating", [](auto& d) { d.input_gating = 2102; }, invalid, {"input_gating is 2102"}},
    {"Epilogue", [](auto& d) { d.epilogue = 2105; }, invalid, {"epilogue is 2105", "TANH_SIGMOID (2104)"}},
    {"Direction", [](auto& d) { d.direction = 2; }, invalid, {"direction is 2"}},
    {"Flags",
     [](auto& d) { d.flags = FLASHSCAN_LINEAR_FLAG_RESET; },
     invalid,
     {"flags is 16", "GATED_FLAG_RESET (1048576)"}},
    {"OffsetsDtype", [](auto& d) { d.offsets_dtype = FLASHSCAN_DTYPE_F32; }, invalid, {"offsets_dtype is f32"}},
    {"Batch", [](auto& d) { d.batch = -1; }, invalid, {"batch is -1", ">= 0"}},
    {"Time", [](auto& d) { d.time = -1; }, invalid, {"time is -1", ">= 0"}},
    {"Channels", [](auto& d) { d.channels = -1; }, invalid, {"channels is -1", ">= 0"}},
    {"PackedBatch", [](auto& d) { d.num_sequences = 2; }, invalid, {"batch is 2", "batch 1"}},
    {"DecayRateNegative", [](auto& d) { d.decay_rate = -8; }, invalid, {"decay_rate is -8"}},
    {"DecayRateUnused",
     [](auto& d) { d.decay = FLASHSCAN_GATED_DECAY_EXP, d.decay_rate = 8; },
     invalid,
     {"decay_rate is 8", "GATED_DECAY_SOFTPLUS"}},
    {"SlopeLimitNan", [](auto& d) { d.sqrt_slope_limit = 0.0 / 0.0; }, invalid, {"sqrt_slope_limit is"}},
    {"SlopeLimitUnused", [](auto& d) { d.scale = 0, d.sqrt_slope_limit = 10; }, invalid, {"sqrt_slope_limit is 10"}},
    {"StrideNegative", [](auto& d) { d.input_gate.time = -3; }, invalid, {"input_gate.time stride is -3", ">= 0"}},
    {"StrideOfNone", [](auto& d) { d.grad_second_gate.time = 3; }, invalid, {"grad_second_gate has strides", "zeros"}},
    {"StridesOverlap",
     [](auto& d) {
         d.grad_output_gate = {1, 1, 1};
     },
     invalid,
     {"grad_output_gate strides"}},
    {"StatesOverlap", [](auto& d) { d.state_out.row = 1; }, invalid, {"state_out strides"}},
    {"Overflow", [](auto& d) { d.time = int64_t{1} << 61; }, FLASHSCAN_STATUS_SIZE_OVERFLOW, {"2^63 - 1"}},
};
INSTANTIATE_TEST_SUITE_P(Gated, BadGatedDescs, testing::ValuesIn(bad_descs),
                         [](const auto& i) { return std::string(i.param.name); });

// Both calls of a small plan, ready to be broken; forward has run.
struct GatedScene {
    explicit GatedScene(const GatedProblem& problem)
        : p(problem), plan(desc_of(p), options_of(p, FLASHSCAN_BACKEND_CPU, "")), data(make_data(p)) {
        if (!plan) throw std::runtime_error(plan.message());
        forward = std::make_unique<Call>(forward_call(p, plan, FLASHSCAN_BACKEND_CPU, data, Guard::end));
        if (forward->run(plan.get()) != FLASHSCAN_STATUS_OK) throw std::runtime_error(flashscan_last_error());
        backward = std::make_unique<Call>(backward_call(p, plan, FLASHSCAN_BACKEND_CPU, data, *forward,
                                                        forward->values(FLASHSCAN_ARG_OUTPUT), Guard::end));
    }
    GatedProblem p;
    Plan plan;
    GatedData data;
    std::unique_ptr<Call> forward, backward;
};

void move_to(Call& call, int32_t id, int32_t other) { call.argument(id).data = call.argument(other).data; }

struct BadGatedCall {
    const char* name;
    int32_t pass;
    std::function<void(Call&)> change;
    flashscan_status status;
    std::vector<std::string> words;
};

class BadGatedCalls : public testing::TestWithParam<BadGatedCall> {};

TEST_P(BadGatedCalls, AreRefusedAndWriteNothing) {
    GatedScene s(small_gated());
    Call& call = GetParam().pass == forward ? *s.forward : *s.backward;
    GetParam().change(call);
    call.prepare();
    expect_failure(call.execute(s.plan.get()), GetParam().status, GetParam().words);
    call.collect();
    EXPECT_TRUE(call.outputs_untouched());
    EXPECT_EQ(call.damage(), "");
}

constexpr int32_t grad = FLASHSCAN_GRAD;
const BadGatedCall bad_calls[] = {
    {"MissingGate",
     forward,
     [](Call& c) { drop(c, FLASHSCAN_ARG_GATE); },
     FLASHSCAN_STATUS_MISSING_ARGUMENT,
     {"GATE is not given", "120 bytes"}},
    {"MissingInputGate",
     forward,
     [](Call& c) { drop(c, FLASHSCAN_ARG_INPUT_GATE); },
     FLASHSCAN_STATUS_MISSING_ARGUMENT,
     {"INPUT_GATE is not given"}},
    {"MissingOutputGate",
     backward,
     [](Call& c) { drop(c, FLASHSCAN_ARG_OUTPUT_GATE); },
     FLASHSCAN_STATUS_MISSING_ARGUMENT,
     {"OUTPUT_GATE is not given"}},
    {"MissingParam",
     forward,
     [](Call& c) { drop(c, FLASHSCAN_ARG_PARAM); },
     FLASHSCAN_STATUS_MISSING_ARGUMENT,
     {"PARAM is not given", "12 bytes"}},
    {"MissingInput",
     backward,
     [](Call& c) { drop(c, FLASHSCAN_ARG_INPUT); },
     FLASHSCAN_STATUS_MISSING_ARGUMENT,
     {"INPUT is not given"}},
    {"MissingReserve",
     backward,
     [](Call& c) { drop(c, FLASHSCAN_ARG_RESERVE); },
     FLASHSCAN_STATUS_MISSING_ARGUMENT,
     {"RESERVE is not given", "184 bytes"}},
    {"OutputOfBackward",
     backward,
     [](Call& c) {
         c.arguments().push_back({FLASHSCAN_ARG_OUTPUT, 0, c.argument(FLASHSCAN_ARG_INPUT).data, 120});
     },
     FLASHSCAN_STATUS_UNKNOWN_ARGUMENT,
     {"2003", "backward"}},
    {"SecondGateOfNone",
     forward,
     [](Call& c) {
         c.arguments().push_back({FLASHSCAN_ARG_SECOND_GATE, 0, c.argument(FLASHSCAN_ARG_INPUT).data, 120});
     },
     FLASHSCAN_STATUS_UNKNOWN_ARGUMENT,
     {"2015 (SECOND_GATE)", "forward"}},
    {"Doubled",
     forward,
     [](Call& c) { c.arguments().push_back(c.argument(FLASHSCAN_ARG_BIAS)); },
     FLASHSCAN_STATUS_DOUBLED_ARGUMENT,
     {"BIAS"}},
    {"BiasShort",
     forward,
     [](Call& c) { c.argument(FLASHSCAN_ARG_BIAS).bytes = 11; },
     FLASHSCAN_STATUS_BUFFER_TOO_SMALL,
     {"BIAS has 11 bytes", "12"}},
    {"GateAskew",
     forward,
     [](Call& c) { c.argument(FLASHSCAN_ARG_GATE).data = static_cast<char*>(c.argument(FLASHSCAN_ARG_GATE).data) + 2; },
     FLASHSCAN_STATUS_INVALID_POINTER,
     {"GATE", "4 bytes"}},
    {"ReserveAskew",
     forward,
     [](Call& c) {
         c.argument(FLASHSCAN_ARG_RESERVE).data = static_cast<char*>(c.argument(FLASHSCAN_ARG_RESERVE).data) + 32;
     },
     FLASHSCAN_STATUS_INVALID_POINTER,
     {"RESERVE", "64 bytes"}},
    {"OutputOnGate",
     forward,
     [](Call& c) { move_to(c, FLASHSCAN_ARG_OUTPUT, FLASHSCAN_ARG_GATE); },
     FLASHSCAN_STATUS_ALIASING,
     {"GATE and OUTPUT", "OUTPUT and INPUT"}},
    {"GradGateOnGradOutput",
     backward,
     [](Call& c) { move_to(c, grad | FLASHSCAN_ARG_GATE, grad | FLASHSCAN_ARG_OUTPUT); },
     FLASHSCAN_STATUS_ALIASING,
     {"GRAD|GATE", "GRAD|INPUT and GRAD|OUTPUT"}},
    {"GradInputOnInput",
     backward,
     [](Call& c) { move_to(c, grad | FLASHSCAN_ARG_INPUT, FLASHSCAN_ARG_INPUT); },
     FLASHSCAN_STATUS_ALIASING,
     {"INPUT", "GRAD|INPUT"}},
    {"NothingToWrite",
     backward,
     [](Call& c) {
         auto& list = c.arguments();
         std::erase_if(list, [](const flashscan_arg& a) {
             return (a.id & grad) != 0 && a.id != (grad | FLASHSCAN_ARG_OUTPUT) &&
                    a.id != (grad | FLASHSCAN_ARG_STATE_OUT);
         });
     },
     FLASHSCAN_STATUS_MISSING_ARGUMENT,
     {"none of", "GRAD|INPUT_GATE", "GRAD|PARAM"}},
    {"ReserveOfNone",
     backward,
     [](Call& c) { c.set_bytes(FLASHSCAN_ARG_RESERVE, Bytes(184)); },
     invalid,
     {"RESERVE was not filled"}},
    {"StateOfNone",
     backward,
     [](Call& c) { drop(c, FLASHSCAN_ARG_STATE_IN); },
     invalid,
     {"STATE_IN is not given", "had one"}},
};
INSTANTIATE_TEST_SUITE_P(Gated, BadGatedCalls, testing::ValuesIn(bad_calls),
                         [](const auto& i) { return std::string(i.param.name); });

TEST(GatedPlans, SayWhatTheyTake) {
    const Plan plan(desc_of(small_gated()), options_of(small_gated(), FLASHSCAN_BACKEND_CPU, ""));
    const auto ids = [&](int32_t pass) {
        flashscan_arg_info infos[32] = {};
        infos[0].struct_size = sizeof(flashscan_arg_info);
        int32_t count = 0;
        EXPECT_EQ(flashscan_plan_args(plan.get(), pass, infos, 32, &count), FLASHSCAN_STATUS_OK);
        std::vector<std::string> names;
        for (int32_t i = 0; i < count; ++i)
            names.push_back(std::string(infos[i].optional != 0 ? "?" : "") + infos[i].name);
        return names;
    };
    const std::vector<std::string> both = {"GATE", "INPUT_GATE", "OUTPUT_GATE", "PARAM", "?BIAS", "?STATE_IN"};
    std::vector<std::string> want = both;
    for (const char* name : {"INPUT", "OUTPUT", "?STATE_OUT", "?RESERVE", "RESET", "?SCRATCH"}) want.emplace_back(name);
    EXPECT_EQ(ids(forward), want);
    want = both;
    for (const char* name :
         {"INPUT", "RESERVE", "GRAD|OUTPUT", "?GRAD|STATE_OUT", "?GRAD|INPUT", "?GRAD|GATE", "?GRAD|INPUT_GATE",
          "?GRAD|OUTPUT_GATE", "?GRAD|PARAM", "?GRAD|BIAS", "?GRAD|STATE_IN", "RESET", "?SCRATCH"})
        want.emplace_back(name);
    EXPECT_EQ(ids(backward), want);
    for (const char* words :
         {"gated f32 BTC b2 t5 c3 decay-softplus scale-sqrt input-gate epilogue-silu rate8 reset", "reserve 184 bytes"})
        EXPECT_NE(plan.describe().find(words), std::string::npos) << plan.describe();
    flashscan_pass_info info{};
    info.struct_size = sizeof info;
    ASSERT_EQ(flashscan_plan_info(plan.get(), backward, &info), FLASHSCAN_STATUS_OK);
    EXPECT_EQ(info.reserve_bytes, 184U);
}

TEST(GatedPlans, NeedOutputForGradientsOfGatesAlone) {
    GatedScene s(gated_problem_of("gated mingru f32 b2 t5 c3"));
    Call& call = *s.backward;
    drop(call, FLASHSCAN_ARG_OUTPUT);
    call.prepare();
    expect_failure(call.execute(s.plan.get()), FLASHSCAN_STATUS_MISSING_ARGUMENT,
                   {"OUTPUT is not given", "GRAD|GATE needs it"});
    drop(call, grad | FLASHSCAN_ARG_GATE);
    drop(call, grad | FLASHSCAN_ARG_BIAS);
    EXPECT_EQ(call.execute(s.plan.get()), FLASHSCAN_STATUS_OK) << flashscan_last_error();
}

TEST(GatedPlans, ForwardWithoutReserveIsTheSame) {
    GatedScene s(small_gated());
    const Values with = s.forward->values(FLASHSCAN_ARG_OUTPUT);
    drop(*s.forward, FLASHSCAN_ARG_RESERVE);
    ASSERT_EQ(s.forward->run(s.plan.get()), FLASHSCAN_STATUS_OK) << flashscan_last_error();
    EXPECT_TRUE(s.forward->values(FLASHSCAN_ARG_OUTPUT) == with);
}

}  // namespace
}  // namespace api
