// SPDX-License-Identifier: Apache-2.0
// Passes of the kernels "rows" and "columns", whose blocks go through sets of groups of rows (block_order.cuh).
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "cuda/launch/launch.h"
#include "cuda/linear/pass.h"

namespace flashscan::cuda {
namespace {

// Whether, if the first row begins at the same place within 16 bytes in all tensors, every row does. A gate that all steps
// share is loaded as one element.
bool can_skew(const LinearPass& l, const LinearProblem& p) {
    if (l.kernels->rows_skew == 0 || l.sums == GateSums::of_elements) return false;
    const std::vector<Strides> tensors =
        p.broadcasts(broadcast_time) ? tensors_of(p, l.pass) : tensors_and_gates_of(p, l.pass);
    const View first = view_of(l, tensors.front(), p.dtype);
    return std::all_of(tensors.begin(), tensors.end(), [&](const Strides& strides) {
        const View v = view_of(l, strides, p.dtype);
        return v.time == size_of(p.dtype) && (v.row - first.row) % bulk_alignment == 0 &&
               (l.batches == 1 || (v.batch - first.batch) % bulk_alignment == 0);
    });
}

// Whether channels lie side by side in all tensors.
bool can_skew_pairs(const LinearPass& l, const LinearProblem& p) {
    const std::vector<Strides> tensors = tensors_and_gates_of(p, l.pass);
    return std::all_of(tensors.begin(), tensors.end(), [](const Strides& s) { return s.channels == 1; });
}

// Whether the kernels have code for log or logit gates together with resets, packed sequences and, backward, initial
// states (Walk::holds_values).
bool cuts_forms(const LinearProblem& p, Pass pass) {
    return size_of(p.gate_dtype) >= 4 && !(pass == Pass::backward && is_complex(p.gate_dtype));
}

// Whether the kernels take the problem, as they see it. Empty problems are refused too.
bool can_take(const LinearPass& l, const LinearProblem& p) {
    const bool cuts = p.has_reset || p.packed();
    if (p.gate_form != GateForm::value && cuts && !cuts_forms(p, l.pass)) return false;
    return p.time > 0 && p.batch * p.channels > 0;
}

// What both have in common.
struct ChainedPass : LinearPass {
    ChainedTuning tuning;
    ChainedSets sets;
    TileFacts tile{};
    // The tensors are aligned to elements alone. With "rows", a row may begin anywhere in a 16-byte vector, at the same
    // place in every tensor; with "columns", each tensor's pairs of rows may begin at any element.
    bool skewed = false;
    int group_chunks = 1;  // chunks of a group whose summaries are gathered

    ChainedTile lane_tile(int row_lanes = 32) const { return {tile.lane_rows, tile.steps, tile.warps, row_lanes}; }

    // Completes a pass after its tuning; lanes publish what their `pack` rows carry together. Returns false where the
    // blocks of a set exceed 31 bits.
    bool settle(const LinearProblem& problem, const LinearProblem& p, int pack, Extent strips) {
        if (tuning.set_groups * tuning.chunks > std::numeric_limits<int32_t>::max()) return false;
        settle_params(*this, p, tuning);
        sets = sets_of(tuning, rows);
        params.grouped = group_chunks > 1;
        settle_gate_sums(*this, problem, p, strips, false);
        takes_states = !p.packed();
        takes_states_in_place = tuning.chunks < 3;
        threads = 32 * tuning.warps;
        const auto [of_chunks, all] = exchanged_bytes(tuning, group_chunks, batches * ceil_div(rows, pack),
                                                      kernels->carry_bytes, kernels->record_bytes * pack);
        look_back_bytes = static_cast<size_t>(all);
        carries = workspace.book(all);
        records = carries + static_cast<size_t>(of_chunks);
        return true;
    }

    void enqueue(LinearParams& to, char* scratch, void* stream) const override {
        const bool hands_on = tuning.chunks > 1;
        if (hands_on) {
            to.carries = scratch + carries;
            to.records = scratch + records;
            clear_look_back(*this, to.carries, stream);
        }
        LaunchShape shape = blocks_of(blocks, threads);
        shape.shared_bytes = shared_bytes;
        shape.overlaps = hands_on && overlaps;
        launch(kernel, shape, stream, to, sets);
    }

  protected:
    std::string describe(int64_t groups, int64_t group_rows, const char* inner) const {
        return fmt::format("{} groups of {} rows x {} chunks of {} steps, {} groups a set, {} innermost, {}", groups,
                           group_rows, tuning.chunks, tuning.chunk_steps, tuning.set_groups, inner,
                           skewed ? "skewed" : "aligned");
    }
};

struct RowsPass final : ChainedPass {
    std::string describe() const override {
        std::string text = ChainedPass::describe(tuning.row_groups, 1 << tuning.log2_warp_rows, "time");
        if (group_chunks > 1) text += fmt::format(", carries by groups of {} chunks", group_chunks);
        return text + describe_sums();
    }
};

struct ColumnsPass final : ChainedPass {
    int strip = 0;  // rows of a warp
    std::string describe() const override {
        return ChainedPass::describe(batches * tuning.row_groups, int64_t{strip} << tuning.log2_warp_rows, "channel") +
               describe_sums();
    }
};

// Sets the alignment of the tensors of a call.
void settle_access(ChainedPass& l, const LinearProblem& p, bool one_gate) {
    if (!l.skewed) return settle_alignment(l, p, one_gate);
    l.data_alignment = static_cast<uintptr_t>(size_of(p.dtype));
    l.gate_alignment = static_cast<uintptr_t>(size_of(p.gate_dtype));
}

}  // namespace

LinearPassPointer make_rows_pass(const LinearProblem& problem, Pass pass, bool skewed, bool must_suit) {
    auto owned = std::make_unique<RowsPass>();
    RowsPass& l = *owned;
    begin_pass(l, problem, pass, true, false);
    const LinearProblem p = seen_by_kernel(l, problem);
    if (!can_take(l, p)) return nullptr;
    const bool backward = pass == Pass::backward;
    l.kernel = l.kernels->rows[l.down][backward];
    l.tile = l.kernels->rows_tile[backward];
    l.lane_rows = l.tile.lane_rows;
    l.skewed = l.lie_alike = skewed;
    l.one_gate_a_row = p.broadcasts(broadcast_time);
    if (!l.time_inner || l.kernel == nullptr || l.batches * l.rows > std::numeric_limits<int32_t>::max())
        return nullptr;
    if (skewed ? !can_skew(l, p) : !fits_aligned(l, p, l.one_gate_a_row)) return nullptr;
    LinearShape shape = shape_of(l, p, false);
    if (skewed) shape.skew = l.kernels->rows_skew;
    l.tuning = tune_chained_rows(shape, l.lane_tile());
    const bool suits = chained_rows_suit(shape, l.tuning), grouped = !suits && chained_groups_suit(l.tuning);
    l.group_chunks = group_chunks(grouped, true);
    if ((must_suit && !suits && !grouped) || !l.settle(problem, p, 1, l.rows)) return nullptr;
    l.params.log2_lane_rows = 0;
    l.shared_bytes = l.tile.shared_bytes / l.tile.warps * l.tuning.warps;
    settle_access(l, p, l.one_gate_a_row);
    return owned;
}

LinearPassPointer make_columns_pass(const LinearProblem& problem, Pass pass, int pack, bool skewed, bool must_suit) {
    const bool backward = pass == Pass::backward;
    auto owned = std::make_unique<ColumnsPass>();
    ColumnsPass& l = *owned;
    begin_pass(l, problem, pass, true, false, true);
    const LinearProblem p = seen_by_kernel(l, problem);
    if (!can_take(l, p)) return nullptr;
    l.skewed = skewed;
    l.kernel = skewed ? l.kernels->skewed_columns[backward] : l.kernels->columns[pack - 1][backward];
    l.tile = l.kernels->columns_tile[pack - 1][backward];
    l.lane_rows = l.tile.lane_rows;
    const int row_lanes = skewed ? skewed_pair_lanes : 32;
    l.strip = row_lanes * l.lane_rows;
    // The kernel has one gate for the rows of a pair, which it loads as one element. Wider data have lanes of one row,
    // which are faster then.
    const bool one_gate_a_pair = size_of(p.dtype) == 2 && !skewed && p.broadcasts(broadcast_channels);
    if (l.time_inner || l.kernel == nullptr) return nullptr;
    if (skewed ? !can_skew_pairs(l, p) : !fits_aligned(l, p, one_gate_a_pair)) return nullptr;
    LinearShape shape = shape_of(l, p, false);
    if (skewed) shape.shares_sectors = true;
    const ChainedTile tile = l.lane_tile(row_lanes);
    l.tuning = tune_chained_columns(shape, tile);
    const bool narrowest = pack == 1 || l.kernels->columns[0][backward] == nullptr;
    const bool suits = chained_columns_suit(shape, tile, l.tuning, narrowest);
    const bool grouped = !suits && chained_column_groups_suit(shape, tile, l.tuning, l.kernels->record_bytes * pack);
    l.group_chunks = group_chunks(grouped, false);
    if ((must_suit && !suits && !grouped) || !l.settle(problem, p, pack, ceil_div(l.rows, int64_t{l.strip})))
        return nullptr;
    l.params.log2_lane_rows = 5;
    settle_access(l, p, one_gate_a_pair);
    if (backward && p.gate_form != GateForm::value && !cuts_forms(p, pass)) l.takes_states = false;
    // Chunks of wide elements are short and their carries many, but scratch memory should stay within about 1 % of the
    // tensors.
    const int64_t step_bytes = size_of(p.gate_dtype) + size_of(p.dtype) * (backward ? 2 : 1);
    const int64_t most = std::max<int64_t>(4 << 20, p.batch * p.channels * p.time / 100 * step_bytes);
    if (must_suit && static_cast<int64_t>(l.look_back_bytes) > most) return nullptr;
    return owned;
}

}  // namespace flashscan::cuda
