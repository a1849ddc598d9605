// SPDX-License-Identifier: Apache-2.0
// Compiles the kernels of state_rows.cuh.
#include "cuda/launch/state_rows.cuh"
#include "cuda/launch/state_rows_kernels.h"

namespace flashscan::cuda {

StateRowKernels state_row_kernels() {
    StateRowKernels kernels;
    kernels.copy_wide = reinterpret_cast<const void*>(&copy_state_rows<uint4>);
    kernels.copy_narrow = reinterpret_cast<const void*>(&copy_state_rows<uint32_t>);
    kernels.clear = reinterpret_cast<const void*>(&clear_state_rows);
    return kernels;
}

}  // namespace flashscan::cuda
