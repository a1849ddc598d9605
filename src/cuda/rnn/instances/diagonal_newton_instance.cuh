// SPDX-License-Identifier: Apache-2.0
// The entry of the table for one dtype.
#pragma once

#include "cuda/rnn/diagonal_newton/backward.cuh"
#include "cuda/rnn/diagonal_newton/forward.cuh"
#include "cuda/rnn/instances/diagonal_newton_table.h"
#include "math/cells.h"

namespace flashscan::cuda {

template <typename X>
RnnNewtonKernels make_newton_kernels(Cell cell) {
    return with_formula(cell, [](auto formula) -> RnnNewtonKernels {
        using Formula = typename decltype(formula)::Type;
        if constexpr (Formula::states > 2)
            return {};
        else
            return {reinterpret_cast<const void*>(&rnn_diagonal_newton_forward<X, Formula>),
                    reinterpret_cast<const void*>(&rnn_diagonal_newton_maps<X, Formula>),
                    reinterpret_cast<const void*>(&rnn_diagonal_newton_carries<X, Formula>)};
    });
}

}  // namespace flashscan::cuda
