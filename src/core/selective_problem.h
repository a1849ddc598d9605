// SPDX-License-Identifier: Apache-2.0
// What a plan of a selective scan computes, checked and with every default filled in.
#pragma once

#include <string>

#include "core/extents.h"
#include "core/sequences.h"

namespace flashscan {

struct SelectiveProblem : Sequences {
    Dtype dtype{};         // of INPUT, DELTA, OUTPUT_GATE, OUTPUT, and of real B and C that change from step to step
    Dtype matrix_dtype{};  // of A, of constant and of complex B and C, and of the states
    Layout layout{};
    bool softplus = false, b_per_step = false, c_per_step = false;
    Extent channels, states, groups;
    Strides input, delta, output_gate, b, c, output;  // b and c are not used where B or C is constant
    Strides grad_input, grad_delta, grad_output_gate, grad_b, grad_c, grad_output;

    bool empty() const { return batch == 0 || time == 0 || channels == 0; }
    bool is_complex() const { return flashscan::is_complex(matrix_dtype); }
    Extent state_bytes() const { return state_rows() * channels * states * size_of(matrix_dtype); }
    // The dtype of D and BIAS.
    Dtype param_dtype() const { return dtype == Dtype::f64 ? Dtype::f64 : Dtype::f32; }
    Dtype step_dtype() const { return is_complex() ? matrix_dtype : dtype; }
    int64_t group_of(int64_t channel) const { return channel / (channels / groups); }

    std::string describe() const;
    // The text that must be the same on all ranks that hold one sequence: all of the problem but the time.
    std::string describe_ranks() const;

  private:
    std::string describe(const std::string& extents) const;
};

// Checks `problem` field by field and fills in defaults. Throws Error naming the field, its value and what is accepted.
void validate(SelectiveProblem& problem);

}  // namespace flashscan
