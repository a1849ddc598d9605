// SPDX-License-Identifier: Apache-2.0
// Fills the entries of the table for one dtype with the kernels of that dtype.
#pragma once

#include "cuda/rnn/alternating/backward.cuh"
#include "cuda/rnn/alternating/forward.cuh"
#include "cuda/rnn/edges.cuh"
#include "cuda/rnn/instances/table.h"
#include "cuda/rnn/persistent/persistent.cuh"
#include "math/cells.h"

namespace flashscan::cuda {

static_assert(rnn_step_block == rnn_threads && rnn_edge_block == rnn_edge_threads &&
              rnn_sum_block_columns == rnn_sum_columns);

template <typename Function>
const void* address_of(Function* function) {
    return reinterpret_cast<const void*>(function);
}

template <typename X, typename Cell>
RnnCellKernels make_cell_kernels() {
    RnnCellKernels k;
    k.kept = Cell::kept;
    k.begin = address_of(&rnn_begin<X, Cell>);
    k.forward = address_of(&rnn_forward<X, Cell>);
    k.backward = address_of(&rnn_backward<X, Cell>);
    k.persistent_forward = address_of(&rnn_persistent_forward<X, Cell>);
    k.persistent_backward = address_of(&rnn_persistent_backward<X, Cell>);
    if constexpr (Cell::resets_before) {
        k.forward_reset = address_of(&rnn_forward_reset<X, Cell>);
        k.backward_reset = address_of(&rnn_backward_reset<X, Cell>);
    }
    return k;
}

template <typename X>
RnnDataKernels make_rnn_data_kernels() {
    RnnDataKernels k;
#define FLASHSCAN_ROW(name, CONSTANT, number, word, formula, ...) k.cells[number] = make_cell_kernels<X, formula>();
    FLASHSCAN_CELLS(FLASHSCAN_ROW)
#undef FLASHSCAN_ROW
    k.pass_states = address_of(&rnn_pass_states<typename Element<X>::Wide>);
    k.find_sequences = address_of(&rnn_find_sequences);
    return k;
}

template <typename X, typename W>
RnnWeightKernels make_rnn_weight_kernels(Dtype dtype, Dtype weight_dtype) {
    RnnWeightKernels k;
    k.dtype = dtype;
    k.weight_dtype = weight_dtype;
    k.pack_weights = address_of(&rnn_pack_weights<X, W>);
    k.unpack_weights = address_of(&rnn_unpack_weights<W>);
    k.widen_bias = address_of(&rnn_widen_bias<W>);
    k.sum_bias = address_of(&rnn_sum_bias<W>);
    return k;
}

}  // namespace flashscan::cuda
