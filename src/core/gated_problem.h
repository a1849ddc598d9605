// SPDX-License-Identifier: Apache-2.0
// What a plan of a gated layer computes, checked and with every default filled in.
#pragma once

#include <string>

#include "core/extents.h"
#include "core/sequences.h"
#include "math/gated.h"

namespace flashscan {

struct GatedProblem : Sequences {
    Dtype dtype{};
    Dtype gate_dtype{};   // of GATE and SECOND_GATE
    Dtype param_dtype{};  // of PARAM and BIAS
    Layout layout{};
    const GatedLayer* layer = nullptr;  // null: `parts` were given one by one
    GatedParts parts{};
    double decay_rate = 0;        // the constant c of Decay::softplus
    double sqrt_slope_limit = 0;  // infinite where there is no limit
    Extent channels;
    Strides input, gate, second_gate, input_gate, output_gate, output;
    Strides grad_input, grad_gate, grad_second_gate, grad_input_gate, grad_output_gate, grad_output;
    Strides reserve;  // of h in RESERVE: dense, in the layout; among rows of a greater problem as they lie there

    bool empty() const { return batch == 0 || time == 0 || channels == 0; }
    Extent state_bytes() const { return state_rows() * channels * size_of(state_dtype(dtype)); }
    // Returns whether OUTPUT is not h. Then backward reads h from RESERVE, in `dtype`.
    bool hides_state() const { return parts.has_output_gate(); }
    Extent element_count() const { return batch * time * channels; }
    // Returns whether m is 1 at the first step of a sequence; `has_state` says whether there is a STATE_IN.
    bool starts_with_one(bool has_state) const { return parts.first_step && !has_state; }

    std::string describe() const;
    // The text that has to be the same on all ranks that hold one sequence: all of the problem but the time.
    std::string describe_ranks() const;

  private:
    std::string describe(const std::string& extents) const;
};

// Checks `problem` field by field and fills in defaults. Throws Error naming the field, its value and what is accepted.
void validate(GatedProblem& problem);

}  // namespace flashscan
