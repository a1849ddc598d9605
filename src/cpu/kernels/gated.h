// SPDX-License-Identifier: Apache-2.0
// What the host code and the kernels of gated layers share: the call of the linear recurrence that is inside, and what
// surrounds it.
#pragma once

#include "cpu/kernels/linear.h"
#include "math/gated.h"

namespace flashscan::cpu {

// The recurrence runs on panels of a and x, so that of the LinearCall the tensors y, gate and previous are not used, and x
// says how many parts a number has. The data of grad_gate says whether sums are wanted: of PARAM's rate and of BIAS, side
// by side for each channel.
struct GatedCall : LinearCall {
    // `data` is null for what was not given. `output` and `states` are written forward; backward reads h from `states`.
    Tensor input, gates, second_gate, input_gate, output_gate, output, states;
    Tensor grad_output, grad_input, grad_gates, grad_second_gate, grad_input_gate, grad_output_gate;
    Tensor param, bias;  // along channels
    GatedParts parts;
    bool starts_with_one;  // m = 1 at the first step of each sequence
    double decay_rate, sqrt_slope_limit;
};

// The functions take a GatedCall.
namespace baseline {
LinearKernels gated_kernels(const LinearVariant& variant);
}
namespace avx2 {
LinearKernels gated_kernels(const LinearVariant& variant);
}
namespace avx512 {
LinearKernels gated_kernels(const LinearVariant& variant);
}

}  // namespace flashscan::cpu
