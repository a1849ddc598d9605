// SPDX-License-Identifier: Apache-2.0
// Host side of the kernel "numbers": which schedules a plan has, and which of them runs a call.
#include <fmt/format.h>

#include <algorithm>

#include "cuda/launch/device_code.h"
#include "cuda/operators/candidates.h"
#include "cuda/operators/numbers_schedule.h"
#include "cuda/runtime.h"

namespace flashscan::cuda {
namespace {

// The schedules of a use. A call takes the first one that takes its arrays; the last one takes all.
struct Schedules {
    std::vector<NumberSchedulePointer> list;
    std::vector<std::string> passed_over;  // kernels, each with the condition that fails

    bool take_all() const { return !list.empty() && list.back()->obstacles().empty(); }

    // Describes the schedule that calls take if nothing keeps them from it, and which others they take otherwise, each
    // where the one before does not take them.
    std::string describe() const {
        const NumberSchedule* last = list.front().get();
        std::string text = last->describe();
        for (const NumberSchedulePointer& next : list) {
            std::vector<std::string> obstacles = last->obstacles();
            const std::vector<std::string> of_next = next->obstacles();
            std::erase_if(obstacles, [&](const std::string& obstacle) {
                return std::find(of_next.begin(), of_next.end(), obstacle) != of_next.end();
            });
            if (obstacles.empty()) continue;
            text += fmt::format("; where {}: {}", fmt::join(obstacles, ", or "), next->describe());
            last = next.get();
        }
        if (!passed_over.empty()) text += fmt::format(" (not {})", fmt::join(passed_over, "; not "));
        return text;
    }
    void run(const OperatorBuffers& b, void* stream) const {
        for (const NumberSchedulePointer& schedule : list)
            if (schedule == list.back() || schedule->takes(b)) return schedule->run(b, stream);
    }
};

// Returns a sentence where the plan may not have the kernels of dense rows: under BATCH_INVARIANT but for integers,
// with packed or empty sequences, where there is no machine code for the device, since these kernels have no PTX, and
// for gradients of sums that are reductions, which scan nothing. BATCH_INVARIANT rules them out because the number of
// rows decides how chained scans cut time into chunks, and the place of a call's arrays in memory decides which kernel
// runs; the bits of integers depend on neither.
std::string dense_rows_refusal(const OperatorProblem& p, NumberUse use, const Options& options) {
    if (options.batch_invariant && !is_integer(p.dtype))
        return fmt::format("dtype is {}; takes integers alone under BATCH_INVARIANT", name_of(p.dtype));
    if (p.packed()) return fmt::format("num_sequences is {}; takes 0", p.num_sequences);
    if (p.empty()) return "there are no elements; takes problems with elements";
    if (use == NumberUse::backward && !p.has_slopes() && p.is_reduction())
        return fmt::format("mode is reduction; takes scans for gradients of {}", name_of(p.kind));
    return code_refusal_of(Compiled::to_machine_code, options.device);
}

// Returns in `refusal` why there are none, if no schedule takes all calls.
Schedules make_schedules(const OperatorProblem& p, NumberUse use, const Options& options, std::string& refusal) {
    Schedules s;
    const auto add = [&](NumberSchedulePointer made) {
        if (made != nullptr)
            s.list.push_back(std::move(made));
        else
            s.passed_over.push_back(refusal);
    };
    if (const std::string why = dense_rows_refusal(p, use, options); !why.empty()) {
        const char* const kernels = use == NumberUse::forward_with_index ? "number_rows_index and number_columns_index"
                                    : use == NumberUse::backward && p.has_slopes()
                                        ? "number_rows_backward and number_columns_backward"
                                        : "number_short_rows, number_rows and number_columns";
        s.passed_over.push_back(fmt::format("{}: {}", kernels, why));
    } else {
        if (use != NumberUse::forward_with_index) add(make_short_numbers(p, use, options, refusal));
        if (!s.take_all()) add(make_chained_numbers(p, use, options, refusal));
    }
    // Words of channels and single channels are cut differently in time, and the choice depends on the arrays'
    // alignment. So batch-invariant plans have both only for integers, where the bracketing changes no bit.
    const int in_word = static_cast<int>(4 / size_of(p.dtype));
    const bool words = use != NumberUse::forward_with_index && p.layout == Layout::btc && in_word > 1 &&
                       p.channels >= in_word && p.channels % in_word == 0 && p.steps().time % in_word == 0 &&
                       (!options.batch_invariant || is_integer(p.dtype));
    if (!s.take_all() && words) add(make_general_numbers(p, use, options, in_word, refusal));
    if (!s.take_all()) add(make_general_numbers(p, use, options, 1, refusal));
    if (s.take_all()) refusal.clear();
    return s;
}

class Numbers final : public OperatorKernel {
  public:
    // Returns in `refusal` why the plan cannot have it.
    Numbers(const OperatorProblem& p, const Options& options, std::string& refusal) : device_(options.device) {
        forward_ = make_schedules(p, NumberUse::forward, options, refusal);
        if (refusal.empty() && p.has_index())
            indexed_ = make_schedules(p, NumberUse::forward_with_index, options, refusal);
        if (refusal.empty() && p.differentiable()) backward_ = make_schedules(p, NumberUse::backward, options, refusal);
    }

    std::string describe() const override {
        std::string text = "forward " + forward_.describe();
        if (!indexed_.list.empty()) text += "; with INDEX " + indexed_.describe();
        if (!backward_.list.empty()) text += "; backward " + backward_.describe();
        return text;
    }
    size_t scratch_bytes(Pass pass) const override {
        size_t bytes = 0;
        for (const Schedules* s : {&forward_, &indexed_, &backward_})
            for (const NumberSchedulePointer& schedule : s->list)
                if ((s == &backward_) == (pass == Pass::backward)) bytes = std::max(bytes, schedule->scratch_bytes());
        return bytes;
    }
    void forward(const OperatorBuffers& b, void* stream) const override {
        const DeviceScope scope(device_);
        (b.index != nullptr ? indexed_ : forward_).run(b, stream);
    }
    void backward(const OperatorBuffers& b, void* stream) const override {
        const DeviceScope scope(device_);
        backward_.run(b, stream);
    }

  private:
    int device_;
    Schedules forward_, indexed_, backward_;  // indexed_: forward, of calls with INDEX
};

}  // namespace

NumberArrays arrays_of_scan(const OperatorBuffers& b, NumberUse use, bool is_reduction) {
    if (use == NumberUse::backward)
        return {.from = b.grad_output, .to = b.grad_input, .state_in = b.grad_state_out, .state_out = b.grad_state_in};
    return {.from = b.input,
            .to = is_reduction ? nullptr : b.output,
            .reduced = is_reduction ? b.output : nullptr,
            .state_in = b.state_in,
            .state_out = b.state_out,
            .index = static_cast<int64_t*>(b.index)};
}

std::string no_kernel_refusal(const OperatorProblem& p) {
    return fmt::format("there is none for {} of {}", name_of(p.kind), name_of(p.dtype));
}

bool is_time_innermost(const OperatorProblem& p) { return p.layout == Layout::bct || p.steps().time == 1; }

std::unique_ptr<OperatorKernel> make_operator_numbers(const OperatorProblem& problem, const Options& options,
                                                      std::string& refusal) {
    if (!problem.on_numbers()) {
        refusal = "elements are no numbers";
        return nullptr;
    }
    const DeviceScope scope(options.device);
    refusal.clear();
    auto numbers = std::make_unique<Numbers>(problem, options, refusal);
    if (!refusal.empty()) return nullptr;
    return numbers;
}

}  // namespace flashscan::cuda
