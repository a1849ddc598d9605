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

class Steps final : public LinearKernel {
  public:
    Steps(const LinearProblem& p, const Options& options)
        : device_(options.device),
          kernel_(linear_step_kernel(p.dtype, p.gate_dtype)),
          params_(settle_params(p)),
          launch_(p, params_,
                  {{&LinearStepsParams::input, size_of(p.dtype)},
                   {&LinearStepsParams::gate, size_of(p.gate_dtype)},
                   {&LinearStepsParams::output, size_of(p.dtype)}},
                  size_of(state_dtype(p.dtype)), kernel_.channels,
                  device_attribute(cudaDevAttrMultiProcessorCount, device_)) {
        if (p.pooled()) return;  // there is no backward
        Options rest = options;
        rest.kernel.clear();
        rest_ = choose("cuda", std::span(linear_candidates).subspan(1), p, rest).kernel;
    }

    std::string describe() const override {
        return fmt::format("forward a thread for {} channels of a row; {}", kernel_.channels,
                           rest_ ? "backward as of " + rest_->describe() : "no backward");
    }
    size_t scratch_bytes(Pass pass) const override {
        return pass == Pass::forward || rest_ == nullptr ? 0 : rest_->scratch_bytes(pass);
    }
    bool takes_states_in_place(Pass pass) const override { return pass == Pass::forward; }

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
    void backward(const LinearBuffers& b, void* stream) const override { rest_->backward(b, stream); }

  private:
    int device_;
    LinearStepKernel kernel_;
    LinearStepsParams params_;  // without a call's pointers
    StepLaunch<LinearStepsParams> launch_;
    std::unique_ptr<LinearKernel> rest_;
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
    if (!has_step_threads(problem, problem.channels, ceil_div(problem.channels, channels)))
        refusal = "takes less than 2^31 steps, channels, and threads";
    else if (options.kernel.empty())
        refusal = refuse(problem, options);
    if (!refusal.empty()) return nullptr;
    const DeviceScope scope(options.device);
    return std::make_unique<Steps>(problem, options);
}

}  // namespace flashscan::cuda
