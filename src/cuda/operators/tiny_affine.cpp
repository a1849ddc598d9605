// SPDX-License-Identifier: Apache-2.0
// Host side of the kernel "tiny" of affine maps.
#include "cuda/operators/backward_params.h"
#include "cuda/operators/scan.h"
#include "cuda/operators/tiny.h"

namespace flashscan::cuda {
namespace {

class TinyAffine final : public OperatorKernel {
  public:
    TinyAffine(const OperatorProblem& problem, const ElementKernels& kernels, const Options& options)
        : p_(problem),
          kernels_(kernels),
          numbers_(*number_kernels(p_.dtype, OperatorKind::add, 1)),
          device_(options.device),
          scan_(make_element_pass(p_, kernels_.forward, options.batch_invariant, forward_)),
          scan_overlaps_(can_overlap(kernels_.scan, device_)),
          backward_(p_, kernels_, options, forward_) {}

    std::string refusal() const {
        std::string why = refusal_of(scan_, kernels_.scan, device_);
        return why.empty() ? refusal_of(backward_.pass, kernels_.gradients, device_) : why;
    }
    std::string describe() const override {
        return fmt::format("forward {}; backward {}", scan_.describe(), backward_.pass.describe());
    }
    size_t scratch_bytes(Pass pass) const override {
        return (pass == Pass::forward ? forward_ : backward_.scratch).bytes();
    }

    void forward(const OperatorBuffers& b, void* stream) const override {
        const DeviceScope scope(device_);
        TinyAffineParams params = forward_params(b, p_.is_reduction() ? nullptr : b.output);
        params.final = b.state_out;
        params.reduced = p_.is_reduction() ? b.output : nullptr;
        launch_elements(kernels_.scan, scan_, params, scan_overlaps_, stream);
        pass_empty_states(p_, numbers_, p_.channels * p_.element(), b, stream);
    }

    void backward(const OperatorBuffers& b, void* stream) const override {
        const DeviceScope scope(device_);
        const void* before = b.output;
        if (p_.is_reduction()) {
            before = static_cast<char*>(b.scratch) + backward_.prefixes;
            if (b.grad_gate != nullptr) find_prefixes(b, stream);
        }
        const void* const grad_scan = p_.is_reduction() ? nullptr : b.grad_output;
        TinyAffineParams params;
        params.grid = grid_of_call(backward_.pass, kernels_.backward, b.seq_offsets, b.scratch,
                                   {b.gate, grad_scan, b.grad_input, b.grad_gate, before});
        params.gate = b.gate;
        params.added = grad_scan;
        params.emitted = b.grad_input;
        params.start = b.grad_state_out;
        params.final = b.grad_state_in;
        params.start_reduced = p_.is_reduction() ? b.grad_output : nullptr;
        params.grad_gate = b.grad_gate;
        params.before = before;
        params.state_in = b.state_in;
        params.mode = static_cast<int32_t>(p_.mode);
        params.prefix = prefix_of(p_);
        launch_elements(kernels_.gradients, backward_.pass, params, backward_.overlaps, stream);
        pass_empty_gradients(p_, numbers_, b, stream);
    }

  private:
    TinyAffineParams forward_params(const OperatorBuffers& b, void* output) const {
        TinyAffineParams params;
        params.grid = grid_of_call(scan_, kernels_.forward, b.seq_offsets, b.scratch, {b.gate, b.input, output});
        params.gate = b.gate;
        params.added = b.input;
        params.emitted = output;
        params.start = b.state_in;
        params.mode = static_cast<int32_t>(p_.mode);
        return params;
    }
    void find_prefixes(const OperatorBuffers& b, void* stream) const {
        TinyAffineParams params = forward_params(b, nullptr);
        params.prefixes = static_cast<char*>(b.scratch) + backward_.prefixes;
        launch_elements(kernels_.scan, scan_, params, scan_overlaps_, stream);
    }

    OperatorProblem p_;
    const ElementKernels &kernels_, &numbers_;  // numbers_: of ADD, which write the states of rows without steps
    int device_;
    Workspace forward_;
    ElementPass scan_;
    bool scan_overlaps_;
    TinyBackward backward_;
};

}  // namespace

std::unique_ptr<OperatorKernel> make_tiny_affine(const OperatorProblem& problem, const ElementKernels& kernels,
                                                 const Options& options, std::string& refusal) {
    return make_tiny<TinyAffine>(problem, kernels, options, refusal);
}

}  // namespace flashscan::cuda
