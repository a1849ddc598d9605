// SPDX-License-Identifier: Apache-2.0
// The kernels for recurrent networks that are compiled: one entry for each pair of dtype and weight_dtype.
#pragma once

#include "core/types.h"

namespace flashscan::cuda {

// Launched with one thread per element, and the step beside the RnnParams but for `begin`; the persistent ones with
// RnnPersistentParams.
struct RnnCellKernels {
    int kept = 0;
    const void* begin = nullptr;
    const void* forward = nullptr;
    const void* forward_reset = nullptr;  // null: the products all take h
    const void* backward = nullptr;
    const void* backward_reset = nullptr;
    const void* persistent_forward = nullptr;
    const void* persistent_backward = nullptr;
};

// Of one dtype.
struct RnnDataKernels {
    Dtype dtype{};
    RnnCellKernels cells[cell_count];  // by Cell
    const void* pass_states = nullptr;
    const void* find_sequences = nullptr;
};

struct RnnWeightKernels {
    Dtype dtype{}, weight_dtype{};
    const void* pack_weights = nullptr;
    const void* unpack_weights = nullptr;
    const void* widen_bias = nullptr;
    const void* sum_bias = nullptr;
};

inline constexpr int rnn_step_block = 128, rnn_edge_block = 256, rnn_sum_block_columns = 32;

const RnnDataKernels& rnn_data_kernels(Dtype dtype);
const RnnWeightKernels& rnn_weight_kernels(Dtype dtype, Dtype weight_dtype);

}  // namespace flashscan::cuda
