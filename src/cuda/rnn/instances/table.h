// SPDX-License-Identifier: Apache-2.0
// The table of compiled kernels of recurrent networks: the kernels of each cell by dtype, and those that touch weights
// by pairs of dtype and weight_dtype.
#pragma once

#include "core/types.h"

namespace flashscan::cuda {

// The kernels of a cell. They are launched with one thread for each element and take RnnParams and, but for `begin`,
// the step. The persistent ones take RnnPersistentParams.
struct RnnCellKernels {
    int kept = 0;
    const void* begin = nullptr;
    const void* forward = nullptr;
    const void* forward_reset = nullptr;  // null for cells that do not reset before the product
    const void* backward = nullptr;
    const void* backward_reset = nullptr;
    const void* persistent_forward = nullptr;
    const void* persistent_backward = nullptr;
};

// The kernels of one dtype.
struct RnnDataKernels {
    RnnCellKernels cells[cell_count];  // indexed by Cell
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
