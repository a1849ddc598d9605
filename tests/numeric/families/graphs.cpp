// SPDX-License-Identifier: Apache-2.0
// Both passes of a plan in a CUDA graph of the caller's, replayed with other values: the bits are those of calls
// outside of a graph. Recurrent networks have theirs in networks/device.cpp. Built with CUDA only.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <array>
#include <string>

#include "support/gated_check.h"
#include "support/selective_check.h"

namespace numeric {
namespace {

using namespace support;

// `forward` has run.
Call backward_of(const Problem& p, const Plan& plan, const Data& data, const Call& /*forward*/) {
    return backward_call(p, plan, FLASHSCAN_BACKEND_CUDA, data, Guard::end);
}
Call backward_of(const GatedProblem& p, const Plan& plan, const GatedData& data, const Call& forward) {
    return backward_call(p, plan, FLASHSCAN_BACKEND_CUDA, data, forward, forward.values(FLASHSCAN_ARG_OUTPUT),
                         Guard::end);
}
Call backward_of(const SelectiveProblem& p, const Plan& plan, const SelectiveData& data, const Call& /*forward*/) {
    return backward_call(p, plan, FLASHSCAN_BACKEND_CUDA, data, Guard::end);
}

Data data_of(const Problem& p) {
    Data data = make_data(p);
    (void)reference_of(p, data);  // gives data.output
    return data;
}
GatedData data_of(const GatedProblem& p) { return make_data(p); }
SelectiveData data_of(const SelectiveProblem& p) { return make_data(p); }

void capture(const Plan& plan, const Call& call, cudaStream_t stream, cudaGraphExec_t& executable) {
    cudaGraph_t graph = nullptr;
    ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), cudaSuccess);
    const flashscan_status status = call.execute(plan.get());
    const std::string message = flashscan_last_error();
    ASSERT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess) << message;
    ASSERT_EQ(status, FLASHSCAN_STATUS_OK) << message;
    ASSERT_EQ(cudaGraphInstantiate(&executable, graph, 0), cudaSuccess);
    cudaGraphDestroy(graph);
}

template <typename P>
void expect_replays(P problem, const Target& target) {
    SCOPED_TRACE(text_of(problem));
    const Plan plan(desc_of(problem), options_of(problem, target.backend, target.kernel));
    if (!target.kernel.empty() && plan.status() == FLASHSCAN_STATUS_UNSUPPORTED) return;
    ASSERT_EQ(plan.status(), FLASHSCAN_STATUS_OK) << plan.message();
    const auto data = data_of(problem);
    std::array<Call, 2> replayed = {forward_call(problem, plan, FLASHSCAN_BACKEND_CUDA, data, Guard::end),
                                    Call(FLASHSCAN_BACKEND_CUDA, FLASHSCAN_PASS_BACKWARD, Guard::end)};
    ASSERT_EQ(replayed[0].run(plan.get()), FLASHSCAN_STATUS_OK) << flashscan_last_error();
    replayed[1] = backward_of(problem, plan, data, replayed[0]);
    const auto stream = static_cast<cudaStream_t>(test_stream(FLASHSCAN_BACKEND_CUDA));
    std::array<cudaGraphExec_t, 2> executables = {};
    for (size_t pass = 0; pass < 2; ++pass) {
        replayed[pass].prepare();
        capture(plan, replayed[pass], stream, executables[pass]);
        if (testing::Test::HasFatalFailure()) return;
    }
    for (int replay = 0; replay < 3; ++replay, ++problem.seed) {
        auto changed = data_of(problem);
        changed.offsets = data.offsets;  // so that the same steps are written
        Call forward = forward_call(problem, plan, FLASHSCAN_BACKEND_CUDA, changed, Guard::end);
        ASSERT_EQ(forward.run(plan.get()), FLASHSCAN_STATUS_OK) << flashscan_last_error();
        Call backward = backward_of(problem, plan, changed, forward);
        ASSERT_EQ(backward.run(plan.get()), FLASHSCAN_STATUS_OK) << flashscan_last_error();
        for (size_t pass = 0; pass < 2; ++pass) {
            Call& call = replayed[pass];
            const Call& direct = pass == 0 ? forward : backward;
            call.take_inputs(direct);
            call.prepare();
            ASSERT_EQ(cudaGraphLaunch(executables[pass], stream), cudaSuccess);
            call.collect();
            EXPECT_EQ(call.damage(), "");
            EXPECT_TRUE(call.outputs_are(direct.output_bytes()))
                << "replay " << replay << (pass == 0 ? ", forward" : ", backward");
        }
        // Backward outside of a graph takes what forward left in one.
        Call after = backward_of(problem, plan, changed, replayed[0]);
        ASSERT_EQ(after.run(plan.get()), FLASHSCAN_STATUS_OK) << flashscan_last_error();
        EXPECT_TRUE(after.outputs_are(backward.output_bytes())) << "replay " << replay << ", backward of a replay";
    }
    for (const cudaGraphExec_t executable : executables) cudaGraphExecDestroy(executable);
}

class Graph : public testing::TestWithParam<Target> {
  protected:
    void SetUp() override { SKIP_UNLESS_AVAILABLE(GetParam()); }
};

TEST_P(Graph, ReplaysLinearRecurrencesWithChangedInputs) {
    for (const char* line :
         {"linear bf16 gate-f32 BTC t100 c3 form-log broadcast-c state-in state-out",
          "linear bf16 gate-f32 BTC t50000 c3 form-log broadcast-c state-in state-out",
          "linear bf16 gate-f32 BTC t100 c3 form-log broadcast-c state-in state-out caller-scratch",
          "linear bf16 gate-f32 BTC t50000 c3 form-log broadcast-c state-in state-out caller-scratch",
          "linear f32 BTC b16 t1 c64 state-in state-out"})
        expect_replays(problem_of(line), GetParam());
}

INSTANTIATE_TEST_SUITE_P(Device, Graph, testing::ValuesIn(on_backend(FLASHSCAN_BACKEND_CUDA, all_targets())),
                         [](const auto& target) { return text_of(target.param); });

// One step, as in decoding, and the sequence.
TEST(GraphOfLayers, ReplaysWithChangedInputs) {
    const Target cuda{FLASHSCAN_BACKEND_CUDA, ""};
    SKIP_UNLESS_AVAILABLE(cuda);
    for (const char* line :
         {"gated f32 b8 t1 c64 rglru state-in state-out", "gated bf16 b4 t1 c33 mingru state-in state-out",
          "gated bf16 b3 t300 c40 hgrn state-in state-out", "gated f32 BCT b2 t5000 c5 qrnn state-in caller-scratch",
          "gated f32 b1 t200 c16 minlstm sequences5 reset state-in state-out"})
        expect_replays(gated_problem_of(line), cuda);
    for (const char* line :
         {"selective bf16 b8 t1 c24 n16 b-per-step c-per-step softplus gate skip bias state-in state-out",
          "selective f32 b2 t300 c40 n16 b-per-step c-per-step softplus gate skip bias state-in state-out",
          "selective f32 BCT b1 t9000 c8 n4 b-per-step c-per-step g2 state-out caller-scratch",
          "selective f32 complex b2 t100 c6 n16 b-per-step c-per-step state-in"})
        expect_replays(selective_problem_of(line), cuda);
}

}  // namespace
}  // namespace numeric
