// SPDX-License-Identifier: Apache-2.0
// What a linear recurrence plan computes, checked and with every default filled in.
#pragma once

#include <string>

#include "core/extents.h"
#include "core/sequences.h"

namespace flashscan {

struct LinearProblem : Sequences {
    Dtype dtype{};
    Dtype gate_dtype{};
    Layout layout{};
    GateForm gate_form{};
    uint32_t gate_broadcast = 0;
    Extent channels;
    Strides input, gate, output, grad_input, grad_gate, grad_output;

    Extent state_bytes() const { return state_rows() * channels * size_of(state_dtype(dtype)); }
    // Return the bytes from the first to the last element of a tensor with these strides, which has the extents of the
    // data or those of the gate.
    int64_t tensor_bytes(const Strides& strides) const;
    int64_t gate_bytes(const Strides& strides) const;
    bool broadcasts(GateBroadcast axis) const { return (gate_broadcast & axis) != 0; }
    bool empty() const { return batch == 0 || time == 0 || channels == 0; }
    Extent gate_batch() const { return broadcasts(broadcast_batch) ? Extent(1) : batch; }
    Extent gate_time() const { return broadcasts(broadcast_time) ? Extent(1) : time; }
    Extent gate_channels() const { return broadcasts(broadcast_channels) ? Extent(1) : channels; }

    std::string describe() const;
    // The text that has to be the same on all ranks that hold one sequence: all of the problem but the time.
    std::string describe_ranks() const;

  private:
    std::string describe(const std::string& extents) const;
};

// Checks `problem` field by field, fills strides left at zero and zeroes those of unused axes. Throws Error naming the
// field, its value and what is accepted.
void validate(LinearProblem& problem);

}  // namespace flashscan
