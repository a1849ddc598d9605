// SPDX-License-Identifier: Apache-2.0
#include "cuda/launch.h"

namespace flashscan::cuda {

bool can_overlap(const void* kernel, int device) {
    return device_attribute(cudaDevAttrComputeCapabilityMajor, device, "asking for the compute capability") >= 9 &&
           kernel_attributes(kernel, "asking for a kernel's attributes").ptxVersion >= 90;
}

}  // namespace flashscan::cuda
