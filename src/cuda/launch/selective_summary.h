// SPDX-License-Identifier: Apache-2.0
// The interface of kernels of selective scans to the code that carries states from rank to rank.
#pragma once

#include "core/backend.h"

namespace flashscan::cuda {

class SummarisedSelective : public SelectiveKernel {
  public:
    // Finds what the steps do to states: STATE_OUT, and sums of d over the steps of every row of states and channel,
    // [rows, channels] of D's type, NaN where a step is reset. Backward also GRAD|STATE_IN. A state that is null is
    // zeros, or is not wanted. Nothing else is written; SCRATCH has summary_bytes.
    virtual void summarise(Pass pass, const SelectiveBuffers& buffers, void* delta_sums, void* stream) const = 0;
    virtual size_t summary_bytes(Pass pass) const = 0;
};

}  // namespace flashscan::cuda
