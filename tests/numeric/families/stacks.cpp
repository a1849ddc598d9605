// SPDX-License-Identifier: Apache-2.0
// Calls on small stacks. The caller's is painted and looked at afterwards; the workers' are small where the environment
// says so (OMP_STACKSIZE, as the ctest case numeric_stacks does), and end in a guard page.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/mman.h>

#include <algorithm>
#include <functional>

#include "support/operator_check.h"
#include "support/rnn_check.h"

namespace numeric {
namespace {

using namespace support;

constexpr size_t stack_bytes = size_t{512} << 10, most_used = size_t{16} << 10;

// The bytes of a new thread's stack that `work` and the thread itself touch.
size_t touched_by(const std::function<void()>& work) {
    void* stack = mmap(nullptr, stack_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (stack == MAP_FAILED) throw std::runtime_error("no memory for a stack");
    auto* bytes = static_cast<unsigned char*>(stack);
    std::fill_n(bytes, stack_bytes, static_cast<unsigned char>(0xa5));
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstack(&attributes, stack, stack_bytes);
    pthread_t thread{};
    const auto run = [](void* context) -> void* {
        (*static_cast<const std::function<void()>*>(context))();
        return nullptr;
    };
    const int failed = pthread_create(&thread, &attributes, run, const_cast<std::function<void()>*>(&work));
    if (failed == 0) pthread_join(thread, nullptr);
    pthread_attr_destroy(&attributes);
    const auto untouched = std::find_if(bytes, bytes + stack_bytes, [](unsigned char b) { return b != 0xa5; }) - bytes;
    munmap(stack, stack_bytes);
    if (failed != 0) throw std::runtime_error("no thread");
    return stack_bytes - static_cast<size_t>(untouched);
}

void expect_small_stack(const char* line, const Plan& plan, Call call) {
    SCOPED_TRACE(line);
    ASSERT_EQ(plan.status(), FLASHSCAN_STATUS_OK) << plan.message();
    call.prepare();
    flashscan_status status = FLASHSCAN_STATUS_OK;
    const size_t idle = touched_by([] {});
    const size_t used = touched_by([&] { status = call.execute(plan.get()); }) - idle;
    EXPECT_EQ(status, FLASHSCAN_STATUS_OK);
    EXPECT_LT(used, most_used) << plan.describe();
}

TEST(Stacks, CallsOfLinearRecurrencesAreSmall) {
    for (const char* type : {"f32", "bf16", "f16", "bf16 gate-f32", "f64", "c64", "c128", "c64 gate-f32"})
        for (const char* rest :
             {"BTC b3 t300 c40 threads3", "BTC b1 t5000 c9 form-log threads3", "BCT b3 t300 c9 form-logit threads3",
              "BCT b1 t9000 c2 place-spread threads3", "BTC b2 t900 c5 broadcast-t threads3",
              "BTC b4 t1100 c7 broadcast-b invariant threads1"}) {
            const std::string line = fmt::format("linear {} {} state-in state-out", type, rest);
            const Problem p = problem_of(line);
            Data data = make_data(p);
            (void)reference_of(p, data);
            const Plan plan(p, {});
            expect_small_stack(line.c_str(), plan, forward_call(p, plan, FLASHSCAN_BACKEND_CPU, data, Guard::end));
            expect_small_stack(line.c_str(), plan, backward_call(p, plan, FLASHSCAN_BACKEND_CPU, data, Guard::end));
        }
}

TEST(Stacks, CallsOfNetworksAreSmall) {
    for (const std::string& cell : cell_words())
        for (const char* type :
             {"h2 d40 f32", "h2 d40 bf16", "h2 d40 f16", "h2 d40 f64", "h80 d1 f32", "h80 d1 bf16"}) {
            const std::string line = fmt::format("rnn {} {} b5 t9 state-in state-out threads3", cell, type);
            const RnnProblem p = rnn_problem_of(line);
            const RnnData data = make_data(p);
            const Plan plan(desc_of(p), options_of(p, FLASHSCAN_BACKEND_CPU, ""));
            Call forward = forward_call(p, plan, FLASHSCAN_BACKEND_CPU, data, Guard::end);
            expect_small_stack(line.c_str(), plan, forward);
            ASSERT_EQ(forward.run(plan.get()), FLASHSCAN_STATUS_OK);
            expect_small_stack(line.c_str(), plan,
                               backward_call(p, plan, FLASHSCAN_BACKEND_CPU, data, forward, Guard::end));
        }
}

TEST(Stacks, CallsOfOperatorsAreSmall) {
    for (const char* type : {"f32", "bf16", "f16", "f64"})
        for (const char* rest : {"add inclusive {} b3 t700 c40", "logaddexp exclusive {} BCT b1 t9000 c2 reverse",
                                 "max reduction {} b1 t9000 c7 sequences4", "matmul inclusive {} b2 t300 c2 d3",
                                 "matmul inclusive {} b1 t300 c1 d16", "matmul reduction {} b2 t200 c1 d17",
                                 "affine inclusive {} b2 t300 c1 d4"}) {
            const std::string line =
                "operator " + fmt::format(fmt::runtime(rest), type) + " state-in state-out threads3";
            const OperatorProblem p = operator_problem_of(line);
            const OperatorData data = make_data(p);
            const Plan plan(desc_of(p), options_of(p, FLASHSCAN_BACKEND_CPU, ""));
            Call forward = forward_call(p, plan, FLASHSCAN_BACKEND_CPU, data, Guard::end);
            expect_small_stack(line.c_str(), plan, forward);
            ASSERT_EQ(forward.run(plan.get()), FLASHSCAN_STATUS_OK);
            expect_small_stack(
                line.c_str(), plan,
                backward_call(p, plan, FLASHSCAN_BACKEND_CPU, data, forward.values(FLASHSCAN_ARG_OUTPUT), Guard::end));
        }
}

}  // namespace
}  // namespace numeric
