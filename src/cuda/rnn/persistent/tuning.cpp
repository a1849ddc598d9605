// SPDX-License-Identifier: Apache-2.0
// The choices and estimates of tuning.h. The constants were measured on an H200.
#include "cuda/rnn/persistent/tuning.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "core/rounding.h"

namespace flashscan::cuda {
namespace {

constexpr int threads = rnn_persistent_threads;
// The blocks of a cluster, and the multiprocessors among which an H200 places one.
constexpr int most_cluster_blocks = 16, multiprocessors_of_cluster = 18;

bool resets_before(const RnnProblem& p) { return row_of(p.cell).resets_before; }

// Fills in what a block has in shared memory. Returns false where its vectors and sums do not fit.
bool place(RnnPersistentShape& s, const RnnProblem& p, Pass pass, int64_t padded, int shared_bytes) {
    const int64_t size = size_of(p.dtype), wide = size_of(state_dtype(p.dtype)), rows = s.tiles * 8;
    const int64_t all = p.counts().gates * s.units, stride = rnn_persistent_stride(padded * size);
    int64_t vectors = all * rows * wide, sums = threads * wide;
    if (pass == Pass::forward) {
        vectors = (s.clustered != 0 ? 2 : 1) * rows * stride;
        sums = 0;
        // The larger of two gathers: a cell that resets before the product has one for the last gate.
        for (const int64_t count : {resets_before(p) ? all - s.units : all, int64_t{s.units}}) {
            const int64_t across = ceil_div(count, 16);
            const int parts = rnn_persistent_parts(static_cast<int>(across * s.tiles));
            sums = std::max(sums, parts * rows * across * 16 * wide);
        }
    }
    vectors = round_up(vectors, 128), sums = round_up(sums, 128);
    const int64_t left = shared_bytes - 1024 - vectors - sums;
    if (left < 0) return false;
    s.stored = static_cast<int32_t>(std::min(all, left / stride));
    s.vectors_at = static_cast<int32_t>(round_up(s.stored * stride, 128));
    s.sums_at = static_cast<int32_t>(s.vectors_at + vectors);
    s.shared_bytes = static_cast<int32_t>(s.sums_at + sums);
    return true;
}

}  // namespace

RnnPersistentShape choose_persistent(const RnnProblem& p, Pass pass, int64_t rows, int64_t padded, int multiprocessors,
                                     int shared_bytes, bool clusters) {
    RnnPersistentShape best;
    double least = 0;
    if (p.heads > std::numeric_limits<int32_t>::max()) return best;
    const int64_t tiles = ceil_div(rows, 8), most_groups = std::min<int64_t>(tiles, multiprocessors);
    const auto consider = [&](int64_t groups, int64_t teams, bool clustered) {
        RnnPersistentShape s;
        if (ceil_div(tiles, groups) > threads) return;
        s.tiles = static_cast<int32_t>(ceil_div(tiles, groups));
        s.groups = static_cast<int32_t>(groups);
        s.teams = static_cast<int32_t>(teams);
        s.units = static_cast<int32_t>(ceil_div(p.head_dim, clustered ? most_cluster_blocks : multiprocessors / teams));
        if (clustered) s.units = static_cast<int32_t>(round_up(s.units, 4));  // blocks send whole words of 8 bytes
        s.blocks = static_cast<int32_t>(ceil_div(p.head_dim, s.units));
        s.clustered = static_cast<int32_t>(clustered && s.blocks > 1);
        if (int64_t{s.units} * s.tiles * 8 > threads) return;
        s.sum_parts = threads / (s.units * s.tiles * 8);
        if (!place(s, p, pass, padded, shared_bytes)) return;
        if (clustered && s.stored < p.counts().gates * s.units) return;  // few blocks read the rest of R slowly
        const double us = persistent_step_us(p, pass, padded, s);
        if (best.blocks > 0 && us >= least) return;
        best = s;
        least = us;
    };
    for (int64_t groups = 1; groups <= most_groups; ++groups) {
        if (ceil_div(tiles, ceil_div(tiles, groups)) != groups) continue;  // fewer groups have as many tiles each
        const int64_t most = std::min<int64_t>(p.heads * groups, multiprocessors);
        for (int64_t teams = most; teams > 0; teams = multiprocessors / (multiprocessors / teams + 1))
            consider(groups, teams, false);
        if (clusters) consider(groups, std::min<int64_t>(most, multiprocessors / multiprocessors_of_cluster), true);
    }
    return best;
}

double persistent_step_us(const RnnProblem& p, Pass pass, int64_t padded, const RnnPersistentShape& s) {
    const auto size = static_cast<double>(size_of(p.dtype)), wide = static_cast<double>(size_of(state_dtype(p.dtype)));
    const double columns = static_cast<double>(padded), rows = s.tiles * 8.0;
    const double all = static_cast<double>(p.counts().gates * s.units);
    const double waves = static_cast<double>(ceil_div(p.heads * s.groups, s.teams));
    const double exchanges = resets_before(p) ? 2 : 1;
    const double each = s.clustered != 0 ? 2750 : s.blocks > 1 ? 4300 : 1500;  // cycles of an exchange
    double cycles = 600 + exchanges * each;
    // The divisors are multiply-adds, and bytes through L2, that a block does in a cycle. Backward reads more slowly,
    // as other blocks have just written what it reads.
    if (pass == Pass::forward) {
        const double rate = size_of(p.dtype) == 2 ? 350 : 66;
        cycles += rows * static_cast<double>(round_up(p.counts().gates * s.units, 16)) * columns / rate;
        cycles += exchanges * rows * columns * size / 40;
        cycles += (all - s.stored) * columns * size * s.tiles / 40;
    } else {
        const double rate = p.dtype == Dtype::f64 ? 32 : 49;
        cycles += rows * all * columns / rate;
        cycles += exchanges * rows * columns * 2 * wide / 25;
        cycles += (all - s.stored) * columns * size * rows / 4 / 40;
    }
    return waves * cycles / 1700;
}

std::string describe(const RnnPersistentShape& s) {
    return fmt::format("{} {} of {} blocks for {} rows of a head, {} rows of R of a block in shared memory", s.teams,
                       s.clustered != 0 ? "clusters" : "teams", s.blocks, s.tiles * 8, s.stored);
}

}  // namespace flashscan::cuda
