// SPDX-License-Identifier: Apache-2.0
// What the host code and the kernels of gated layers share: the call of the linear recurrence that is inside, and what
// surrounds it.
#pragma once

#include "cpu/kernels/linear.h"
#include "math/gated.h"

namespace flashscan::cpu {

// The recurrence runs on panels of a and x. So the tensors y, gate and previous of the LinearCall are not used, and of
// its x only `parts` is. grad_gate.data is not null where the gradients of PARAM and BIAS are wanted: two sums for each
// channel, first the gradient of PARAM's rate, then that of BIAS.
struct GatedCall : LinearCall {
    // `data` is null where a tensor was not given. Forward writes `output` and `states`; backward reads h from
    // `states`.
    Tensor input, gates, second_gate, input_gate, output_gate, output, states;
    Tensor grad_output, grad_input, grad_gates, grad_second_gate, grad_input_gate, grad_output_gate;
    Tensor param, bias;  // along channels
    GatedParts parts;
    bool starts_with_one;  // m is 1 at the first step of each sequence
    double decay_rate, sqrt_slope_limit;
};

// The kernels of these tables have to be called with a GatedCall.
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
