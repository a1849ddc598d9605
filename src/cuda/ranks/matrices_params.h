// SPDX-License-Identifier: Apache-2.0
// Parameters and table of the kernels of matrices.cuh: plain data, no CUDA types.
#pragma once

#include "core/types.h"
#include "cuda/device/tile/sequences.h"

namespace flashscan::cuda {

enum RankEdgeMark : uint8_t {
    edge_of_nothing = 0,
    edge_of_steps = 1,
    edge_of_state_in = 2  // the first rank's, which has no steps
};

// edge_states: OUTPUT at the first or the last own step of every row of states.
struct RankEdgeParams {
    const void* output = nullptr;    // null: NaN
    const void* state_in = nullptr;  // of the first rank, for rows without steps; null: zeros
    void* edge = nullptr;
    uint8_t* marks = nullptr;  // of RankEdgeMark, for each row; null: not wanted
    SequenceOffsets offsets;
    int64_t rows = 0, channels = 0, element = 0, time = 0;
    int64_t batch_step = 0, time_step = 0, channel_step = 0;  // of OUTPUT, in numbers
    int32_t reverse = 0, last_step = 0;
};

// find_edges: of each row the edge of the nearest rank before this one that has one; the identity where none has. A
// scan that is exclusive has the state after the steps of another rank in its own OUTPUT, which `to` holds already.
struct RankEdgesParams {
    const char *edges = nullptr, *marks = nullptr;  // of the nearest rank
    int64_t message_step = 0;                       // bytes to the one before it
    int32_t count = 0, exclusive = 0;
    int64_t rows = 0, row_numbers = 0;
    int64_t identity_dim = 0;  // of identity matrices; 0: zeros
    void* to = nullptr;
};

// join_gradients: through the steps of a rank, of matrix products gradient total^H + local, of affine maps
// product^H gradient + local.
struct RankJoinParams {
    const void *gradient = nullptr, *matrix = nullptr, *local = nullptr;
    void* joined = nullptr;
    int64_t chains = 0, dim = 0;
    int32_t affine = 0, unused = 0;
};

struct RankMatrixKernels {
    const void *edge = nullptr, *edges = nullptr, *join = nullptr;
};
// The entry of data of a type.
RankMatrixKernels rank_matrix_kernels(Dtype dtype);

}  // namespace flashscan::cuda
