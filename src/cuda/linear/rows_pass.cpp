// SPDX-License-Identifier: Apache-2.0
// Passes of the kernel "rows" (rows_time_innermost.cuh).
#include "cuda/linear/chained_pass.h"
#include "cuda/linear/instances/shared_gates_table.h"

namespace flashscan::cuda {
namespace {

// Returns a sentence unless time is contiguous and strides of rows and batch entries differ between tensors by
// multiples of 16 bytes alone: if the first row then begins at the same place within 16 bytes in all tensors, every row
// does. A gate that all steps share is loaded as one element.
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

    // Whether there is such a pass. Rows that begin anywhere have to lie alike in all tensors, which the terms of each
    // element do not.
    bool exists() const { return !skewed || (kernels->rows_skew != 0 && sums != GateSums::of_elements); }

    // Cuts time, and returns the condition that fails, if one does.
    std::string tune(const LinearProblem& problem, const Options& options) {
        const LinearProblem p = seen_by_kernel(*this, problem);
        const bool must_suit = options.kernel.empty();
        if (std::string why = unsupported_refusal(*this, p); !why.empty()) return why;
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

}  // namespace

PassVariants make_rows_passes(const LinearProblem& problem, Pass pass, const Options& options, std::string& refusal) {
    const bool must_suit = options.kernel.empty();
    PassVariants passes;
    for (const bool skewed : {false, true}) {
        auto l = make_tuned_pass<RowsPass>(problem, pass, options, refusal, skewed);
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

}  // namespace flashscan::cuda
