// SPDX-License-Identifier: Apache-2.0
#include "cuda/tuning/matrix_tuning.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "core/rounding.h"

namespace flashscan::cuda {
namespace {

// Times of an H200 in microseconds.
constexpr double launch_time = 2.5;
constexpr double step_time = 0.25;  // of a step whose product takes no time
constexpr double clocks = 1700;     // in a microsecond
constexpr double bytes_rate = 4e6;  // of all, out of L2

bool takes(const MatrixKernel& k, int32_t dim, int shared_bytes) {
    return k.dim >= dim && k.shared_bytes <= shared_bytes;
}

// Tensor cores round every step's sums towards zero, by half a unit of the last place on average: steps units after all.
// That is less than the random walk of the roundings of f32, 4 sqrt(steps dim), for as many steps as this.
bool allows_tensor_cores(const MatrixShape& shape) { return shape.steps <= 32 * static_cast<int64_t>(shape.dim); }

struct Walks {
    std::span<const MatrixKernel> kernels;
    const MatrixShape& shape;
    int multiprocessors, shared_bytes;

    struct Choice {
        const MatrixKernel* kernel = nullptr;
        double time = 0;
    };

    // Blocks of `pieces` pieces of every chain, each with `sets` of rows to walk for `steps` steps.
    Choice choose(int64_t pieces, int64_t steps, std::span<const int32_t> sets) const {
        Choice best;
        for (const MatrixKernel& k : kernels) {
            if (!takes(k, shape.dim, shared_bytes) || (k.on_tensor_cores && !allows_tensor_cores(shape)) ||
                (k.by_warpgroups && !shape.warpgroups))
                continue;
            int64_t tiles = 0;
            for (const int32_t rows : sets) tiles += ceil_div(rows, k.rows);
            const double time = this->time(k, static_cast<double>(shape.plan_chains * pieces * tiles), steps);
            if (best.kernel == nullptr || time < best.time) best = {&k, time};
        }
        return best;
    }

  private:
    double time(const MatrixKernel& k, double blocks, int64_t steps) const {
        const double d = shape.dim, work = k.rows * static_cast<double>(k.dim) * d;
        const double busy = work / (k.rate * clocks);
        const int resident = std::max(1, std::min(shared_bytes / std::max(k.shared_bytes, 1), 2048 / k.threads));
        // A block alone uses what its warps can; more of them share a multiprocessor's units.
        const double alone = step_time + busy * std::max(1.0, 512.0 / k.threads);
        const double full = multiprocessors, waves = std::ceil(std::max(1.0, blocks) / (full * resident));
        const double traffic = blocks * d * d * 4 / bytes_rate;
        const double step = std::max({alone * waves, busy * blocks / full, traffic});
        return launch_time + static_cast<double>(steps) * step;
    }
};

MatrixPlan plan_chain(const Walks& walks, int64_t steps, int depth) {
    const MatrixShape& s = walks.shape;
    const std::array<int32_t, 2> both{s.rows, s.dim};
    const std::span<const int32_t> rows(both.data(), 1),
        summaries(both.data() + (s.has_sums ? 0 : 1), s.has_sums ? 2 : 1);
    const Walks::Choice whole = walks.choose(1, steps, rows);
    MatrixPlan best{{{steps, std::max<int64_t>(steps, 1), 1, nullptr, whole.kernel}}, whole.time};
    if (!s.cuttable || depth == 0 || s.plan_chains == 0) return best;
    for (const int64_t length : {4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 256, 512}) {
        const int64_t pieces = ceil_div(steps, length);
        if (pieces < 2) break;
        const Walks::Choice summarise = walks.choose(pieces - 1, length, summaries),
                            walk = walks.choose(pieces, length, rows);
        if (summarise.time + walk.time >= best.microseconds) continue;
        MatrixPlan rest = plan_chain(walks, pieces - 1, depth - 1);
        const double time = summarise.time + walk.time + rest.microseconds;
        if (time >= best.microseconds) continue;
        best.levels.assign(1, {steps, length, pieces, summarise.kernel, walk.kernel});
        best.levels.insert(best.levels.end(), rest.levels.begin(), rest.levels.end());
        best.microseconds = time;
    }
    return best;
}

}  // namespace

bool has_matrix_kernel(std::span<const MatrixKernel> kernels, int32_t dim, int shared_bytes) {
    return std::any_of(kernels.begin(), kernels.end(),
                       [&](const MatrixKernel& k) { return !k.by_warpgroups && takes(k, dim, shared_bytes); });
}

MatrixPlan plan_matrices(std::span<const MatrixKernel> kernels, const MatrixShape& shape, int multiprocessors,
                         int shared_bytes) {
    constexpr int most_levels = 4;
    return plan_chain({kernels, shape, multiprocessors, shared_bytes}, shape.steps, most_levels - 1);
}

}  // namespace flashscan::cuda
