// SPDX-License-Identifier: Apache-2.0
#include "cuda/tuning/matrix_tuning.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <utility>

#include "core/rounding.h"

namespace flashscan::cuda {
namespace {

// Times of an H200 in microseconds.
constexpr double launch_time = 2.5;
constexpr double fixed_time = 0.4;  // of a step, for what does not grow with dim
constexpr double clocks = 1700;     // in a microsecond
constexpr double bytes_rate = 4e6;  // of all, out of L2

bool takes(const MatrixKernel& k, int32_t dim, int shared_bytes) {
    return k.dim >= dim && k.shared_bytes <= shared_bytes;
}

// Tensor cores round every sum towards zero, so that the errors of steps add up: to steps / 2 units of the last place, and
// the more, the more products they sum at a time. The roundings of f32, which do not add up, may be 4 sqrt(steps dim) off.
bool takes_as_many(const MatrixKernel& k, const MatrixShape& shape, int64_t steps) {
    return !k.on_tensor_cores || steps * k.chunk * k.chunk <= 32 * static_cast<int64_t>(shape.dim);
}

struct Walks {
    std::span<const MatrixKernel> kernels;
    const MatrixShape& shape;
    int multiprocessors, shared_bytes;

    struct Choice {
        const MatrixKernel* kernel = nullptr;
        double time = 0;
    };

    // Blocks of `pieces` pieces of every chain of `all` steps, each with `sets` of rows to walk for `steps` steps.
    Choice choose(int64_t all, int64_t pieces, int64_t steps, std::span<const int32_t> sets) const {
        Choice best;
        for (const MatrixKernel& k : kernels) {
            if (!takes(k, shape.dim, shared_bytes) || !takes_as_many(k, shape, all) ||
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
        const double d = shape.dim, busy = k.rows * static_cast<double>(k.dim) * d / (k.rate * clocks);
        const double alone = fixed_time + (k.step - fixed_time) * d / k.dim;
        const double resident = std::max(1, std::min(shared_bytes / std::max(k.shared_bytes, 1), 2048 / k.threads));
        const double blocks_each = std::ceil(blocks / multiprocessors), waves = std::ceil(blocks_each / resident);
        const double traffic = blocks * d * d * 4 / bytes_rate;
        const double step = std::max(waves * std::max(alone, std::min(blocks_each, resident) * busy), traffic);
        return launch_time + static_cast<double>(steps) * step;
    }
};

class Planner {
  public:
    explicit Planner(const Walks& walks) : walks_(walks) {}

    // The best plan of at most `levels` levels. Chains of the same length come up again and again above others.
    const MatrixPlan& plan(int64_t steps, int levels) {
        const auto [place, is_new] = known_.try_emplace({steps, levels});
        if (is_new) place->second = make(steps, levels);
        return place->second;
    }

  private:
    MatrixPlan make(int64_t steps, int levels) {
        const MatrixShape& s = walks_.shape;
        const std::array<int32_t, 2> both{s.rows, s.dim};
        const std::span<const int32_t> rows(both.data(), 1),
            summaries(both.data() + (s.has_sums ? 0 : 1), s.has_sums ? 2 : 1);
        const Walks::Choice whole = walks_.choose(steps, 1, steps, rows);
        MatrixPlan best{{{steps, std::max<int64_t>(steps, 1), 1, nullptr, whole.kernel}}, whole.time};
        if (!s.cuttable || levels == 1 || s.plan_chains == 0) return best;
        for (const int64_t length : {4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 256, 512}) {
            const int64_t pieces = ceil_div(steps, length);
            if (pieces < 2) break;
            const Walks::Choice summarise = walks_.choose(steps, pieces, length, summaries),
                                walk = walks_.choose(steps, pieces, length, rows);
            if (summarise.time + walk.time >= best.microseconds) continue;
            const MatrixPlan& rest = plan(pieces, levels - 1);
            const double time = summarise.time + walk.time + rest.microseconds;
            if (time >= best.microseconds) continue;
            best.levels.assign(1, {steps, length, pieces, summarise.kernel, walk.kernel});
            best.levels.insert(best.levels.end(), rest.levels.begin(), rest.levels.end());
            best.microseconds = time;
        }
        return best;
    }

    const Walks& walks_;
    std::map<std::pair<int64_t, int>, MatrixPlan> known_;
};

}  // namespace

bool has_matrix_kernel(std::span<const MatrixKernel> kernels, int32_t dim, int shared_bytes) {
    return std::any_of(kernels.begin(), kernels.end(),
                       [&](const MatrixKernel& k) { return !k.by_warpgroups && takes(k, dim, shared_bytes); });
}

MatrixPlan plan_matrices(std::span<const MatrixKernel> kernels, const MatrixShape& shape, int multiprocessors,
                         int shared_bytes) {
    const Walks walks{kernels, shape, multiprocessors, shared_bytes};
    return Planner(walks).plan(shape.steps, most_matrix_levels);
}

}  // namespace flashscan::cuda
