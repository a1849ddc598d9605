// SPDX-License-Identifier: Apache-2.0
// Passes of the kernel "short_rows" (short_rows.cuh), whose rows have few enough steps for lanes of one warp.
#include <fmt/format.h>

#include <limits>

#include "cuda/device/scan/look_back_tuning.h"
#include "cuda/launch/launch.h"
#include "cuda/linear/instances/short_rows_table.h"
#include "cuda/linear/pass.h"

namespace flashscan::cuda {
namespace {

struct ShortRowsPass final : LinearPass {
    ShortRowsKernels compiled;
    int tiles = 0;       // of a row
    int log2_lanes = 0;  // of a row

    ShortRowsPass(const LinearProblem& p, Pass of) : compiled(short_rows_kernels(p.dtype, p.gate_dtype)) {
        begin_pass(*this, p, of);
    }

    int64_t tile_steps() const { return int64_t{compiled.steps} << log2_lanes; }
    int64_t warp_rows() const { return int64_t{32} >> log2_lanes; }

    // Finds the kernel. Returns the condition that fails, if one does.
    std::string tune(const LinearProblem& p) {
        if (compiled.steps == 0)
            return fmt::format("dtype is {} and gate_dtype {}; takes f32, bf16, f16 or f64 for both", name_of(p.dtype),
                               name_of(p.gate_dtype));
        if (std::string why = plain_refusal(p); !why.empty()) return why;
        if (!time_inner) return "channels are innermost; takes time innermost";
        const auto most = [&](int n) { return int64_t{32} * ShortRowsKernels::tiles[n] * compiled.steps; };
        if (p.time > most(1)) return fmt::format("time is {}; takes up to {}", p.time, most(1));
        if (batches * rows > std::numeric_limits<int32_t>::max())
            return fmt::format("batch * channels is {}; takes up to 2^31 - 1", batches * rows);
        const int n = p.time > most(0) ? 1 : 0;
        tiles = ShortRowsKernels::tiles[n];
        kernel = compiled.kernel[n][down][pass == Pass::backward];
        log2_lanes = log2_up(ceil_div(p.time, int64_t{tiles} * compiled.steps), 5);
        return alignment_refusal(*this, p);
    }

    void settle(const LinearProblem& p) {
        ChainedTuning tuning;
        tuning.row_groups = ceil_div(static_cast<int64_t>(rows), warp_rows());
        grid = blocks_of(ceil_div(batches * tuning.row_groups, short_row_warps), 32 * short_row_warps);
        settle_params(*this, p, tuning);
        params.log2_lane_rows = 5 - log2_lanes;
        settle_alignment(*this, p);
    }

    const char* describe_variant() const override { return "aligned"; }
    std::string describe() const override {
        return fmt::format("{} warps of {} rows x {} tiles of {} steps, time innermost, aligned",
                           batches * params.row_groups, warp_rows(), tiles, tile_steps());
    }
    void enqueue(LinearParams& to, char*, void* stream) const override { launch(kernel, grid, stream, to); }
};

}  // namespace

// Calls whose tensors are not aligned take rows that begin anywhere, by "rows", where that takes the problem.
PassVariants make_short_rows_passes(const LinearProblem& problem, Pass pass, const Options& options,
                                    std::string& refusal) {
    PassVariants passes;
    auto l = std::make_unique<ShortRowsPass>(problem, pass);
    refusal = l->tune(problem);
    if (!refusal.empty()) return passes;
    l->settle(problem);
    passes.push_back(std::move(l));
    std::string refusal_of_rows;
    for (LinearPassPointer& rows : make_rows_passes(problem, pass, options, refusal_of_rows))
        if (rows->lie_alike) passes.push_back(std::move(rows));
    return passes;
}

}  // namespace flashscan::cuda
