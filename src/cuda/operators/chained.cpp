// SPDX-License-Identifier: Apache-2.0
#include "cuda/operators/chained.h"

#include <fmt/format.h>

#include <limits>

#include "cuda/launch/launch.h"

namespace flashscan::cuda {

std::optional<ChainedNumbers> ChainedNumbers::make(const OperatorProblem& p, const ElementKernels& kernels,
                                                   bool backward, bool batch_invariant, Workspace& workspace) {
    // Blocks are shared out by the number of rows, which must not change bits under BATCH_INVARIANT.
    if (batch_invariant || p.packed() || p.empty() || p.batch * p.channels > std::numeric_limits<int32_t>::max())
        return std::nullopt;
    ChainedNumbers c;
    c.time_inner_ = p.layout == Layout::bct || p.channels == 1;
    c.kernels_ = &kernels.chained[c.time_inner_];
    c.down_ = (p.direction == Direction::reverse) != backward;
    if (c.kernel() == nullptr) return std::nullopt;
    const int lane_rows = c.kernels_->lane_rows;
    if (!c.time_inner_ && p.channels % lane_rows != 0) return std::nullopt;
    c.element_bytes_ = size_of(p.dtype);

    NumberChainParams& params = c.params_;
    params.batches = c.time_inner_ ? Extent(1) : p.batch;
    params.rows = c.time_inner_ ? p.batch * p.channels : p.channels;
    params.time = p.time;
    params.exclusive = p.mode == OperatorMode::exclusive;
    View& view = params.input;
    view.time = c.time_inner_ ? Extent(c.element_bytes_) : p.channels * c.element_bytes_;
    view.row = c.time_inner_ ? p.time * c.element_bytes_ : Extent(c.element_bytes_);
    view.batch = p.time * p.channels * c.element_bytes_;
    params.output = view;

    constexpr int64_t sector_bytes = 32;
    const ChainedShape shape{
        params.batches,  params.rows, params.time, p.channels * c.element_bytes_ % sector_bytes != 0, 0,
        c.kernels_->skew};
    constexpr int warps = 8;
    const ChainedTile tile{lane_rows, c.kernels_->steps, warps};
    c.tuning_ = c.time_inner_ ? tune_chained_rows(shape, tile) : tune_chained_columns(shape, tile);
    if (c.time_inner_ ? !chained_rows_suit(shape, c.tuning_) : !chained_columns_suit(shape, tile, c.tuning_, true))
        return std::nullopt;
    if (c.tuning_.blocks > std::numeric_limits<int32_t>::max()) return std::nullopt;
    params.row_groups = c.tuning_.row_groups;
    params.by_row_groups = divisor_of(static_cast<uint32_t>(params.row_groups));
    params.chunks = c.tuning_.chunks;
    params.log2_warp_rows = c.tuning_.log2_warp_rows;
    if (params.chunks > 1) {
        const Extent lanes = Extent(params.batches) * ceil_div(params.rows, lane_rows);
        c.carries_bytes_ = static_cast<size_t>(params.chunks * lanes * c.kernels_->carry_bytes);
        c.carries_ = workspace.book(c.carries_bytes_);
    }
    return c;
}

bool ChainedNumbers::takes(const void* from, const void* to) const {
    const auto in = reinterpret_cast<uintptr_t>(from), out = to == nullptr ? in : reinterpret_cast<uintptr_t>(to);
    const auto access = static_cast<uintptr_t>(element_bytes_ * kernels_->lane_rows);
    if (in % access != 0 || out % access != 0) return false;
    return !time_inner_ || (in - out) % 16 == 0;
}

void ChainedNumbers::run(const void* from, void* to, void* reduced, const void* state_in, void* state_out,
                         void* scratch, bool overlaps, void* stream) const {
    NumberChainParams params = params_;
    params.input.data = static_cast<char*>(const_cast<void*>(from));
    params.output.data = static_cast<char*>(to);
    params.reduced = reduced;
    params.state_in = state_in;
    params.state_out = state_out;
    LaunchShape shape = blocks_of(tuning_.blocks, 32 * tuning_.warps);
    shape.shared_bytes = kernels_->warp_bytes * tuning_.warps;
    if (params.chunks > 1) {
        params.carries = static_cast<char*>(scratch) + carries_;
        set_all_bits(params.carries, static_cast<int64_t>(carries_bytes_ / sizeof(uint64_t)), stream);
        shape.overlaps = overlaps;
    }
    launch(kernel(), shape, stream, params, sets_of(tuning_, params.rows));
}

std::string ChainedNumbers::describe() const {
    return fmt::format("{} groups of rows x {} chunks of {} steps, {} groups a set, {} innermost",
                       (time_inner_ ? 1 : params_.batches) * params_.row_groups, tuning_.chunks, tuning_.chunk_steps,
                       tuning_.set_groups, time_inner_ ? "time" : "channel");
}

}  // namespace flashscan::cuda
