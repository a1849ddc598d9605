// SPDX-License-Identifier: Apache-2.0
// Searches the plan with the least estimated time (tuning.h).
#include "cuda/matrix/tuning.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include "core/rounding.h"
#include "cuda/matrix/prefix_tree.h"
#include "cuda/matrix/small_scan.h"

namespace flashscan::cuda {
namespace {

// Measured on an H200; times are in microseconds.
constexpr double launch_time = 5;
constexpr double fixed_time = 0.4;  // the part of a step's time that does not grow with dim
constexpr double clocks = 1700;     // clocks in a microsecond
constexpr double scan_products =
    13;                             // sequential products of a chunk of small_scan.cuh besides those of a warp's steps
constexpr double bytes_rate = 4e6;  // bytes that the device reads from L2 in a microsecond

bool takes(const MatrixKernel& k, int32_t dim, int shared_bytes) {
    return k.dim >= dim && k.shared_bytes <= shared_bytes;
}

// Whether a kernel is accurate enough for so many steps. The errors of tensor cores have a mean other than zero and
// accumulate from step to step, while those of f32 roundings may reach 4 sqrt(steps dim).
bool takes_as_many(const MatrixKernel& k, const MatrixShape& shape, int64_t steps) {
    if (shape.any_steps) return k.drift == 0;
    return k.drift * k.drift * static_cast<double>(steps) <= 12.0 * shape.dim;
}

// A kernel, and the part of its estimate that depends on the shape alone: microseconds of a step on a full and on an
// idle device, blocks that run at once on a multiprocessor, and blocks of a chunk.
struct Candidate {
    const MatrixKernel* kernel = nullptr;
    double busy = 0, alone = 0, resident = 0;
    double walk_tiles = 0, summary_tiles = 0;

    Candidate(const MatrixKernel& k, const MatrixShape& shape, int shared_bytes)
        : kernel(&k),
          busy(k.rows * static_cast<double>(k.dim) * shape.dim / (k.rate * clocks)),
          // The time of a step of walk_pipelined.cuh is assumed not to shrink with smaller matrices.
          alone(k.plain_only ? k.step : fixed_time + (k.step - fixed_time) * shape.dim / k.dim),
          resident(std::max(1, std::min(shared_bytes / std::max(k.shared_bytes, 1), 2048 / k.threads))),
          walk_tiles(ceil_div(shape.rows, k.rows)),
          summary_tiles(ceil_div(shape.dim, k.rows) + (shape.has_sums ? walk_tiles : 0)) {}
};

// std::ceil would be a function call, as the baseline instruction set has no instruction for it.
double round_up(double x) {
    const auto whole = static_cast<double>(static_cast<int64_t>(x));
    return whole < x ? whole + 1 : whole;
}

// Estimates of the time of walks, trees and scans.
class Walks {
  public:
    const MatrixShape& shape;

    struct Choice {
        const MatrixKernel* kernel = nullptr;
        double time = 0;
    };

    // It considers the kernels with the smallest dim that fits, among those that differ only in the largest dim. A
    // kernel on tensor cores is left out, too, where one of multiply-adds has a smaller dim, as its steps for so small
    // matrices have not been measured.
    Walks(std::span<const MatrixKernel> kernels, const MatrixShape& of, int multiprocessors, int shared_bytes)
        : shape(of), multiprocessors_(multiprocessors), shared_bytes_(shared_bytes) {
        const auto is_usable = [&](const MatrixKernel& k) {
            return takes(k, of.dim, shared_bytes) && (!k.by_warpgroups || of.warpgroups) && (!k.plain_only || of.plain);
        };
        for (const MatrixKernel& k : kernels) {
            if (k.is_tree && is_usable(k)) tree_ = &k;
            if (k.is_scan && is_usable(k) && (scan_ == nullptr || k.dim < scan_->dim)) scan_ = &k;
            if (k.is_tree || k.is_scan) continue;
            const bool is_large = std::any_of(kernels.begin(), kernels.end(), [&](const MatrixKernel& other) {
                const bool alike = other.on_tensor_cores == k.on_tensor_cores &&
                                   other.by_warpgroups == k.by_warpgroups && other.plain_only == k.plain_only;
                return is_usable(other) && !other.is_tree && !other.is_scan && other.dim < k.dim &&
                       (alike || !other.on_tensor_cores);
            });
            if (!is_usable(k) || is_large) continue;
            candidates_.emplace_back(k, of, shared_bytes);
            least_step_ = std::min(least_step_, candidates_.back().alone);
        }
    }

    // A lower bound of the time of any walk.
    double least_time(int64_t steps) const { return launch_time + static_cast<double>(steps) * least_step_; }

    // The fastest kernel to walk or summarise `chunks` chunks of `steps` steps of every chain of `all` steps.
    Choice choose(MatrixWork work, int64_t all, int64_t chunks, int64_t steps) const {
        Choice best;
        const double count = static_cast<double>(shape.plan_chains) * static_cast<double>(chunks);
        for (const Candidate& c : candidates_) {
            if (!takes_as_many(*c.kernel, shape, all)) continue;
            const double time =
                this->time(c, count * (work == MatrixWork::walk ? c.walk_tiles : c.summary_tiles), steps);
            if (best.kernel == nullptr || time < best.time) best = {c.kernel, time};
        }
        return best;
    }

    // The tree for chains of `steps` summaries; no kernel where its products would take more memory than the chains.
    Choice choose_tree(int64_t steps) const {
        constexpr int64_t most_steps = int64_t{1} << 16;
        if (tree_ == nullptr || steps < 2 || steps > most_steps || !takes_as_many(*tree_, shape, shape.steps))
            return {};
        if (2 * shape.dim <= tree_->rows) return {};  // such small products would leave most of a block idle
        const MatrixTree tree(static_cast<int32_t>(steps), false);
        if (2 * steps + tree.products() > shape.steps) return {};
        const double tiles = std::pow(ceil_div(shape.dim, tree_->rows), 2),
                     tile = tree_->rows * static_cast<double>(tree_->rows) * shape.dim / (tree_->rate * clocks);
        double time = launch_time;
        for (int k = 0; k < tree.levels; ++k) {
            const double blocks = static_cast<double>(shape.plan_chains) * (tree.first[k + 1] - tree.first[k]) * tiles;
            time += tree_->step + tile * std::max(2.0, round_up(blocks / multiprocessors_));
        }
        return {tree_, time};
    }

    // The scan of a chain of `steps` steps in one launch; also sets the steps of a chunk.
    Choice choose_scan(int64_t steps, int64_t& chunk_steps) const {
        constexpr int64_t most_chunks = int64_t{matrix_scan_group} * matrix_scan_group;
        Choice best;
        if (scan_ == nullptr) return best;
        int64_t own = 1;  // how many steps a warp has
        for (int shared = scan_->shared_bytes; shared <= shared_bytes_;
             shared = matrix_scan_shared_bytes(scan_->dim, ++own)) {
            const int64_t length = own * matrix_scan_warps, chunks = ceil_div(steps, length);
            // What blocks exchange must not take more memory than half of the chain.
            if (chunks > most_chunks || 2 * matrix_scan_words(scan_->dim, 1, chunks) > steps * shape.dim * shape.dim)
                continue;
            const double blocks = static_cast<double>(shape.plan_chains) * static_cast<double>(chunks);
            const double waves = round_up(blocks / (multiprocessors_ * std::min(shared_bytes_ / shared, 2)));
            const double time = 2 * launch_time + waves * (2 * static_cast<double>(own) + scan_products) * scan_->step;
            if (best.kernel != nullptr && time >= best.time) continue;
            best = {scan_, time};
            chunk_steps = length;
        }
        return best;
    }

  private:
    double time(const Candidate& c, double blocks, int64_t steps) const {
        const double blocks_each = round_up(blocks / multiprocessors_), waves = round_up(blocks_each / c.resident);
        const double traffic = blocks * shape.dim * shape.dim * 4 / bytes_rate;
        const double step = std::max(waves * std::max(c.alone, std::min(blocks_each, c.resident) * c.busy), traffic);
        return launch_time + static_cast<double>(steps) * step;
    }

    int multiprocessors_, shared_bytes_;
    std::vector<Candidate> candidates_;
    double least_step_ = std::numeric_limits<double>::infinity();
    const MatrixKernel *tree_ = nullptr, *scan_ = nullptr;
};

// Dynamic programming over the lengths of chunks at each level.
class Planner {
  public:
    explicit Planner(const Walks& walks) : walks_(walks) {}

    MatrixPlan plan(int64_t steps) {
        MatrixPlan plan;
        plan.microseconds = best(steps, most_matrix_levels).time;
        for (int levels = most_matrix_levels;; --levels) {
            const Node n = best(steps, levels);
            const int64_t chunks = std::max<int64_t>(ceil_div(steps, n.length), 1);
            plan.levels.push_back({steps, n.length, chunks, n.summarise, n.walk});
            if (n.summarise == nullptr) return plan;
            steps = chunks;
        }
    }

  private:
    // The uppermost level of the best plan for a chain.
    struct Node {
        double time = 0;  // of the whole plan
        int64_t length = 0;
        const MatrixKernel *summarise = nullptr, *walk = nullptr;
    };

    // The best plan of at most `levels` levels. Results are remembered, as chains of the same length occur above many
    // others.
    Node best(int64_t steps, int levels) {
        if (levels == 1) return whole(steps);
        const auto [place, is_new] = known_.try_emplace({steps, levels});
        if (is_new) place->second = make(steps, levels);
        return place->second;
    }
    Node whole(int64_t steps) const {
        const Walks::Choice walk = walks_.choose(MatrixWork::walk, steps, 1, steps);
        return {walk.time, std::max<int64_t>(steps, 1), nullptr, walk.kernel};
    }
    Node make(int64_t steps, int levels) {
        const MatrixShape& s = walks_.shape;
        Node best = whole(steps);
        if (!s.cuttable || s.plan_chains == 0) return best;
        const Walks::Choice tree = levels < most_matrix_levels ? walks_.choose_tree(steps) : Walks::Choice{};
        if (tree.kernel != nullptr && tree.time < best.time) best = {tree.time, steps, nullptr, tree.kernel};
        int64_t scanned = 0;
        const Walks::Choice scan = walks_.choose_scan(steps, scanned);
        if (scan.kernel != nullptr && scan.time < best.time) best = {scan.time, scanned, nullptr, scan.kernel};
        const bool is_fine = levels == most_matrix_levels, is_square = !s.has_sums && s.rows == s.dim;
        for (const int64_t length : is_fine ? fine_lengths : coarse_lengths) {
            const int64_t chunks = ceil_div(steps, length);
            if (chunks < 2 || 2 * walks_.least_time(length) + launch_time >= best.time) break;
            const Walks::Choice walk = walks_.choose(MatrixWork::walk, steps, chunks, length);
            if (2 * walk.time + launch_time >= best.time)
                continue;  // summaries take at least as long, having more rows
            const Walks::Choice summarise =
                is_square ? walk : walks_.choose(MatrixWork::summaries, steps, chunks, length);
            if (summarise.time + walk.time + launch_time >= best.time) continue;
            const double time = summarise.time + walk.time + this->best(chunks, levels - 1).time;
            if (time < best.time) best = {time, length, summarise.kernel, walk.kernel};
        }
        return best;
    }

    // The lengths of chunks that are tried: fine at the lowest level, coarse above, which takes a fraction of the time.
    static constexpr std::array<int64_t, 16> fine{4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 40, 48, 64, 96, 128, 256};
    static constexpr std::array<int64_t, 8> coarse{4, 6, 8, 12, 16, 32, 64, 128};
    static constexpr std::span<const int64_t> fine_lengths{fine}, coarse_lengths{coarse};

    const Walks& walks_;
    std::map<std::pair<int64_t, int>, Node> known_;
};

}  // namespace

bool has_matrix_kernel(std::span<const MatrixKernel> kernels, int32_t dim, int shared_bytes) {
    return std::any_of(kernels.begin(), kernels.end(),
                       [&](const MatrixKernel& k) { return !k.by_warpgroups && takes(k, dim, shared_bytes); });
}

MatrixPlan plan_matrices(std::span<const MatrixKernel> kernels, const MatrixShape& shape, int multiprocessors,
                         int shared_bytes) {
    const Walks walks(kernels, shape, multiprocessors, shared_bytes);
    return Planner(walks).plan(shape.steps);
}

}  // namespace flashscan::cuda
