// SPDX-License-Identifier: Apache-2.0
// Host side of the kernel "decode" of the linear recurrence (decode.cuh), forward over few steps. Backward is that of
// the kernel that would be chosen without it.
#include "core/planner.h"
#include "cuda/launch/sequence_offsets.h"
#include "cuda/launch/step_rows.h"
#include "cuda/launch/view_of.h"
#include "cuda/linear/candidates.h"
#include "cuda/linear/decode_params.h"
#include "cuda/linear/instances/decode_table.h"
#include "cuda/linear/pass.h"

namespace flashscan::cuda {
namespace {

LinearStepsParams settle_params(const LinearProblem& p) {
    LinearStepsParams params;
    params.input = view_of(p.input, size_of(p.dtype));
    params.gate = view_of(p.gate, size_of(p.gate_dtype));
    params.output = view_of(p.output, size_of(p.dtype));
    params.offsets = offsets_of(p, nullptr);
    params.time = p.time;
    params.channels = p.channels;
    params.gate_form = static_cast<int32_t>(p.gate_form);
    params.down = p.direction == Direction::reverse;
    return params;
}

// The kernel that runs backward; null where there is no backward.
std::unique_ptr<LinearKernel> make_rest(const LinearProblem& p, Options options) {
    if (p.pooled()) return nullptr;
    options.kernel.clear();
    return choose("cuda", std::span(linear_candidates).subspan(1), p, options).kernel;
}

class Steps final : public ForwardSteps<LinearKernel, LinearBuffers> {
  public:
    Steps(const LinearProblem& p, const Options& options)
        : ForwardSteps(make_rest(p, options)),
          device_(options.device),
          kernel_(linear_step_kernel(p.dtype, p.gate_dtype)),
          params_(settle_params(p)),
          launch_(p, params_,
                  {{&LinearStepsParams::input, size_of(p.dtype)},
                   {&LinearStepsParams::gate, size_of(p.gate_dtype)},
                   {&LinearStepsParams::output, size_of(p.dtype)}},
                  size_of(state_dtype(p.dtype)), kernel_.channels,
                  device_attribute(cudaDevAttrMultiProcessorCount, device_)) {}

    std::string describe() const override {
        return fmt::format("forward a thread for {} channels of a row; {}", kernel_.channels, describe_backward());
    }

    void forward(const LinearBuffers& b, void* stream) const override {
        const DeviceScope scope(device_);
        LinearStepsParams params = params_;
        point(params.input, b.input);
        point(params.gate, b.gate);
        point(params.output, b.output);
        params.reset = b.reset;
        params.offsets.data = b.seq_offsets;
        launch_.run(kernel_.kernel, params, b, stream);
    }

  private:
    int device_;
    LinearStepKernel kernel_;
    LinearStepsParams params_;  // without a call's pointers
    StepLaunch<LinearStepsParams> launch_;
};

// Returns why steps are not expected to be faster one by one, or an empty string. With time innermost the other kernels
// copy rows through shared memory, which takes up to ten times as long for rows of a few steps. bench/sweep.py measures
// the most steps anew.
std::string refuse(const LinearProblem& p, const Options& options) {
    if (p.empty()) return empty_refusal(p);
    const int64_t most = p.layout == Layout::btc ? 4 : 8;
    return steps_refusal(p, most, options.batch_invariant);
}

}  // namespace

std::unique_ptr<LinearKernel> make_linear_decode(const LinearProblem& problem, const Options& options,
                                                 std::string& refusal) {
    const int channels = linear_step_kernel(problem.dtype, problem.gate_dtype).channels;
    refusal = step_threads_refusal(problem, problem.channels, ceil_div(problem.channels, channels), "channels");
    if (refusal.empty() && options.kernel.empty()) refusal = refuse(problem, options);
    if (!refusal.empty()) return nullptr;
    const DeviceScope scope(options.device);
    return std::make_unique<Steps>(problem, options);
}

}  // namespace flashscan::cuda
