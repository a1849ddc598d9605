// SPDX-License-Identifier: Apache-2.0
// Parameters of the kernel "decode": plain data, no CUDA types.
#pragma once

#include "cuda/device/tile/sequences.h"
#include "cuda/device/tile/view.h"

namespace flashscan::cuda {

// Arguments of linear_decode beside those of device/tile/step_rows.h.
struct LinearStepsParams {
    View input, gate, output;
    const uint8_t* reset = nullptr;
    SequenceOffsets offsets;
    int64_t time = 0, channels = 0;
    int32_t gate_form = 0;
    int32_t down = 0;  // whether the recurrence goes from the last step to the first
};

}  // namespace flashscan::cuda
