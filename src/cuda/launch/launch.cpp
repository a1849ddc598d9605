// SPDX-License-Identifier: Apache-2.0
// Launches of kernels by cudaLaunchKernelExC.
#include "cuda/launch/launch.h"

#include <algorithm>

#include "cuda/launch/clear.h"

namespace flashscan::cuda {

LaunchConfig::LaunchConfig(const LaunchShape& shape, void* stream) {
    unsigned count = 0;
    if (shape.overlaps) {
        attributes[count].id = cudaLaunchAttributeProgrammaticStreamSerialization;
        attributes[count++].val.programmaticStreamSerializationAllowed = 1;
    }
    if (shape.cooperative) {
        attributes[count].id = cudaLaunchAttributeCooperative;
        attributes[count++].val.cooperative = 1;
    }
    if (shape.cluster > 0) {
        attributes[count].id = cudaLaunchAttributeClusterDimension;
        attributes[count++].val.clusterDim = {static_cast<unsigned>(shape.cluster), 1, 1};
    }
    config.gridDim = shape.blocks;
    config.blockDim = dim3(static_cast<unsigned>(shape.threads));
    config.dynamicSmemBytes = static_cast<size_t>(shape.shared_bytes);
    config.stream = static_cast<cudaStream_t>(stream);
    config.attrs = attributes.data();
    config.numAttrs = count;
}

void fill(void* memory, int byte, size_t bytes, void* stream) {
    if (bytes > 0 && !counts_launch())
        check(cudaMemsetAsync(memory, byte, bytes, static_cast<cudaStream_t>(stream)), "filling memory");
}

ClearLaunch::ClearLaunch(size_t bytes)
    : words_(static_cast<int64_t>(bytes / sizeof(uint64_t))),
      shape_(blocks_of(std::min<int64_t>(ceil_div(words_, 256), 1024), 256)) {}

void ClearLaunch::run(void* memory, void* stream) const {
    if (words_ > 0) launch(clear_look_back_kernel(), shape_, stream, memory, words_);
}

int resident_clusters(const void* kernel, const LaunchShape& shape) {
    const LaunchConfig launched(shape, nullptr);
    int clusters = 0;
    check(cudaOccupancyMaxActiveClusters(&clusters, kernel, &launched.config), "asking how many clusters fit");
    return clusters;
}

bool can_overlap(const void* kernel, int device) {
    return device_attribute(cudaDevAttrComputeCapabilityMajor, device, "asking for the compute capability") >= 9 &&
           kernel_attributes(kernel, "asking for a kernel's attributes").ptxVersion >= 90;
}

}  // namespace flashscan::cuda
