// SPDX-License-Identifier: Apache-2.0
// The entry of the table for one dtype.
#pragma once

#include "cuda/rnn/instances/newton_table.h"
#include "cuda/rnn/newton/forward.cuh"
#include "math/cells.h"

namespace flashscan::cuda {

template <typename X>
const void* make_newton_kernel(Cell cell) {
    return with_formula(cell, [](auto formula) -> const void* {
        using Formula = typename decltype(formula)::Type;
        if constexpr (Formula::states > 2)
            return nullptr;
        else
            return reinterpret_cast<const void*>(&rnn_newton_forward<X, Formula>);
    });
}

}  // namespace flashscan::cuda
