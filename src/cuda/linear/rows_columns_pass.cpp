// SPDX-License-Identifier: Apache-2.0
// Passes of the kernels "rows" and "columns", whose blocks go through sets of groups of rows (block_order.cuh).
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "cuda/launch/launch.h"
#include "cuda/linear/instances/shared_gates_table.h"
#include "cuda/linear/pass.h"

namespace flashscan::cuda {
namespace {

// Returns a sentence unless, if the first row begins at the same place within 16 bytes in all tensors, every row does.
// A gate that all steps share is loaded as one element.
std::string skew_refusal(const LinearPass& l, const LinearProblem& p) {
    const std::vector<Tensor> tensors =
        p.broadcasts(broadcast_time) ? tensors_of(p, l.pass) : tensors_and_gates_of(p, l.pass);
    const auto& [first_name, first, first_dtype] = tensors.front();
    const int64_t pack = bulk_alignment / size_of(p.dtype);
    for (const auto& [name, strides, dtype] : tensors) {
        const RowAxis row = row_axis(l, strides), first_row = row_axis(l, first);
        const auto unlike = [&](const char* axis, int64_t stride, int64_t first_stride) {
            return fmt::format("strides {}.{} and {}.{} are {} and {}; takes those that differ by multiples of {}",
                               first_name, axis, name, axis, first_stride, stride, pack);
        };
        if (strides.time != 1) return fmt::format("stride {}.time is {}; takes 1", name, strides.time);
        if ((row.stride - first_row.stride) % pack != 0) return unlike(row.name, row.stride, first_row.stride);
        if (l.batches != 1 && (strides.batch - first.batch) % pack != 0)
            return unlike("batch", strides.batch, first.batch);
    }
    return {};
}

// Returns a sentence unless channels lie side by side in all tensors.
std::string skewed_pairs_refusal(const LinearPass& l, const LinearProblem& p) {
    for (const auto& [name, strides, dtype] : tensors_and_gates_of(p, l.pass))
        if (strides.channels != 1) return fmt::format("stride {}.channels is {}; takes 1", name, strides.channels);
    return {};
}

// Whether the kernels have code for log or logit gates together with resets, packed sequences and, backward, initial
// states (Walk::holds_values).
bool cuts_forms(const LinearProblem& p, Pass pass) {
    return size_of(p.gate_dtype) >= 4 && !(pass == Pass::backward && is_complex(p.gate_dtype));
}

// Returns a sentence where the kernels have no code for the problem, as they see it.
std::string code_refusal(const LinearPass& l, const LinearProblem& p) {
    if (p.empty()) return empty_refusal(p);
    const bool cuts = p.has_reset || p.packed();
    if (p.gate_form == GateForm::value || !cuts || cuts_forms(p, l.pass)) return {};
    return fmt::format("gate_form is {}; takes {} gates by value alone where {}", name_of(p.gate_form),
                       name_of(p.gate_dtype), p.has_reset ? "steps are reset" : "sequences are packed");
}

// No description shows this refusal, as a pass whose warps share fewer gates or none is tried in its place.
constexpr const char* shares_too_much = "warps share too many gates";

// What both have in common.
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
    // Takes the kernel whose warps share gates. At most a quarter of these warps may be without rows.
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

struct RowsPass final : ChainedPass {
    RowsPass(const LinearProblem& problem, Pass of, int log2_shared, bool begins_anywhere) {
        begin_pass(*this, problem, of, false, false, begins_anywhere ? 0 : log2_shared);
        const bool backward = pass == Pass::backward;
        kernel = kernels->rows[down][backward];
        tile = kernels->rows_tile[backward];
        lane_rows = tile.lane_rows;
        skewed = lie_alike = begins_anywhere;
        one_gate = one_gate_a_row = problem.broadcasts(broadcast_time);
    }

    // Whether there is such a pass. Where rows begin anywhere, they lie alike in all tensors, which terms do not.
    bool exists() const { return !skewed || (kernels->rows_skew != 0 && sums != GateSums::of_elements); }

    // Cuts time, and returns the condition that fails, if one does.
    std::string tune(const LinearProblem& problem, const Options& options) {
        const LinearProblem p = seen_by_kernel(*this, problem);
        const bool must_suit = options.kernel.empty();
        if (std::string why = code_refusal(*this, p); !why.empty()) return why;
        if (!time_inner) return "channels are innermost; takes time innermost";
        if (kernel == nullptr) return width_refusal(problem, p);
        warp_bytes = tile.shared_bytes / tile.warps;
        if (sums == GateSums::of_blocks) {
            const SharedGatesKernels k = shared_gates_kernels(p.dtype, p.gate_dtype);
            if (!take_sharing(k.rows[down], k.rows_bytes, p)) return shares_too_much;
        }
        if (batches * rows > std::numeric_limits<int32_t>::max())
            return fmt::format("batch * channels is {}; takes up to 2^31 - 1", batches * rows);
        if (std::string why = skewed ? skew_refusal(*this, p) : alignment_refusal(*this, p, one_gate); !why.empty())
            return why;
        LinearShape shape = shape_of_sharing(p);
        if (skewed) shape.skew = kernels->rows_skew;
        tuning = tune_chained_rows(shape, lane_tile());
        const bool suits = chained_rows_suit(shape, tuning),
                   grouped = !suits && sums != GateSums::of_blocks && chained_groups_suit(tuning);
        if (sums == GateSums::of_blocks && must_suit && !(suits && sharing_rows_suit(tuning))) return shares_too_much;
        group_chunks = cuda::group_chunks(grouped, true);
        if (must_suit && !suits && !grouped)
            return fmt::format("time is {}; with {} rows takes more than {} steps", p.time, batches * rows,
                               tuning.chunks * tuning.chunk_steps / 2 - shape.skew);
        return blocks_refusal();
    }

    void settle(const LinearProblem& problem, const LinearProblem& p) {
        ChainedPass::settle(problem, p, 1, rows);
        params.log2_lane_rows = 0;
    }

    std::string describe() const override {
        return ChainedPass::describe(tuning.row_groups, 1 << tuning.log2_warp_rows, "time");
    }

  private:
    // The sentence where no kernel is compiled, since gates, as it would see them, are not as wide as the data.
    std::string width_refusal(const LinearProblem& problem, const LinearProblem& p) const {
        if (p.gate_dtype == problem.gate_dtype)
            return fmt::format("gate_dtype is {} and dtype {}; takes gates as wide as the data", name_of(p.gate_dtype),
                               name_of(p.dtype));
        if (sums == GateSums::over_time)
            return fmt::format("gate_form is {}; takes {} gates that all steps share by value alone backward",
                               name_of(problem.gate_form), name_of(problem.gate_dtype));
        return fmt::format(
            "gate_broadcast is {}; takes {} gates backward of each element, or shared by all steps or by many rows",
            names_of_broadcast(problem), name_of(problem.gate_dtype));
    }
};

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
        if (std::string why = code_refusal(*this, p); !why.empty()) return why;
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
        // Chunks of wide elements are short and their carries many, but scratch memory should stay within about 1 % of
        // the tensors. Warps that share gates leave up to 8 times fewer terms there, which outweighs what they
        // exchange.
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

// Tunes a pass in which as many warps of a block as possible, up to 8, share gates whose gradients are to be summed.
// Returns none where there is no such pass, or one whose warps share none is refused too.
template <typename KernelPass, typename... Facts>
std::unique_ptr<KernelPass> tuned(const LinearProblem& problem, Pass pass, const Options& options, std::string& refusal,
                                  Facts... facts) {
    for (int log2_sharing = 3; log2_sharing >= 0; --log2_sharing) {
        auto l = std::make_unique<KernelPass>(problem, pass, log2_sharing, facts...);
        if (!l->exists()) break;
        refusal = l->tune(problem, options);
        if (refusal.empty()) return l;
        if (l->sums != GateSums::of_blocks) break;
    }
    return nullptr;
}

}  // namespace

PassVariants make_rows_passes(const LinearProblem& problem, Pass pass, const Options& options, std::string& refusal) {
    const bool must_suit = options.kernel.empty();
    PassVariants passes;
    for (const bool skewed : {false, true}) {
        auto l = tuned<RowsPass>(problem, pass, options, refusal, skewed);
        if (l == nullptr) continue;
        if (must_suit && passes.empty() && l->group_chunks > 1 && few_long_rows_suit(problem, options)) {
            refusal = "few_long_rows takes the problem, and is expected to be faster than chunks in groups";
            break;
        }
        l->settle(problem, seen_by_kernel(*l, problem));
        passes.push_back(std::move(l));
    }
    return passes;
}

PassVariants make_columns_passes(const LinearProblem& problem, Pass pass, const Options& options,
                                 std::string& refusal) {
    const bool must_suit = options.kernel.empty();
    const auto of = [&](int pack, bool skewed) -> std::unique_ptr<ColumnsPass> {
        // Pairs that lie anywhere have a gate for each row.
        if (skewed && problem.broadcasts(broadcast_channels)) return nullptr;
        return tuned<ColumnsPass>(problem, pass, options, refusal, pack, skewed);
    };
    auto wide = of(2, false), narrow = of(1, false), skewed = of(2, true);
    // Lanes of one row make strips that are half as wide, and longer chunks. Of two variants that suit, the wide one is
    // kept unless it cuts time into chunks where the narrow one does not, has few strips, or fewer warps that share a
    // gate.
    if (wide && narrow && must_suit) {
        const bool narrower = wide->group_chunks > 1 || (wide->tuning.chunks > 1 && narrow->tuning.chunks == 1) ||
                              wide->log2_sharing < narrow->log2_sharing;
        (narrower ? wide : narrow).reset();
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
