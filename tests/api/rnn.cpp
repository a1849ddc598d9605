// SPDX-License-Identifier: Apache-2.0
// Plans for recurrent networks with one wrong field, calls with one wrong argument, and what plans say of themselves.
#include "api/scene.h"
#include "support/rnn_call.h"

namespace api {
namespace {

RnnProblem small_rnn() { return rnn_problem_of("rnn lstm bwd f32 b2 t5 h2 d3 state-in state-out reset"); }

struct BadRnn {
    const char* name;
    std::function<void(flashscan_rnn_desc&)> change;
    flashscan_status status;
    std::vector<std::string> words;
};

class BadRnnDescs : public testing::TestWithParam<BadRnn> {};

TEST_P(BadRnnDescs, AreRefusedByName) {
    flashscan_rnn_desc desc = desc_of(small_rnn());
    GetParam().change(desc);
    auto* plan = reinterpret_cast<flashscan_plan*>(0x10);
    expect_failure(flashscan_plan_rnn(&plan, &desc, nullptr), GetParam().status, GetParam().words);
    EXPECT_EQ(plan, nullptr);
}

const BadRnn bad_descs[] = {
    {"StructSizeZero",
     [](auto& d) { d.struct_size = 0; },
     FLASHSCAN_STATUS_INVALID_STRUCT,
     {"flashscan_rnn_desc", "is 0"}},
    {"StructSizeShort", [](auto& d) { d.struct_size = 143; }, FLASHSCAN_STATUS_INVALID_STRUCT, {"143", "144"}},
    {"DtypeMissing",
     [](auto& d) { d.dtype = 0; },
     FLASHSCAN_STATUS_INVALID_ARGUMENT,
     {"dtype is 0", "DTYPE_F32 (201)"}},
    {"DtypeComplex",
     [](auto& d) { d.dtype = FLASHSCAN_DTYPE_C64; },
     FLASHSCAN_STATUS_INVALID_ARGUMENT,
     {"dtype is c64", "f64"}},
    {"WeightNarrow",
     [](auto& d) { d.weight_dtype = FLASHSCAN_DTYPE_BF16; },
     FLASHSCAN_STATUS_INVALID_ARGUMENT,
     {"weight_dtype is bf16", "f32"}},
    {"WeightOtherHalf",
     [](auto& d) { d.dtype = FLASHSCAN_DTYPE_F16, d.weight_dtype = FLASHSCAN_DTYPE_BF16; },
     FLASHSCAN_STATUS_INVALID_ARGUMENT,
     {"weight_dtype is bf16", "f16 and f32"}},
    {"Layout", [](auto& d) { d.layout = 2; }, FLASHSCAN_STATUS_INVALID_ARGUMENT, {"layout is 2", "LAYOUT_TBGHD (304)"}},
    {"Cell", [](auto& d) { d.cell = 6; }, FLASHSCAN_STATUS_INVALID_ARGUMENT, {"cell is 6", "CELL_LSTM (901)"}},
    {"CellNegative", [](auto& d) { d.cell = -1; }, FLASHSCAN_STATUS_INVALID_ARGUMENT, {"cell is -1"}},
    {"Direction", [](auto& d) { d.direction = 2; }, FLASHSCAN_STATUS_INVALID_ARGUMENT, {"direction is 2"}},
    {"Flags",
     [](auto& d) { d.flags = 8; },
     FLASHSCAN_STATUS_INVALID_ARGUMENT,
     {"flags is 8", "RNN_FLAG_ALLOW_TF32 (2048)"}},
    {"OffsetsDtype",
     [](auto& d) { d.offsets_dtype = FLASHSCAN_DTYPE_F32; },
     FLASHSCAN_STATUS_INVALID_ARGUMENT,
     {"offsets_dtype is f32", "i32, i64"}},
    {"Batch", [](auto& d) { d.batch = -1; }, FLASHSCAN_STATUS_INVALID_ARGUMENT, {"batch is -1", ">= 0"}},
    {"Time", [](auto& d) { d.time = -1; }, FLASHSCAN_STATUS_INVALID_ARGUMENT, {"time is -1", ">= 0"}},
    {"Heads", [](auto& d) { d.heads = 0; }, FLASHSCAN_STATUS_INVALID_ARGUMENT, {"heads is 0", ">= 1"}},
    {"HeadDim", [](auto& d) { d.head_dim = 0; }, FLASHSCAN_STATUS_INVALID_ARGUMENT, {"head_dim is 0", ">= 1"}},
    {"PackedBatch", [](auto& d) { d.num_sequences = 2; }, FLASHSCAN_STATUS_INVALID_ARGUMENT, {"batch is 2", "batch 1"}},
    {"NumSequences", [](auto& d) { d.num_sequences = -2; }, FLASHSCAN_STATUS_INVALID_ARGUMENT, {"num_sequences is -2"}},
    {"ClipNegative",
     [](auto& d) { d.recurrent_clip = -1; },
     FLASHSCAN_STATUS_INVALID_ARGUMENT,
     {"recurrent_clip is -1"}},
    {"ClipNan",
     [](auto& d) { d.recurrent_clip = 0.0 / 0.0; },
     FLASHSCAN_STATUS_INVALID_ARGUMENT,
     {"recurrent_clip is"}},
    {"ClipInfinite",
     [](auto& d) { d.recurrent_clip = 1e308 * 10; },
     FLASHSCAN_STATUS_INVALID_ARGUMENT,
     {"recurrent_clip is inf"}},
    {"WeightOverflow",
     [](auto& d) { d.head_dim = int64_t{1} << 31; },
     FLASHSCAN_STATUS_SIZE_OVERFLOW,
     {"WEIGHT", "2^63 - 1"}},
    {"InputOverflow",
     [](auto& d) { d.batch = d.time = int64_t{1} << 28; },
     FLASHSCAN_STATUS_SIZE_OVERFLOW,
     {"2^63 - 1"}},
};
INSTANTIATE_TEST_SUITE_P(Rnn, BadRnnDescs, testing::ValuesIn(bad_descs),
                         [](const auto& i) { return std::string(i.param.name); });

// Both calls of a small training plan, ready to be broken; forward has run.
struct RnnScene {
    explicit RnnScene(const RnnProblem& problem)
        : p(problem), plan(desc_of(p), options_of(p, FLASHSCAN_BACKEND_CPU, "")), data(make_data(p)) {
        if (!plan) throw std::runtime_error(plan.message());
        forward = std::make_unique<Call>(forward_call(p, plan, FLASHSCAN_BACKEND_CPU, data, Guard::end));
        if (forward->run(plan.get()) != FLASHSCAN_STATUS_OK) throw std::runtime_error(flashscan_last_error());
        backward = std::make_unique<Call>(backward_call(p, plan, FLASHSCAN_BACKEND_CPU, data, *forward, Guard::end));
    }
    RnnProblem p;
    Plan plan;
    RnnData data;
    std::unique_ptr<Call> forward, backward;
};

struct BadRnnCall {
    const char* name;
    int32_t pass;
    std::function<void(Call&)> change;
    flashscan_status status;
    std::vector<std::string> words;
};

class BadRnnCalls : public testing::TestWithParam<BadRnnCall> {};

TEST_P(BadRnnCalls, AreRefusedAndWriteNothing) {
    RnnScene s(small_rnn());
    Call& call = GetParam().pass == FLASHSCAN_PASS_FORWARD ? *s.forward : *s.backward;
    GetParam().change(call);
    call.prepare();
    expect_failure(call.execute(s.plan.get()), GetParam().status, GetParam().words);
    call.collect();
    EXPECT_TRUE(call.outputs_untouched());
    EXPECT_EQ(call.damage(), "");
}

constexpr int32_t fwd = FLASHSCAN_PASS_FORWARD, bwd = FLASHSCAN_PASS_BACKWARD;

const BadRnnCall bad_calls[] = {
    {"MissingWeight",
     fwd,
     [](Call& c) { drop(c, FLASHSCAN_ARG_WEIGHT); },
     FLASHSCAN_STATUS_MISSING_ARGUMENT,
     {"WEIGHT is not given", "288"}},
    {"MissingReserve",
     fwd,
     [](Call& c) { drop(c, FLASHSCAN_ARG_RESERVE); },
     FLASHSCAN_STATUS_MISSING_ARGUMENT,
     {"RESERVE is not given"}},
    {"MissingReset", fwd, [](Call& c) { drop(c, FLASHSCAN_ARG_RESET); }, FLASHSCAN_STATUS_MISSING_ARGUMENT, {"RESET"}},
    {"ShortBias",
     fwd,
     [](Call& c) { c.argument(FLASHSCAN_ARG_BIAS).bytes = 95; },
     FLASHSCAN_STATUS_BUFFER_TOO_SMALL,
     {"BIAS has 95 bytes", "96"}},
    {"ShortReserve",
     fwd,
     [](Call& c) { c.argument(FLASHSCAN_ARG_RESERVE).bytes -= 1; },
     FLASHSCAN_STATUS_BUFFER_TOO_SMALL,
     {"RESERVE has"}},
    {"ReserveMisaligned",
     fwd,
     [](Call& c) {
         flashscan_arg& reserve = c.argument(FLASHSCAN_ARG_RESERVE);
         reserve.data = static_cast<char*>(reserve.data) + 32;
     },
     FLASHSCAN_STATUS_INVALID_POINTER,
     {"RESERVE is at", "64"}},
    {"Gate",
     fwd,
     [](Call& c) { c.argument(FLASHSCAN_ARG_BIAS).id = FLASHSCAN_ARG_GATE; },
     FLASHSCAN_STATUS_UNKNOWN_ARGUMENT,
     {"id is 2002 (GATE)"}},
    {"StateOutOnStateIn",
     fwd,
     [](Call& c) { c.argument(FLASHSCAN_ARG_STATE_OUT).data = c.argument(FLASHSCAN_ARG_STATE_IN).data; },
     FLASHSCAN_STATUS_ALIASING,
     {"STATE_IN and STATE_OUT overlap", "no argument that is written may overlap"}},
    {"OutputOnInput",
     fwd,
     [](Call& c) { c.argument(FLASHSCAN_ARG_OUTPUT).data = c.argument(FLASHSCAN_ARG_INPUT).data; },
     FLASHSCAN_STATUS_ALIASING,
     {"OUTPUT and INPUT overlap"}},
    {"MissingOutput",
     bwd,
     [](Call& c) { drop(c, FLASHSCAN_ARG_OUTPUT); },
     FLASHSCAN_STATUS_MISSING_ARGUMENT,
     {"OUTPUT is not given"}},
    {"BackwardReserve",
     bwd,
     [](Call& c) { drop(c, FLASHSCAN_ARG_RESERVE); },
     FLASHSCAN_STATUS_MISSING_ARGUMENT,
     {"RESERVE is not given"}},
    {"InputInBackward",
     bwd,
     [](Call& c) { c.argument(FLASHSCAN_ARG_STATE_IN).id = FLASHSCAN_ARG_INPUT; },
     FLASHSCAN_STATUS_UNKNOWN_ARGUMENT,
     {"id is 2001 (INPUT)", "backward"}},
    {"NoGradient",
     bwd,
     [](Call& c) {
         for (const int32_t id :
              {FLASHSCAN_ARG_INPUT, FLASHSCAN_ARG_WEIGHT, FLASHSCAN_ARG_BIAS, FLASHSCAN_ARG_STATE_IN})
             drop(c, grad | id);
     },
     FLASHSCAN_STATUS_MISSING_ARGUMENT,
     {"none of GRAD|INPUT, GRAD|WEIGHT, GRAD|BIAS, GRAD|STATE_IN"}},
    {"GradWeightOnWeight",
     bwd,
     [](Call& c) { c.argument(grad | FLASHSCAN_ARG_WEIGHT).data = c.argument(FLASHSCAN_ARG_WEIGHT).data; },
     FLASHSCAN_STATUS_ALIASING,
     {"WEIGHT and GRAD|WEIGHT overlap"}},
};
INSTANTIATE_TEST_SUITE_P(Rnn, BadRnnCalls, testing::ValuesIn(bad_calls),
                         [](const auto& i) { return std::string(i.param.name); });

TEST(RnnPlan, WithoutTrainingHasNoBackward) {
    RnnProblem p = small_rnn();
    p.backward = false;
    const Plan plan(desc_of(p), options_of(p, FLASHSCAN_BACKEND_CPU, ""));
    ASSERT_TRUE(plan) << plan.message();
    size_t bytes = 0;
    expect_failure(flashscan_plan_arg_bytes(plan.get(), fwd, FLASHSCAN_ARG_RESERVE, &bytes),
                   FLASHSCAN_STATUS_UNKNOWN_ARGUMENT, {"arg_id is 2011"});
    expect_failure(flashscan_plan_arg_bytes(plan.get(), bwd, FLASHSCAN_ARG_WEIGHT, &bytes),
                   FLASHSCAN_STATUS_INVALID_ARGUMENT, {"no backward pass", "RNN_FLAG_TRAINING"});
    expect_failure(flashscan_execute(plan.get(), FLASHSCAN_PASS_BACKWARD, nullptr, 0, nullptr),
                   FLASHSCAN_STATUS_INVALID_ARGUMENT, {"no backward pass", "RNN_FLAG_TRAINING"});
}

TEST(RnnPlan, KnowsItsSizesAndDescribesItself) {
    RnnProblem p = rnn_problem_of("rnn gru bwd bf16 b2 t5 h2 d3 weight-f32");
    const Plan plan(desc_of(p), options_of(p, FLASHSCAN_BACKEND_CPU, ""));
    ASSERT_TRUE(plan) << plan.message();
    EXPECT_EQ(plan.bytes(fwd, FLASHSCAN_ARG_INPUT), 2U * 5 * 3 * 6 * 2);
    EXPECT_EQ(plan.bytes(fwd, FLASHSCAN_ARG_WEIGHT), 3U * 2 * 9 * 4);
    EXPECT_EQ(plan.bytes(fwd, FLASHSCAN_ARG_BIAS), 4U * 6 * 4);
    EXPECT_EQ(plan.bytes(fwd, FLASHSCAN_ARG_STATE_OUT), 2U * 6 * 4);
    EXPECT_EQ(plan.bytes(bwd, FLASHSCAN_ARG_RESERVE), plan.bytes(fwd, FLASHSCAN_ARG_RESERVE));
    const std::string text = plan.describe();
    for (const char* word : {"rnn gru bf16 BTGHD b2 t5 h2 d3 weight-f32 training", "kernel ", "reserve "})
        EXPECT_NE(text.find(word), std::string::npos) << word << " is not in: " << text;
}

TEST(RnnPlan, OfHeadsOfOneUnitTellsThatStepsRanInOrder) {
    const RnnProblem p = rnn_problem_of("rnn gru fwd f32 b3 t40 h5 d1");
    const Plan plan(desc_of(p), options_of(p, FLASHSCAN_BACKEND_CPU, ""));
    ASSERT_TRUE(plan) << plan.message();
    const RnnData data = make_data(p);
    Call call = forward_call(p, plan, FLASHSCAN_BACKEND_CPU, data, Guard::end);
    for (const int32_t id : {FLASHSCAN_ARG_ITERATIONS, FLASHSCAN_ARG_RESIDUAL}) {
        EXPECT_EQ(plan.bytes(fwd, id), 3U * 4);
        call.opaque(id, 3 * 4);
    }
    ASSERT_EQ(call.run(plan.get()), FLASHSCAN_STATUS_OK) << flashscan_last_error();
    EXPECT_EQ(call.damage(), "");
    for (const int32_t id : {FLASHSCAN_ARG_ITERATIONS, FLASHSCAN_ARG_RESIDUAL})
        EXPECT_EQ(call.output_bytes().at(id), Bytes(12, 0)) << id;

    const RnnScene larger(small_rnn());
    size_t bytes = 0;
    expect_failure(flashscan_plan_arg_bytes(larger.plan.get(), fwd, FLASHSCAN_ARG_ITERATIONS, &bytes),
                   FLASHSCAN_STATUS_UNKNOWN_ARGUMENT, {"arg_id is 2023"});
}

// RESERVE on the CPU: 64 bytes and G + S values of an element at the most, in the dtype where that is f32 or f64. With
// 16 bits the gates stay in f32 and only one value an element is as small as that.
TEST(RnnPlan, OfTheCpuDoesNotHeedTf32ButKeepsReservesApart) {
    RnnProblem p = rnn_problem_of("rnn lstm bwd f32 b3 t5 h2 d7 state-in state-out");
    RnnScene exact(p);
    p.allow_tf32 = true;
    RnnScene allowed(p);
    EXPECT_TRUE(exact.forward->output_bytes().at(FLASHSCAN_ARG_OUTPUT) ==
                allowed.forward->output_bytes().at(FLASHSCAN_ARG_OUTPUT));
    EXPECT_NE(allowed.plan.describe().find(" tf32"), std::string::npos);
    expect_failure(exact.backward->run(allowed.plan.get()), FLASHSCAN_STATUS_INVALID_ARGUMENT, {"RESERVE"});
    // Other data cannot be rounded so, whatever the flag says.
    p.dtype = p.weight_dtype = FLASHSCAN_DTYPE_F64;
    EXPECT_EQ(RnnScene(p).plan.describe().find(" tf32"), std::string::npos);
}

TEST(RnnPlan, ReserveHasAtMostAValueForEachGateAndState) {
    for (const std::string& cell : cell_words())
        for (const char* dtype : {"f32", "f64", "bf16"}) {
            const RnnProblem p = rnn_problem_of(std::string("rnn bwd b2 t5 h3 d7 ") + cell + " " + dtype);
            if (p.dtype == FLASHSCAN_DTYPE_BF16 && p.gates() > 1) continue;
            const Plan plan(desc_of(p), options_of(p, FLASHSCAN_BACKEND_CPU, ""));
            ASSERT_TRUE(plan) << plan.message();
            const auto most =
                (p.gates() + p.states()) * p.batch * p.time * p.width() * static_cast<int64_t>(size_of(p.dtype));
            EXPECT_LE(static_cast<int64_t>(plan.bytes(fwd, FLASHSCAN_ARG_RESERVE)), most + 64) << text_of(p);
        }
}

TEST(RnnPlan, AnEmptyReserveMayBeAnywhere) {
    const RnnProblem p = rnn_problem_of("rnn elman bwd f32 b2 t0 h1 d3");
    const Plan plan(desc_of(p), options_of(p, FLASHSCAN_BACKEND_CPU, ""));
    ASSERT_TRUE(plan) << plan.message();
    ASSERT_EQ(plan.bytes(fwd, FLASHSCAN_ARG_RESERVE), 0U);
    Call call = forward_call(p, plan, FLASHSCAN_BACKEND_CPU, make_data(p), Guard::end);
    for (void* place : {static_cast<void*>(nullptr), reinterpret_cast<void*>(0x11)}) {
        call.argument(FLASHSCAN_ARG_RESERVE).data = place;
        EXPECT_EQ(call.run(plan.get()), FLASHSCAN_STATUS_OK) << flashscan_last_error();
    }
}

TEST(RnnPlan, BackendsWithoutKernelsSaySo) {
    if (const char* reason = unavailable(FLASHSCAN_BACKEND_CUDA)) GTEST_SKIP() << reason;
    const Plan plan(desc_of(small_rnn()), options_of(small_rnn(), FLASHSCAN_BACKEND_CUDA, ""));
    if (plan) GTEST_SKIP() << "the cuda backend has kernels for recurrent networks";
    EXPECT_EQ(plan.status(), FLASHSCAN_STATUS_UNSUPPORTED);
    EXPECT_NE(plan.message().find("no cuda kernel takes rnn lstm"), std::string::npos) << plan.message();
}

TEST(RnnPlan, AcceptsALongerDescriptorOfZeros) {
    struct Newer {
        flashscan_rnn_desc desc;
        int64_t later;
    } newer{desc_of(small_rnn()), 0};
    newer.desc.struct_size = sizeof newer;
    flashscan_plan* plan = nullptr;
    EXPECT_EQ(flashscan_plan_rnn(&plan, &newer.desc, nullptr), FLASHSCAN_STATUS_OK) << flashscan_last_error();
    flashscan_plan_destroy(plan);
    newer.later = 1;
    expect_failure(flashscan_plan_rnn(&plan, &newer.desc, nullptr), FLASHSCAN_STATUS_STRUCT_TOO_NEW,
                   {"flashscan_rnn_desc"});
}

}  // namespace
}  // namespace api
