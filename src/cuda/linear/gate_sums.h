// SPDX-License-Identifier: Apache-2.0
// How reduce_gate_gradient (gate_gradient.cuh) sums the terms of GRAD|GATE. It is a pure choice by extents and strides.
#pragma once

#include <cstdint>

#include "cuda/linear/params.h"

namespace flashscan::cuda {

// Returns the sum over the axes in `broadcast` (GateBroadcast), without pointers. At least one axis is summed; if time
// is, its terms lie next to those of rows, in the order of steps. A term has `term_bytes` bytes. `cuts` tells that
// packed sequences may end before the last step; it is of no account if time is summed. If the choice is
// `batch_invariant`, the order in which the terms of a sum are added does not depend on how many sums there are.
ReduceParams sum_over_axes(const ReduceAxis& batch, const ReduceAxis& time, const ReduceAxis& row, uint32_t broadcast,
                           int64_t term_bytes, bool cuts, bool batch_invariant);

}  // namespace flashscan::cuda
