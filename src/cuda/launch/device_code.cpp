// SPDX-License-Identifier: Apache-2.0
#include "cuda/launch/device_code.h"

#include <fmt/format.h>

#include "cuda/launch/machine_code.h"
#include "cuda/runtime.h"

namespace flashscan::cuda {

std::string code_refusal_of(Compiled kernel, int device) {
    const char* const architectures =
        kernel == Compiled::for_clusters ? FLASHSCAN_CLUSTER_ARCHITECTURES : FLASHSCAN_REAL_ARCHITECTURES;
    const int major = device_attribute(cudaDevAttrComputeCapabilityMajor, device);
    const int minor = device_attribute(cudaDevAttrComputeCapabilityMinor, device);
    if (runs_on(architectures, major, minor)) return {};
    return fmt::format("the library has this kernel for {}, not for compute capability {}.{}", architectures, major,
                       minor);
}

}  // namespace flashscan::cuda
