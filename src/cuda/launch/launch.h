// SPDX-License-Identifier: Apache-2.0
// Launches of kernels from the tables of instances/, which hold them as addresses.
#pragma once

#include <array>
#include <limits>

#include "core/rounding.h"
#include "cuda/launch/launch_count.h"
#include "cuda/runtime.h"

namespace flashscan::cuda {

struct LaunchShape {
    dim3 blocks;
    int threads = 0;  // of a block
    int shared_bytes = 0;
    bool overlaps = false;     // the kernel may begin while the one launched before it still runs; see can_overlap
    bool cooperative = false;  // blocks wait for each other, so that all of them must run at once
    int cluster = 0;           // blocks of a cluster; 0: none
};

// Throws where CUDA has no grid of so many blocks.
inline LaunchShape blocks_of(int64_t count, int threads) {
    constexpr int64_t most = std::numeric_limits<int32_t>::max();
    if (count < 0 || count > most) fail(Code::unsupported, "{} blocks of a launch; CUDA takes up to {}", count, most);
    return {dim3(static_cast<unsigned>(count)), threads};
}

// As many blocks as `threads` threads fill.
inline LaunchShape threads_in_blocks(int64_t threads, int block) { return blocks_of(ceil_div(threads, block), block); }

// How CUDA takes a shape.
struct LaunchConfig {
    LaunchConfig(const LaunchShape& shape, void* stream);
    LaunchConfig(const LaunchConfig&) = delete;
    cudaLaunchConfig_t config{};
    std::array<cudaLaunchAttribute, 3> attributes{};
};

template <typename... Params>
void launch(const void* kernel, const LaunchShape& shape, void* stream, const Params&... params) {
    if (counts_launch()) return;
    void* arguments[] = {const_cast<void*>(static_cast<const void*>(&params))...};
    const LaunchConfig launched(shape, stream);
    check(cudaLaunchKernelExC(&launched.config, kernel, arguments), "launching a kernel");
}

// Sets all bits of 8-byte words: what blocks that hand each other numbers find before any is published.
void set_all_bits(void* memory, int64_t words, void* stream);

// Clusters of a kernel that can run at once.
int resident_clusters(const void* kernel, const LaunchShape& shape);

// Whether `kernel` waits for the launch before it where it must: devices and code from compute capability 9.0 on do.
bool can_overlap(const void* kernel, int device);

}  // namespace flashscan::cuda
