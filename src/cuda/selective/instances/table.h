// SPDX-License-Identifier: Apache-2.0
// The table of compiled kernels of selective scans, by the types of data and states.
#pragma once

#include <vector>

#include "core/types.h"

namespace flashscan::cuda {

// The kernels for up to `most_states` states.
struct SelectivePasses {
    int most_states = 0, states_of_lane = 0;
    int channels = 0, threads = 0;  // channels and threads of a block
    int kept = 0;                   // steps from one checkpoint to the next
    const void *forward = nullptr, *states = nullptr, *adjoint = nullptr, *backward = nullptr;
    int forward_bytes = 0, backward_bytes = 0;  // shared memory of a block
};

struct SelectiveKernels {
    // [0] with channels innermost, [1] with time innermost; each ordered by most_states.
    std::vector<SelectivePasses> passes[2];
    const void* carries = nullptr;
    const void* sums = nullptr;        // stores elements of B and C of each step, or a dense array of the states' type
    const void* param_sums = nullptr;  // stores a dense array of D's type
};

// The kernel for forward over few steps.
struct SelectiveStepKernel {
    int lanes = 0, states_of_lane = 0;  // lanes of a channel, and states that each of them has
    struct Instance {
        const void* kernel = nullptr;
        int rows = 0;  // rows of a thread
    };
    Instance any, plain;  // the latter is for Plain calls alone (decode.cuh), and may not be there
};
SelectiveStepKernel selective_step_kernel(Dtype dtype, Dtype matrix_dtype, int64_t states);

SelectiveKernels selective_f32();
SelectiveKernels selective_bf16();
SelectiveKernels selective_f16();
SelectiveKernels selective_f64();
SelectiveKernels selective_c64();
SelectiveKernels selective_c128();

// The entry for data of `dtype` and states of `matrix_dtype`.
const SelectiveKernels& selective_kernels(Dtype dtype, Dtype matrix_dtype);

}  // namespace flashscan::cuda
