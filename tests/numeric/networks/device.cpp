// SPDX-License-Identifier: Apache-2.0
// Recurrent networks where only a GPU can have them: captured and replayed, on several streams, on a device that is not
// the current one. Built with CUDA only.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <thread>

#include "support/rnn_check.h"

namespace numeric {
namespace {

using namespace support;

constexpr int32_t grad = FLASHSCAN_GRAD;

std::vector<Target> cuda_targets() { return on_backend(FLASHSCAN_BACKEND_CUDA, rnn_kernel_targets()); }

std::string name_of_target(const testing::TestParamInfo<Target>& info) { return text_of(info.param); }

const char* const lines[] = {"rnn lstm bf16 b16 t20 h1 d64 state-in state-out",
                             "rnn gru f16 b3 t40 h2 d33 state-in caller-scratch weight-f32 reset",
                             "rnn gru-reset-before f32 b5 t30 h1 d24 state-in state-out reverse caller-scratch",
                             "rnn slstm bf16 b1 t50 h3 d16 sequences4 state-in state-out all-states",
                             "rnn lstm bf16 b16 t12 h1 d256 state-in caller-scratch"};

class RnnDevice : public testing::TestWithParam<Target> {
  protected:
    // Both passes of `p`, ready to run with its own data.
    struct Training {
        explicit Training(const RnnProblem& problem)
            : p(fitted(problem, GetParam())),
              plan(desc_of(p), options_of(p, GetParam().backend, GetParam().kernel)),
              data(make_data(p)) {
            if (!plan) return;
            calls.push_back(forward_call(p, plan, FLASHSCAN_BACKEND_CUDA, data, Guard::end));
            if (calls[0].run(plan.get()) != FLASHSCAN_STATUS_OK) throw std::runtime_error(flashscan_last_error());
            calls.push_back(backward_call(p, plan, FLASHSCAN_BACKEND_CUDA, data, calls[0], Guard::end));
        }
        bool refused() const { return !GetParam().kernel.empty() && plan.status() == FLASHSCAN_STATUS_UNSUPPORTED; }
        // The values of another seed in the same memory. RESET and SEQ_OFFSETS stay: which steps are written depends on
        // them.
        void change(uint64_t seed) {
            RnnProblem other = p;
            other.seed = seed;
            RnnData changed = make_data(other);
            changed.reset = data.reset;
            changed.offsets = data.offsets;
            data = std::move(changed);
            calls[0].set_input(FLASHSCAN_ARG_INPUT, data.input);
            if (p.bias) calls[0].set_input(FLASHSCAN_ARG_BIAS, data.bias);
            for (Call& call : calls) {
                call.set_input(FLASHSCAN_ARG_WEIGHT, data.weight);
                if (p.state_in) call.set_input(FLASHSCAN_ARG_STATE_IN, data.state_in);
            }
            calls[1].set_input(grad | FLASHSCAN_ARG_OUTPUT, data.grad_output);
            if (p.state_out) calls[1].set_input(grad | FLASHSCAN_ARG_STATE_OUT, data.grad_state_out);
        }
        // Backward reads what forward wrote.
        void pass_on() {
            calls[1].set_input(FLASHSCAN_ARG_OUTPUT, calls[0].values(FLASHSCAN_ARG_OUTPUT));
            calls[1].set_bytes(FLASHSCAN_ARG_RESERVE, calls[0].output_bytes().at(FLASHSCAN_ARG_RESERVE));
        }
        std::map<int32_t, Bytes> bits() const {
            std::map<int32_t, Bytes> all;
            for (const Call& call : calls) all.merge(call.output_bytes());
            return all;
        }

        RnnProblem p;
        Plan plan;
        RnnData data;
        std::vector<Call> calls;  // forward, backward
    };
    void SetUp() override { SKIP_UNLESS_AVAILABLE(GetParam()); }
};

// A training step in a caller's graph, replayed with other values.
TEST_P(RnnDevice, RunsInACallersGraph) {
    for (const char* line : lines) {
        SCOPED_TRACE(line);
        Training step(rnn_problem_of(line));
        if (step.refused()) continue;
        ASSERT_EQ(step.plan.status(), FLASHSCAN_STATUS_OK) << step.plan.message();
        const auto stream = static_cast<cudaStream_t>(test_stream(FLASHSCAN_BACKEND_CUDA));
        cudaGraphExec_t executables[2] = {};
        for (size_t i = 0; i < 2; ++i) {
            cudaGraph_t graph = nullptr;
            ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), cudaSuccess);
            const flashscan_status status = step.calls[i].execute(step.plan.get());
            const std::string message = flashscan_last_error();
            ASSERT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess) << message;
            ASSERT_EQ(status, FLASHSCAN_STATUS_OK) << message;
            ASSERT_EQ(cudaGraphInstantiate(&executables[i], graph, 0), cudaSuccess);
            cudaGraphDestroy(graph);
        }
        for (uint64_t seed = 1; seed <= 3; ++seed) {
            step.change(seed);
            for (size_t i = 0; i < 2; ++i) {
                if (i == 1) step.pass_on();
                step.calls[i].prepare();
                ASSERT_EQ(cudaGraphLaunch(executables[i], stream), cudaSuccess);
                step.calls[i].collect();
                EXPECT_EQ(step.calls[i].damage(), "");
            }
            const RnnOutcome plain = run_rnn(step.p, GetParam(), step.data, Guard::end, 1);
            require(plain);
            EXPECT_TRUE(step.bits() == plain.bits) << "seed " << seed;
        }
        for (const cudaGraphExec_t executable : executables) cudaGraphExecDestroy(executable);
    }
}

// A plan called again and again with the same pointers may replay its launches; its results are those of a new plan.
TEST_P(RnnDevice, RepeatsWithTheSamePointers) {
    for (const char* line : lines) {
        SCOPED_TRACE(line);
        Training step(rnn_problem_of(line));
        if (step.refused()) continue;
        ASSERT_EQ(step.plan.status(), FLASHSCAN_STATUS_OK) << step.plan.message();
        for (uint64_t seed = 1; seed <= 6; ++seed) {
            step.change(seed);
            for (size_t i = 0; i < 2; ++i) {
                if (i == 1) step.pass_on();
                ASSERT_EQ(step.calls[i].run(step.plan.get()), FLASHSCAN_STATUS_OK) << flashscan_last_error();
                EXPECT_EQ(step.calls[i].damage(), "");
            }
            const RnnOutcome plain = run_rnn(step.p, GetParam(), step.data, Guard::end, 1);
            require(plain);
            EXPECT_TRUE(step.bits() == plain.bits) << "seed " << seed;
        }
    }
}

// Forward of these is faster step by step, and backward in segments.
TEST(RnnNewton, IsTakenForBackwardAlone) {
    const Target target{FLASHSCAN_BACKEND_CUDA, ""};
    SKIP_UNLESS_AVAILABLE(target);
    const auto described = [&](const char* line) {
        const RnnProblem p = rnn_problem_of(line);
        const Plan plan(desc_of(p), options_of(p, target.backend, ""));
        return plan ? plan.describe() : plan.message();
    };
    const std::string text = described("rnn bwd lstm f32 b1 t300 h20 d1");
    EXPECT_NE(text.find("kernel diagonal_newton: forward step by step"), std::string::npos) << text;
    EXPECT_NE(text.find("backward 4 segments"), std::string::npos) << text;
    EXPECT_NE(described("rnn fwd lstm f32 b1 t300 h20 d1").find("kernel diagonal"), std::string::npos);
}

// A call that asks for ITERATIONS and RESIDUAL.
struct Counted {
    Counted(const RnnProblem& p, const RnnData& data, const std::string& kernel) {
        const Plan plan(desc_of(p), options_of(p, FLASHSCAN_BACKEND_CUDA, kernel));
        if (!plan) throw std::runtime_error(plan.message());
        Call call = forward_call(p, plan, FLASHSCAN_BACKEND_CUDA, data, Guard::end);
        for (const int32_t id : {FLASHSCAN_ARG_ITERATIONS, FLASHSCAN_ARG_RESIDUAL})
            call.opaque(id, plan.bytes(FLASHSCAN_PASS_FORWARD, id));
        for (int repeat = 0; repeat < 2; ++repeat)
            if (call.run(plan.get()) != FLASHSCAN_STATUS_OK) throw std::runtime_error(flashscan_last_error());
        EXPECT_EQ(call.damage(), "");
        output = call.values(FLASHSCAN_ARG_OUTPUT);
        bits = call.output_bytes().at(FLASHSCAN_ARG_OUTPUT);
        take(call, FLASHSCAN_ARG_ITERATIONS, iterations);
        take(call, FLASHSCAN_ARG_RESIDUAL, residual);
    }
    template <typename T>
    static void take(const Call& call, int32_t id, std::vector<T>& to) {
        const Bytes bytes = call.output_bytes().at(id);
        to.resize(bytes.size() / sizeof(T));
        std::memcpy(to.data(), bytes.data(), bytes.size());
    }
    Values output;
    Bytes bits;  // of it
    std::vector<int32_t> iterations;
    std::vector<float> residual;
};

TEST(RnnNewton, TellsHowOftenItWalkedAndHowFarOffItIs) {
    SKIP_UNLESS_AVAILABLE((Target{FLASHSCAN_BACKEND_CUDA, "diagonal_newton"}));
    for (const char* line : {"rnn gru fwd f32 b3 t600 h40 d1", "rnn lstm fwd bf16 b1 t900 h33 d1 sequences4",
                             "rnn mgu fwd f16 b2 t3000 h70 d1 reverse reset"}) {
        SCOPED_TRACE(line);
        const RnnProblem p = rnn_problem_of(line);
        const RnnData data = make_data(p);
        const Counted newton(p, data, "diagonal_newton"), diagonal(p, data, "diagonal");
        for (const int32_t walks : newton.iterations) {
            EXPECT_GE(walks, p.sequences > 0 ? 0 : 2);  // a sequence may have no steps
            EXPECT_LE(walks, p.time);
        }
        for (const float off : newton.residual) {
            EXPECT_GE(off, 0);
            EXPECT_LE(off, p.dtype == FLASHSCAN_DTYPE_F32 ? 0x1p-21 : 0x1p-17);
        }
        const RnnOutcome plain = run_rnn(p, {FLASHSCAN_BACKEND_CUDA, "diagonal_newton"}, data, Guard::end, 1);
        require(plain);
        EXPECT_TRUE(newton.bits == plain.bits.at(FLASHSCAN_ARG_OUTPUT));
        EXPECT_EQ(diagonal.iterations, std::vector<int32_t>(newton.iterations.size(), 0));
        EXPECT_EQ(diagonal.residual, std::vector<float>(newton.residual.size(), 0));
    }
}

// The sign of the first state stays for ever, and no start depends on the one before by a slope: each walk settles one
// segment more, and the answer is the network's all the same.
TEST(RnnNewton, WalksUntilAllSegmentsAreSettled) {
    SKIP_UNLESS_AVAILABLE((Target{FLASHSCAN_BACKEND_CUDA, "diagonal_newton"}));
    const RnnProblem p = rnn_problem_of("rnn elman fwd f32 b2 t640 h40 d1");
    RnnData data = make_data(p);
    std::fill(data.weight.begin(), data.weight.end(), 8.0);
    const Counted newton(p, data, "diagonal_newton"), diagonal(p, data, "diagonal");
    for (const int32_t walks : newton.iterations) EXPECT_GE(walks, 8);
    for (const float off : newton.residual) EXPECT_LE(off, 0x1p-21);
    ASSERT_EQ(newton.output.size(), diagonal.output.size());
    for (size_t i = 0; i < newton.output.size(); ++i)
        ASSERT_LE(std::abs(newton.output[i] - diagonal.output[i]), 1e-6) << i;
}

// States that are infinite or huge, fall to 0 in a step where the weight is negative, or are reset: how large they were
// tells nothing of how right a state is that is small again.
TEST(RnnNewton, HugeStatesDoNotHideWrongStarts) {
    SKIP_UNLESS_AVAILABLE((Target{FLASHSCAN_BACKEND_CUDA, "diagonal_newton"}));
    for (const char* line :
         {"rnn elman-relu fwd f32 b3 t2000 h40 d1 reset", "rnn elman-relu fwd f32 b3 t2000 h40 d1"}) {
        SCOPED_TRACE(line);
        const RnnProblem p = rnn_problem_of(line);
        RnnData data = make_data(p);
        for (size_t i = 0; i < data.weight.size(); ++i) data.weight[i] = i % 2 == 0 ? -0.5 : 0.5;
        for (size_t i = 0; i < data.input.size(); i += 557)
            data.input[i] = i % 2 == 0 ? 1e30F : std::numeric_limits<double>::infinity();
        const Counted newton(p, data, "diagonal_newton"), diagonal(p, data, "diagonal");
        for (const float off : newton.residual) EXPECT_LE(off, 0x1p-21);
        ASSERT_EQ(newton.output.size(), diagonal.output.size());
        size_t infinite = 0;
        for (size_t i = 0; i < newton.output.size(); ++i) {
            infinite += static_cast<size_t>(std::isinf(diagonal.output[i].real()));
            if (newton.output[i] == diagonal.output[i]) continue;
            ASSERT_LE(std::abs(newton.output[i] - diagonal.output[i]), 1e-5 * (1 + std::abs(diagonal.output[i]))) << i;
        }
        EXPECT_GT(infinite, 100U);
    }
}

// More sets of pointers than a plan keeps graphs of, in turns; then the plan goes while its work is still queued.
TEST_P(RnnDevice, TakesManySetsOfPointers) {
    const RnnProblem p = fitted(rnn_problem_of("rnn lstm fwd bf16 b4 t30 h1 d40 state-in"), GetParam());
    const RnnData data = make_data(p);
    auto plan = std::make_unique<Plan>(desc_of(p), options_of(p, FLASHSCAN_BACKEND_CUDA, GetParam().kernel));
    if (!GetParam().kernel.empty() && plan->status() == FLASHSCAN_STATUS_UNSUPPORTED)
        GTEST_SKIP() << "kernel refuses: " << plan->message().substr(0, 300);
    ASSERT_EQ(plan->status(), FLASHSCAN_STATUS_OK) << plan->message();
    std::vector<Call> calls;
    for (int i = 0; i < 7; ++i) calls.push_back(forward_call(p, *plan, FLASHSCAN_BACKEND_CUDA, data, Guard::end));
    for (int round = 0; round < 3; ++round)
        for (Call& call : calls)
            for (int repeat = 0; repeat < 2 + round; ++repeat)
                ASSERT_EQ(call.run(plan->get()), FLASHSCAN_STATUS_OK) << flashscan_last_error();
    for (Call& call : calls) call.prepare();
    for (Call& call : calls) ASSERT_EQ(call.execute(plan->get()), FLASHSCAN_STATUS_OK) << flashscan_last_error();
    plan.reset();
    for (Call& call : calls) {
        call.collect();
        EXPECT_EQ(call.damage(), "");
        EXPECT_TRUE(call.output_bytes() == calls[0].output_bytes());
    }
}

// Another thread captures while this one's calls are replayed; neither hinders the other.
TEST_P(RnnDevice, RepeatsWhileAnotherThreadCaptures) {
    Training step(rnn_problem_of("rnn lstm bf16 b4 t30 h1 d40 state-in"));
    if (step.refused()) GTEST_SKIP() << "kernel refuses: " << step.plan.message().substr(0, 300);
    ASSERT_EQ(step.plan.status(), FLASHSCAN_STATUS_OK) << step.plan.message();
    step.calls[0].prepare();
    cudaStream_t other = nullptr;
    ASSERT_EQ(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking), cudaSuccess);
    std::thread([&] { EXPECT_EQ(cudaStreamBeginCapture(other, cudaStreamCaptureModeRelaxed), cudaSuccess); }).join();
    for (int repeat = 0; repeat < 4; ++repeat)
        EXPECT_EQ(step.calls[0].execute(step.plan.get()), FLASHSCAN_STATUS_OK) << flashscan_last_error();
    cudaGraph_t graph = nullptr;
    EXPECT_EQ(cudaStreamEndCapture(other, &graph), cudaSuccess);
    cudaGraphDestroy(graph);
    cudaStreamDestroy(other);
    step.calls[0].collect();
    EXPECT_EQ(step.calls[0].damage(), "");
}

// On the last device while the first is current.
TEST_P(RnnDevice, RunsOnADeviceThatIsNotCurrent) {
    int devices = 0;
    ASSERT_EQ(cudaGetDeviceCount(&devices), cudaSuccess);
    if (devices < 2) GTEST_SKIP() << "needs two devices";
    for (const char* line : lines) {
        SCOPED_TRACE(line);
        const RnnProblem p = fitted(rnn_problem_of(line), GetParam());
        const RnnData data = make_data(p);
        const RnnOutcome first = run_rnn(p, GetParam(), data, Guard::end, 1);
        if (!GetParam().kernel.empty() && first.status == FLASHSCAN_STATUS_UNSUPPORTED) continue;
        require(first);
        // A thread of its own, whose stream and buffers are made on that device.
        std::thread([&] {
            cudaSetDevice(devices - 1);
            flashscan_options options = options_of(p, FLASHSCAN_BACKEND_CUDA, GetParam().kernel);
            options.device = devices - 1;
            const Plan plan(desc_of(p), options);
            ASSERT_EQ(plan.status(), FLASHSCAN_STATUS_OK) << plan.message();
            Call forward = forward_call(p, plan, FLASHSCAN_BACKEND_CUDA, data, Guard::end);
            const auto run = [&](Call& call) {
                for (int repeat = 0; repeat < 3; ++repeat) {
                    call.prepare();
                    cudaSetDevice(0);
                    EXPECT_EQ(call.execute(plan.get()), FLASHSCAN_STATUS_OK) << flashscan_last_error();
                    int current = -1;
                    cudaGetDevice(&current);
                    EXPECT_EQ(current, 0);
                    cudaSetDevice(devices - 1);
                    call.collect();
                }
                EXPECT_EQ(call.damage(), "");
                for (const auto& [id, bytes] : call.output_bytes()) EXPECT_TRUE(bytes == first.bits.at(id)) << id;
            };
            run(forward);
            Call backward = backward_call(p, plan, FLASHSCAN_BACKEND_CUDA, data, forward, Guard::end);
            run(backward);
        }).join();
    }
}

// What a plan says of the kernel it runs on, and OUTPUT.
std::string description(const std::string& line, const std::string& kernel) {
    const RnnProblem p = rnn_problem_of(line);
    const Plan plan(desc_of(p), options_of(p, FLASHSCAN_BACKEND_CUDA, kernel));
    EXPECT_EQ(plan.status(), FLASHSCAN_STATUS_OK) << plan.message();
    return plan ? plan.describe() : "";
}
Values output_of(const std::string& line, const std::string& kernel) {
    const RnnProblem p = rnn_problem_of(line);
    const RnnOutcome outcome = run_rnn(p, {FLASHSCAN_BACKEND_CUDA, kernel}, make_data(p), Guard::end, 1);
    require(outcome);
    return outcome[FLASHSCAN_ARG_OUTPUT];
}

TEST(RnnTf32, ActsWhereProductsHaveIt) {
    SKIP_UNLESS_AVAILABLE((Target{FLASHSCAN_BACKEND_CUDA, "alternating"}));
    const std::string line = "rnn lstm fwd f32 b64 t3 h1 d256";
    EXPECT_EQ(description(line, "alternating").find("in tf32"), std::string::npos);
    EXPECT_NE(description(line + " tf32", "alternating").find("in tf32"), std::string::npos);
    EXPECT_NE(output_of(line, "alternating"), output_of(line + " tf32", "alternating"));
    // Other data and kernels without such products do not heed it.
    EXPECT_EQ(output_of("rnn lstm fwd bf16 b16 t3 h1 d64", ""), output_of("rnn lstm fwd bf16 b16 t3 h1 d64 tf32", ""));
    EXPECT_EQ(output_of("rnn lstm fwd f32 b4 t3 h9 d1", "diagonal"),
              output_of("rnn lstm fwd f32 b4 t3 h9 d1 tf32", "diagonal"));
}

TEST(RnnPlans, OfBatchInvariantNetworksChooseByNoBatch) {
    SKIP_UNLESS_AVAILABLE((Target{FLASHSCAN_BACKEND_CUDA, ""}));
    const auto kernel = [](const std::string& line) {
        const std::string text = description(line, "");
        const size_t at = text.find("kernel "), end = text.find(':', at);
        return text.substr(at, end - at);
    };
    for (const std::string rest : {"bf16 t8 h1 d768", "f32 t8 h1 d1024", "f32 t8 h1 d1024 tf32"})
        EXPECT_EQ(kernel("rnn lstm fwd invariant b8 " + rest), kernel("rnn lstm fwd invariant b512 " + rest));
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(RnnDevice);  // kernels are known where there is a device
INSTANTIATE_TEST_SUITE_P(Rnn, RnnDevice, testing::ValuesIn(cuda_targets()), name_of_target);

// Teams that exchange by a reduce-scatter, with several jobs and rounds of their slots.
TEST(RnnTeams, TakeSeveralJobsInTurn) {
    const Target target{FLASHSCAN_BACKEND_CUDA, "fused"};
    SKIP_UNLESS_AVAILABLE(target);
    check_case({rnn_problem_of("rnn bwd lstm f32 b32 t12 h1 d1024"), target});
}

}  // namespace
}  // namespace numeric
