// SPDX-License-Identifier: Apache-2.0
// The kernels of recurrent networks that a file is compiled with.
#pragma once

#include "cpu/kernels/rnn_steps.h"
#include "cpu/kernels/rnn_weights.h"

namespace flashscan::cpu::FLASHSCAN_ISA {

template <typename Cell, typename T>
RnnKernels kernels_of() {
    return {vector_bytes,
            pack_weight<Cell, T>,
            pack_bias<Cell, T>,
            [](const RnnCall& c, const RnnBlock& b) { Forward<Cell, T>(c, b).run(); },
            [](const RnnCall& c, const RnnBlock& b) { Backward<Cell, T>(c, b).run(); },
            [](const RnnCall& c, const RnnSlice& q) { WeightGradient<Cell, T>(c, q).run(); },
            bias_gradient<Cell, T>,
            Buffers<Cell, T>::numbers,
            WeightGradient<Cell, T>::numbers,
            panel_numbers<Cell, T>};
}

template <typename T>
RnnKernels kernels_of_cell(int32_t cell) {
    switch (cell) {
    case 1: return kernels_of<GruCell, T>();
    case 2: return kernels_of<ElmanCell<false>, T>();
    case 3: return kernels_of<SlstmCell, T>();
    case 4: return kernels_of<GruResetBeforeCell, T>();
    case 5: return kernels_of<ElmanCell<true>, T>();
    default: return kernels_of<LstmCell, T>();
    }
}

RnnKernels rnn_kernels(int32_t cell, bool wide) {
    return wide ? kernels_of_cell<double>(cell) : kernels_of_cell<float>(cell);
}

}  // namespace flashscan::cpu::FLASHSCAN_ISA
