// SPDX-License-Identifier: Apache-2.0
// What a linear recurrence plan computes, checked and with every default filled in.
#pragma once

#include <string>

#include "core/types.h"

namespace flashscan {

// In elements; 0 along a broadcast axis and along axes of extent 1.
struct Strides {
    int64_t batch = 0, time = 0, channels = 0;
    friend bool operator==(const Strides&, const Strides&) = default;
};

struct LinearProblem {
    Dtype dtype{};
    Dtype gate_dtype{};
    Layout layout{};
    GateForm gate_form{};
    uint32_t gate_broadcast = 0;
    Direction direction{};
    bool has_reset = false;
    int64_t batch = 0, time = 0, channels = 0;
    int64_t num_sequences = 0;  // 0: not packed
    Dtype offsets_dtype = Dtype::i64;
    Strides input, gate, output, grad_input, grad_gate, grad_output;

    bool packed() const { return num_sequences > 0; }
    // Rows of STATE_IN and STATE_OUT.
    int64_t state_rows() const { return packed() ? num_sequences : batch; }
    int64_t state_bytes() const { return state_rows() * channels * size_of(state_dtype(dtype)); }
    // From the first to the last element of a tensor with these strides; the gate's extents where it is the gate.
    int64_t tensor_bytes(const Strides& strides) const;
    int64_t gate_bytes(const Strides& strides) const;
    bool broadcasts(GateBroadcast axis) const { return (gate_broadcast & axis) != 0; }
    int64_t gate_batch() const { return broadcasts(broadcast_batch) ? 1 : batch; }
    int64_t gate_time() const { return broadcasts(broadcast_time) ? 1 : time; }
    int64_t gate_channels() const { return broadcasts(broadcast_channels) ? 1 : channels; }

    std::string describe() const;
};

// Checks `problem` field by field, fills strides left at zero and zeroes those of unused axes. Throws Error naming the
// field, its value and what is accepted.
void validate(LinearProblem& problem);

// Whether no two elements of a tensor with these extents and strides share memory. Judged by nesting: each stride must
// step over everything that the smaller strides cover.
bool strides_nest(const int64_t* extents, const int64_t* strides, int axes);

}  // namespace flashscan
