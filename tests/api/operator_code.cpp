// SPDX-License-Identifier: Apache-2.0
// Custom operators by device code and callbacks: what is said when something is wrong with them.
#include <cstring>

#include "api/fixture.h"
#include "support/memory.h"
#include "support/operator_problem.h"

namespace api {
namespace {

using namespace support;

constexpr const char* add_code =
    "extern \"C\" __device__ void add(const void* l, const void* r, void* o) {\n"
    "    *(float*)o = *(const float*)l + *(const float*)r;\n"
    "}\n";

class OperatorCode : public testing::Test {
  protected:
    void SetUp() override {
        if (const char* reason = unavailable(FLASHSCAN_BACKEND_CUDA)) GTEST_SKIP() << reason;
        custom.struct_size = sizeof custom;
        custom.element_bytes = 4;
        desc.struct_size = sizeof desc;
        desc.kind = FLASHSCAN_OPERATOR_CUSTOM;
        desc.batch = desc.channels = 1;
        desc.time = 5;
        desc.custom = &custom;
    }
    void give_code(const char* code, const char* name) {
        custom.code_kind = FLASHSCAN_CODE_CUDA_SOURCE;
        custom.code = code;
        custom.code_bytes = std::strlen(code);
        custom.name = name;
    }
    void expect_refusal(flashscan_status status, const std::vector<std::string>& words) const {
        const flashscan_options options = make_options(FLASHSCAN_BACKEND_CUDA, "", 0, false, false);
        auto* plan = reinterpret_cast<flashscan_plan*>(0x10);
        expect_failure(flashscan_plan_operator(&plan, &desc, &options), status, words);
        EXPECT_EQ(plan, nullptr);
    }
    flashscan_custom_operator custom{};
    flashscan_operator_desc desc{};
};

TEST_F(OperatorCode, ACompilerThatIsNotThereIsNamed) {
    give_code(add_code, "add");
    const flashscan_options options = make_options(FLASHSCAN_BACKEND_CUDA, "", 0, false, false);
    if (const Plan plan(desc, options); plan) GTEST_SKIP() << "skipped: NVRTC could be loaded";
    expect_refusal(FLASHSCAN_STATUS_DEPENDENCY_MISSING,
                   {"this plan needs NVRTC", "libnvrtc.so.13", "could not be loaded"});
}

TEST_F(OperatorCode, CompileErrorsComeBackWhole) {
    give_code("extern \"C\" __device__ void add(const void*, const void*, void*) {\n    one = 1;\n    two = 2;\n}\n",
              "add");
    expect_refusal(FLASHSCAN_STATUS_INVALID_ARGUMENT,
                   {"custom.code does not compile", "custom.code(2): error: identifier \"one\" is undefined",
                    "custom.code(3): error: identifier \"two\" is undefined", "2 errors detected"});
}

TEST_F(OperatorCode, WrongNamesAreSaid) {
    give_code(add_code, "ad");
    expect_refusal(FLASHSCAN_STATUS_INVALID_ARGUMENT, {"custom.name is \"ad\", which custom.code does not define"});
    give_code(add_code, "add + 1");
    expect_refusal(FLASHSCAN_STATUS_INVALID_ARGUMENT, {"custom.name is \"add + 1\"", "names of functions"});
    give_code(add_code, "add");
    custom.adjoint_name = "add_adjoint";
    desc.dtype = FLASHSCAN_DTYPE_F32;
    expect_refusal(FLASHSCAN_STATUS_INVALID_ARGUMENT,
                   {"custom.adjoint_name is \"add_adjoint\", which custom.code does not define"});
}

TEST_F(OperatorCode, LtoIrThatIsNone) {
    give_code("no such code", "add");
    custom.code_kind = FLASHSCAN_CODE_LTO_IR;
    expect_refusal(FLASHSCAN_STATUS_INVALID_ARGUMENT, {"custom.code does not compile", "NVJITLINK_INPUT_LTOIR"});
}

TEST_F(OperatorCode, HostFunctionsAreForTheCpu) {
    custom.host = [](void*, const void*, const void*, void*) {};
    expect_refusal(FLASHSCAN_STATUS_UNSUPPORTED,
                   {"no cuda kernel takes operator custom bytes4", "has no device code", "has no batched callback"});
}

TEST_F(OperatorCode, AdjointsGoWithTheirOperators) {
    give_code(add_code, "add");
    custom.batched = [](void*, const void*, int64_t, const void*, int64_t, void*, int64_t, int64_t, void*) {
        return int32_t{0};
    };
    custom.batched_adjoint = [](void*, const void*, const void*, const void*, void*, void*, int64_t, void*) {
        return int32_t{0};
    };
    desc.dtype = FLASHSCAN_DTYPE_F32;
    const flashscan_options options = make_options(FLASHSCAN_BACKEND_CUDA, "", 0, false, false);
    const Plan plan(desc, options);
    ASSERT_TRUE(plan) << plan.message();
    EXPECT_NE(plan.describe().find("kernel batched"), std::string::npos) << plan.describe();
    EXPECT_NE(plan.describe().find("no device adjoint"), std::string::npos) << plan.describe();
}

TEST_F(OperatorCode, FailingCallbacksFailTheCall) {
    int32_t result = -7;
    custom.state = &result;
    custom.batched = [](void* state, const void*, int64_t, const void*, int64_t, void*, int64_t, int64_t,
                        void* stream) {
        return stream == test_stream(FLASHSCAN_BACKEND_CUDA) ? *static_cast<int32_t*>(state) : 1;
    };
    const flashscan_options options = make_options(FLASHSCAN_BACKEND_CUDA, "", 0, false, false);
    const Plan plan(desc, options);
    ASSERT_TRUE(plan) << plan.message();
    const auto input = make_buffer(FLASHSCAN_BACKEND_CUDA, 20, Guard::end, 4, 0);
    const auto output = make_buffer(FLASHSCAN_BACKEND_CUDA, 20, Guard::end, 4, 0);
    const flashscan_arg args[] = {{FLASHSCAN_ARG_INPUT, 0, input->data(), 20},
                                  {FLASHSCAN_ARG_OUTPUT, 0, output->data(), 20}};
    const auto call = [&] {
        return flashscan_execute(plan.get(), FLASHSCAN_PASS_FORWARD, args, 2, test_stream(FLASHSCAN_BACKEND_CUDA));
    };
    expect_failure(call(), FLASHSCAN_STATUS_CALLBACK_FAILED, {"custom.batched returned -7", "accepted is 0"});
    result = 0;
    EXPECT_EQ(call(), FLASHSCAN_STATUS_OK) << flashscan_last_error();
    EXPECT_EQ(synchronize(FLASHSCAN_BACKEND_CUDA), nullptr);
}

// The state of a batched callback with an adjoint, which fails in its call number `fails_at`.
struct Failing {
    int32_t fails_at = 0, calls = 0;
};
class FailingAdjoints : public testing::TestWithParam<int32_t> {};

TEST_P(FailingAdjoints, FailTheCallAtOnceAndLeaveThePlanUsable) {
    const int32_t backend = GetParam(), grad = FLASHSCAN_GRAD;
    if (const char* reason = unavailable(backend)) GTEST_SKIP() << reason;
    Failing state;
    flashscan_custom_operator custom{};
    custom.struct_size = sizeof custom;
    custom.element_bytes = 4;
    custom.state = &state;
    custom.batched = [](void*, const void*, int64_t, const void*, int64_t, void*, int64_t, int64_t, void*) {
        return int32_t{0};
    };
    custom.batched_adjoint = [](void* of, const void*, const void*, const void*, void*, void*, int64_t, void*) {
        auto* const failing = static_cast<Failing*>(of);
        return failing->calls++ == failing->fails_at ? int32_t{-7} : int32_t{0};
    };
    flashscan_operator_desc desc{};
    desc.struct_size = sizeof desc;
    desc.kind = FLASHSCAN_OPERATOR_CUSTOM;
    desc.dtype = FLASHSCAN_DTYPE_F32;
    desc.batch = desc.channels = 1;
    desc.time = 37;
    desc.custom = &custom;
    const flashscan_options options = make_options(backend, "", 0, false, false);
    const Plan plan(desc, options);
    ASSERT_TRUE(plan) << plan.message();
    constexpr size_t bytes = 37 * 4;
    const auto input = make_buffer(backend, bytes, Guard::end, 4, 0),
               grad_output = make_buffer(backend, bytes, Guard::end, 4, 0),
               grad_input = make_buffer(backend, bytes, Guard::end, 4, 0);
    const flashscan_arg args[] = {{FLASHSCAN_ARG_INPUT, 0, input->data(), bytes},
                                  {grad | FLASHSCAN_ARG_OUTPUT, 0, grad_output->data(), bytes},
                                  {grad | FLASHSCAN_ARG_INPUT, 0, grad_input->data(), bytes}};
    input->write(Bytes(bytes, 1)), grad_output->write(Bytes(bytes, 2));
    const auto call = [&] {
        return flashscan_execute(plan.get(), FLASHSCAN_PASS_BACKWARD, args, 3, test_stream(backend));
    };
    ASSERT_EQ((state = {-1, 0}, call()), FLASHSCAN_STATUS_OK) << flashscan_last_error();
    const int32_t all = state.calls;
    ASSERT_GT(all, 2);
    for (int32_t at = 0; at < all; ++at) {
        state = {at, 0};
        expect_failure(call(), FLASHSCAN_STATUS_CALLBACK_FAILED,
                       {"custom.batched_adjoint returned -7", "accepted is 0"});
        EXPECT_EQ(state.calls, at + 1);
        EXPECT_EQ(synchronize(backend), nullptr);
        EXPECT_TRUE(input->read() == Bytes(bytes, 1) && grad_output->read() == Bytes(bytes, 2)) << at;
        for (const auto& buffer : {&input, &grad_output, &grad_input}) EXPECT_TRUE((*buffer)->surroundings_intact());
    }
    state = {-1, 0};
    EXPECT_EQ(call(), FLASHSCAN_STATUS_OK) << flashscan_last_error();
    EXPECT_EQ(synchronize(backend), nullptr);
}
INSTANTIATE_TEST_SUITE_P(Operator, FailingAdjoints, testing::Values(FLASHSCAN_BACKEND_CPU, FLASHSCAN_BACKEND_CUDA),
                         [](const auto& i) { return i.param == FLASHSCAN_BACKEND_CPU ? "cpu" : "cuda"; });

}  // namespace
}  // namespace api
