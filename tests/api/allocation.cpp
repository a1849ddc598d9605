// SPDX-License-Identifier: Apache-2.0
// What happens when memory runs out: the n-th allocation of a call fails, for every n until the call needs no more.
// This executable defines malloc and its kin, so that the library's allocations, those of its own C++ runtime included,
// arrive here. Not built with sanitizers, which bring a malloc of their own.
#include <cerrno>
#include <cstdlib>

#include "api/fixture.h"

extern "C" {
void* __libc_malloc(size_t bytes);
void* __libc_calloc(size_t count, size_t bytes);
void* __libc_realloc(void* memory, size_t bytes);
void* __libc_memalign(size_t alignment, size_t bytes);
void __libc_free(void* memory);
}

namespace {

// Counts allocations of this thread while `on`, and lets one (or all from it on) fail.
struct Ledger {
    bool on = false;
    bool all_after = false;
    int64_t fail_at = 0;  // 0: none
    int64_t count = 0;
    int64_t live = 0;
    bool fired = false;

    bool refuses() {
        if (!on) return false;
        ++count;
        const bool refused = fail_at > 0 && (count == fail_at || (all_after && count > fail_at));
        fired = fired || refused;
        if (!refused) ++live;
        return refused;
    }
    void freed(const void* memory) {
        if (on && memory != nullptr) --live;
    }
};

thread_local Ledger ledger;

}  // namespace

#define INTERPOSED extern "C" __attribute__((visibility("default")))

INTERPOSED void* malloc(size_t bytes) { return ledger.refuses() ? nullptr : __libc_malloc(bytes); }
INTERPOSED void* calloc(size_t count, size_t bytes) { return ledger.refuses() ? nullptr : __libc_calloc(count, bytes); }
INTERPOSED void* realloc(void* memory, size_t bytes) {
    if (ledger.refuses()) return nullptr;
    ledger.freed(memory);
    return __libc_realloc(memory, bytes);
}
INTERPOSED void* aligned_alloc(size_t alignment, size_t bytes) {
    return ledger.refuses() ? nullptr : __libc_memalign(alignment, bytes);
}
INTERPOSED int posix_memalign(void** memory, size_t alignment, size_t bytes) {
    if (ledger.refuses()) return ENOMEM;
    *memory = __libc_memalign(alignment, bytes);
    return *memory != nullptr ? 0 : ENOMEM;
}
INTERPOSED void free(void* memory) {
    ledger.freed(memory);
    __libc_free(memory);
}

namespace api {
namespace {

using namespace support;

// Repeats `body` with the n-th allocation failing until it succeeds without one. `body` returns its status and leaves
// nothing behind. Returns the number of allocations that a success makes.
template <typename Body>
int64_t exhaust(bool all_after, Body body) {
    constexpr int64_t most = 3000;
    for (int64_t n = 1; n < most; ++n) {
        ledger = {true, all_after, n, 0, 0, false};
        const flashscan_status status = body();
        ledger.on = false;
        EXPECT_EQ(ledger.live, 0) << "leak when allocation " << n << " fails";
        if (!ledger.fired) {
            EXPECT_EQ(status, FLASHSCAN_OK) << flashscan_last_error();
            return n - 1;
        }
        EXPECT_EQ(status, FLASHSCAN_OUT_OF_MEMORY) << "allocation " << n << ": " << flashscan_last_error();
        EXPECT_STRNE(flashscan_last_error(), "");
        if (testing::Test::HasFailure()) break;
    }
    return -1;
}

// Gives this thread's error sentence room for every sentence to come, so that keeping one is no leak.
void make_room_for_sentences() {
    const std::string name(4000, 'k');
    const Plan plan(small_problem(), {FLASHSCAN_CPU, name});
    EXPECT_EQ(plan.status(), FLASHSCAN_INVALID_ARGUMENT);
}

std::vector<Problem> problems() {
    std::vector<Problem> list(4, small_problem());
    list[1].batch = list[1].channels = 1;
    list[1].time = 20000;
    list[1].broadcast = FLASHSCAN_BROADCAST_TIME;
    list[2].batch = 1;
    list[2].sequences = 3;
    list[2].broadcast = FLASHSCAN_BROADCAST_CHANNELS;
    list[3].dtype = FLASHSCAN_BF16;
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
    const flashscan_options options = options_of(problem(), FLASHSCAN_CPU, "");
    const int64_t needed = exhaust(all_after(), [&] {
        auto* plan = reinterpret_cast<flashscan_plan*>(0x10);
        const flashscan_status status = flashscan_plan_linear(&plan, &desc, &options);
        EXPECT_TRUE(status == FLASHSCAN_OK || plan == nullptr);
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
    Call forward = forward_call(p, plan, FLASHSCAN_CPU, data, Guard::end);
    Call backward = backward_call(p, plan, FLASHSCAN_CPU, data, Guard::end);
    for (Call* call : {&forward, &backward}) {
        ASSERT_EQ(call->run(plan.get()), FLASHSCAN_OK) << flashscan_last_error();
        call->prepare();
        bool untouched = true;
        exhaust(all_after(), [&] {
            const flashscan_status status = call->execute(plan.get());
            if (status == FLASHSCAN_OK) return status;
            const bool on = std::exchange(ledger.on, false);
            call->collect();
            untouched = untouched && call->outputs_untouched();
            ledger.on = on;
            return status;
        });
        EXPECT_TRUE(untouched) << "outputs were written by a call that failed";
    }
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
        EXPECT_TRUE(status == FLASHSCAN_INVALID_ARGUMENT || (ledger.fired && status == FLASHSCAN_OUT_OF_MEMORY));
        EXPECT_EQ(ledger.live, 0) << n;
        EXPECT_STRNE(flashscan_last_error(), "");
    }
}

INSTANTIATE_TEST_SUITE_P(Api, Allocation, testing::Combine(testing::Range<size_t>(0, 4), testing::Bool()),
                         [](const auto& i) {
                             return "problem" + std::to_string(std::get<0>(i.param)) +
                                    (std::get<1>(i.param) ? "_all_after" : "_one");
                         });

}  // namespace
}  // namespace api
