// SPDX-License-Identifier: Apache-2.0
// Creating plans: NULL pointers, the rules of struct_size, devices, and what a plan tells about itself.
#include <cstdlib>
#include <cstring>
#include <thread>

#include "api/fixture.h"

namespace api {
namespace {

using namespace support;

flashscan_plan* const stale = reinterpret_cast<flashscan_plan*>(0x10);

TEST(Plan, NullPointers) {
    const flashscan_linear_desc desc = desc_of(small_problem());
    flashscan_plan* plan = stale;
    expect_failure(flashscan_plan_linear(nullptr, &desc, nullptr), FLASHSCAN_STATUS_INVALID_ARGUMENT, {"plan is NULL"});
    expect_failure(flashscan_plan_linear(&plan, nullptr, nullptr), FLASHSCAN_STATUS_INVALID_ARGUMENT, {"desc is NULL"});
    EXPECT_EQ(plan, nullptr);
    size_t bytes = 0;
    expect_failure(flashscan_plan_arg_bytes(nullptr, 0, 1, &bytes), FLASHSCAN_STATUS_INVALID_ARGUMENT,
                   {"plan is NULL"});
    expect_failure(flashscan_plan_describe(nullptr, nullptr, 0, &bytes), FLASHSCAN_STATUS_INVALID_ARGUMENT,
                   {"plan is NULL"});
    expect_failure(flashscan_device_count(FLASHSCAN_BACKEND_CPU, nullptr), FLASHSCAN_STATUS_INVALID_ARGUMENT,
                   {"count is NULL"});
    flashscan_plan_destroy(nullptr);
}

// A struct of a newer header: today's fields and a tail.
struct NewerDesc {
    flashscan_linear_desc desc;
    int64_t tail[2];
};

TEST(Plan, NewerStructsAreAcceptedWhileTheirTailIsZero) {
    NewerDesc newer{desc_of(small_problem()), {0, 0}};
    newer.desc.struct_size = sizeof newer;
    flashscan_plan* plan = nullptr;
    EXPECT_EQ(flashscan_plan_linear(&plan, &newer.desc, nullptr), FLASHSCAN_STATUS_OK) << flashscan_last_error();
    flashscan_plan_destroy(plan);
    newer.tail[1] = 1;
    plan = stale;
    expect_failure(flashscan_plan_linear(&plan, &newer.desc, nullptr), FLASHSCAN_STATUS_STRUCT_TOO_NEW,
                   {"struct_size", "296", "288"});
    EXPECT_EQ(plan, nullptr);
}

TEST(Plan, NewerOptionsAreAcceptedWhileTheirTailIsZero) {
    struct {
        flashscan_options options;
        int64_t tail;
    } newer{options_of(small_problem(), FLASHSCAN_BACKEND_CPU, ""), 0};
    newer.options.struct_size = sizeof newer;
    const flashscan_linear_desc desc = desc_of(small_problem());
    flashscan_plan* plan = nullptr;
    EXPECT_EQ(flashscan_plan_linear(&plan, &desc, &newer.options), FLASHSCAN_STATUS_OK) << flashscan_last_error();
    flashscan_plan_destroy(plan);
    newer.tail = 5;
    expect_failure(flashscan_plan_linear(&plan, &desc, &newer.options), FLASHSCAN_STATUS_STRUCT_TOO_NEW, {"72", "64"});
}

TEST(Plan, CountsDevices) {
    int32_t count = -1;
    EXPECT_EQ(flashscan_device_count(FLASHSCAN_BACKEND_CPU, &count), FLASHSCAN_STATUS_OK);
    EXPECT_EQ(count, 1);
    count = -1;
    EXPECT_EQ(flashscan_device_count(FLASHSCAN_BACKEND_CUDA, &count), FLASHSCAN_STATUS_OK);
    EXPECT_GE(count, 0);
    count = 17;
    expect_failure(flashscan_device_count(9, &count), FLASHSCAN_STATUS_INVALID_ARGUMENT, {"backend is 9"});
    EXPECT_EQ(count, 17);
}

TEST(Plan, CudaWithoutADeviceSaysSo) {
    if (unavailable(FLASHSCAN_BACKEND_CUDA) == nullptr) GTEST_SKIP() << "there is a device";
    const flashscan_linear_desc desc = desc_of(small_problem());
    const flashscan_options options = options_of(small_problem(), FLASHSCAN_BACKEND_CUDA, "");
    flashscan_plan* plan = stale;
    const flashscan_status status = flashscan_plan_linear(&plan, &desc, &options);
    EXPECT_EQ(plan, nullptr);
    const bool built = status != FLASHSCAN_STATUS_BACKEND_MISSING;
    expect_failure(status, built ? FLASHSCAN_STATUS_NO_DEVICE : FLASHSCAN_STATUS_BACKEND_MISSING,
                   {built ? "device" : "backend is BACKEND_CUDA"});
}

TEST(Plan, UnknownInstructionSetIsRefused) {
    const char* before = std::getenv("FLASHSCAN_CPU_ISA");
    const std::string saved = before != nullptr ? before : "";
    setenv("FLASHSCAN_CPU_ISA", "mmx", 1);
    const Plan plan(small_problem(), {});
    if (before != nullptr)
        setenv("FLASHSCAN_CPU_ISA", saved.c_str(), 1);
    else
        unsetenv("FLASHSCAN_CPU_ISA");
    EXPECT_EQ(plan.status(), FLASHSCAN_STATUS_INVALID_ARGUMENT);
    EXPECT_NE(plan.message().find("FLASHSCAN_CPU_ISA is \"mmx\""), std::string::npos) << plan.message();
}

TEST(Plan, TellsTheBytesOfItsArguments) {
    Problem p = small_problem();
    p.dtype = FLASHSCAN_DTYPE_BF16;
    p.gate_dtype = FLASHSCAN_DTYPE_F32;
    p.broadcast = FLASHSCAN_BROADCAST_BATCH | FLASHSCAN_BROADCAST_CHANNELS;
    p.reset = true;
    const Plan plan(p, {});
    ASSERT_TRUE(plan) << plan.message();
    constexpr int32_t forward = FLASHSCAN_PASS_FORWARD, backward = FLASHSCAN_PASS_BACKWARD, grad = FLASHSCAN_GRAD;
    EXPECT_EQ(plan.bytes(forward, FLASHSCAN_ARG_INPUT), 2U * 5 * 3 * 2);
    EXPECT_EQ(plan.bytes(forward, FLASHSCAN_ARG_OUTPUT), 2U * 5 * 3 * 2);
    EXPECT_EQ(plan.bytes(forward, FLASHSCAN_ARG_GATE), 5U * 4);
    EXPECT_EQ(plan.bytes(forward, FLASHSCAN_ARG_STATE_IN), 2U * 3 * 4);
    EXPECT_EQ(plan.bytes(forward, FLASHSCAN_ARG_STATE_OUT), 2U * 3 * 4);
    EXPECT_EQ(plan.bytes(forward, FLASHSCAN_ARG_RESET), 2U * 5);
    EXPECT_EQ(plan.bytes(backward, grad | FLASHSCAN_ARG_GATE), 5U * 4);
    EXPECT_EQ(plan.bytes(backward, grad | FLASHSCAN_ARG_INPUT), 2U * 5 * 3 * 2);
    EXPECT_EQ(plan.bytes(backward, grad | FLASHSCAN_ARG_STATE_OUT), 2U * 3 * 4);
    size_t bytes = 77;
    expect_failure(flashscan_plan_arg_bytes(plan.get(), backward, FLASHSCAN_ARG_INPUT, &bytes),
                   FLASHSCAN_STATUS_UNKNOWN_ARGUMENT, {"arg_id is 2001", "backward"});
    expect_failure(flashscan_plan_arg_bytes(plan.get(), forward, FLASHSCAN_ARG_SEQ_OFFSETS, &bytes),
                   FLASHSCAN_STATUS_UNKNOWN_ARGUMENT, {"arg_id is 2007", "forward"});
    expect_failure(flashscan_plan_arg_bytes(plan.get(), 2, FLASHSCAN_ARG_GATE, &bytes),
                   FLASHSCAN_STATUS_INVALID_ARGUMENT, {"pass is 2", "PASS_BACKWARD (502)"});
    expect_failure(flashscan_plan_arg_bytes(plan.get(), forward, FLASHSCAN_ARG_GATE, nullptr),
                   FLASHSCAN_STATUS_INVALID_ARGUMENT, {"bytes is NULL"});
    EXPECT_EQ(bytes, 77U);
}

TEST(Plan, BytesOfStridedAndPackedArguments) {
    Problem p = small_problem();
    p.placement = Placement::padded;
    const Plan strided(p, {});
    ASSERT_TRUE(strided) << strided.message();
    const auto span = static_cast<size_t>(tensor_of(p, FLASHSCAN_ARG_INPUT).span());
    EXPECT_EQ(strided.bytes(FLASHSCAN_PASS_FORWARD, FLASHSCAN_ARG_INPUT), 4 * span);
    p = small_problem();
    p.batch = 1;
    p.sequences = 9;
    p.offsets_dtype = FLASHSCAN_DTYPE_I32;
    const Plan packed(p, {});
    ASSERT_TRUE(packed) << packed.message();
    EXPECT_EQ(packed.bytes(FLASHSCAN_PASS_FORWARD, FLASHSCAN_ARG_SEQ_OFFSETS), 10U * 4);
    EXPECT_EQ(packed.bytes(FLASHSCAN_PASS_FORWARD, FLASHSCAN_ARG_STATE_IN), 9U * 3 * 4);
}

TEST(Plan, DescribesItself) {
    Problem p = small_problem();
    p.reverse = true;
    const Plan plan(p, {FLASHSCAN_BACKEND_CPU, "reference"});
    ASSERT_TRUE(plan) << plan.message();
    const std::string text = plan.describe();
    for (const char* word : {"linear f32 BTC b2 t5 c3", "reverse", "backend cpu", "kernel reference"})
        EXPECT_NE(text.find(word), std::string::npos) << word << " is not in: " << text;

    size_t length = 0;
    std::string part(8, '#');
    EXPECT_EQ(flashscan_plan_describe(plan.get(), part.data(), 6, &length), FLASHSCAN_STATUS_OK);
    EXPECT_EQ(length, text.size());
    EXPECT_EQ(part, text.substr(0, 5) + std::string(1, '\0') + "##");
    EXPECT_EQ(flashscan_plan_describe(plan.get(), part.data(), 1, nullptr), FLASHSCAN_STATUS_OK);
    EXPECT_EQ(part[0], '\0');
    expect_failure(flashscan_plan_describe(plan.get(), nullptr, 5, nullptr), FLASHSCAN_STATUS_INVALID_ARGUMENT,
                   {"text is NULL"});
}

TEST(Error, IsKeptPerThread) {
    std::thread([] { EXPECT_STREQ(flashscan_last_error(), ""); }).join();
    int32_t count = 5;
    EXPECT_EQ(flashscan_device_count(42, nullptr), FLASHSCAN_STATUS_INVALID_ARGUMENT);
    EXPECT_EQ(flashscan_device_count(42, &count), FLASHSCAN_STATUS_INVALID_ARGUMENT);
    EXPECT_EQ(count, 5) << "a failing call wrote";
    const std::string mine = flashscan_last_error();
    EXPECT_NE(mine.find("backend is 42"), std::string::npos);
    std::thread([&] {
        EXPECT_EQ(flashscan_device_count(43, &count), FLASHSCAN_STATUS_INVALID_ARGUMENT);
        EXPECT_NE(std::string(flashscan_last_error()).find("backend is 43"), std::string::npos);
    }).join();
    EXPECT_EQ(flashscan_last_error(), mine);
    EXPECT_EQ(flashscan_device_count(FLASHSCAN_BACKEND_CPU, &count), FLASHSCAN_STATUS_OK);
    EXPECT_EQ(flashscan_last_error(), mine) << "success leaves the sentence";
}

TEST(Error, StatusesHaveNames) {
    EXPECT_STREQ(flashscan_status_name(FLASHSCAN_STATUS_OK), "FLASHSCAN_STATUS_OK");
    EXPECT_STREQ(flashscan_status_name(19), "FLASHSCAN_STATUS_ALIASING");
    EXPECT_STREQ(flashscan_status_name(90), "FLASHSCAN_STATUS_INTERNAL_ERROR");
    EXPECT_STREQ(flashscan_status_name(1), "unknown status");
    EXPECT_STREQ(flashscan_status_name(-5), "unknown status");
}

}  // namespace
}  // namespace api
