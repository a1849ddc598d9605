// SPDX-License-Identifier: Apache-2.0
// Host side of the kernel "decode" of selective scans (decode.cuh), forward over few steps. Backward, and what a rank
// tells others, is that of "resident".
#include <algorithm>

#include "cuda/launch/step_rows.h"
#include "cuda/launch/view_of.h"
#include "cuda/selective/call.h"
#include "cuda/selective/candidates.h"
#include "cuda/selective/instances/table.h"

namespace flashscan::cuda {
namespace {

SelectiveStepKernel kernel_of(const SelectiveProblem& p) {
    return selective_step_kernel(p.dtype, p.matrix_dtype, p.states);
}

class Steps final : public ForwardSteps<SummarisedSelective, SelectiveBuffers> {
  public:
    Steps(const SelectiveProblem& problem, const Options& options, std::unique_ptr<SummarisedSelective> rest)
        : ForwardSteps(std::move(rest)),
          p_(problem),
          device_(options.device),
          kernel_(kernel_of(p_)),
          params_(params_of(p_, Pass::forward)) {
        constexpr int64_t bytes = 16;
        const int64_t size = size_of(p_.step_dtype()), pack = std::min<int64_t>(kernel_.states_of_lane, bytes / size);
        steps_.states = state_rows_of(p_, size_of(p_.matrix_dtype));
        steps_.rows = static_cast<uint32_t>(int64_t{p_.state_rows()});
        steps_.by_group_channels = divisor_of(static_cast<uint32_t>(params_.group_channels));
        lanes_are_full_ = p_.states == kernel_.lanes * kernel_.states_of_lane;
        b_alignment_ = pack_alignment(params_.b, size, pack);
        c_alignment_ = pack_alignment(params_.c, size, pack);
        any_ = settle(kernel_.any);
        if (kernel_.plain.kernel != nullptr && lanes_are_full_ && is_plain()) plain_ = settle(kernel_.plain);
    }

    std::string describe() const override {
        std::string text = fmt::format("forward {} lanes for each channel of {} rows", kernel_.lanes, kernel_.any.rows);
        if (plain_.kernel != nullptr)
            text += fmt::format(", plain with {} rows where pointers are aligned", kernel_.plain.rows);
        return text + "; " + describe_backward();
    }

    void forward(const SelectiveBuffers& b, void* stream) const override {
        const DeviceScope scope(device_);
        SelectiveParams params = params_;
        point_inputs(params, p_, b);
        point(params.output, b.output);
        params.state_out = b.state_out;
        SelectiveStepParams steps = steps_;
        point(steps.states, b);
        steps.whole = lanes_are_full_ && lie_aligned(steps.states) && matrices_lie_whole(params);
        const Launch& chosen = steps.whole != 0 && plain_.kernel != nullptr ? plain_ : any_;
        if (chosen.grid.blocks.x == 0) return;
        params.slices = chosen.slices;
        steps.by_slices = chosen.by_slices;
        launch(chosen.kernel, chosen.grid, stream, params, steps);
    }
    void summarise(Pass pass, const SelectiveBuffers& b, void* delta_sums, void* stream) const override {
        rest_->summarise(pass, b, delta_sums, stream);
    }
    size_t summary_bytes(Pass pass) const override { return rest_->summary_bytes(pass); }

  private:
    // How an instance of the kernel is launched.
    struct Launch {
        const void* kernel = nullptr;
        LaunchShape grid;
        int32_t slices = 0;
        Divisor by_slices;
    };
    Launch settle(const SelectiveStepKernel::Instance& instance) const {
        const int64_t threads = p_.channels * kernel_.lanes, row_groups = ceil_div(p_.state_rows(), instance.rows);
        Launch l;
        l.kernel = instance.kernel;
        const int block = step_block(row_groups * threads, selective_step_threads,
                                     device_attribute(cudaDevAttrMultiProcessorCount, device_));
        l.slices = static_cast<int32_t>(ceil_div(threads, block));
        l.by_slices = divisor_of(static_cast<uint32_t>(l.slices));
        l.grid = blocks_of(row_groups * l.slices, block);
        return l;
    }
    // Whether calls whose numbers lie whole are Plain (decode.cuh).
    bool is_plain() const {
        if (p_.packed() || p_.has_reset || !p_.b_per_step || !p_.c_per_step) return false;
        const auto fits = [](int64_t stride) { return stride == static_cast<int32_t>(stride); };
        const View* const tensors[] = {&params_.input,  &params_.delta, &params_.gate,
                                       &params_.output, &params_.b,     &params_.c};
        return fits(steps_.states.in_step) && fits(steps_.states.out_step) &&
               std::all_of(std::begin(tensors), std::end(tensors),
                           [&](const View* v) { return fits(v->batch) && fits(v->row) && fits(v->time); });
    }
    // Whether lanes can load their numbers of A, B and C at once.
    bool matrices_lie_whole(const SelectiveParams& params) const {
        constexpr int64_t bytes = 16;
        return are_multiples({params.a, params.constant_b, params.constant_c}, bytes) &&
               lies_in_packs(params.b.data, b_alignment_) && lies_in_packs(params.c.data, c_alignment_);
    }

    SelectiveProblem p_;
    int device_;
    SelectiveStepKernel kernel_;
    SelectiveParams params_;  // these and the next are without a call's pointers
    SelectiveStepParams steps_;
    bool lanes_are_full_;                // whether every lane has all of its states
    int64_t b_alignment_, c_alignment_;  // pack_alignment of B and C of a step
    Launch any_, plain_;                 // the latter has no kernel where no call is Plain
};

// Returns why blocks are expected to be faster than lanes for each channel, or an empty string.
std::string refuse(const SelectiveProblem& p, const Options& options) {
    constexpr int64_t most_steps = 4;
    if (p.channels == 0 || p.state_rows() == 0) return "there are no states";
    return steps_refusal(p, most_steps, options.batch_invariant);
}

}  // namespace

std::unique_ptr<SummarisedSelective> make_selective_decode(const SelectiveProblem& problem, const Options& options,
                                                           std::string& refusal) {
    refusal = step_threads_refusal(problem, problem.groups * problem.states,
                                   problem.channels * kernel_of(problem).lanes, "groups * states");
    if (refusal.empty() && options.kernel.empty()) refusal = refuse(problem, options);
    if (!refusal.empty()) return nullptr;
    const DeviceScope scope(options.device);
    auto rest = problem.pooled() ? nullptr : make_selective_resident(problem, options, refusal);
    return std::make_unique<Steps>(problem, options, std::move(rest));
}

}  // namespace flashscan::cuda
