// SPDX-License-Identifier: Apache-2.0
// Calls of the CUDA runtime and driver that fail, one at a time: each comes back as a status with its sentence, nothing
// is left behind, and the next call does what it should.
#include <cuda_runtime_api.h>

#include "api/cuda_scenes.h"
#include "support/failing_calls.h"

namespace api {
namespace {

using namespace support;

constexpr int out_of_memory = cudaErrorMemoryAllocation, failure = cudaErrorLaunchFailure;

class FailuresCuda : public testing::TestWithParam<CudaScene> {
  protected:
    void SetUp() override {
        if (const char* reason = unavailable(FLASHSCAN_BACKEND_CUDA)) GTEST_SKIP() << reason;
        calls = failing_calls();
        if (calls == nullptr) GTEST_SKIP() << "skipped: no stand-in for the driver is loaded";
        test_stream(FLASHSCAN_BACKEND_CUDA);
    }
    // Repeats `body` with the n-th call failing until none does. `body` returns its status, which the failure decides.
    template <typename Prepare, typename Body, typename Check>
    void exhaust(int error, Prepare prepare, Body body, Check check) {
        constexpr int64_t most = 3000;
        for (int64_t n = 1; n < most; ++n) {
            prepare();
            calls->begin(n, error, 0);
            const flashscan_status status = body();
            const std::string failed = calls->end();
            leaks = failed.find("Free") != std::string::npos || failed.find("Destroy") != std::string::npos;
            SCOPED_TRACE("call " + std::to_string(n) + ", " + failed + ", fails with " + std::to_string(error));
            EXPECT_EQ(cudaGetLastError(), cudaSuccess) << "an error is left for the program to find";
            expect_status(status, error, failed);
            check();
            if (failed.empty() || HasFailure()) return;
        }
        FAIL() << "no end after " << most << " calls";
    }
    // That a failed call which nothing depends on may be passed over is checked by what is done then.
    static void expect_status(flashscan_status status, int error, const std::string& failed) {
        if (status == FLASHSCAN_STATUS_OK) return;
        ASSERT_NE(failed, "") << flashscan_last_error();
        const std::string sentence = flashscan_last_error();
        EXPECT_NE(sentence, "");
        if (failed == "cudaGetDeviceCount" || failed == "cuDeviceGetCount") return;
        const bool without_memory = status == FLASHSCAN_STATUS_OUT_OF_MEMORY;
        EXPECT_TRUE(without_memory || status == FLASHSCAN_STATUS_DEVICE_ERROR) << sentence;
        // The runtime may make another error of the driver's.
        const bool of_driver = failed.compare(0, 3, "cud") != 0 && failed.compare(0, 3, "cub") != 0;
        if (!of_driver) {
            EXPECT_EQ(without_memory, error == out_of_memory) << sentence;
        }
    }
    flashscan_status make_and_destroy() const {
        auto* plan = reinterpret_cast<flashscan_plan*>(0x10);
        const flashscan_status status = GetParam().make(&plan, 0);
        EXPECT_EQ(status == FLASHSCAN_STATUS_OK, plan != nullptr);
        flashscan_plan_destroy(plan);
        return status;
    }
    OwnedPlan make() const { return make_plan(GetParam()); }
    // An object that the runtime failed to take back lives on.
    void expect_living(std::string& expected) const {
        if (leaks) expected = calls->living();
        EXPECT_EQ(calls->living(), expected);
    }
    const FailingCalls* calls = nullptr;
    bool leaks = false;
};

// Plans come first, so that what the process keeps is made while calls fail.
TEST_P(FailuresCuda, OfPlans) {
    const auto nothing = [] {};
    for (const int error : {failure, out_of_memory})
        exhaust(
            error, nothing, [&] { return make_and_destroy(); }, nothing);
    std::string living = calls->living();
    exhaust(
        failure, nothing, [&] { return make_and_destroy(); }, [&] { expect_living(living); });
}

// Three times with the same pointers, where plans may replay a graph.
TEST_P(FailuresCuda, OfCalls) {
    const OwnedPlan plan = make();
    ASSERT_NE(plan, nullptr);
    const CudaArguments args(plan.get());
    for (const int pass : both_passes) {
        if (!args.has(pass)) continue;
        SCOPED_TRACE(pass == FLASHSCAN_PASS_FORWARD ? "forward" : "backward");
        const auto run = [&](const flashscan_plan* on) { return args.execute(on, pass); };
        calls->begin(0, 0, 0);
        ASSERT_EQ(run(plan.get()), FLASHSCAN_STATUS_OK) << flashscan_last_error();
        const std::string launches = calls->launches();
        std::string living = calls->living();
        const std::map<int32_t, Bytes> contents = args.contents();
        for (const int error : {failure, out_of_memory}) {
            OwnedPlan used;
            exhaust(
                error, [&] { used = make(); },
                [&] {
                    flashscan_status first = FLASHSCAN_STATUS_OK;
                    for (int repeat = 0; repeat < 3; ++repeat) {
                        const flashscan_status status = run(used.get());
                        if (first == FLASHSCAN_STATUS_OK) first = status;
                    }
                    if (first == FLASHSCAN_STATUS_OK) {
                        EXPECT_EQ(calls->launches(), launches + launches + launches);
                    }
                    return first;
                },
                [&] {
                    calls->begin(0, 0, 0);
                    EXPECT_EQ(run(used.get()), FLASHSCAN_STATUS_OK) << flashscan_last_error();
                    EXPECT_EQ(calls->launches(), launches) << "the next call does something else";
                    // A stand-in that knows launches computes nothing.
                    if (launches.empty() && GetParam().has_results) {
                        EXPECT_TRUE(args.contents() == contents) << "the next call has other results";
                    }
                    used.reset();
                    expect_living(living);
                });
        }
    }
}

// A device that is lost: every call after some call fails, for every number of calls that came through.
TEST_P(FailuresCuda, OfAllCallsAfterOne) {
    const OwnedPlan first = make();
    ASSERT_NE(first, nullptr);
    const CudaArguments args(first.get());
    for (int64_t n = 1;; ++n) {
        OwnedPlan plan = make();
        calls->begin(n, cudaErrorECCUncorrectable, 1);
        for (const int pass : both_passes)
            for (int repeat = 0; args.has(pass) && repeat < 3; ++repeat) {
                const flashscan_status status = args.execute(plan.get(), pass);
                EXPECT_TRUE(status == FLASHSCAN_STATUS_OK || status == FLASHSCAN_STATUS_DEVICE_ERROR)
                    << flashscan_last_error();
            }
        plan.reset();
        const std::string failed = calls->end();
        if (failed.empty() || HasFailure()) break;
        n += n / 8;
    }
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(FailuresCuda);
INSTANTIATE_TEST_SUITE_P(Api, FailuresCuda, testing::ValuesIn(cuda_scenes()), name_of_scene);

}  // namespace
}  // namespace api
