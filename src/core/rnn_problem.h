// SPDX-License-Identifier: Apache-2.0
// What a plan for a recurrent network computes, checked and with every default filled in.
#pragma once

#include <string>

#include "core/sequences.h"

namespace flashscan {

// How many gates, biases and states a cell has.
struct CellCounts {
    int64_t gates, biases, states;
};
CellCounts counts_of(Cell cell);

// The strides of a tensor, whose element (s, b, t, h, d) is at s * state + b * batch + t * time + h * D + d. INPUT has
// gates in the place of states, and `state` is their stride.
struct RnnStrides {
    int64_t state = 0, batch = 0, time = 0;
};

struct RnnProblem : Sequences {
    Dtype dtype{};
    Dtype weight_dtype{};
    RnnLayout layout{};
    Cell cell{};
    bool all_states = false;
    bool training = false;
    bool allow_tf32 = false;  // whether factors of products may be rounded to tf32; of f32 data alone
    Extent heads, head_dim;
    double recurrent_clip = 0;  // 0 stands for no limit

    CellCounts counts() const { return counts_of(cell); }
    Extent width() const { return heads * head_dim; }
    int64_t output_states() const { return all_states ? counts().states : 1; }
    RnnStrides input_strides() const;   // of GRAD|INPUT too
    RnnStrides output_strides() const;  // of GRAD|OUTPUT too
    // The counts are in elements.
    bool empty() const { return batch == 0 || time == 0; }
    Extent input_count() const { return batch * time * counts().gates * width(); }
    Extent output_count() const { return output_states() * batch * time * width(); }
    Extent weight_count() const { return counts().gates * width() * head_dim; }
    Extent bias_count() const { return counts().biases * width(); }
    Extent state_count() const { return counts().states * state_rows() * width(); }

    std::string describe() const;
};

// Checks `problem` field by field and fills in defaults. Throws Error naming the field, its value and what is accepted.
void validate(RnnProblem& problem);

}  // namespace flashscan
