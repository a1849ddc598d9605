// SPDX-License-Identifier: Apache-2.0
// Schedules of the scan of elements (numbers_general.cuh, numbers_general_index.cuh, numbers_backward.cuh), whose
// elements are one channel or as many neighbouring channels as fill a 32-bit word.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "cuda/operators/backward_params.h"
#include "cuda/operators/numbers_schedule.h"
#include "cuda/operators/scan.h"

namespace flashscan::cuda {
namespace {

class GeneralNumbers : public NumberSchedule {
  public:
    explicit GeneralNumbers(const ElementKernels& kernels)
        : channels_(kernels.forward.channels), bytes_(static_cast<uintptr_t>(kernels.forward.bytes)) {}
    virtual const std::string& refusal() const = 0;

    std::vector<std::string> obstacles() const override {
        if (channels_ == 1) return {};
        return {fmt::format("pointers are not multiples of {} bytes", bytes_)};
    }

  protected:
    bool are_aligned(std::initializer_list<const void*> arrays) const {
        return channels_ == 1 || std::all_of(arrays.begin(), arrays.end(), [&](const void* x) {
                   return reinterpret_cast<uintptr_t>(x) % bytes_ == 0;
               });
    }
    std::string describe(const char* kernel, const std::string& pass) const {
        return fmt::format("{}{}, {}", kernel, channels_ > 1 ? fmt::format(" of {} channels", channels_) : "", pass);
    }

  private:
    int channels_;
    uintptr_t bytes_;  // of an element
};

class GeneralForward final : public GeneralNumbers {
  public:
    GeneralForward(const OperatorProblem& p, const ElementKernels& kernels, const Options& options)
        : GeneralNumbers(kernels), indexed_(kernels.indexed), scan_(p, kernels, options, workspace_) {}

    const std::string& refusal() const override { return scan_.refusal(); }
    std::string describe() const override {
        return GeneralNumbers::describe(indexed_ ? "indexed_scan" : "element_scan", scan_.describe());
    }
    bool takes(const OperatorBuffers& b) const override { return are_aligned({b.input, b.output}); }
    void run(const OperatorBuffers& b, void* stream) const override { scan_.forward(b, stream); }

  private:
    bool indexed_;
    OperatorScan scan_;
};

// The gradients by numbers_backward. The forward scan runs before it where slopes depend on INPUT and time is cut, and
// leaves only the carries into chunks (marks).
class GeneralBackward final : public GeneralNumbers {
  public:
    GeneralBackward(const OperatorProblem& p, const ElementKernels& kernels, const Options& options)
        : GeneralNumbers(kernels), reads_input_(p.has_slopes()), reduces_(p.is_reduction()) {
        if (reads_input_) scan_.emplace(p, kernels, options, workspace_);
        if (reads_input_ && !scan_->is_cut()) scan_.reset();
        if (scan_) marks_ = workspace_.book(Extent(scan_->marks()) * kernels.forward.run_bytes);
        pass_ = make_element_pass(p, kernels.backward, kernels.gradients, options, workspace_);
        params_.mode = static_cast<int32_t>(p.mode);
        params_.kind = static_cast<int32_t>(p.kind);
        if (pass_.refusal.empty()) empty_ = EmptyGradients(p, kernels);
    }

    const std::string& refusal() const override {
        return scan_ && !scan_->refusal().empty() ? scan_->refusal() : pass_.refusal;
    }
    std::string describe() const override {
        return GeneralNumbers::describe(scan_ ? "element_scan and numbers_backward" : "numbers_backward",
                                        pass_.describe());
    }
    bool takes(const OperatorBuffers& b) const override {
        return are_aligned({input_of(b), b.grad_output, b.grad_input});
    }
    void run(const OperatorBuffers& b, void* stream) const override {
        void* const marks = scan_ ? static_cast<char*>(b.scratch) + marks_ : nullptr;
        if (scan_) scan_->find_marks(b, marks, stream);
        const void* const input = input_of(b);
        NumbersBackwardParams params = params_;
        params.grad_output = reduces_ ? nullptr : b.grad_output;
        params.grid = pass_.grid_of_call(b.seq_offsets, b.scratch, {input, params.grad_output, b.grad_input});
        params.input = input;
        params.grad_reduced = reduces_ ? b.grad_output : nullptr;
        params.grad_state_out = b.grad_state_out;
        params.state_in = b.state_in;
        params.marks = marks;
        params.grad_input = b.grad_input;
        params.grad_state_in = b.grad_state_in;
        pass_.launch(params, stream);
        empty_.run(b, stream);
    }

  private:
    const void* input_of(const OperatorBuffers& b) const { return reads_input_ ? b.input : nullptr; }

    bool reads_input_, reduces_;
    std::optional<OperatorScan> scan_;
    size_t marks_ = 0;
    ElementPass pass_;
    NumbersBackwardParams params_;  // without a call's pointers
    EmptyGradients empty_;
};

}  // namespace

NumberSchedulePointer make_general_numbers(const OperatorProblem& p, NumberUse use, const Options& options,
                                           int channels, std::string& refusal) {
    const ElementKernels* kernels = use == NumberUse::forward_with_index ? indexed_kernels(p.dtype, p.kind)
                                                                         : number_kernels(p.dtype, p.kind, channels);
    if (kernels == nullptr) {
        refusal = no_kernel_refusal(p);
        return nullptr;
    }
    std::unique_ptr<GeneralNumbers> made;
    if (use == NumberUse::backward)
        made = std::make_unique<GeneralBackward>(p, *kernels, options);
    else
        made = std::make_unique<GeneralForward>(p, *kernels, options);
    refusal = made->refusal();
    if (!refusal.empty()) return nullptr;
    return made;
}

}  // namespace flashscan::cuda
