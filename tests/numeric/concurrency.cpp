// SPDX-License-Identifier: Apache-2.0
// One plan executed from many threads, and from a forked child.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "support/check.h"

namespace numeric {
namespace {

using namespace support;

Problem shared_problem() {
    Problem p;
    p.batch = 2;
    p.time = 700;
    p.channels = 9;
    p.form = FLASHSCAN_GATE_LOGIT;
    p.broadcast = FLASHSCAN_BROADCAST_BATCH;
    p.state_in = p.state_out = true;
    return p;
}

class Concurrency : public testing::TestWithParam<Target> {};

std::string name_of_target(const testing::TestParamInfo<Target>& info) { return text_of(info.param); }

TEST_P(Concurrency, EightThreadsShareAPlan) {
    SKIP_UNLESS_AVAILABLE(GetParam());
    const Problem p = shared_problem();
    Data data = make_data(p);
    (void)reference_of(p, data);
    const Plan plan(p, GetParam());
    ASSERT_EQ(plan.status(), FLASHSCAN_OK) << plan.message();
    const auto run = [&](std::map<int32_t, Bytes>& bits, std::string& trouble) {
        for (int repeat = 0; repeat < 5; ++repeat)
            for (Call call : {forward_call(p, plan, GetParam().backend, data, Guard::end),
                              backward_call(p, plan, GetParam().backend, data, Guard::end)}) {
                if (call.run(plan.get()) != FLASHSCAN_OK) trouble += flashscan_last_error();
                trouble += call.damage();
                for (auto& [id, bytes] : call.output_bytes()) {
                    if (repeat > 0 && bits[id] != bytes) trouble += "bits differ between runs; ";
                    bits[id] = bytes;
                }
            }
    };
    constexpr size_t count = 8;
    std::vector<std::map<int32_t, Bytes>> bits(count + 1);
    std::vector<std::string> trouble(count + 1);
    run(bits[count], trouble[count]);
    std::vector<std::thread> threads;
    for (size_t i = 0; i < count; ++i) threads.emplace_back([&, i] { run(bits[i], trouble[i]); });
    for (std::thread& thread : threads) thread.join();
    for (size_t i = 0; i <= count; ++i) {
        EXPECT_EQ(trouble[i], "") << "thread " << i;
        EXPECT_TRUE(bits[i] == bits[count]) << "thread " << i << " got other bits";
    }
}

INSTANTIATE_TEST_SUITE_P(Shared, Concurrency, testing::ValuesIn(planner_targets()), name_of_target);

#if !defined(__SANITIZE_THREAD__)
TEST(Fork, ChildRunsAfterTheParentUsedThreads) {
    Problem p = shared_problem();
    p.time = 20000;
    p.threads = 2;
    Data data = make_data(p);
    const Plan plan(p, {});
    ASSERT_EQ(plan.status(), FLASHSCAN_OK) << plan.message();
    Call call = forward_call(p, plan, FLASHSCAN_CPU, data, Guard::end);
    ASSERT_EQ(call.run(plan.get()), FLASHSCAN_OK) << flashscan_last_error();
    const auto bits = call.output_bytes();
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        alarm(30);  // a child that waits for threads it does not have is ended by the signal
        const bool ok = call.run(plan.get()) == FLASHSCAN_OK && call.output_bytes() == bits;
        const Plan fresh(p, {});
        const bool again = fresh && call.run(fresh.get()) == FLASHSCAN_OK && call.output_bytes() == bits;
        _exit(ok && again ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0)
        << (WIFSIGNALED(status) ? "the child was ended by a signal" : "the child's results differ");
}
#endif

}  // namespace
}  // namespace numeric
