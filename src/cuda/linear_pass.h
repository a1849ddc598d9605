// SPDX-License-Identifier: Apache-2.0
// How one pass of a plan runs on a device: settled when the plan is made, so that a call only fills in pointers.
#pragma once

#include <string>

#include "core/linear_problem.h"
#include "core/workspace.h"
#include "cuda/instances/linear.h"
#include "cuda/kernels/linear_maps.h"
#include "cuda/kernels/linear_params.h"
#include "cuda/tuning/linear_tuning.h"

namespace flashscan::cuda {

struct LinearPass {
    Pass pass{};
    const LinearKernels* kernels = nullptr;
    bool time_inner = false;  // which axis the tiles have innermost
    bool down = false;        // against the order of memory
    bool fold = false;        // batch and channels are one axis of rows
    int64_t batches = 0, rows = 0, time = 0;
    bool bulk = false;  // through the bulk copy engine where tensors allow; settled with the device
    LinearTuning tuning;

    // GRAD|GATE of a broadcast gate.
    bool sums_gate = false;
    int64_t partial_time = 0, partial_rows = 0;  // slots of one launch
    int64_t launch_steps = 0;                    // time is cut so that the partial sums stay small

    // Enough data that encoding the engine's maps, on the host, pays.
    bool worth_bulk() const;
    int64_t blocks() const { return tuning.chunks * batches * tuning.row_groups; }
    std::string describe() const;

    Workspace workspace;
    size_t records = 0, record_bytes = 0, carries = 0, carry_bytes = 0, partial = 0, edges = 0;

    const TileFacts& tile() const {
        return (tuning.algorithm == LinearAlgorithm::stream ? kernels->stream_tile : kernels->chunked_tile)[time_inner];
    }
    const void* kernel() const {
        const bool backward = pass == Pass::backward;
        return (tuning.algorithm == LinearAlgorithm::stream ? kernels->stream
                                                            : kernels->chunked)[time_inner][down][backward];
    }
    int shared_bytes(bool events) const {
        return tile().shared_bytes[pass == Pass::backward] + (events ? tile().warps * tile().event_bytes : 0);
    }
    int64_t launches() const { return time <= launch_steps ? 1 : (time + launch_steps - 1) / launch_steps; }
};

// `wanted` is the algorithm asked for; rows that must be summed at every step take the stream algorithm all the same.
LinearPass make_linear_pass(const LinearProblem& problem, Pass pass, LinearAlgorithm wanted, bool batch_invariant);

// The algorithm for a pass when none is forced.
LinearAlgorithm choose_algorithm(const LinearProblem& problem, Pass pass, bool batch_invariant);

// The tensor as the pass's kernel sees it: strides in bytes, and the widest pieces that its address and strides allow.
// Fills `map` and sets View::bulk where the copy engine can take it.
View view_of(const LinearPass& pass, const void* data, const Strides& strides, Dtype dtype, CUtensorMap& map);

}  // namespace flashscan::cuda
