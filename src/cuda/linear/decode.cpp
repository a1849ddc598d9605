// SPDX-License-Identifier: Apache-2.0
// Host side of the kernel "decode" of the linear recurrence (decode.cuh), forward over few steps. Backward is that of the
// kernel that would be chosen without it.
#include "core/planner.h"
#include "cuda/launch/sequence_offsets.h"
#include "cuda/launch/step_rows.h"
#include "cuda/linear/candidates.h"
#include "cuda/linear/decode_params.h"
#include "cuda/linear/instances/decode_table.h"
#include "cuda/linear/pass.h"

namespace flashscan::cuda {
namespace {

View view_of(const void* data, const Strides& s, Dtype dtype) {
    const int64_t bytes = size_of(dtype);
    return {static_cast<char*>(const_cast<void*>(data)), s.batch * bytes, s.channels * bytes, s.time * bytes};
}

class Steps final : public LinearKernel {
  public:
    Steps(const LinearProblem& problem, const Options& options)
        : p_(problem),
          device_(options.device),
          kernel_(linear_step_kernel(p_.dtype, p_.gate_dtype)),
          multiprocessors_(device_attribute(cudaDevAttrMultiProcessorCount, device_)) {
        if (p_.pooled()) return;  // there is no backward
        Options rest = options;
        rest.kernel.clear();
        rest_ = choose("cuda", std::span(linear_candidates).subspan(1), p_, rest).kernel;
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
        LinearStepsParams params;
        params.input = view_of(b.input, p_.input, p_.dtype);
        params.gate = view_of(b.gate, p_.gate, p_.gate_dtype);
        params.output = view_of(b.output, p_.output, p_.dtype);
        params.reset = p_.has_reset ? b.reset : nullptr;
        params.offsets = offsets_of(p_, b.seq_offsets);
        params.time = p_.time;
        params.channels = p_.channels;
        params.gate_form = static_cast<int32_t>(p_.gate_form);
        params.down = p_.direction == Direction::reverse;
        const int64_t size = size_of(p_.dtype);
        launch_steps(kernel_.kernel, params,
                     state_rows_of(p_, b.state_in, b.state_out, b.state_indices, size_of(state_dtype(p_.dtype))),
                     {{params.input, size}, {params.gate, size_of(p_.gate_dtype)}, {params.output, size}},
                     p_.state_rows(), p_.channels, kernel_.channels, multiprocessors_, stream);
    }
    void backward(const LinearBuffers& b, void* stream) const override { rest_->backward(b, stream); }

  private:
    LinearProblem p_;
    int device_;
    LinearStepKernel kernel_;
    int multiprocessors_;
    std::unique_ptr<LinearKernel> rest_;
};

// Returns a sentence unless there are so few steps that they are expected to be faster one by one. Only the device knows the
// lengths of packed sequences; if there are as many sequences as steps, they are taken to have one step each. With time
// innermost, lanes that own steps read memory in larger parts. bench/sweep.py measures the most steps anew.
std::string steps_refusal(const LinearProblem& p, const Options& options) {
    if (p.empty()) return empty_refusal(p);
    if (p.packed() && options.batch_invariant)
        return "sequences are packed, and may have several steps, which BATCH_INVARIANT rules out";
    if (p.packed() && p.time > p.num_sequences)
        return fmt::format("time is {}; takes up to {}, a step of each sequence", p.time, p.num_sequences);
    const int64_t most = p.layout == Layout::btc ? 4 : 1;
    if (!p.packed() && p.time > most) return fmt::format("time is {}; takes up to {}", p.time, most);
    return {};
}

}  // namespace

std::unique_ptr<LinearKernel> make_linear_decode(const LinearProblem& problem, const Options& options,
                                                 std::string& refusal) {
    const int channels = linear_step_kernel(problem.dtype, problem.gate_dtype).channels;
    if (!has_step_threads(problem, problem.channels, ceil_div(problem.channels, channels)))
        refusal = "takes less than 2^31 steps, channels, and threads";
    else if (options.kernel.empty())
        refusal = steps_refusal(problem, options);
    if (!refusal.empty()) return nullptr;
    const DeviceScope scope(options.device);
    return std::make_unique<Steps>(problem, options);
}

}  // namespace flashscan::cuda
