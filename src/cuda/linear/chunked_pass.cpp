// SPDX-License-Identifier: Apache-2.0
// Passes of the kernel "chunked", which takes every problem.
#include <fmt/format.h>

#include <algorithm>

#include "cuda/launch/launch.h"
#include "cuda/launch/look_back_memory.h"
#include "cuda/linear/pass.h"

namespace flashscan::cuda {
namespace {

struct ChunkedPass final : LinearPass {
    ChunkedTuning tuning;
    TileFacts tile{};
    bool by_sequence = false;  // whether each packed sequence is cut into chunks from its own start
    LookBackMemory exchange;

    // Finds the kernel.
    void begin(const LinearProblem& problem, Pass of, bool in_packs, bool batch_invariant) {
        aligned = in_packs;
        begin_pass(*this, problem, of, batch_invariant);
        const Access access = time_inner ? Access::time : aligned ? Access::channel_packs : Access::channels;
        const int n = static_cast<int>(access);
        const bool backward = pass == Pass::backward;
        tile = kernels->chunked_tile[n][backward];
        kernel = kernels->chunked[n][down && !mirrored][backward];
        lane_rows = tile.lane_rows;
    }

    void settle(const LinearProblem& problem, bool batch_invariant) {
        const LinearProblem p = seen_by_kernel(*this, problem);
        const LinearShape shape = shape_of(*this, p, batch_invariant);
        by_sequence = shape.by_sequence();
        tuning = tune_chunked(shape, {tile.lane_rows, tile.steps, tile.warps});
        grid = grid_of_chunks(batches * tuning.row_groups, tuning.chunks, 32 * tile.warps);
        grid.shared_bytes = tile.shared_bytes;
        book_look_back();
        settle_params(*this, p, tuning);
        params.log2_lane_rows = tuning.log2_lane_rows;
        params.log2_group_chunks = tuning.log2_group_chunks;
        params.log2_link_groups = tuning.log2_link_groups;
        params.log2_fold_rows = tuning.log2_fold_rows;
        params.by_sequence = by_sequence;
        if (aligned) settle_alignment(*this, p);
        settle_gate_sums(*this, problem, p, Extent(tuning.row_groups), batch_invariant);
    }

    const char* describe_access() const {
        return aligned ? "aligned" : time_inner ? "in vectors where rows are aligned" : "element by element";
    }
    const char* describe_variant() const override {
        return aligned ? "chunked, aligned" : time_inner ? "chunked" : "chunked, element by element";
    }
    std::string describe() const override {
        const int64_t warp_rows = int64_t{tile.lane_rows} << tuning.log2_lane_rows;
        const int64_t groups = batches * tuning.row_groups;
        std::string text = fmt::format("{} groups of {} rows x {} chunks of {} steps, {} innermost, {}", groups,
                                       warp_rows << tuning.log2_warp_rows, tuning.chunks, tuning.chunk_steps,
                                       time_inner ? "time" : "channel", describe_access());
        if (by_sequence) text += ", of each sequence from its start";
        if (tuning.chunks > 1)
            text +=
                fmt::format(", look-back over {} x {}", 1 << tuning.log2_group_chunks, 1 << tuning.log2_link_groups);
        return text + describe_sums();
    }

    void enqueue(LinearParams& to, char* scratch, void* stream) const override {
        if (clear) {
            exchange.point(to, scratch);
            clear.run(to.records, stream);
        }
        launch(kernel, grid, stream, to);
    }

  private:
    void book_look_back() {
        if (tuning.chunks <= 1) return;
        const Extent padded = batches * tuning.row_groups * tile.lane_rows *
                              (int64_t{1} << (tuning.log2_lane_rows + tuning.log2_warp_rows));
        exchange = LookBackMemory(tuning, by_sequence, padded, kernels->record_bytes, kernels->carry_bytes, workspace);
        clear = exchange.clear();
    }
};

}  // namespace

// With time innermost one kernel finds out by itself what is aligned. Sequences that have chunks of their own begin
// anywhere, so that these are not aligned.
PassVariants make_chunked_passes(const LinearProblem& problem, Pass pass, bool batch_invariant) {
    PassVariants variants;
    for (const bool aligned : {true, false}) {
        if (aligned && batch_invariant && problem.packed()) continue;
        auto l = std::make_unique<ChunkedPass>();
        l->begin(problem, pass, aligned, batch_invariant);
        if (aligned && (l->time_inner || !alignment_refusal(*l, seen_by_kernel(*l, problem)).empty())) continue;
        l->settle(problem, batch_invariant);
        variants.push_back(std::move(l));
    }
    return variants;
}

}  // namespace flashscan::cuda
