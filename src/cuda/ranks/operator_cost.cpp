// SPDX-License-Identifier: Apache-2.0
// Numbers, and matrices in registers, take the time of the bytes that they read and write. Other matrices take time for
// each step of each chain, and besides for each step. These times are fitted to one and two H200s with f32 matrices of
// 16 x 16 (bench/results/2026-11-26-h200/ranks_peer.json), and are assumed to grow with the elements of a matrix, and
// with its products where these are more. The estimates are within 13 % of most of what was measured, and up to 20 %
// too low for wavefronts of streams.
#include "cuda/ranks/operator_cost.h"

#include "cuda/ranks/slices.h"

namespace flashscan::cuda {
namespace {

// Streams of numbers are as fast as any, those of matrices in registers slower by these factors.
constexpr double matmul_stream = 2.5, affine_stream = 1.55;

// These are the times of kernels on f32 matrices of measured_dim.
constexpr double measured_dim = 16;
struct Walk {
    double step_us;   // for each step
    double chain_ns;  // for each step of each chain
};
constexpr Walk matmul_forward{0, 1.18}, matmul_total{0, 0.72};
constexpr Walk matmul_backward{0.1, 15.3}, matmul_gradient{0.1, 4.1};  // with and without the gradients of matrices
constexpr Walk affine_forward{2.12, 0.93}, affine_total{2.12, 0.96};
constexpr Walk affine_backward{1.85, 2.81}, affine_gradient{1.85, 0.62};
constexpr double products_per_ns = 34e3;  // multiply-adds of large matrices
constexpr int64_t block_rows = 16;        // of a product

double walk_us(const Walk& walk, const OperatorProblem& p, double chains, double steps) {
    const double dim = std::max(static_cast<double>(p.dim), measured_dim),
                 matrices = dim / measured_dim * dim / measured_dim,
                 numbers = static_cast<double>(size_of(state_dtype(p.dtype))) / 4;
    const double products = p.is_affine() ? 0 : dim * dim * dim / products_per_ns / matmul_forward.chain_ns;
    return steps * chains * walk.chain_ns * numbers * std::max(matrices, products) / 1000;
}
int64_t blocks_of_chain(const OperatorProblem& p) { return p.is_affine() ? 1 : ceil_div<int64_t>(p.dim, block_rows); }

// Returns the fewest numbers of states of a group. Chains of matrices that do not fill a GPU are cut in time, which
// reads matrices twice. Where the whole is not cut, groups are made large enough that they are not either. Of
// 8192 affine maps of 16 numbers groups of 2048 take 1.2 to 1.5 times their share, groups of 4096 do not.
int64_t least_rows(const OperatorProblem& p, bool in_registers) {
    constexpr int64_t matmul_blocks = 8 * filled_multiprocessors, affine_blocks = 24 * filled_multiprocessors;
    if (p.on_numbers() || p.is_custom() || in_registers) return least_group_rows;
    const int64_t filling = ceil_div(p.is_affine() ? affine_blocks : matmul_blocks, blocks_of_chain(p)),
                  chains = p.chains() < filling ? 1 : filling;
    return std::max<int64_t>(least_group_rows, chains * p.element());
}

// Fills in the times of what takes the time of its bytes.
void add_streams(RankWork& w, const OperatorProblem& p, const OperatorTold& told, Pass pass, double chain_steps) {
    const double slower = p.is_matmul() ? matmul_stream : p.is_affine() ? affine_stream : 1;
    const double element = slower * stream_us(chain_steps * static_cast<double>(p.element() * p.number_bytes())),
                 gate = slower * stream_us(chain_steps * static_cast<double>(p.gate_element() * p.number_bytes()));
    w.pass_us = 2 * element + gate;
    w.summary_us = element + gate;
    if (told.products(pass, false)) w.summary_us += gate;
    if (pass == Pass::forward) return;
    w.pass_us = told.is_sum()       ? 2 * element
                : told.has_slopes() ? 3 * element
                : p.is_affine()     ? 3 * element + 2 * gate
                                    : 4 * element;
    if (told.has_slopes()) w.summary_us += 3 * element, w.before_us = element;
    if (p.is_matmul()) w.summary_us += (told.totals(pass, false) ? 3 : 2) * element;
}

// Fills in the times of matrices that blocks walk.
void add_walks(RankWork& w, const OperatorProblem& p, const OperatorTold& told, Pass pass, double chains,
               double steps) {
    const bool forward = pass == Pass::forward, affine = p.is_affine();
    const Walk& own = affine    ? (forward ? affine_forward : affine_backward)
                      : forward ? matmul_forward
                                : matmul_backward;
    const Walk& summary = affine    ? (forward ? affine_total : affine_gradient)
                          : forward ? matmul_total
                                    : matmul_gradient;
    const auto summarise = [&](const Walk& walk) { return walk.step_us * steps + walk_us(walk, p, chains, steps); };
    w.pass_us = walk_us(own, p, chains, steps);
    w.steps_us = own.step_us * steps;
    w.summary_us = summarise(summary);
    // Totals backward, and the products of affine maps.
    if (told.products(pass, false) || (!forward && told.totals(pass, false))) w.summary_us += summarise(matmul_total);
    w.blocks = chains * static_cast<double>(blocks_of_chain(p));
}

}  // namespace

RankWork operator_work(const OperatorProblem& p, bool in_registers, Pass pass, int32_t ranks, int64_t steps) {
    const OperatorTold told(p, ranks);
    const auto chains = static_cast<double>(p.packed() ? p.channels : p.chains());
    RankWork w;
    w.ranks = ranks;
    if (p.on_numbers() || p.is_custom() || in_registers)
        add_streams(w, p, told, pass, chains * static_cast<double>(steps));
    else
        add_walks(w, p, told, pass, chains, static_cast<double>(steps));
    w.state_bytes = w.message_bytes = static_cast<double>(told.state_bytes());
    if (told.products(pass, false)) w.message_bytes += static_cast<double>(told.product_bytes());
    if (pass == Pass::backward) {
        w.message_bytes += w.state_bytes;
        if (told.has_slopes()) w.edge_bytes = w.state_bytes;
        if (told.reads_edges()) {
            w.edge_bytes = static_cast<double>(told.edge_bytes());
            w.message_bytes += w.edge_bytes;
        }
    }
    w.rows = told.numbers();
    w.least_rows = least_rows(p, in_registers);
    w.most_groups = p.is_custom() ? 0 : most_groups(p, pass);
    w.why_whole =
        p.is_custom() ? "custom operators are not cut into groups of rows" : "all ranks have the result of a reduction";
    return w;
}

}  // namespace flashscan::cuda
