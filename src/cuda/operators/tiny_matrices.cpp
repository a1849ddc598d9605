// SPDX-License-Identifier: Apache-2.0
// Host side of the kernel "tiny" of products of matrices, and the choice between it and that of affine maps.
#include "cuda/operators/backward_params.h"
#include "cuda/operators/candidates.h"
#include "cuda/operators/scan.h"
#include "cuda/operators/tiny.h"

namespace flashscan::cuda {
namespace {

class Tiny final : public OperatorKernel {
  public:
    Tiny(const OperatorProblem& p, const ElementKernels& kernels, const Options& options)
        : device_(options.device),
          reduces_(p.is_reduction()),
          scan_(p, kernels, options, forward_),
          backward_(p, kernels, options, forward_) {
        gradient_params_.mode = static_cast<int32_t>(p.mode);
        gradient_params_.prefix = prefix_of(p);
        if (refusal().empty()) empty_gradients_ = EmptyGradients(p, kernels);
    }

    const std::string& refusal() const { return scan_.refusal().empty() ? backward_.pass.refusal : scan_.refusal(); }
    std::string describe() const override {
        return fmt::format("forward element_scan, {}; backward tiny_backward, {}", scan_.describe(),
                           backward_.pass.describe());
    }
    size_t scratch_bytes(Pass pass) const override {
        return (pass == Pass::forward ? forward_ : backward_.scratch).bytes();
    }

    void forward(const OperatorBuffers& b, void* stream) const override {
        const DeviceScope scope(device_);
        scan_.forward(b, stream);
    }

    void backward(const OperatorBuffers& b, void* stream) const override {
        const DeviceScope scope(device_);
        char* const prefixes = static_cast<char*>(b.scratch) + backward_.prefixes;
        if (reduces_ && b.grad_input != nullptr) scan_.find_prefixes(b, prefixes, stream);
        const void* const grad_scan = reduces_ ? nullptr : b.grad_output;
        TinyBackwardParams params = gradient_params_;
        params.grid =
            backward_.pass.grid_of_call(b.seq_offsets, b.scratch, {b.input, b.output, grad_scan, b.grad_input});
        params.input = b.input;
        params.before = reduces_ ? prefixes : b.output;
        params.grad_output = grad_scan;
        params.grad_reduced = reduces_ ? b.grad_output : nullptr;
        params.grad_state_out = b.grad_state_out;
        params.state_in = b.state_in;
        params.grad_input = b.grad_input;
        params.grad_state_in = b.grad_state_in;
        backward_.pass.launch(params, stream);
        empty_gradients_.run(b, stream);
    }

  private:
    int device_;
    bool reduces_;
    Workspace forward_;
    OperatorScan scan_;
    TinyBackward backward_;
    TinyBackwardParams gradient_params_;  // without a call's pointers
    EmptyGradients empty_gradients_;
};

}  // namespace

bool is_tiny(const OperatorProblem& p) { return tiny_kernels(p.dtype, p.kind, p.dim) != nullptr; }

std::unique_ptr<OperatorKernel> make_operator_tiny(const OperatorProblem& problem, const Options& options,
                                                   std::string& refusal) {
    const OperatorProblem& p = problem;
    if (!p.is_matmul() && !p.is_affine()) {
        refusal = "elements are no matrices";
        return nullptr;
    }
    const ElementKernels* kernels = tiny_kernels(p.dtype, p.kind, p.dim);
    if (kernels == nullptr) {
        refusal = fmt::format("a thread's registers hold matrices of up to {} rows and {} bytes", largest_tiny_dim,
                              largest_tiny_bytes);
        return nullptr;
    }
    if (p.is_affine()) return make_tiny_affine(p, *kernels, options, refusal);
    return make_tiny<Tiny>(p, *kernels, options, refusal);
}

}  // namespace flashscan::cuda
