// SPDX-License-Identifier: Apache-2.0
// The choice of tuning.h.
#include "cuda/rnn/diagonal_newton/tuning.h"

#include <algorithm>

#include "core/rounding.h"

namespace flashscan::cuda {
namespace {

// Cycles that a unit waits for a step of "diagonal", and instructions of a step with its Jacobian, as they fit times of
// an H100 (bench/results/2026-11-26-h100).
struct CellCost {
    double latency, instructions;
};
CellCost cost_of(Cell cell) {
    switch (cell) {
    case Cell::lstm: return {220, 270};
    case Cell::gru: return {290, 120};
    case Cell::gru_reset_before: return {400, 120};
    case Cell::mgu: return {180, 90};
    case Cell::elman: return {100, 50};
    case Cell::elman_relu: return {60, 30};
    case Cell::slstm: return {};  // diagonal_newton.cpp refuses it
    }
    return {};
}

// How many times segments are walked until all of a block, or of a cluster, agree.
constexpr double block_walks = 3, cluster_walks = 5;
constexpr double with_jacobian = 1.25;  // how much longer a step waits for its Jacobian too
constexpr double block_exchange = 500, cluster_exchange = 6000;
constexpr double schedulers = 4;  // of a multiprocessor

int64_t chains_of(const RnnProblem& p) { return p.state_rows() * ceil_div(p.width(), int64_t{rnn_diagonal_units}); }
// Steps of a row. Only the device knows the lengths of packed sequences, so that their mean is taken: a sequence that
// is longer than the others is cut into more chunks forward and into longer segments backward than its length asks for,
// and what the model says of its time is too little.
int64_t usual_row(const RnnProblem& p) { return p.packed() ? ceil_div(p.time, p.state_rows()) : p.time; }

}  // namespace

RnnNewtonShape choose_rnn_newton(const RnnProblem& p, int multiprocessors, int shared_bytes, bool clusters) {
    constexpr int of_system = 1024, flags = rnn_newton_flags * sizeof(int);
    const int64_t chains = chains_of(p), useful = ceil_div(usual_row(p), int64_t{rnn_newton_least});
    RnnNewtonShape shape;
    // With two blocks on a multiprocessor one moves data while the other computes; where chains are few, one block has
    // all the warps.
    shape.warps = chains > multiprocessors ? rnn_newton_warps / 2 : rnn_newton_warps;
    shape.blocks = 1;
    while (clusters && shape.blocks < rnn_newton_blocks && 2 * shape.blocks * chains <= multiprocessors &&
           shape.blocks * shape.warps < useful)
        shape.blocks *= 2;
    const int states = static_cast<int>(p.counts().states);
    const int64_t own = rnn_newton_words(states, shape.warps, shape.blocks) * size_of(state_dtype(p.dtype)) + flags;
    const int64_t room = shared_bytes / (rnn_newton_warps / shape.warps) - of_system - own;
    const int64_t step = p.counts().gates * rnn_diagonal_units * size_of(p.dtype) * shape.warps;
    const int64_t fetched = rnn_newton_fetched(p.counts().gates);
    shape.steps = static_cast<int>(std::min<int64_t>(room / step, rnn_newton_steps) / fetched * fetched);
    if (shape.steps < rnn_newton_least) return {};
    shape.shared_bytes = static_cast<int>(own + shape.steps * step);
    return shape;
}

int choose_rnn_newton_backward(const RnnProblem& p, int multiprocessors) {
    // So many warps of a multiprocessor hide each other's latency. A segment reads its steps twice, the scan waits for
    // all segments of a row, and three launches take as long as some 50 steps. Where chains are many, segments of so
    // many steps at most take turns: the product of a segment's Jacobians overflows the sooner the more there are.
    constexpr int64_t resident = 8, least_steps = 64, most_steps = 1024, least = 4, most = 512;
    const int64_t chains = chains_of(p);
    if (!p.training || p.recurrent_clip > 0 || chains == 0) return 1;
    const int64_t segments = std::min({resident * multiprocessors / chains, usual_row(p) / least_steps, most});
    return segments < least ? 1 : static_cast<int>(std::max(segments, ceil_div(usual_row(p), most_steps)));
}

double rnn_newton_cycles(const RnnProblem& p, const RnnNewtonShape& s, int multiprocessors) {
    const CellCost cost = cost_of(p.cell);
    const double blocks = static_cast<double>(chains_of(p) * s.blocks);
    const int side_by_side = rnn_newton_warps / s.warps;  // blocks of a multiprocessor
    const double resident = std::min<double>(side_by_side, std::max(blocks / multiprocessors, 1.0));
    const double waves = std::max(blocks / (side_by_side * multiprocessors), 1.0);
    const double step = std::max(with_jacobian * cost.latency, cost.instructions * resident * s.warps / schedulers);
    const double segments = static_cast<double>(s.blocks) * s.warps, time = static_cast<double>(usual_row(p));
    const double chunks = std::max(time / (segments * s.steps), 1.0);
    const double steps = std::max(time / (chunks * segments), static_cast<double>(rnn_newton_least));
    const double walks = s.blocks > 1 ? cluster_walks : block_walks;
    return waves * chunks * walks * (steps * step + (s.blocks > 1 ? cluster_exchange : block_exchange));
}

double rnn_diagonal_cycles(const RnnProblem& p, int multiprocessors) {
    const CellCost cost = cost_of(p.cell);
    const double warps = static_cast<double>(chains_of(p)) / (schedulers * multiprocessors);
    return static_cast<double>(usual_row(p)) * std::max(cost.latency, cost.instructions / 1.5 * warps);
}

bool rnn_newton_pays(const RnnProblem& p, const RnnNewtonShape& s, int multiprocessors) {
    return 1.1 * rnn_newton_cycles(p, s, multiprocessors) <= rnn_diagonal_cycles(p, multiprocessors);
}

}  // namespace flashscan::cuda
