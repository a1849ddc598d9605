// SPDX-License-Identifier: Apache-2.0
// How "diagonal_newton" cuts a recurrent network, and how long it and "diagonal" take: pure functions of the shape.
#pragma once

#include "core/rnn_problem.h"
#include "cuda/rnn/diagonal_newton/params.h"

namespace flashscan::cuda {

struct RnnNewtonShape {
    int warps = 0;   // of a block, a segment each; 0 where the network does not fit
    int blocks = 0;  // of a cluster, which has 32 units of a row
    int steps = 0;   // of a segment, at most
    int shared_bytes = 0;
};

// `shared_bytes` is what a multiprocessor has for its blocks, and a block may have.
RnnNewtonShape choose_rnn_newton(const RnnProblem& problem, int multiprocessors, int shared_bytes, bool clusters);

// Segments of each row backward, a warp each; 1 where steps run one after the other.
int choose_rnn_newton_backward(const RnnProblem& problem, int multiprocessors);

// Cycles of forward, and whether those of "diagonal_newton" are clearly fewer.
double rnn_newton_cycles(const RnnProblem& problem, const RnnNewtonShape& shape, int multiprocessors);
double rnn_diagonal_cycles(const RnnProblem& problem, int multiprocessors);
bool rnn_newton_pays(const RnnProblem& problem, const RnnNewtonShape& shape, int multiprocessors);

}  // namespace flashscan::cuda
