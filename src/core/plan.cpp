// SPDX-License-Identifier: Apache-2.0
#include "core/plan.h"

#include <utility>

#include "core/error.h"
#include "core/planner.h"

namespace flashscan {
namespace {

void check_offsets(const std::vector<int64_t>& offsets, int64_t time) {
    if (offsets.empty()) return;
    if (offsets[0] != 0) fail(Code::invalid_argument, "SEQ_OFFSETS[0] is {}; accepted is 0", offsets[0]);
    for (size_t i = 1; i < offsets.size(); ++i)
        if (offsets[i] < offsets[i - 1])
            fail(Code::invalid_argument, "SEQ_OFFSETS[{}] is {}, less than SEQ_OFFSETS[{}] = {}; they may not decrease",
                 i, offsets[i], i - 1, offsets[i - 1]);
    if (offsets.back() > time)
        fail(Code::invalid_argument, "SEQ_OFFSETS[{}] is {}; accepted are values up to time = {}", offsets.size() - 1,
             offsets.back(), time);
}

// Scratch that lives for one call: the caller's if it was passed, else the backend's.
class Scratch {
  public:
    Scratch(const Backend& backend, const Options& options, void* given, size_t bytes, void* stream)
        : backend_(backend), options_(options), stream_(stream) {
        if (given != nullptr || bytes == 0)
            memory_ = given;
        else
            owned_ = memory_ = backend.allocate(bytes, options, stream);
    }
    ~Scratch() {
        if (owned_ != nullptr) backend_.release(owned_, options_, stream_);
    }
    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;
    void* get() const { return memory_; }

  private:
    const Backend& backend_;
    const Options& options_;
    void* stream_;
    void* memory_ = nullptr;
    void* owned_ = nullptr;
};

}  // namespace

LinearPlan::LinearPlan(LinearProblem problem, Options options)
    : problem_(problem), options_(std::move(options)), backend_(&find_backend(options_.backend)) {
    validate(problem_);
    backend_->check(options_);
    Choice choice = choose_linear(*backend_, problem_, options_);
    kernel_ = std::move(choice.kernel);
    forward_ =
        linear_arguments(problem_, Pass::forward, kernel_->scratch_bytes(Pass::forward), options_.caller_scratch);
    backward_ =
        linear_arguments(problem_, Pass::backward, kernel_->scratch_bytes(Pass::backward), options_.caller_scratch);
    description_ = fmt::format("{}\nbackend {} device {}\nkernel {}: {}\nscratch forward {} backward {} bytes\n",
                               problem_.describe(), backend_->name(), options_.device, choice.name, kernel_->describe(),
                               forward_.back().bytes, backward_.back().bytes);
    if (!choice.passed_over.empty()) description_ += "passed over\n" + choice.passed_over;
}

size_t LinearPlan::argument_bytes(Pass pass, int32_t id) const {
    for (const ArgumentSpec& spec : specs(pass))
        if (spec.id == id) return spec.bytes;
    fail(Code::unknown_argument, "arg_id is {}, which the {} pass of this plan does not take", id,
         pass == Pass::forward ? "forward" : "backward");
}

void LinearPlan::execute(Pass pass, std::span<const Argument> arguments, void* stream) const {
    LinearBuffers buffers = check_arguments(problem_, pass, specs(pass), arguments);
    backend_->check_memory(specs(pass), arguments, options_);
    if (problem_.packed())
        check_offsets(backend_->read_offsets(buffers.seq_offsets, problem_.offsets_dtype, problem_.num_sequences + 1,
                                             options_, stream),
                      problem_.time);
    const Scratch scratch(*backend_, options_, buffers.scratch, specs(pass).back().bytes, stream);
    buffers.scratch = scratch.get();
    if (pass == Pass::forward)
        kernel_->forward(buffers, stream);
    else
        kernel_->backward(buffers, stream);
}

}  // namespace flashscan
