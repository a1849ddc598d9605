// SPDX-License-Identifier: Apache-2.0
// The tables of the kernels of recurrent networks, compiled once for each instruction set.
#pragma once

#include "cpu/kernels/rnn_diagonal.h"
#include "cpu/kernels/rnn_steps.h"
#include "cpu/kernels/rnn_weights.h"
#include "math/cells.h"

namespace flashscan::cpu::FLASHSCAN_ISA {

template <typename Cell, typename T>
RnnKernels kernels_of() {
    return {vector_bytes,
            Cell::kept,
            Cell::keeps_h,
            pack_weight<Cell, T>,
            pack_bias<Cell, T>,
            [](const RnnCall& c, const RnnBlock& b) { Forward<Cell, T>(c, b).run(); },
            [](const RnnCall& c, const RnnBlock& b) { Backward<Cell, T>(c, b).run(); },
            [](const RnnCall& c, const RnnSlice& q) { WeightGradient<Cell, T>(c, q).run(); },
            bias_gradient<Cell, T>,
            Buffers<Cell, T>::numbers,
            WeightGradient<Cell, T>::numbers,
            panel_numbers<Cell, T>,
            pack_diagonal<Cell, T>,
            [](const RnnCall& c, const RnnStrip& q) { DiagonalForward<Cell, T>(c, q).run(); },
            [](const RnnCall& c, const RnnStrip& q) { DiagonalBackward<Cell, T>(c, q).run(); },
            diagonal_gradient<Cell, T>,
            StripBuffer<Cell, T>::numbers};
}

RnnKernels rnn_kernels(Cell cell, bool wide) {
    return with_formula(cell, [&](auto formula) {
        using Formula = typename decltype(formula)::Type;
        return wide ? kernels_of<Formula, double>() : kernels_of<Formula, float>();
    });
}

}  // namespace flashscan::cpu::FLASHSCAN_ISA
