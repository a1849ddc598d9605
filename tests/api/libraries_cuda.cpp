// SPDX-License-Identifier: Apache-2.0
// Libraries that are opened at run time and are not there, or are of another version: the plan that needs one says so,
// others are made, and once the library is there the plan is made too. Runs in a process of its own, since what was
// opened once stays. This executable defines dlopen, which the library's calls arrive at.
#include <dlfcn.h>

#include <cstring>

#include "api/cuda_scenes.h"
#include "support/memory.h"

namespace {

// Files whose names hold `hidden` are `instead`.
const char *hidden = nullptr, *instead = nullptr;

}  // namespace

extern "C" __attribute__((visibility("default"))) void* dlopen(const char* file, int flags) noexcept {
    static const auto real = reinterpret_cast<void* (*)(const char*, int)>(dlsym(RTLD_NEXT, "dlopen"));
    const bool replaced = hidden != nullptr && file != nullptr && std::strstr(file, hidden) != nullptr;
    return real(replaced ? instead : file, flags);
}

namespace api {
namespace {

using namespace support;

constexpr const char* missing = "no-such-library.so";
constexpr const char* another = "libm.so.6";  // has none of the functions

class LibrariesCuda : public testing::Test {
  protected:
    void SetUp() override {
        if (const char* reason = unavailable(FLASHSCAN_BACKEND_CUDA)) GTEST_SKIP() << reason;
    }
    void TearDown() override { hidden = nullptr; }
    static void hide(const char* name, const char* by) { hidden = name, instead = by; }
    // Counts the scenes whose names begin with `family` and whose plans are refused for want of `file`.
    static int count_refusals(const std::string& family, const std::string& file,
                              const std::vector<std::string>& words) {
        int refusals = 0;
        for (const CudaScene& scene : cuda_scenes()) {
            if (scene.name.compare(0, family.size(), family) != 0) continue;
            auto* plan = reinterpret_cast<flashscan_plan*>(0x10);
            const flashscan_status status = scene.make(&plan, 0);
            if (status != FLASHSCAN_STATUS_OK) {
                ++refusals;
                EXPECT_EQ(plan, nullptr);
                expect_failure(status, FLASHSCAN_STATUS_DEPENDENCY_MISSING, words);
                expect_failure(status, FLASHSCAN_STATUS_DEPENDENCY_MISSING, {file});
            }
            flashscan_plan_destroy(plan);
        }
        return refusals;
    }
};

TEST_F(LibrariesCuda, CublasIsMissing) {
    hide("libcublasLt", missing);
    EXPECT_GT(count_refusals("rnn", "libcublasLt.so", {"this plan needs cuBLAS", "could not be loaded"}), 0);
    hide("libcublasLt", another);
    EXPECT_GT(count_refusals("rnn", "libcublasLt.so", {"this plan needs cublasLt", "does not have"}), 0);
}

TEST_F(LibrariesCuda, NvrtcIsMissing) {
    hide("libnvrtc", missing);
    EXPECT_GT(count_refusals("custom", "libnvrtc.so", {"this plan needs NVRTC", "could not be loaded"}), 0);
    hide("libnvrtc", another);
    EXPECT_GT(count_refusals("custom", "libnvrtc.so", {"this plan needs nvrtc", "does not have"}), 0);
}

TEST_F(LibrariesCuda, NvJitLinkIsMissing) {
    flashscan_custom_operator custom{};
    custom.struct_size = sizeof custom;
    custom.element_bytes = 4;
    custom.code_kind = FLASHSCAN_CODE_LTO_IR;
    custom.code = custom.name = "add";
    custom.code_bytes = 3;
    flashscan_operator_desc desc{};
    desc.struct_size = sizeof desc;
    desc.kind = FLASHSCAN_OPERATOR_CUSTOM;
    desc.batch = desc.time = desc.channels = 1;
    desc.custom = &custom;
    const auto make = [&] {
        flashscan_plan* plan = nullptr;
        const flashscan_options options = make_options(FLASHSCAN_BACKEND_CUDA, "", 0, false, false);
        const flashscan_status status = flashscan_plan_operator(&plan, &desc, &options);
        flashscan_plan_destroy(plan);
        return status;
    };
    hide("libnvJitLink", missing);
    const flashscan_status status = make();
    if (std::strstr(flashscan_last_error(), "NVRTC") != nullptr) GTEST_SKIP() << "skipped: " << flashscan_last_error();
    expect_failure(status, FLASHSCAN_STATUS_DEPENDENCY_MISSING,
                   {"this plan needs nvJitLink", "libnvJitLink.so", "could not be loaded"});
    hide("libnvJitLink", another);
    expect_failure(make(), FLASHSCAN_STATUS_DEPENDENCY_MISSING,
                   {"this plan needs nvJitLink", "libnvJitLink.so", "does not have"});
}

// All of them at once, as after an installation that is mended while the program runs.
TEST_F(LibrariesCuda, TheyAreUsedOnceTheyAreThere) {
    if (dlopen("libnvrtc.so.13", RTLD_NOW) == nullptr && dlopen("libnvrtc.so.12", RTLD_NOW) == nullptr)
        GTEST_SKIP() << "skipped: no NVRTC";
    EXPECT_EQ(count_refusals("", "libnvrtc.so", {}), 0);
}

}  // namespace
}  // namespace api
