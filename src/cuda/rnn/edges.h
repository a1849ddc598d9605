// SPDX-License-Identifier: Apache-2.0
// Host side of edges.cuh: what every way to run a recurrent network does before its first and after its last step.
#pragma once

#include "core/rnn_arguments.h"
#include "cuda/launch/launch.h"
#include "cuda/rnn/instances/table.h"
#include "cuda/rnn/params.h"
#include "cuda/rnn/pass.h"

namespace flashscan::cuda {

// A launch that reads one tensor and writes another, settled with the plan but for where these are.
template <typename Params>
struct RnnEdgeLaunch : SettledLaunch<Params> {
    void run(const void* from, void* to, void* stream) const {
        Params of_call = this->params;
        of_call.from = from;
        of_call.to = to;
        SettledLaunch<Params>::run(of_call, stream);
    }
};

class RnnEdges {
  public:
    // Loads the kernels now, because the first call may be captured, where they cannot be loaded. Gradients of BIAS,
    // and of WEIGHT of heads of one unit, are summed over `summed_rows` rows.
    RnnEdges(const RnnProblem& problem, const RnnShape& shape, int64_t summed_rows);

    // Returns extents, strides and the arguments that forward and backward share.
    RnnParams common(const RnnBuffers& b) const;
    // Returns the limit of the gradients that pass R; infinite where they are not clipped.
    double clip() const { return params_.clip; }
    // Enqueues the search for the sequence of every t and returns `memory`, which receives it; null when not packed.
    const int64_t* find_sequences(const RnnBuffers& b, void* memory, void* stream) const;
    // Copies the states of rows without steps from `from`, or zeros where it is null, to `to`, which may be null.
    void pass_states(const RnnBuffers& b, const void* from, void* to, void* stream) const;
    // Returns BIAS in the states' dtype, which is written to `memory`; null where it is not given.
    const void* widen_bias(const RnnBuffers& b, void* memory, void* stream) const;
    // Returns WEIGHT as the products take it, [H, G, padded, padded] in dtype: in `memory`, or WEIGHT itself where it
    // already has that form.
    const void* pack_weights(const RnnBuffers& b, void* memory, void* stream) const;

    // Store GRAD|BIAS from sums [biases, rows, H, D], and GRAD|WEIGHT from [H, G, padded, padded], in the states'
    // dtype.
    void store_grad_bias(const RnnBuffers& b, const void* sums, void* stream) const;
    void store_grad_weight(const RnnBuffers& b, const void* sums, void* stream) const;
    // Stores GRAD|WEIGHT of heads of one unit from sums [G, rows, H].
    void store_grad_diagonal(const RnnBuffers& b, const void* sums, void* stream) const;
    // Clears both, for calls without steps.
    void clear_gradients(const RnnBuffers& b, void* stream) const;

  private:
    const RnnProblem& p_;
    const RnnDataKernels& data_;
    bool passes_states_;   // whether there may be rows without steps
    bool padded_already_;  // whether WEIGHT has the form that the products take, but for its address
    // Without a call's pointers.
    RnnParams params_;
    RnnSequenceParams sequences_;
    LaunchShape find_sequences_;
    RnnEdgeLaunch<RnnPassParams> pass_states_;
    RnnEdgeLaunch<RnnWeightParams> pack_weights_, unpack_weights_;
    RnnEdgeLaunch<RnnBiasParams> widen_bias_, sum_biases_, sum_gates_;
};

// Enqueues filling with zeros; does nothing for 0 bytes.
void clear(void* memory, size_t bytes, void* stream);

}  // namespace flashscan::cuda
