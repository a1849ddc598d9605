// SPDX-License-Identifier: Apache-2.0
// The entry of the table for one dtype.
#pragma once

#include "cuda/rnn/diagonal/backward.cuh"
#include "cuda/rnn/diagonal/forward.cuh"
#include "cuda/rnn/instances/diagonal_table.h"
#include "math/cells.h"

namespace flashscan::cuda {

template <typename X, typename Cell, bool Deep, bool Trains>
RnnDiagonalKernel make_diagonal_forward() {
    return {reinterpret_cast<const void*>(&rnn_diagonal_forward<X, Cell, Deep, Trains>),
            RnnFetched<X, Cell, Deep>::forward};
}
template <typename X, typename Cell, bool Deep>
RnnDiagonalKernel make_diagonal_backward() {
    return {reinterpret_cast<const void*>(&rnn_diagonal_backward<X, Cell, Deep>), RnnFetched<X, Cell, Deep>::backward};
}

template <typename X>
RnnDiagonalKernels make_diagonal_kernels(Cell cell) {
    return with_formula(cell, [](auto formula) {
        using Formula = typename decltype(formula)::Type;
        return RnnDiagonalKernels{Formula::kept,
                                  make_diagonal_forward<X, Formula, true, false>(),
                                  make_diagonal_forward<X, Formula, true, true>(),
                                  make_diagonal_backward<X, Formula, true>(),
                                  make_diagonal_forward<X, Formula, false, false>(),
                                  make_diagonal_forward<X, Formula, false, true>(),
                                  make_diagonal_backward<X, Formula, false>()};
    });
}

}  // namespace flashscan::cuda
