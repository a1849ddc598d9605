// SPDX-License-Identifier: Apache-2.0
// What the passes of the kernels "rows" and "columns" share, which are chained scans: their blocks go through sets of
// groups of rows (device/scan/block_order.cuh).
#pragma once

#include <fmt/format.h>

#include <limits>
#include <memory>
#include <string>

#include "cuda/launch/launch.h"
#include "cuda/linear/pass.h"

namespace flashscan::cuda {

// Whether the kernels have code for log or logit gates together with resets, packed sequences and, in "columns"
// backward, initial states (Walk::holds_values).
inline bool cuts_forms(const LinearProblem& p, Pass pass) {
    return size_of(p.gate_dtype) >= 4 && !(pass == Pass::backward && is_complex(p.gate_dtype));
}

// Returns a sentence where the kernels have no code for the problem, as they see it.
inline std::string unsupported_refusal(const LinearPass& l, const LinearProblem& p) {
    if (p.empty()) return empty_refusal(p);
    const bool cuts = p.has_reset || p.packed();
    if (p.gate_form == GateForm::value || !cuts || cuts_forms(p, l.pass)) return {};
    return fmt::format("gate_form is {}; takes {} gates by value alone where {}", name_of(p.gate_form),
                       name_of(p.gate_dtype), p.has_reset ? "steps are reset" : "sequences are packed");
}

// No description shows this refusal, as a pass whose warps share fewer gates or none is tried in its place.
inline constexpr const char* shares_too_much = "warps share too many gates";

struct ChainedPass : LinearPass {
    ChainedTuning tuning;
    ChainedSets sets;
    TileFacts tile{};
    // The tensors are aligned to elements alone. With "rows", a row may begin anywhere in a 16-byte vector, at the same
    // place in every tensor; with "columns", each tensor's pairs of rows may begin at any element.
    bool skewed = false;
    bool one_gate = false;  // the kernel loads a gate of a row or a pair of rows as one element
    int warp_bytes = 0;     // dynamic shared memory of a warp
    int group_chunks = 1;   // chunks of a group whose summaries are gathered

    ChainedTile lane_tile(int row_lanes = 32) const { return {tile.lane_rows, tile.steps, tile.warps, row_lanes}; }

    // The bytes through which chunks meet; lanes publish what their `pack` rows carry together.
    ChainedBytes exchanged(int pack) const {
        return exchanged_bytes(tuning, group_chunks, batches * ceil_div(rows, pack), kernels->carry_bytes,
                               kernels->record_bytes * pack);
    }

    // The shape, filled up to a multiple of the warps that share gates.
    LinearShape shape_of_sharing(const LinearProblem& p) const {
        LinearShape shape = shape_of(*this, p, false);
        shape.log2_sharing = log2_sharing;
        int64_t& shared = shared_rows ? shape.rows : shape.batches;
        shared = round_up(shared, sharing());
        return shape;
    }
    // Takes the kernel whose warps share gates, if there is one that suits; returns whether it did. At most a quarter
    // of these warps may be without rows.
    bool take_sharing(const void* of_sharing, int bytes, const LinearProblem& p) {
        const int64_t count = shared_rows ? p.channels : p.batch;
        if (p.packed() || sharing() > tile.warps || of_sharing == nullptr) return false;
        if (3 * (round_up(count, sharing()) - count) > count) return false;
        kernel = of_sharing;
        warp_bytes = bytes;
        return true;
    }

    // Returns a sentence where there are too many blocks for a grid.
    std::string blocks_refusal() const {
        if (tuning.blocks <= std::numeric_limits<int32_t>::max()) return {};
        return fmt::format("{} groups of rows x {} chunks are {} blocks; takes up to 2^31 - 1", tuning.row_groups,
                           tuning.chunks, tuning.blocks);
    }

    // Completes a pass after its tuning.
    void settle(const LinearProblem& problem, const LinearProblem& p, int pack, Extent strips) {
        settle_params(*this, p, tuning);
        sets = sets_of(tuning, shared_rows ? ceil_div(rows, Extent(sharing())) : rows);
        params.grouped = group_chunks > 1;
        settle_gate_sums(*this, problem, p, strips, false);
        takes_states = !p.packed();
        takes_states_in_place = tuning.chunks < 3;
        grid = blocks_of(tuning.blocks, 32 * tuning.warps);
        grid.shared_bytes = warp_bytes * tuning.warps;
        const auto [of_chunks, all] = exchanged(pack);
        clear = ClearLaunch(static_cast<size_t>(all));
        carries = workspace.book(all);
        records = carries + static_cast<size_t>(of_chunks);
        if (!skewed) return settle_alignment(*this, p, one_gate);
        data_alignment = size_of(p.dtype);
        gate_alignment = size_of(p.gate_dtype);
    }

    const char* describe_variant() const override { return skewed ? "skewed" : "aligned"; }

    void enqueue(LinearParams& to, char* scratch, void* stream) const override {
        if (tuning.chunks > 1) {
            to.carries = scratch + carries;
            to.records = scratch + records;
            clear.run(to.carries, stream);
        }
        launch(kernel, grid, stream, to, sets);
    }

  protected:
    std::string describe(int64_t groups, int64_t group_rows, const char* inner) const {
        std::string text =
            fmt::format("{} groups of {} rows x {} chunks of {} steps, {} groups a set, {} innermost, {}", groups,
                        group_rows, tuning.chunks, tuning.chunk_steps, tuning.set_groups, inner, describe_variant());
        if (group_chunks > 1) text += fmt::format(", carries by groups of {} chunks", group_chunks);
        return text + describe_sums();
    }
};

// Tunes a pass in which as many warps of a block as possible, up to 8, share gates whose gradients are to be summed.
// Returns none where there is no such pass, or one whose warps share none is refused too.
template <typename KernelPass, typename... Facts>
std::unique_ptr<KernelPass> make_tuned_pass(const LinearProblem& problem, Pass pass, const Options& options,
                                            std::string& refusal, Facts... facts) {
    for (int log2_sharing = 3; log2_sharing >= 0; --log2_sharing) {
        auto l = std::make_unique<KernelPass>(problem, pass, log2_sharing, facts...);
        if (!l->exists()) break;
        refusal = l->tune(problem, options);
        if (refusal.empty()) return l;
        if (l->sums != GateSums::of_blocks) break;
    }
    return nullptr;
}

}  // namespace flashscan::cuda
