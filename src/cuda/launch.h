// SPDX-License-Identifier: Apache-2.0
// Launches of kernels from the tables of instances/, which hold them as addresses.
#pragma once

#include "core/rounding.h"
#include "cuda/runtime.h"

namespace flashscan::cuda {

struct LaunchShape {
    dim3 blocks;
    int threads = 0;  // of a block
    int shared_bytes = 0;
    bool overlaps = false;     // the kernel may begin while the one launched before it still runs; see can_overlap
    bool cooperative = false;  // all blocks run at once, or the launch fails
};

inline LaunchShape blocks_of(int64_t count, int threads) { return {dim3(static_cast<unsigned>(count)), threads}; }

// As many blocks as `threads` threads fill.
inline LaunchShape threads_in_blocks(int64_t threads, int block) { return blocks_of(ceil_div(threads, block), block); }

template <typename... Params>
void launch(const void* kernel, const LaunchShape& shape, void* stream, const Params&... params) {
    void* arguments[] = {const_cast<void*>(static_cast<const void*>(&params))...};
    cudaLaunchAttribute attributes[2]{};
    unsigned count = 0;
    if (shape.overlaps) {
        attributes[count].id = cudaLaunchAttributeProgrammaticStreamSerialization;
        attributes[count++].val.programmaticStreamSerializationAllowed = 1;
    }
    if (shape.cooperative) {
        attributes[count].id = cudaLaunchAttributeCooperative;
        attributes[count++].val.cooperative = 1;
    }
    cudaLaunchConfig_t config{};
    config.gridDim = shape.blocks;
    config.blockDim = dim3(static_cast<unsigned>(shape.threads));
    config.dynamicSmemBytes = static_cast<size_t>(shape.shared_bytes);
    config.stream = static_cast<cudaStream_t>(stream);
    config.attrs = attributes;
    config.numAttrs = count;
    check(cudaLaunchKernelExC(&config, kernel, arguments), "launching a kernel");
}

// Whether `kernel` waits for the launch before it where it must: devices and code from compute capability 9.0 on do.
bool can_overlap(const void* kernel, int device);

}  // namespace flashscan::cuda
