// SPDX-License-Identifier: Apache-2.0
// Host side of the kernel "numbers".
#include <algorithm>
#include <vector>

#include "cuda/operators/backward_params.h"
#include "cuda/operators/candidates.h"
#include "cuda/operators/numbers_chained.h"
#include "cuda/operators/numbers_short_rows.h"
#include "cuda/operators/scan.h"

namespace flashscan::cuda {
namespace {

bool is_aligned(const void* array, uintptr_t bytes) { return reinterpret_cast<uintptr_t>(array) % bytes == 0; }

// Both passes, for elements that are one channel or as many neighbouring channels as fill a 32-bit word. Backward,
// which integers do not have, begins with the scan, of which it keeps only the carries into chunks (marks).
struct Variant {
    const ElementKernels& kernels;
    Workspace forward, backward;
    OperatorScan scan;
    size_t marks = 0;
    ElementPass gradients;

    Variant(const OperatorProblem& p, const ElementKernels& k, const Options& options)
        : kernels(k), scan(p, k, options, forward) {
        if (!p.differentiable()) return;
        if (p.has_slopes()) {
            backward = forward;
            if (scan.is_cut()) marks = backward.book(Extent(scan.marks()) * k.forward.run_bytes);
        }
        gradients = make_element_pass(p, k.backward, options.batch_invariant, backward);
    }

    std::string refusal(int device) const {
        std::string why = scan.refusal();
        return why.empty() && kernels.gradients != nullptr ? refusal_of(gradients, kernels.gradients, device) : why;
    }
    uintptr_t alignment() const { return static_cast<uintptr_t>(kernels.forward.bytes); }
};

// Forward with INDEX, for calls that give it.
struct IndexedVariant {
    Workspace forward;
    OperatorScan scan;

    IndexedVariant(const OperatorProblem& p, const Options& options)
        : scan(p, *indexed_kernels(p.dtype, p.kind), options, forward) {}
};

class Numbers final : public OperatorKernel {
  public:
    Numbers(const OperatorProblem& problem, const Options& options, std::vector<std::unique_ptr<Variant>> variants,
            std::unique_ptr<IndexedVariant> indexed)
        : p_(problem),
          device_(options.device),
          variants_(std::move(variants)),
          indexed_(std::move(indexed)),
          overlaps_(p_.differentiable() && can_overlap(variants_.front()->kernels.gradients, device_)) {
        short_ = ShortNumbers::make(p_, false, options);
        chained_ = ChainedNumbers::make(p_, ChainedUse::scan, options, chained_forward_);
        if (indexed_ != nullptr)
            chained_indexed_ = ChainedNumbers::make(p_, ChainedUse::indexed, options, chained_with_index_);
        if (!p_.differentiable()) return;
        if (p_.has_slopes())
            chained_gradients_ = ChainedNumberGradients::make(p_, options, chained_backward_);
        else if (!p_.is_reduction()) {
            short_sums_ = ShortNumbers::make(p_, true, options);
            chained_sums_ = ChainedNumbers::make(p_, ChainedUse::sum_gradients, options, chained_backward_);
        }
    }

    std::string describe() const override {
        const Variant& v = *variants_.front();
        std::string text = "forward ";
        if (short_) text += fmt::format("{}, or where arrays are not aligned ", short_->describe());
        if (chained_) text += fmt::format("{}, or where arrays do not lie for it ", chained_->describe());
        text += v.scan.describe();
        if (indexed_ != nullptr) {
            text += "; with INDEX ";
            if (chained_indexed_)
                text += fmt::format("{}, or where arrays do not lie for it ", chained_indexed_->describe());
            text += indexed_->scan.describe();
        }
        if (!p_.differentiable()) return text;
        text += "; backward ";
        if (short_sums_) text += fmt::format("{}, or where arrays are not aligned ", short_sums_->describe());
        if (chained_sums_) text += fmt::format("{}, or where arrays do not lie for it ", chained_sums_->describe());
        if (chained_gradients_)
            text += fmt::format("{}, or where arrays do not lie for it ", chained_gradients_->describe());
        text += v.gradients.describe();
        return text;
    }
    size_t scratch_bytes(Pass pass) const override {
        size_t bytes = indexed_ != nullptr && pass == Pass::forward ? indexed_->forward.bytes() : 0;
        bytes = std::max(bytes, (pass == Pass::forward ? chained_forward_ : chained_backward_).bytes());
        if (pass == Pass::forward) bytes = std::max(bytes, chained_with_index_.bytes());
        for (const auto& v : variants_)
            bytes = std::max(bytes, (pass == Pass::forward ? v->forward : v->backward).bytes());
        return bytes;
    }

    void forward(const OperatorBuffers& b, void* stream) const override {
        const DeviceScope scope(device_);
        void* const output = p_.is_reduction() ? nullptr : b.output;
        const NumberArrays arrays{.from = b.input,
                                  .to = output,
                                  .reduced = p_.is_reduction() ? b.output : nullptr,
                                  .state_in = b.state_in,
                                  .state_out = b.state_out,
                                  .index = static_cast<int64_t*>(b.index)};
        if (b.index != nullptr) {
            if (chained_indexed_ && chained_indexed_->takes({b.input, output}) && is_aligned(b.index, 16))
                return chained_indexed_->run(arrays, b.scratch, stream);
            return indexed_->scan.forward(b, stream);
        }
        if (short_ && short_->takes({b.input, output})) return short_->run(arrays, stream);
        if (chained_ && chained_->takes({b.input, output})) return chained_->run(arrays, b.scratch, stream);
        pick({b.input, b.output}).scan.forward(b, stream);
    }

    void backward(const OperatorBuffers& b, void* stream) const override {
        const DeviceScope scope(device_);
        const NumberArrays sums{b.grad_output, b.grad_input, nullptr, b.grad_state_out, b.grad_state_in};
        const auto takes_sums = [&](const auto& scan) {
            return scan && b.grad_output != nullptr && scan->takes({b.grad_output, b.grad_input});
        };
        if (takes_sums(short_sums_)) return short_sums_->run(sums, stream);
        if (takes_sums(chained_sums_)) return chained_sums_->run(sums, b.scratch, stream);
        if (chained_gradients_ && chained_gradients_->takes(b)) return chained_gradients_->run(b, stream);
        const bool recomputes = p_.has_slopes();
        const void* const input = recomputes ? b.input : nullptr;
        const Variant& v = pick({input, b.grad_output, b.grad_input});
        char* const base = static_cast<char*>(b.scratch);
        const bool marked = recomputes && v.scan.is_cut();
        if (marked) v.scan.find_marks(b, base + v.marks, stream);
        NumbersBackwardParams params;
        const void* const grad_scan = p_.is_reduction() ? nullptr : b.grad_output;
        params.grid =
            grid_of_call(v.gradients, v.kernels.backward, b.seq_offsets, b.scratch, {input, grad_scan, b.grad_input});
        params.input = input;
        params.grad_output = grad_scan;
        params.grad_reduced = p_.is_reduction() ? b.grad_output : nullptr;
        params.grad_state_out = b.grad_state_out;
        params.state_in = b.state_in;
        params.marks = marked ? base + v.marks : nullptr;
        params.grad_input = b.grad_input;
        params.grad_state_in = b.grad_state_in;
        params.mode = static_cast<int32_t>(p_.mode);
        params.kind = static_cast<int32_t>(p_.kind);
        launch_elements(v.kernels.gradients, v.gradients, params, overlaps_, stream);
        pass_empty_gradients(p_, v.kernels, b, stream);
    }

  private:
    const Variant& pick(std::initializer_list<const void*> data) const {
        const Variant& first = *variants_.front();
        const bool aligned =
            std::all_of(data.begin(), data.end(), [&](const void* x) { return is_aligned(x, first.alignment()); });
        return aligned ? first : *variants_.back();
    }

    OperatorProblem p_;
    int device_;
    std::vector<std::unique_ptr<Variant>> variants_;  // for words of channels, if there is one; for single channels
    std::unique_ptr<IndexedVariant> indexed_;         // of operators that have INDEX
    bool overlaps_;
    std::optional<ShortNumbers> short_, short_sums_;  // of short rows with time innermost
    // Chained scans, which many rows take: forward, with INDEX, backward for sums, and backward for the others.
    std::optional<ChainedNumbers> chained_, chained_indexed_, chained_sums_;
    std::optional<ChainedNumberGradients> chained_gradients_;
    Workspace chained_forward_, chained_with_index_, chained_backward_;
};

}  // namespace

std::unique_ptr<OperatorKernel> make_operator_numbers(const OperatorProblem& problem, const Options& options,
                                                      std::string& refusal) {
    const OperatorProblem& p = problem;
    if (!p.on_numbers()) {
        refusal = "elements are no numbers";
        return nullptr;
    }
    const DeviceScope scope(options.device);
    std::vector<std::unique_ptr<Variant>> variants;
    // Words of channels and single channels are cut differently in time, and the choice depends on the arrays'
    // alignment. So batch-invariant plans have both only for integers, where the bracketing changes no bit.
    const bool words = p.layout == Layout::btc && (!options.batch_invariant || is_integer(p.dtype));
    for (const int channels : {4, 2, 1}) {
        const bool whole = p.channels % channels == 0 && p.steps().time % channels == 0;
        if (channels > 1 && (!words || p.channels < channels || !whole)) continue;
        const ElementKernels* kernels = number_kernels(p.dtype, p.kind, channels);
        if (kernels == nullptr) continue;
        variants.push_back(std::make_unique<Variant>(p, *kernels, options));
        refusal = variants.back()->refusal(options.device);
        if (!refusal.empty()) return nullptr;
    }
    if (!variants.empty()) {
        std::unique_ptr<IndexedVariant> indexed;
        if (p.has_index()) {
            indexed = std::make_unique<IndexedVariant>(p, options);
            refusal = indexed->scan.refusal();
            if (!refusal.empty()) return nullptr;
        }
        return std::make_unique<Numbers>(p, options, std::move(variants), std::move(indexed));
    }
    refusal = fmt::format("there is none for {} of {}", name_of(p.kind), name_of(p.dtype));
    return nullptr;
}

}  // namespace flashscan::cuda
