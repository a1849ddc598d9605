// SPDX-License-Identifier: Apache-2.0
// Passes of the kernel "columns" (columns_channels_innermost.cuh).
#include <algorithm>

#include "cuda/linear/chained_pass.h"
#include "cuda/linear/instances/shared_gates_table.h"

namespace flashscan::cuda {
namespace {

// Returns a sentence unless channels lie side by side in all tensors.
std::string skewed_pairs_refusal(const LinearPass& l, const LinearProblem& p) {
    for (const auto& [name, strides, dtype] : tensors_and_gates_of(p, l.pass))
        if (strides.channels != 1) return fmt::format("stride {}.channels is {}; takes 1", name, strides.channels);
    return {};
}

struct ColumnsPass final : ChainedPass {
    int pack = 0;       // rows of a lane
    int row_lanes = 0;  // lanes of a warp that have rows
    int strip = 0;      // rows of a warp

    ColumnsPass(const LinearProblem& problem, Pass of, int log2_shared, int rows_of_lane, bool lies_anywhere)
        : pack(rows_of_lane) {
        begin_pass(*this, problem, of, false, true, lies_anywhere ? 0 : log2_shared);
        const bool backward = pass == Pass::backward;
        skewed = lies_anywhere;
        kernel = skewed ? kernels->skewed_columns[backward] : kernels->columns[pack - 1][backward];
        tile = kernels->columns_tile[pack - 1][backward];
        lane_rows = tile.lane_rows;
        row_lanes = skewed ? skewed_pair_lanes : 32;
        strip = row_lanes * lane_rows;
        // The kernel has one gate for the rows of a pair, which it loads as one element. Wider data have lanes of one
        // row, which are faster then.
        one_gate = size_of(problem.dtype) == 2 && !skewed && problem.broadcasts(broadcast_channels);
    }

    // Whether a kernel with such lanes is compiled.
    bool exists() const { return kernel != nullptr; }

    // Cuts time, and returns the condition that fails, if one does.
    std::string tune(const LinearProblem& problem, const Options& options) {
        const LinearProblem p = seen_by_kernel(*this, problem);
        const bool must_suit = options.kernel.empty(), backward = pass == Pass::backward;
        if (std::string why = unsupported_refusal(*this, p); !why.empty()) return why;
        if (time_inner) return "time is innermost; takes channels innermost";
        if (std::string why = skewed ? skewed_pairs_refusal(*this, p) : alignment_refusal(*this, p, one_gate);
            !why.empty())
            return why;
        if (sums == GateSums::of_blocks) {
            const SharedGatesKernels k = shared_gates_kernels(p.dtype, p.gate_dtype);
            if (!take_sharing(k.columns[pack - 1], k.columns_bytes[pack - 1], p)) return shares_too_much;
        }
        LinearShape shape = shape_of_sharing(p);
        if (skewed) shape.shares_sectors = true;
        const ChainedTile cut = lane_tile(row_lanes);
        tuning = tune_chained_columns(shape, cut);
        const bool narrowest = pack == 1 || kernels->columns[0][backward] == nullptr;
        const bool suits = chained_columns_suit(shape, cut, tuning, narrowest);
        const bool grouped = !suits && sums != GateSums::of_blocks &&
                             chained_column_groups_suit(shape, cut, tuning, kernels->record_bytes * pack);
        if (sums == GateSums::of_blocks && must_suit && !sharing_columns_suit(shape, cut, tuning))
            return shares_too_much;
        group_chunks = cuda::group_chunks(grouped, false);
        if (must_suit && !suits && !grouped) return suit_refusal(shape);
        if (std::string why = blocks_refusal(); !why.empty()) return why;
        // Chunks of wide elements are short and their carries many, but scratch memory should stay within 4 MB or about
        // 1 % of what the kernel reads. Warps that share gates leave up to 8 times fewer terms there, which outweighs
        // what they exchange.
        const int64_t step_bytes = size_of(p.gate_dtype) + size_of(p.dtype) * (backward ? 2 : 1);
        const int64_t most = std::max<int64_t>(4 << 20, p.batch * p.channels * p.time / 100 * step_bytes);
        if (const Extent all = exchanged(pack).all; must_suit && sums != GateSums::of_blocks && all > most)
            return fmt::format("chunks would exchange {} bytes; takes up to {}", all, most);
        return {};
    }

    void settle(const LinearProblem& problem, const LinearProblem& p) {
        ChainedPass::settle(problem, p, pack, ceil_div(rows, int64_t{strip}));
        params.log2_lane_rows = 5;
        if (pass == Pass::backward && p.gate_form != GateForm::value && !cuts_forms(p, pass)) takes_states = false;
    }

    std::string describe() const override {
        return ChainedPass::describe(ceil_div(batches, Extent(sharing())) * tuning.row_groups,
                                     int64_t{strip} << tuning.log2_warp_rows, "channel");
    }

  private:
    // The sentence where another kernel is expected to be faster.
    std::string suit_refusal(const LinearShape& shape) const {
        if (!fills_chunks(shape, tuning))
            return fmt::format("time is {}; takes what fills chunks of {} steps", shape.time, tuning.chunk_steps);
        return fmt::format("rows make {} strips of {}; takes more where time is cut into {} chunks",
                           batches * ceil_div(rows, int64_t{strip}), strip, tuning.chunks);
    }
};

}  // namespace

PassVariants make_columns_passes(const LinearProblem& problem, Pass pass, const Options& options,
                                 std::string& refusal) {
    const bool must_suit = options.kernel.empty();
    const auto of = [&](int pack, bool skewed) -> std::unique_ptr<ColumnsPass> {
        // Pairs that lie anywhere have a gate for each row.
        if (skewed && problem.broadcasts(broadcast_channels)) return nullptr;
        return make_tuned_pass<ColumnsPass>(problem, pass, options, refusal, pack, skewed);
    };
    auto wide = of(2, false), narrow = of(1, false), skewed = of(2, true);
    // Lanes of one row make strips that are half as wide, and longer chunks. Of two variants that suit, the wide one is
    // kept unless it cuts time into chunks where the narrow one does not, gathers chunks in groups, or has fewer warps
    // that share a gate.
    if (wide && narrow && must_suit) {
        const bool prefers_narrow = wide->group_chunks > 1 || (wide->tuning.chunks > 1 && narrow->tuning.chunks == 1) ||
                                    wide->log2_sharing < narrow->log2_sharing;
        (prefers_narrow ? wide : narrow).reset();
    }
    PassVariants passes;
    const auto add = [&](std::unique_ptr<ColumnsPass> l) {
        l->settle(problem, seen_by_kernel(*l, problem));
        passes.push_back(std::move(l));
    };
    for (auto* const l : {&wide, &narrow, &skewed}) {
        if (*l == nullptr) continue;
        const bool shares = (*l)->sums == GateSums::of_blocks;
        const int lane_rows = (*l)->pack;
        add(std::move(*l));
        if (!shares) continue;
        // Calls with states and 16-bit logs or logits, or with gates that lie elsewhere, take terms of each element.
        auto elements = std::make_unique<ColumnsPass>(problem, pass, 0, lane_rows, false);
        if (elements->tune(problem, options).empty()) add(std::move(elements));
    }
    return passes;
}

}  // namespace flashscan::cuda
