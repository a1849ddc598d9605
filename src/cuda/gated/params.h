// SPDX-License-Identifier: Apache-2.0
// Arguments of the kernels of gated layers: plain data, no CUDA types.
#pragma once

#include <cstdint>

#include "cuda/device/tile/sequences.h"
#include "cuda/device/tile/view.h"

namespace flashscan::cuda {

// Pointers are null where the argument was not given, or where the layer or the pass has no such argument. Parts of the
// layer (decay, scale, ...) are enumerators of math/gated.h.
struct GatedParams {
    View input, gate, second_gate, input_gate, output_gate, output;
    View states;  // h: forward in RESERVE, backward in RESERVE or OUTPUT
    View grad_output, grad_input, grad_gate, grad_second_gate, grad_input_gate, grad_output_gate;
    const void *param = nullptr, *bias = nullptr;
    const void* state_in = nullptr;
    void* state_out = nullptr;
    const void* grad_state_out = nullptr;
    void* grad_state_in = nullptr;
    const uint8_t* reset = nullptr;
    SequenceOffsets offsets;
    int64_t time = 0, channels = 0, groups = 0, batches = 0;  // a group is the neighbouring channels of a block
    int32_t log2_time_warps = 0;                              // log2 of the warps of a block that follow in time
    int64_t chunks = 0;             // of a row, or the most that all packed sequences may have
    int64_t packs = 0;              // of a batch entry; a pack is the V neighbouring channels of a lane
    Divisor by_columns, by_groups;  // divide by batches * groups, and by groups
    // Chunks publish in these arrays, in words of 8 bytes. If log2_group_chunks is 0, they use `carries` alone, for the
    // carry into every chunk but the first, [slot - 1][batch][pack]; otherwise they look back
    // (device/scan/look_back.cuh).
    void *records = nullptr, *totals = nullptr, *carries = nullptr;
    int32_t log2_group_chunks = 0, log2_link_groups = 0;
    void* sums = nullptr;  // partial sums of the gradients of PARAM and BIAS, [batch][slot][2][channel]
    double decay_rate = 0, slope_limit = 0;
    float short_slope_limit = 0;  // slope_limit for f32 arithmetic
    int32_t decay = 0, scale = 0, activation = 0, input_gating = 0, epilogue = 0;
    int32_t first_step = 0;       // whether m = 1 where a step is reset
    int32_t starts_unscaled = 0;  // whether m = 1 where a sequence starts
    int32_t wide_gates = 0;       // whether GATE and SECOND_GATE have the type of the arithmetic, not that of the data
    int32_t wide_params = 0;      // whether PARAM and BIAS have
    int32_t by_sequence = 0;      // whether each packed sequence is cut into chunks from the first step of its walk
    int32_t down = 0;             // whether the layer goes from the last step to the first
};

// Arguments of gated_pass_states, for sequences without steps.
struct GatedEdgeParams {
    SequenceOffsets offsets;
    int64_t numbers = 0, channels = 0;
    const void* from = nullptr;
    void* to = nullptr;
};

// Arguments of gated_sums, which adds partial sums in order.
struct GatedSumParams {
    const void* sums = nullptr;
    int64_t parts = 0, channels = 0;
    void *param = nullptr, *bias = nullptr;
    int32_t wide = 0;  // whether the results have the type of the arithmetic
};

}  // namespace flashscan::cuda
