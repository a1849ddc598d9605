// SPDX-License-Identifier: Apache-2.0
// The kernels of selective scans that are compiled, as addresses.
#pragma once

#include <vector>

#include "core/types.h"

namespace flashscan::cuda {

// The passes for up to `most_states` states.
struct SelectivePasses {
    int most_states = 0, states_of_lane = 0;
    int channels = 0, threads = 0;  // of a block
    int kept = 0;                   // steps between the states that `states` writes
    const void *forward = nullptr, *states = nullptr, *adjoint = nullptr, *backward = nullptr;
    const void* steps = nullptr;                // forward over few steps
    int forward_bytes = 0, backward_bytes = 0;  // of shared memory
};

struct SelectiveKernels {
    std::vector<SelectivePasses> passes[2];  // with channels or time innermost; for ever more states
    const void* carries = nullptr;
    const void* sums = nullptr;        // to elements of B and C of a step, or dense ones of the states' type
    const void* param_sums = nullptr;  // dense ones of D's type
};

SelectiveKernels selective_f32();
SelectiveKernels selective_bf16();
SelectiveKernels selective_f16();
SelectiveKernels selective_f64();
SelectiveKernels selective_c64();
SelectiveKernels selective_c128();

// Those of data of `dtype` and states of `matrix_dtype`.
const SelectiveKernels& selective_kernels(Dtype dtype, Dtype matrix_dtype);

}  // namespace flashscan::cuda
