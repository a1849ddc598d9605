// SPDX-License-Identifier: Apache-2.0
// Host side of the kernel "decode" of gated layers (decode.cuh), forward over few steps. Backward is that of "chunked".
#include "cuda/gated/call.h"
#include "cuda/gated/candidates.h"
#include "cuda/gated/instances/table.h"
#include "cuda/launch/step_rows.h"

namespace flashscan::cuda {
namespace {

class Steps final : public ForwardSteps<GatedKernel, GatedBuffers> {
  public:
    Steps(const GatedProblem& problem, const Options& options, std::unique_ptr<GatedKernel> backward)
        : ForwardSteps(std::move(backward)),
          p_(problem),
          device_(options.device),
          kernels_(gated_step_kernels(p_.dtype, p_.gate_dtype)),
          named_(named_kernel(kernels_.named, p_.parts)),
          params_(params_of(p_, Pass::forward)),
          launch_(p_, params_,
                  {{&GatedParams::input, size_of(p_.dtype)},
                   {&GatedParams::gate, size_of(p_.gate_dtype)},
                   {&GatedParams::second_gate, size_of(p_.gate_dtype)},
                   {&GatedParams::input_gate, size_of(p_.dtype)},
                   {&GatedParams::output_gate, size_of(p_.dtype)},
                   {&GatedParams::output, size_of(p_.dtype)},
                   {&GatedParams::states, size_of(p_.dtype)}},
                  size_of(state_dtype(p_.dtype)), kernels_.channels,
                  device_attribute(cudaDevAttrMultiProcessorCount, device_)) {}

    std::string describe() const override {
        return fmt::format("forward a thread for {} channels of a row; {}", kernels_.channels, describe_backward());
    }

    void forward(const GatedBuffers& b, void* stream) const override {
        const DeviceScope scope(device_);
        GatedParams params = params_;
        point_forward(params, p_, b);
        launch_.run(named_ != nullptr && b.bias == nullptr ? named_ : kernels_.any, params, b, stream);
    }

  private:
    GatedProblem p_;
    int device_;
    GatedStepKernels kernels_;
    const void* named_;   // the kernel of the layer's name, for calls without BIAS; null where there is none
    GatedParams params_;  // without a call's pointers
    StepLaunch<GatedParams> launch_;
};

// Returns why blocks are expected to be faster than a thread for some channels, or an empty string.
std::string refuse(const GatedProblem& p, const Options& options) {
    constexpr int64_t many_channels = 32768;
    if (p.empty()) return "there are no elements";
    const bool many = !options.batch_invariant && p.channels * p.state_rows() >= many_channels;
    return steps_refusal(p, many ? 16 : 4, options.batch_invariant);
}

}  // namespace

std::unique_ptr<GatedKernel> make_gated_decode(const GatedProblem& problem, const Options& options,
                                               std::string& refusal) {
    const int channels = gated_step_kernels(problem.dtype, problem.gate_dtype).channels;
    refusal = step_threads_refusal(problem, problem.channels, ceil_div(problem.channels, channels), "channels");
    if (refusal.empty() && options.kernel.empty()) refusal = refuse(problem, options);
    if (!refusal.empty()) return nullptr;
    const DeviceScope scope(options.device);
    auto backward = problem.pooled() ? nullptr : make_gated_chunked(problem, options, refusal);
    return std::make_unique<Steps>(problem, options, std::move(backward));
}

}  // namespace flashscan::cuda
