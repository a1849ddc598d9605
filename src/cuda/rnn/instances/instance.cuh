// SPDX-License-Identifier: Apache-2.0
// Fills the entries of the table for one dtype.
#pragma once

#include "cuda/rnn/backward.cuh"
#include "cuda/rnn/edges.cuh"
#include "cuda/rnn/forward.cuh"
#include "cuda/rnn/instances/table.h"
#include "cuda/rnn/persistent/persistent.cuh"

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
    if constexpr (resets_before<Cell>) {
        k.forward_reset = address_of(&rnn_forward_reset<X>);
        k.backward_reset = address_of(&rnn_backward_reset<X>);
    }
    return k;
}

template <typename X>
RnnDataKernels make_rnn_data_kernels(Dtype dtype) {
    RnnDataKernels k;
    k.dtype = dtype;
    const auto cell = [&k](flashscan::Cell which) -> RnnCellKernels& { return k.cells[static_cast<int>(which)]; };
    cell(flashscan::Cell::lstm) = make_cell_kernels<X, LstmCell>();
    cell(flashscan::Cell::gru) = make_cell_kernels<X, GruCell>();
    cell(flashscan::Cell::elman) = make_cell_kernels<X, ElmanCell<false>>();
    cell(flashscan::Cell::slstm) = make_cell_kernels<X, SlstmCell>();
    cell(flashscan::Cell::gru_reset_before) = make_cell_kernels<X, GruResetBeforeCell>();
    cell(flashscan::Cell::elman_relu) = make_cell_kernels<X, ElmanCell<true>>();
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
