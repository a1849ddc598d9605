// SPDX-License-Identifier: Apache-2.0
// Plans for associative operators with one wrong field, calls with one wrong argument, custom operators that fail.
#include <array>

#include "api/fixture.h"
#include "support/operator_problem.h"

namespace api {
namespace {

using namespace support;

constexpr int32_t fwd = FLASHSCAN_PASS_FORWARD, bwd = FLASHSCAN_PASS_BACKWARD, grad = FLASHSCAN_GRAD;

void add_floats(void*, const void* l, const void* r, void* out) {
    *static_cast<float*>(out) = *static_cast<const float*>(l) + *static_cast<const float*>(r);
}
void add_floats_adjoint(void*, const void*, const void*, const void* g, void* gl, void* gr) {
    *static_cast<float*>(gl) = *static_cast<float*>(gr) = *static_cast<const float*>(g);
}
// Fails with the number that its state points to.
int32_t failing(void* state, const void*, int64_t, const void*, int64_t, void*, int64_t, int64_t, void*) {
    return *static_cast<int32_t*>(state);
}

flashscan_custom_operator small_custom() {
    flashscan_custom_operator custom{};
    custom.struct_size = sizeof custom;
    custom.element_bytes = 4;
    custom.host = add_floats;
    return custom;
}

flashscan_operator_desc custom_desc(const flashscan_custom_operator& custom, int64_t time = 5) {
    flashscan_operator_desc desc{};
    desc.struct_size = sizeof desc;
    desc.kind = FLASHSCAN_OPERATOR_CUSTOM;
    desc.batch = desc.channels = 1;
    desc.time = time;
    desc.custom = &custom;
    return desc;
}

struct BadOperator {
    const char* name;
    std::function<void(flashscan_operator_desc&)> change;
    flashscan_status status;
    std::vector<std::string> words;
};

class BadOperatorDescs : public testing::TestWithParam<BadOperator> {};

TEST_P(BadOperatorDescs, AreRefusedByName) {
    flashscan_operator_desc desc = desc_of(operator_problem_of("operator matmul f32 b2 t5 c3 d4"));
    GetParam().change(desc);
    auto* plan = reinterpret_cast<flashscan_plan*>(0x10);
    expect_failure(flashscan_plan_operator(&plan, &desc, nullptr), GetParam().status, GetParam().words);
    EXPECT_EQ(plan, nullptr);
}

const flashscan_custom_operator some_custom = small_custom();
constexpr flashscan_status invalid = FLASHSCAN_STATUS_INVALID_ARGUMENT;

const BadOperator bad_descs[] = {
    {"StructSizeZero", [](auto& d) { d.struct_size = 0; }, FLASHSCAN_STATUS_INVALID_STRUCT, {"operator_desc", "is 0"}},
    {"StructSizeShort", [](auto& d) { d.struct_size = 143; }, FLASHSCAN_STATUS_INVALID_STRUCT, {"143", "144"}},
    {"DtypeMissing", [](auto& d) { d.dtype = 0; }, invalid, {"dtype is 0", "DTYPE_F32 (201)", "DTYPE_C128 (206)"}},
    {"DtypeIndex", [](auto& d) { d.dtype = FLASHSCAN_DTYPE_I32; }, invalid, {"dtype is i32"}},
    {"MatricesOfIntegers",
     [](auto& d) { d.dtype = FLASHSCAN_DTYPE_I64; },
     invalid,
     {"dtype is i64", "matmul", "real or complex numbers", "accepted are f32, bf16, f16, f64, c64, c128"}},
    {"LogaddexpOfIntegers",
     [](auto& d) { d.kind = FLASHSCAN_OPERATOR_LOGADDEXP, d.dtype = FLASHSCAN_DTYPE_U8, d.dim = 0; },
     invalid,
     {"dtype is u8", "logaddexp", "real numbers", "accepted are f32, bf16, f16, f64"}},
    {"BitsOfRealNumbers",
     [](auto& d) { d.kind = FLASHSCAN_OPERATOR_XOR, d.dtype = FLASHSCAN_DTYPE_F32, d.dim = 0; },
     invalid,
     {"dtype is f32", "xor", "integers", "accepted are i32, i64, u8"}},
    {"OffsetsOfBytes", [](auto& d) { d.offsets_dtype = FLASHSCAN_DTYPE_U8; }, invalid, {"offsets_dtype is u8"}},
    {"DtypeWithoutOrder",
     [](auto& d) { d.kind = FLASHSCAN_OPERATOR_MAX, d.dtype = FLASHSCAN_DTYPE_C64, d.dim = 0; },
     invalid,
     {"dtype is c64", "max", "real"}},
    {"Kind", [](auto& d) { d.kind = 8; }, invalid, {"kind is 8", "OPERATOR_ADD (1001)", "OPERATOR_CUSTOM (1008)"}},
    {"Layout", [](auto& d) { d.layout = 2; }, invalid, {"layout is 2", "LAYOUT_BCT (302)"}},
    {"Mode", [](auto& d) { d.mode = 3; }, invalid, {"mode is 3", "MODE_REDUCTION (1103)"}},
    {"Direction", [](auto& d) { d.direction = -1; }, invalid, {"direction is -1"}},
    {"Flags", [](auto& d) { d.flags = 2; }, invalid, {"flags is 2", "OPERATOR_FLAG_ALLOW_TF32 (65536)"}},
    {"Batch", [](auto& d) { d.batch = -1; }, invalid, {"batch is -1"}},
    {"Time", [](auto& d) { d.time = -1; }, invalid, {"time is -1"}},
    {"Channels", [](auto& d) { d.channels = -1; }, invalid, {"channels is -1"}},
    {"DimMissing", [](auto& d) { d.dim = 0; }, invalid, {"dim is 0", "matmul", "1 to 1024"}},
    {"DimLarge", [](auto& d) { d.dim = 1025; }, invalid, {"dim is 1025", "1 to 1024"}},
    {"DimOfNumbers", [](auto& d) { d.kind = FLASHSCAN_OPERATOR_ADD; }, invalid, {"dim is 4", "add", "accepted is 0"}},
    {"PackedBatch", [](auto& d) { d.num_sequences = 2; }, invalid, {"batch is 2", "batch 1"}},
    {"OffsetsDtype", [](auto& d) { d.offsets_dtype = FLASHSCAN_DTYPE_F32; }, invalid, {"offsets_dtype is f32"}},
    {"CustomMissing",
     [](auto& d) { d.kind = FLASHSCAN_OPERATOR_CUSTOM, d.dtype = 0, d.dim = 0; },
     invalid,
     {"custom is NULL"}},
    {"CustomUnused", [](auto& d) { d.custom = &some_custom; }, invalid, {"custom is given", "matmul"}},
    {"Overflow", [](auto& d) { d.time = int64_t{1} << 58; }, FLASHSCAN_STATUS_SIZE_OVERFLOW, {"2^63 - 1"}},
};
INSTANTIATE_TEST_SUITE_P(Operator, BadOperatorDescs, testing::ValuesIn(bad_descs),
                         [](const auto& i) { return std::string(i.param.name); });

struct BadCustom {
    const char* name;
    std::function<void(flashscan_custom_operator&, flashscan_operator_desc&)> change;
    flashscan_status status;
    std::vector<std::string> words;
};

class BadCustoms : public testing::TestWithParam<BadCustom> {};

TEST_P(BadCustoms, AreRefusedByName) {
    flashscan_custom_operator custom = small_custom();
    flashscan_operator_desc desc = custom_desc(custom);
    GetParam().change(custom, desc);
    flashscan_plan* plan = nullptr;
    expect_failure(flashscan_plan_operator(&plan, &desc, nullptr), GetParam().status, GetParam().words);
}

const BadCustom bad_customs[] = {
    {"StructSize",
     [](auto& c, auto&) { c.struct_size = 8; },
     FLASHSCAN_STATUS_INVALID_STRUCT,
     {"custom_operator", "is 8"}},
    {"NoBytes", [](auto& c, auto&) { c.element_bytes = 0; }, invalid, {"custom.element_bytes is 0", "1 to 4096"}},
    {"ManyBytes", [](auto& c, auto&) { c.element_bytes = 4097; }, invalid, {"custom.element_bytes is 4097"}},
    {"Nothing", [](auto& c, auto&) { c.host = nullptr; }, invalid, {"none of host, batched and code"}},
    {"CodeKind", [](auto& c, auto&) { c.code_kind = 3; }, invalid, {"custom.code_kind is 3", "CODE_LTO_IR (1202)"}},
    {"CodeMissing",
     [](auto& c, auto&) { c.code_kind = FLASHSCAN_CODE_CUDA_SOURCE; },
     invalid,
     {"custom.code is empty"}},
    {"CodeWithAZero",
     [](auto& c, auto&) { c.code_kind = FLASHSCAN_CODE_CUDA_SOURCE, c.code = "x\0y", c.code_bytes = 3, c.name = "f"; },
     invalid,
     {"custom.code has a zero at byte 1 of code_bytes 3", "text without one"}},
    {"NameMissing",
     [](auto& c, auto&) { c.code_kind = FLASHSCAN_CODE_CUDA_SOURCE, c.code = "x", c.code_bytes = 1; },
     invalid,
     {"custom.name is not given"}},
    {"AdjointAlone",
     [](auto& c, auto&) {
         c.batched = failing;
         c.host = nullptr;
         c.host_adjoint = add_floats_adjoint;
     },
     invalid,
     {"custom.host_adjoint", "without host"}},
    {"AdjointWithoutDtype",
     [](auto& c, auto&) { c.host_adjoint = add_floats_adjoint; },
     invalid,
     {"dtype is 0", "adjoint"}},
    {"Dtype",
     [](auto&, auto& d) { d.dtype = FLASHSCAN_DTYPE_BF16; },
     invalid,
     {"dtype with kind custom is bf16", "f64"}},
    {"Multiple",
     [](auto&, auto& d) { d.dtype = FLASHSCAN_DTYPE_F64; },
     invalid,
     {"element_bytes is 4", "8 bytes", "f64"}},
    {"DeviceCodeAlone",
     [](auto& c, auto&) {
         c.host = nullptr;
         c.code_kind = FLASHSCAN_CODE_CUDA_SOURCE, c.code = "x", c.code_bytes = 1, c.name = "f";
     },
     FLASHSCAN_STATUS_UNSUPPORTED,
     {"no cpu kernel takes operator custom bytes4", "neither a host function nor a batched callback"}},
};
INSTANTIATE_TEST_SUITE_P(Operator, BadCustoms, testing::ValuesIn(bad_customs),
                         [](const auto& i) { return std::string(i.param.name); });

struct Created {
    explicit Created(const flashscan_operator_desc& desc) { status = flashscan_plan_operator(&plan, &desc, nullptr); }
    ~Created() { flashscan_plan_destroy(plan); }
    Created(const Created&) = delete;
    Created& operator=(const Created&) = delete;
    flashscan_plan* plan = nullptr;
    flashscan_status status;
};

TEST(OperatorPlan, KnowsItsSizesAndDescribesItself) {
    const OperatorProblem p = operator_problem_of("operator affine reduction bf16 b2 t5 c3 d4");
    const flashscan_operator_desc desc = desc_of(p);
    const Created made(desc);
    ASSERT_EQ(made.status, FLASHSCAN_STATUS_OK) << flashscan_last_error();
    const auto bytes = [&](int32_t pass, int32_t id) {
        size_t size = 0;
        EXPECT_EQ(flashscan_plan_arg_bytes(made.plan, pass, id, &size), FLASHSCAN_STATUS_OK);
        return size;
    };
    EXPECT_EQ(bytes(fwd, FLASHSCAN_ARG_INPUT), 2U * 5 * 3 * 4 * 2);
    EXPECT_EQ(bytes(fwd, FLASHSCAN_ARG_GATE), 2U * 5 * 3 * 16 * 2);
    EXPECT_EQ(bytes(fwd, FLASHSCAN_ARG_OUTPUT), 2U * 3 * 4 * 2);
    EXPECT_EQ(bytes(fwd, FLASHSCAN_ARG_STATE_OUT), 2U * 3 * 4 * 4);
    EXPECT_EQ(bytes(bwd, grad | FLASHSCAN_ARG_GATE), 2U * 5 * 3 * 16 * 2);
    size_t size = 0;
    EXPECT_EQ(flashscan_plan_arg_bytes(made.plan, bwd, FLASHSCAN_ARG_OUTPUT, &size), FLASHSCAN_STATUS_UNKNOWN_ARGUMENT);
    std::array<char, 400> text{};
    ASSERT_EQ(flashscan_plan_describe(made.plan, text.data(), text.size(), nullptr), FLASHSCAN_STATUS_OK);
    EXPECT_NE(std::string(text.data()).find("operator affine bf16 BTC reduction b2 t5 c3 d4"), std::string::npos);
}

TEST(OperatorPlan, IntegersHaveNoBackward) {
    flashscan_operator_desc desc = custom_desc(some_custom);
    desc.kind = FLASHSCAN_OPERATOR_ADD;
    desc.custom = nullptr;
    desc.dtype = FLASHSCAN_DTYPE_I32;
    const Created made(desc);
    ASSERT_EQ(made.status, FLASHSCAN_STATUS_OK) << flashscan_last_error();
    size_t size = 0;
    int32_t count = 0;
    const std::vector<std::string> words{"no backward pass", "dtype is i32", "integers have no gradients"};
    expect_failure(flashscan_execute(made.plan, bwd, nullptr, 0, nullptr), invalid, words);
    expect_failure(flashscan_plan_arg_bytes(made.plan, bwd, grad | FLASHSCAN_ARG_INPUT, &size), invalid, words);
    expect_failure(flashscan_plan_args(made.plan, bwd, nullptr, 0, &count), invalid, words);
    ASSERT_EQ(flashscan_plan_arg_bytes(made.plan, fwd, FLASHSCAN_ARG_STATE_IN, &size), FLASHSCAN_STATUS_OK);
    EXPECT_EQ(size, 4U);
}

TEST(OperatorPlan, IndexBelongsToMinAndMaxForward) {
    size_t size = 0;
    for (const char* line : {"operator min u8 b2 t5 c3", "operator max f64 b2 t5 c3"}) {
        const Created made(desc_of(operator_problem_of(line)));
        ASSERT_EQ(made.status, FLASHSCAN_STATUS_OK) << flashscan_last_error();
        ASSERT_EQ(flashscan_plan_arg_bytes(made.plan, fwd, FLASHSCAN_ARG_INDEX, &size), FLASHSCAN_STATUS_OK);
        EXPECT_EQ(size, 2U * 5 * 3 * 8);
    }
    for (const char* line : {"operator add f32 b2 t5 c3", "operator matmul f32 b1 t2 c1 d1"}) {
        const Created made(desc_of(operator_problem_of(line)));
        expect_failure(flashscan_plan_arg_bytes(made.plan, fwd, FLASHSCAN_ARG_INDEX, &size),
                       FLASHSCAN_STATUS_UNKNOWN_ARGUMENT, {"2022"});
    }
    const Created made(desc_of(operator_problem_of("operator max f32 b2 t5 c3 reduction")));
    ASSERT_EQ(flashscan_plan_arg_bytes(made.plan, fwd, FLASHSCAN_ARG_INDEX, &size), FLASHSCAN_STATUS_OK);
    EXPECT_EQ(size, 2U * 3 * 8);
    expect_failure(flashscan_plan_arg_bytes(made.plan, bwd, FLASHSCAN_ARG_INDEX, &size),
                   FLASHSCAN_STATUS_UNKNOWN_ARGUMENT, {"2022"});
}

TEST(OperatorPlan, BackwardNeedsAnAdjoint) {
    flashscan_custom_operator custom = small_custom();
    const Created without(custom_desc(custom));
    ASSERT_EQ(without.status, FLASHSCAN_STATUS_OK) << flashscan_last_error();
    expect_failure(flashscan_execute(without.plan, FLASHSCAN_PASS_BACKWARD, nullptr, 0, nullptr), invalid,
                   {"no backward pass", "no adjoint"});
    custom.host_adjoint = add_floats_adjoint;
    flashscan_operator_desc desc = custom_desc(custom);
    desc.dtype = FLASHSCAN_DTYPE_F32;
    const Created with(desc);
    ASSERT_EQ(with.status, FLASHSCAN_STATUS_OK) << flashscan_last_error();
    float input[5] = {1, 2, 3, 4, 5}, grad_output[5] = {1, 1, 1, 1, 1}, grad_input[5];
    flashscan_arg args[] = {{FLASHSCAN_ARG_INPUT, 0, input, sizeof input},
                            {grad | FLASHSCAN_ARG_OUTPUT, 0, grad_output, sizeof grad_output},
                            {grad | FLASHSCAN_ARG_INPUT, 0, grad_input, sizeof grad_input}};
    ASSERT_EQ(flashscan_execute(with.plan, FLASHSCAN_PASS_BACKWARD, args, 3, nullptr), FLASHSCAN_STATUS_OK)
        << flashscan_last_error();
    for (int i = 0; i < 5; ++i) EXPECT_EQ(grad_input[i], static_cast<float>(5 - i));
}

TEST(OperatorPlan, GradientsNameWhatTheyNeed) {
    const flashscan_operator_desc desc = desc_of(operator_problem_of("operator matmul f32 b1 t2 c1 d1"));
    const Created made(desc);
    ASSERT_EQ(made.status, FLASHSCAN_STATUS_OK) << flashscan_last_error();
    float input[2] = {1, 2}, grad_output[2] = {1, 1}, grad_input[2], grad_state[1];
    flashscan_arg args[] = {{FLASHSCAN_ARG_INPUT, 0, input, sizeof input},
                            {grad | FLASHSCAN_ARG_OUTPUT, 0, grad_output, sizeof grad_output},
                            {grad | FLASHSCAN_ARG_INPUT, 0, grad_input, sizeof grad_input}};
    expect_failure(flashscan_execute(made.plan, FLASHSCAN_PASS_BACKWARD, args, 3, nullptr),
                   FLASHSCAN_STATUS_MISSING_ARGUMENT, {"OUTPUT is not given", "GRAD|INPUT needs it"});
    args[2] = {grad | FLASHSCAN_ARG_STATE_IN, 0, grad_state, sizeof grad_state};
    expect_failure(flashscan_execute(made.plan, FLASHSCAN_PASS_BACKWARD, args, 3, nullptr),
                   FLASHSCAN_STATUS_MISSING_ARGUMENT, {"STATE_IN is not given", "GRAD|STATE_IN needs it"});
}

TEST(OperatorPlan, ExclusiveScansOfCustomOperatorsNeedAStart) {
    const flashscan_custom_operator custom = small_custom();
    flashscan_operator_desc desc = custom_desc(custom);
    desc.mode = FLASHSCAN_MODE_EXCLUSIVE;
    const Created made(desc);
    ASSERT_EQ(made.status, FLASHSCAN_STATUS_OK) << flashscan_last_error();
    float input[5] = {}, output[5];
    flashscan_arg args[] = {{FLASHSCAN_ARG_INPUT, 0, input, sizeof input},
                            {FLASHSCAN_ARG_OUTPUT, 0, output, sizeof output}};
    expect_failure(flashscan_execute(made.plan, FLASHSCAN_PASS_FORWARD, args, 2, nullptr),
                   FLASHSCAN_STATUS_MISSING_ARGUMENT, {"STATE_IN is not given"});
}

TEST(OperatorPlan, FailingCallbacksFailTheCall) {
    int32_t result = 0;
    flashscan_custom_operator custom = small_custom();
    custom.host = nullptr;
    custom.batched = failing;
    custom.state = &result;
    const Created made(custom_desc(custom));
    ASSERT_EQ(made.status, FLASHSCAN_STATUS_OK) << flashscan_last_error();
    float input[5] = {}, output[5];
    flashscan_arg args[] = {{FLASHSCAN_ARG_INPUT, 0, input, sizeof input},
                            {FLASHSCAN_ARG_OUTPUT, 0, output, sizeof output}};
    EXPECT_EQ(flashscan_execute(made.plan, FLASHSCAN_PASS_FORWARD, args, 2, nullptr), FLASHSCAN_STATUS_OK)
        << flashscan_last_error();
    result = -7;
    expect_failure(flashscan_execute(made.plan, FLASHSCAN_PASS_FORWARD, args, 2, nullptr),
                   FLASHSCAN_STATUS_CALLBACK_FAILED, {"custom.batched returned -7", "accepted is 0"});
}

TEST(OperatorPlan, BackendsWithoutKernelsSaySo) {
    if (const char* reason = unavailable(FLASHSCAN_BACKEND_CUDA)) GTEST_SKIP() << reason;
    const OperatorProblem p = operator_problem_of("operator add f32 b1 t2 c1");
    flashscan_plan* plan = nullptr;
    const flashscan_operator_desc desc = desc_of(p);
    const flashscan_options options = options_of(p, FLASHSCAN_BACKEND_CUDA, "");
    const flashscan_status status = flashscan_plan_operator(&plan, &desc, &options);
    flashscan_plan_destroy(plan);
    if (status == FLASHSCAN_STATUS_OK) GTEST_SKIP() << "the cuda backend has kernels for operators";
    expect_failure(status, FLASHSCAN_STATUS_UNSUPPORTED, {"no cuda kernel takes operator add"});
}

}  // namespace
}  // namespace api
