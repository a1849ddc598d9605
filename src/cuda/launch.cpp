// SPDX-License-Identifier: Apache-2.0
#include "cuda/launch.h"

namespace flashscan::cuda {

bool can_overlap(const void* kernel, int device) {
    int major = 0;
    check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device),
          "asking for the compute capability");
    cudaFuncAttributes attributes{};
    check(cudaFuncGetAttributes(&attributes, kernel), "asking for a kernel's attributes");
    return major >= 9 && attributes.ptxVersion >= 90;
}

}  // namespace flashscan::cuda
