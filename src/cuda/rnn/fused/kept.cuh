// SPDX-License-Identifier: Apache-2.0
// RESERVE of the fused kernels holds this for an element and step: the numbers that a cell keeps, in f32.
#pragma once

#include <type_traits>

#include "math/rnn.h"

namespace flashscan::cuda {

// takes_h: the last of these numbers is h, which is not stored because OUTPUT has it with the same precision.
template <typename X, typename Cell>
struct RnnKept {
    static constexpr bool takes_h =
        std::is_same_v<X, float> && Cell::keeps_h && Cell::kept > Cell::gates + Cell::states;
    static constexpr int count = takes_h ? Cell::kept - 1 : Cell::kept;
};

}  // namespace flashscan::cuda
