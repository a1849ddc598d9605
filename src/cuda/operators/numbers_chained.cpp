// SPDX-License-Identifier: Apache-2.0
#include "cuda/operators/numbers_chained.h"

#include <fmt/format.h>

#include <limits>

#include "cuda/launch/device_code.h"
#include "cuda/launch/launch.h"
#include "cuda/runtime.h"

namespace flashscan::cuda {
namespace {

constexpr int64_t sector_bytes = 32;

}  // namespace

bool is_for_dense_rows(const OperatorProblem& p, const Options& options) {
    return (!options.batch_invariant || is_integer(p.dtype)) && !p.packed() && !p.empty() &&
           code_refusal_of(Compiled::to_machine_code, options.device).empty();
}

bool is_time_innermost(const OperatorProblem& p) { return p.layout == Layout::bct || p.steps().time == 1; }

std::optional<ChainedNumbers> ChainedNumbers::make(const OperatorProblem& p, ChainedUse use, const Options& options,
                                                   Workspace& workspace) {
    const ChainedNumberKernels* kernels = chained_number_kernels(p.dtype, p.kind);
    if (kernels == nullptr || !is_for_dense_rows(p, options)) return std::nullopt;
    ChainedNumbers c;
    const OperatorProblem::Steps steps = p.steps();
    c.time_inner_ = is_time_innermost(p);
    const bool backward = use == ChainedUse::sum_gradients || use == ChainedUse::gradients;
    c.down_ = (p.direction == Direction::reverse) != backward;
    c.kernels_ = &(use == ChainedUse::gradients ? kernels->gradients
                   : use == ChainedUse::marks   ? kernels->marks
                   : use == ChainedUse::indexed ? kernels->indexed
                                                : kernels->scan)[c.time_inner_];
    if (c.kernels_->kernel[0] == nullptr) return std::nullopt;
    const int64_t batches = c.time_inner_ ? Extent(1) : p.batch,
                  rows = c.time_inner_ ? p.batch * p.channels : p.channels;
    const int lane_rows = c.kernels_->lane_rows;
    const int64_t most_rows = std::numeric_limits<int32_t>::max();
    if (batches * rows > most_rows || (use == ChainedUse::indexed && p.time >= most_rows)) return std::nullopt;
    if (!c.time_inner_ && (rows % lane_rows != 0 || steps.time % lane_rows != 0)) return std::nullopt;

    const ChainedShape shape{batches,         rows, p.time, steps.time * size_of(p.dtype) % sector_bytes != 0, 0,
                             c.kernels_->skew};
    const ChainedTile tile{lane_rows, c.kernels_->steps, chained_warps};
    c.tuning_ = c.time_inner_ ? tune_chained_rows(shape, tile) : tune_chained_columns(shape, tile);
    const bool suits =
        c.time_inner_ ? chained_rows_suit(shape, c.tuning_) : chained_columns_suit(shape, tile, c.tuning_, true);
    const bool grouped =
        !suits && (c.time_inner_ ? chained_groups_suit(c.tuning_)
                                 : chained_column_groups_suit(shape, tile, c.tuning_, c.kernels_->record_bytes));
    if ((!suits && !grouped) || c.tuning_.blocks > std::numeric_limits<int32_t>::max()) return std::nullopt;

    c.element_bytes_ = size_of(p.dtype);
    NumberChainParams& params = c.params_;
    params.batches = batches;
    params.rows = rows;
    params.time = p.time;
    params.exclusive = p.mode == OperatorMode::exclusive;
    View& view = params.input;
    // With channels innermost a walk against the order of memory has its tensors turned round.
    view.time = (c.down_ && !c.time_inner_ ? -1 : 1) * int64_t{steps.time} * c.element_bytes_;
    view.row = (c.time_inner_ ? p.time : Extent(1)) * c.element_bytes_;
    view.batch = steps.batch * c.element_bytes_;
    params.output = view;
    params.row_groups = c.tuning_.row_groups;
    params.by_row_groups = divisor_of(static_cast<uint32_t>(params.row_groups));
    c.sets_ = sets_of(c.tuning_, rows);
    params.chunks = c.tuning_.chunks;
    params.log2_warp_rows = c.tuning_.log2_warp_rows;
    params.grouped = grouped;
    // Hardly any block of a reduction waits for another, so it needs no tiles ahead.
    if (grouped && c.time_inner_ && use != ChainedUse::gradients && (use == ChainedUse::marks || !p.is_reduction()))
        params.ahead = steps_ahead(c.tuning_, device_attribute(cudaDevAttrMultiProcessorCount, options.device));
    const ChainedKernels& marked = kernels->gradients[c.time_inner_];
    if (marked.steps > 0)
        params.mark_places =
            c.time_inner_ ? ceil_div(p.time + marked.skew, int64_t{32} * marked.steps) : p.time / marked.steps;
    c.state_bytes_ = size_of(state_dtype(p.dtype));
    const auto [carries, all] =
        exchanged_bytes(c.tuning_, c.group_chunks(), Extent(batches) * ceil_div(rows, int64_t{lane_rows}),
                        c.kernels_->carry_bytes, c.kernels_->record_bytes);
    c.carries_bytes_ = static_cast<size_t>(carries);
    c.exchanged_bytes_ = static_cast<size_t>(all);
    c.exchanged_ = workspace.book(all);
    c.overlaps_ = can_overlap(c.kernel(), options.device);
    return c;
}

bool ChainedNumbers::takes(std::initializer_list<const void*> arrays) const {
    const auto access = static_cast<uintptr_t>(element_bytes_ * kernels_->lane_rows);
    std::optional<uintptr_t> first;
    for (const void* array : arrays) {
        const auto address = reinterpret_cast<uintptr_t>(array);
        if (array == nullptr) continue;
        if (address % access != 0 || (time_inner_ && first && (*first - address) % 16 != 0)) return false;
        first = address;
    }
    return true;
}

int64_t ChainedNumbers::marks_bytes() const {
    return params_.batches * params_.rows * params_.mark_places * state_bytes_;
}

template <typename Params>
void ChainedNumbers::launch_chained(Params params, void* scratch, void* stream) const {
    LaunchShape shape = blocks_of(tuning_.blocks, 32 * tuning_.warps);
    shape.shared_bytes = kernels_->warp_bytes * tuning_.warps;
    if (params.chunks > 1) {
        char* const exchanged = static_cast<char*>(scratch) + exchanged_;
        params.carries = exchanged;
        params.records = exchanged + carries_bytes_;
        set_all_bits(exchanged, static_cast<int64_t>(exchanged_bytes_ / sizeof(uint64_t)), stream);
        shape.overlaps = overlaps_;
    }
    launch(kernel(), shape, stream, params, sets_);
}

void ChainedNumbers::run(const NumberArrays& arrays, void* scratch, void* stream) const {
    NumberChainParams params = params_;
    params.input.point(arrays.from, params.time);
    params.output.point(arrays.to, params.time);
    params.reduced = arrays.reduced;
    params.state_in = arrays.state_in;
    params.state_out = arrays.state_out;
    params.marks = arrays.marks;
    params.index = arrays.index;
    launch_chained(params, scratch, stream);
}

void ChainedNumbers::run_gradients(const OperatorBuffers& b, bool reduction, void* marks, void* stream) const {
    NumberGradientParams params{params_, params_.input, nullptr, nullptr};
    params.input.point(b.input, params.time);
    params.output.point(b.grad_input, params.time);
    params.grad_output.point(reduction ? nullptr : b.grad_output, params.time);
    params.grad_reduced = reduction ? b.grad_output : nullptr;
    params.scan_state_in = b.state_in;
    params.state_in = b.grad_state_out;
    params.state_out = b.grad_state_in;
    params.marks = marks;
    launch_chained(params, b.scratch, stream);
}

std::optional<ChainedNumberGradients> ChainedNumberGradients::make(const OperatorProblem& p, const Options& options,
                                                                   Workspace& workspace) {
    Workspace booked = workspace;
    const auto marks = ChainedNumbers::make(p, ChainedUse::marks, options, booked),
               gradients = ChainedNumbers::make(p, ChainedUse::gradients, options, booked);
    if (!marks || !gradients) return std::nullopt;
    ChainedNumberGradients c;
    c.marks_ = *marks;
    c.gradients_ = *gradients;
    c.place_ = booked.book(marks->marks_bytes());
    c.reduction_ = p.is_reduction();
    workspace = booked;
    return c;
}

void ChainedNumberGradients::run(const OperatorBuffers& b, void* stream) const {
    void* const marks = static_cast<char*>(b.scratch) + place_;
    marks_.run({.from = b.input, .state_in = b.state_in, .marks = marks}, b.scratch, stream);
    gradients_.run_gradients(b, reduction_, marks, stream);
}

std::string ChainedNumbers::describe() const {
    std::string text = fmt::format("{} groups of rows x {} chunks of {} steps, {} groups a set, {} innermost",
                                   (time_inner_ ? 1 : params_.batches) * params_.row_groups, tuning_.chunks,
                                   tuning_.chunk_steps, tuning_.set_groups, time_inner_ ? "time" : "channel");
    if (params_.grouped != 0) text += fmt::format(", carries by groups of {} chunks", group_chunks());
    return text;
}

}  // namespace flashscan::cuda
