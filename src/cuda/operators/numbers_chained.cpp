// SPDX-License-Identifier: Apache-2.0
// Schedules of chained scans of numbers: of OUTPUT from INPUT (numbers_chained.cuh, numbers_chained_index.cuh), and of
// GRAD|INPUT from GRAD|OUTPUT, which for sums is the same scan in the other direction; other operators have
// numbers_chained_backward.cuh for it.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "cuda/launch/alignment.h"
#include "cuda/launch/chained_tuning.h"
#include "cuda/launch/launch.h"
#include "cuda/operators/instances/table.h"
#include "cuda/operators/numbers_chained_params.h"
#include "cuda/operators/numbers_schedule.h"
#include "cuda/runtime.h"

namespace flashscan::cuda {
namespace {

// Names what a launch computes.
enum class ChainedUse {
    scan,           // OUTPUT
    indexed,        // OUTPUT and INDEX
    sum_gradients,  // GRAD|INPUT of sums
    marks,          // the carries that `gradients` starts its tiles from
    gradients       // GRAD|INPUT of operators with slopes, from marks
};

std::string name_of_kernel(ChainedUse use, bool time_inner) {
    return fmt::format("number_{}{}", time_inner ? "rows" : "columns",
                       use == ChainedUse::gradients ? "_backward"
                       : use == ChainedUse::marks   ? "_marks"
                       : use == ChainedUse::indexed ? "_index"
                                                    : "");
}

// A launch of a plan.
class ChainedLaunch {
  public:
    // Settles the launch and books the memory through which chunks exchange carries and summaries. Returns the
    // condition that fails, if one does.
    std::string settle(const OperatorProblem& p, ChainedUse use, const Options& options, Workspace& workspace) {
        use_ = use;
        time_inner_ = is_time_innermost(p);
        const ChainedNumberKernels* all = chained_number_kernels(p.dtype, p.kind);
        if (all == nullptr) return no_kernel_refusal(p);
        const ChainedKernels& kernels = (use == ChainedUse::gradients ? all->gradients
                                         : use == ChainedUse::marks   ? all->marks
                                         : use == ChainedUse::indexed ? all->indexed
                                                                      : all->scan)[time_inner_];
        if (kernels.kernel[0] == nullptr) return no_kernel_refusal(p);
        if (std::string why = tune(p, kernels); !why.empty()) return why;
        const bool backward = use == ChainedUse::sum_gradients || use == ChainedUse::gradients;
        const bool down = (p.direction == Direction::reverse) != backward;
        settle_params(p, *all, down, options.device);
        access_ = size_of(p.dtype) * kernels.lane_rows;
        alignment_ = alignment_of(p.dtype);
        const auto [carries, exchanged] =
            exchanged_bytes(tuning_, group_chunks(), Extent(batches_) * ceil_div(rows_, int64_t{kernels.lane_rows}),
                            kernels.carry_bytes, kernels.record_bytes);
        carries_ = workspace.book(exchanged);
        records_ = carries_ + static_cast<size_t>(carries);
        clear_ = ClearLaunch(static_cast<size_t>(exchanged));
        kernel_ = kernels.kernel[down && time_inner_];
        shape_ = blocks_of(tuning_.blocks, 32 * tuning_.warps);
        shape_.shared_bytes = kernels.warp_bytes * tuning_.warps;
        shape_.overlaps = can_overlap(kernel_, options.device) && tuning_.chunks > 1;
        return {};
    }

    std::string name() const { return name_of_kernel(use_, time_inner_); }
    std::string describe() const {
        std::string text = fmt::format("{} groups of rows x {} chunks of {} steps, {} groups a set, {} innermost",
                                       (time_inner_ ? 1 : batches_) * tuning_.row_groups, tuning_.chunks,
                                       tuning_.chunk_steps, tuning_.set_groups, time_inner_ ? "time" : "channel");
        if (grouped_) text += fmt::format(", carries by groups of {} chunks", group_chunks());
        return text;
    }
    // Names the demands on the arrays of a call, of which there are up to `arrays`, that some calls do not meet.
    std::vector<std::string> obstacles(int arrays) const {
        std::vector<std::string> all;
        if (access_ > alignment_) all.push_back(fmt::format("pointers are not multiples of {} bytes", access_));
        if (time_inner_ && arrays > 1 && access_ < 16) all.emplace_back("pointers do not lie alike within 16 bytes");
        return all;
    }
    // Whether a call's arrays lie as the kernel needs; null ones do.
    bool takes(std::initializer_list<const void*> arrays) const {
        return are_multiples(arrays, access_) && (!time_inner_ || lie_alike(nullptr, arrays, 16));
    }
    // The parameters of a call but for its pointers.
    const NumberChainParams& params() const { return params_; }
    // Launches the kernel with the parameters of a call, but for those through which chunks exchange values.
    template <typename Params>
    void run(Params params, void* scratch, void* stream) const {
        if (tuning_.chunks > 1) {
            params.carries = static_cast<char*>(scratch) + carries_;
            params.records = static_cast<char*>(scratch) + records_;
            clear_.run(params.carries, stream);
        }
        launch(kernel_, shape_, stream, params, sets_);
    }

  private:
    int group_chunks() const { return cuda::group_chunks(grouped_, time_inner_); }

    // Cuts time into chunks. Returns the condition that fails, if one does.
    std::string tune(const OperatorProblem& p, const ChainedKernels& kernels) {
        const int64_t time_step = p.steps().time, most = std::numeric_limits<int32_t>::max();
        batches_ = time_inner_ ? Extent(1) : p.batch;
        rows_ = time_inner_ ? p.batch * p.channels : p.channels;
        if (batches_ * rows_ > most)
            return fmt::format("batch * channels is {}; takes up to 2^31 - 1", batches_ * rows_);
        if (use_ == ChainedUse::indexed && p.time >= most)
            return fmt::format("time is {}; takes less than 2^31 - 1", p.time);
        for (const int64_t channels : {rows_, time_step})
            if (!time_inner_ && channels % kernels.lane_rows != 0)
                return fmt::format("channels are {}; takes multiples of {}", channels, kernels.lane_rows);
        const ChainedShape shape{batches_, rows_,       p.time, time_step * size_of(p.dtype) % sector_bytes != 0,
                                 0,        kernels.skew};
        ChainedTile tile{kernels.lane_rows, kernels.steps, chained_warps};
        // Lanes of 256 bytes make chunks that are twice as long.
        if (kernels.lane_rows * kernels.steps * size_of(p.dtype) > 128) tile.few_chunks = column_chunk_group;
        tuning_ = time_inner_ ? tune_chained_rows(shape, tile) : tune_chained_columns(shape, tile);
        // The scan of elements takes bytes one by one, six times as long as rows that fill a quarter of their lanes.
        const int most_wasted = size_of(p.dtype) == 1 ? 3 : 1;
        const bool suits = time_inner_ ? chained_rows_suit(shape, tuning_, most_wasted)
                                       : chained_columns_suit(shape, tile, tuning_, true);
        grouped_ = !suits && (time_inner_ ? chained_groups_suit(tuning_)
                                          : chained_column_groups_suit(shape, tile, tuning_, kernels.record_bytes));
        if (!suits && !grouped_) {
            if (time_inner_)
                return fmt::format("time is {}; with {} rows takes more than {} steps", p.time, rows_,
                                   tuning_.chunks * tuning_.chunk_steps / (most_wasted + 1) - shape.skew);
            if (!fills_chunks(shape, tuning_))
                return fmt::format("time is {}; takes what fills chunks of {} steps", p.time, tuning_.chunk_steps);
            return fmt::format("rows make {} groups; takes more where time is cut into {} chunks",
                               batches_ * tuning_.row_groups, tuning_.chunks);
        }
        if (tuning_.blocks > most) return fmt::format("{} blocks are more than a grid's 2^31 - 1", tuning_.blocks);
        return {};
    }

    void settle_params(const OperatorProblem& p, const ChainedNumberKernels& kernels, bool down, int device) {
        const OperatorProblem::Steps steps = p.steps();
        const int64_t bytes = size_of(p.dtype);
        params_.batches = batches_;
        params_.rows = rows_;
        params_.time = p.time;
        params_.exclusive = p.mode == OperatorMode::exclusive;
        View& view = params_.input;
        // With channels innermost a walk against the order of memory has its tensors turned round.
        view.time = (down && !time_inner_ ? -1 : 1) * steps.time * bytes;
        view.row = (time_inner_ ? p.time : Extent(1)) * bytes;
        view.batch = steps.batch * bytes;
        params_.output = view;
        params_.row_groups = tuning_.row_groups;
        params_.by_row_groups = divisor_of(static_cast<uint32_t>(params_.row_groups));
        sets_ = sets_of(tuning_, rows_);
        params_.chunks = tuning_.chunks;
        params_.log2_warp_rows = tuning_.log2_warp_rows;
        params_.grouped = grouped_;
        // Hardly any block of a reduction waits for another, so it needs no tiles ahead.
        if (grouped_ && time_inner_ && use_ != ChainedUse::gradients &&
            (use_ == ChainedUse::marks || !p.is_reduction()))
            params_.ahead = steps_ahead(tuning_, device_attribute(cudaDevAttrMultiProcessorCount, device));
        const ChainedKernels& marked = kernels.gradients[time_inner_];
        if (marked.steps > 0)
            params_.mark_places =
                time_inner_ ? ceil_div(p.time + marked.skew, int64_t{32} * marked.steps) : p.time / marked.steps;
    }

    ChainedUse use_{};
    bool time_inner_ = false, grouped_ = false;
    int64_t batches_ = 0, rows_ = 0;      // rows of a batch entry
    int64_t access_ = 0, alignment_ = 0;  // bytes of a lane's access, and the alignment that all arrays have
    ChainedTuning tuning_;
    NumberChainParams params_;
    ChainedSets sets_;
    const void* kernel_ = nullptr;
    LaunchShape shape_;
    size_t carries_ = 0, records_ = 0;  // places in scratch memory
    ClearLaunch clear_;
};

// A scan in one launch.
class ChainedScan final : public NumberSchedule {
  public:
    std::string settle(const OperatorProblem& p, NumberUse use, const Options& options) {
        use_ = use;
        reduces_ = p.is_reduction();
        return launch_.settle(p,
                              use == NumberUse::forward    ? ChainedUse::scan
                              : use == NumberUse::backward ? ChainedUse::sum_gradients
                                                           : ChainedUse::indexed,
                              options, workspace_);
    }

    std::string describe() const override { return fmt::format("{}, {}", launch_.name(), launch_.describe()); }
    std::vector<std::string> obstacles() const override {
        std::vector<std::string> all = launch_.obstacles(reduces_ ? 1 : 2);
        if (use_ == NumberUse::forward_with_index) all.emplace_back("INDEX is no multiple of 16 bytes");
        if (use_ == NumberUse::backward) all.emplace_back("there is no GRAD|OUTPUT");
        return all;
    }
    bool takes(const OperatorBuffers& b) const override {
        const NumberArrays a = arrays_of_scan(b, use_, reduces_);
        return a.from != nullptr && launch_.takes({a.from, a.to}) && reinterpret_cast<uintptr_t>(a.index) % 16 == 0;
    }
    void run(const OperatorBuffers& b, void* stream) const override {
        const NumberArrays a = arrays_of_scan(b, use_, reduces_);
        NumberChainParams params = launch_.params();
        params.input.point(a.from, params.time);
        params.output.point(a.to, params.time);
        params.reduced = a.reduced;
        params.state_in = a.state_in;
        params.state_out = a.state_out;
        params.index = a.index;
        launch_.run(params, b.scratch, stream);
    }

  private:
    NumberUse use_{};
    bool reduces_ = false;
    ChainedLaunch launch_;
};

// Gradients of operators with slopes, in two launches.
class ChainedGradients final : public NumberSchedule {
  public:
    std::string settle(const OperatorProblem& p, const Options& options) {
        reduces_ = p.is_reduction();
        if (std::string why = marks_.settle(p, ChainedUse::marks, options, workspace_); !why.empty()) return why;
        if (std::string why = gradients_.settle(p, ChainedUse::gradients, options, workspace_); !why.empty())
            return why;
        const NumberChainParams& params = marks_.params();
        place_ = workspace_.book(params.batches * params.rows * params.mark_places * size_of(state_dtype(p.dtype)));
        params_ = {gradients_.params(), gradients_.params().input, nullptr, nullptr};
        return {};
    }

    std::string describe() const override {
        return fmt::format("{} and {}, {}", marks_.name(), gradients_.name(), gradients_.describe());
    }
    std::vector<std::string> obstacles() const override {
        std::vector<std::string> all = gradients_.obstacles(2);
        for (const std::string& of_marks : marks_.obstacles(1))
            if (all != std::vector{of_marks}) all.push_back(of_marks);
        return all;
    }
    bool takes(const OperatorBuffers& b) const override {
        return marks_.takes({b.input}) && gradients_.takes({b.input, reduces_ ? nullptr : b.grad_output, b.grad_input});
    }
    void run(const OperatorBuffers& b, void* stream) const override {
        NumberChainParams scan = marks_.params();
        scan.input.point(b.input, scan.time);
        scan.output.point(nullptr, scan.time);
        scan.state_in = b.state_in;
        scan.marks = static_cast<char*>(b.scratch) + place_;
        marks_.run(scan, b.scratch, stream);
        NumberGradientParams params = params_;
        params.input.point(b.input, params.time);
        params.output.point(b.grad_input, params.time);
        params.grad_output.point(reduces_ ? nullptr : b.grad_output, params.time);
        params.grad_reduced = reduces_ ? b.grad_output : nullptr;
        params.scan_state_in = b.state_in;
        params.state_in = b.grad_state_out;
        params.state_out = b.grad_state_in;
        params.marks = scan.marks;
        gradients_.run(params, b.scratch, stream);
    }

  private:
    ChainedLaunch marks_, gradients_;
    NumberGradientParams params_;  // without a call's pointers
    size_t place_ = 0;             // of the marks in scratch memory
    bool reduces_ = false;
};

}  // namespace

NumberSchedulePointer make_chained_numbers(const OperatorProblem& p, NumberUse use, const Options& options,
                                           std::string& refusal) {
    auto scan = std::make_unique<ChainedScan>();
    auto gradients = std::make_unique<ChainedGradients>();
    const bool has_slopes = use == NumberUse::backward && p.has_slopes();
    refusal = has_slopes ? gradients->settle(p, options) : scan->settle(p, use, options);
    if (refusal.empty()) return has_slopes ? NumberSchedulePointer(std::move(gradients)) : std::move(scan);
    const ChainedUse named = has_slopes                             ? ChainedUse::gradients
                             : use == NumberUse::forward_with_index ? ChainedUse::indexed
                                                                    : ChainedUse::scan;
    refusal = fmt::format("{}: {}", name_of_kernel(named, is_time_innermost(p)), refusal);
    return nullptr;
}

}  // namespace flashscan::cuda
