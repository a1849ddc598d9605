// SPDX-License-Identifier: Apache-2.0
// What the kernels of gated layers are launched with: plain data, no CUDA types.
#pragma once

#include <cstdint>

#include "cuda/device/tile/sequences.h"
#include "cuda/device/tile/view.h"

namespace flashscan::cuda {

inline constexpr int gated_step_threads = 128;  // of a block of gated_steps

// Null pointers: the argument was not given, or the layer or pass has none such. The parts are numbers of math/gated.h.
struct GatedParams {
    View input, gate, second_gate, input_gate, output_gate, output;
    View states;  // h: in forward RESERVE, in backward what RESERVE or OUTPUT has
    View grad_output, grad_input, grad_gate, grad_second_gate, grad_input_gate, grad_output_gate;
    const void *param = nullptr, *bias = nullptr;
    const void* state_in = nullptr;
    void* state_out = nullptr;
    const void* grad_state_out = nullptr;
    void* grad_state_in = nullptr;
    const uint8_t* reset = nullptr;
    SequenceOffsets offsets;
    int64_t time = 0, channels = 0, groups = 0, batches = 0;  // groups of neighbouring channels, a block's
    int32_t log2_time_warps = 0;                              // warps of a block that have consecutive steps
    int64_t chunks = 0, packs = 0;                            // packs: of the channels that a lane has
    Divisor by_columns, by_groups;                            // columns: groups of all batch entries
    void* carries =
        nullptr;           // into every chunk but the first: [chunk - 1][batch][lane's channels], in words of 8 bytes
    void* sums = nullptr;  // of the gradients of PARAM and BIAS: [batch][chunk][2][channel]
    double decay_rate = 0, slope_limit = 0;
    float short_slope_limit = 0;  // the same for f32 arithmetic
    int32_t decay = 0, scale = 0, activation = 0, input_gating = 0, epilogue = 0;
    int32_t first_step = 0;   // m = 1 where a step is reset
    int32_t starts_open = 0;  // m = 1 where a sequence starts
    int32_t wide_gates = 0;   // GATE and SECOND_GATE are of the arithmetic's type, not of the data's
    int32_t wide_params = 0;  // so are PARAM and BIAS
    int32_t in_turn = 0;      // warps walk one after the other, whatever the factors are
    int32_t down = 0;         // the layer walks from the last step to the first
};

// Sequences without steps, and problems without any: states pass through.
struct GatedEdgeParams {
    SequenceOffsets offsets;
    int64_t numbers = 0, channels = 0;
    const void* from = nullptr;
    void* to = nullptr;
};

// Adds the sums of parts in order.
struct GatedSumParams {
    const void* sums = nullptr;
    int64_t parts = 0, channels = 0;
    void *param = nullptr, *bias = nullptr;
    int32_t wide = 0;  // the results are of the arithmetic's type
};

}  // namespace flashscan::cuda
