// SPDX-License-Identifier: Apache-2.0
// How the units of a recurrent network are cut into the blocks of "decode": a pure choice by shape.
#pragma once

#include "core/rnn_problem.h"
#include "cuda/rnn/decode/params.h"

namespace flashscan::cuda {

struct RnnStepShape {
    int blocks = 0;  // 0 where the network does not fit
    int units = 0, tiles = 0, padded = 0;
    int weight_bytes = 0, shared_bytes = 0;  // of a block
    RnnStepWay way = RnnStepWay::shared;  // where R and the states lie in whole words of 16 bytes, else always `shared`
    int threads = 0, matrix_threads = 0;  // of a block
};

// `multiprocessors` is how many blocks run side by side, each with `shared_bytes` of shared memory.
RnnStepShape choose_rnn_step(const RnnProblem& problem, int multiprocessors, int shared_bytes);

}  // namespace flashscan::cuda
