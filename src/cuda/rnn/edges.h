// SPDX-License-Identifier: Apache-2.0
// What every way to run a recurrent network does before its first and after its last step.
#pragma once

#include "core/rnn_arguments.h"
#include "cuda/rnn/instances/table.h"
#include "cuda/rnn/params.h"
#include "cuda/rnn/pass.h"

namespace flashscan::cuda {

class RnnEdges {
  public:
    // Loads the kernels, because the first call may be captured.
    RnnEdges(const RnnProblem& problem, const RnnShape& shape);

    // Extents, strides and the arguments that forward and backward share.
    RnnParams common(const RnnBuffers& b) const;
    // The sequence of every t, in `memory`; null when not packed.
    const int64_t* find_sequences(const RnnBuffers& b, void* memory, void* stream) const;
    // States of rows without a step: `from`, or zeros, to `to`, which may be null.
    void pass_states(const RnnBuffers& b, const void* from, void* to, void* stream) const;
    // BIAS in the states' dtype, in `memory`; null when not given.
    const void* widen_bias(const RnnBuffers& b, void* memory, void* stream) const;
    // WEIGHT as the products take it: [H, G, padded, padded] in dtype, in `memory` unless it already is.
    const void* pack_weights(const RnnBuffers& b, void* memory, void* stream) const;

    // GRAD|BIAS from sums [biases, rows, H, D] and GRAD|WEIGHT from [H, G, padded, padded], in the states' dtype.
    void store_grad_bias(const RnnBuffers& b, const void* sums, int64_t rows, void* stream) const;
    void store_grad_weight(const RnnBuffers& b, const void* sums, void* stream) const;
    // Zeros to both, where there was no step.
    void clear_gradients(const RnnBuffers& b, void* stream) const;

  private:
    RnnSequenceParams sequences(const RnnBuffers& b) const;
    RnnWeightParams weight_params(const void* from, void* to) const;

    const RnnProblem& p_;
    const RnnShape& s_;
    const RnnDataKernels& data_;
    const RnnWeightKernels& weights_;
};

// Zeros. Does nothing for no bytes.
void clear(void* memory, size_t bytes, void* stream);

}  // namespace flashscan::cuda
