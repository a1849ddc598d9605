// SPDX-License-Identifier: Apache-2.0
// Compiles the kernel of clear.cuh.
#include "cuda/launch/clear.cuh"
#include "cuda/launch/clear.h"

namespace flashscan::cuda {

const void* clear_look_back_kernel() { return reinterpret_cast<const void*>(&clear_look_back); }

}  // namespace flashscan::cuda
