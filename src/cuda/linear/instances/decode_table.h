// SPDX-License-Identifier: Apache-2.0
// The compiled kernels "decode" of the linear recurrence, by the types of data and gates.
#pragma once

#include "core/types.h"

namespace flashscan::cuda {

struct LinearStepKernel {
    const void* kernel = nullptr;
    int channels = 0;  // channels of a thread
};
LinearStepKernel linear_step_kernel(Dtype dtype, Dtype gate_dtype);

}  // namespace flashscan::cuda
