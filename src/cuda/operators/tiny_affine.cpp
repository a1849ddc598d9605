// SPDX-License-Identifier: Apache-2.0
// Host side of the kernel "tiny" of affine maps.
#include "cuda/operators/backward_params.h"
#include "cuda/operators/scan.h"
#include "cuda/operators/tiny.h"

namespace flashscan::cuda {
namespace {

class TinyAffine final : public OperatorKernel {
  public:
    TinyAffine(const OperatorProblem& p, const ElementKernels& kernels, const Options& options)
        : device_(options.device),
          reduces_(p.is_reduction()),
          scan_(make_element_pass(p, kernels.forward, kernels.scan, options, forward_)),
          backward_(p, kernels, options, forward_) {
        scan_params_.mode = gradient_params_.mode = static_cast<int32_t>(p.mode);
        gradient_params_.prefix = prefix_of(p);
        if (!refusal().empty()) return;
        // The kernels of ADD write the states of rows without steps.
        const ElementKernels& numbers = *number_kernels(p.dtype, OperatorKind::add, 1);
        empty_ = EmptyStates(p, numbers, p.channels * p.element());
        empty_gradients_ = EmptyGradients(p, numbers);
    }

    const std::string& refusal() const { return scan_.refusal.empty() ? backward_.pass.refusal : scan_.refusal; }
    std::string describe() const override {
        return fmt::format("forward tiny_affine, {}; backward tiny_affine, {}", scan_.describe(),
                           backward_.pass.describe());
    }
    size_t scratch_bytes(Pass pass) const override {
        return (pass == Pass::forward ? forward_ : backward_.scratch).bytes();
    }

    void forward(const OperatorBuffers& b, void* stream) const override {
        const DeviceScope scope(device_);
        TinyAffineParams params = scan_params(b, reduces_ ? nullptr : b.output);
        params.final = b.state_out;
        params.reduced = reduces_ ? b.output : nullptr;
        scan_.launch(params, stream);
        empty_.run(b, stream);
    }

    void backward(const OperatorBuffers& b, void* stream) const override {
        const DeviceScope scope(device_);
        const void* before = b.output;
        if (reduces_) {
            before = static_cast<char*>(b.scratch) + backward_.prefixes;
            if (b.grad_gate != nullptr) find_prefixes(b, stream);
        }
        const void* const grad_scan = reduces_ ? nullptr : b.grad_output;
        TinyAffineParams params = gradient_params_;
        params.grid = backward_.pass.grid_of_call(b.seq_offsets, b.scratch,
                                                  {b.gate, grad_scan, b.grad_input, b.grad_gate, before});
        params.gate = b.gate;
        params.added = grad_scan;
        params.emitted = b.grad_input;
        params.start = b.grad_state_out;
        params.final = b.grad_state_in;
        params.start_reduced = reduces_ ? b.grad_output : nullptr;
        params.grad_gate = b.grad_gate;
        params.before = before;
        params.state_in = b.state_in;
        backward_.pass.launch(params, stream);
        empty_gradients_.run(b, stream);
    }

  private:
    TinyAffineParams scan_params(const OperatorBuffers& b, void* output) const {
        TinyAffineParams params = scan_params_;
        params.grid = scan_.grid_of_call(b.seq_offsets, b.scratch, {b.gate, b.input, output});
        params.gate = b.gate;
        params.added = b.input;
        params.emitted = output;
        params.start = b.state_in;
        return params;
    }
    void find_prefixes(const OperatorBuffers& b, void* stream) const {
        TinyAffineParams params = scan_params(b, nullptr);
        params.prefixes = static_cast<char*>(b.scratch) + backward_.prefixes;
        scan_.launch(params, stream);
    }

    int device_;
    bool reduces_;
    Workspace forward_;
    ElementPass scan_;
    TinyBackward backward_;
    TinyAffineParams scan_params_, gradient_params_;  // without a call's pointers
    EmptyStates empty_;
    EmptyGradients empty_gradients_;
};

}  // namespace

std::unique_ptr<OperatorKernel> make_tiny_affine(const OperatorProblem& problem, const ElementKernels& kernels,
                                                 const Options& options, std::string& refusal) {
    return make_tiny<TinyAffine>(problem, kernels, options, refusal);
}

}  // namespace flashscan::cuda
