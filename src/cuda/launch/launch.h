// SPDX-License-Identifier: Apache-2.0
// Launches of kernels from the tables of instances/, which hold them as addresses.
#pragma once

#include <array>
#include <limits>

#include "core/extent.h"
#include "core/rounding.h"
#include "cuda/launch/launch_count.h"
#include "cuda/runtime.h"

namespace flashscan::cuda {

struct LaunchShape {
    dim3 blocks{0};   // none, so that CUDA refuses to launch a shape that nothing has settled
    int threads = 0;  // threads of a block
    int shared_bytes = 0;
    bool overlaps = false;     // programmatic dependent launch: it may begin before the launch ahead of it has ended
    bool cooperative = false;  // whether blocks wait for each other, so that all of them must run at once
    int cluster = 0;           // blocks of a cluster; 0 for no clusters
};

// Throws where CUDA has no grid of so many blocks.
inline LaunchShape blocks_of(int64_t count, int threads) {
    constexpr int64_t most = std::numeric_limits<int32_t>::max();
    if (count < 0 || count > most) fail(Code::unsupported, "{} blocks of a launch; CUDA takes up to {}", count, most);
    return {dim3(static_cast<unsigned>(count)), threads};
}

// Returns the shape of as many blocks of `block` threads as `threads` threads need.
inline LaunchShape threads_in_blocks(int64_t threads, int block) { return blocks_of(ceil_div(threads, block), block); }

// Returns the shape of a block for each chunk of each group of rows. blockIdx.x runs through the groups, so that blocks
// that run at once read neighbouring memory and a chunk starts long after the one before it. Chunks are the y and z of
// the grid, as y alone is limited to 65535. Throws where all blocks are more than blocks_of takes.
inline LaunchShape grid_of_chunks(Extent groups, int64_t chunks, int threads) {
    LaunchShape shape = blocks_of(groups * chunks, threads);
    shape.blocks.x = static_cast<unsigned>(groups);
    const int64_t planes = ceil_div(chunks, 65535);
    shape.blocks.y = static_cast<unsigned>(ceil_div(chunks, planes));
    shape.blocks.z = static_cast<unsigned>(planes);
    return shape;
}

// A shape in the form that CUDA takes.
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

// A launch as a plan settles it: a call copies the parameters, fills in its pointers and runs it. Without a kernel, or
// if its shape has no blocks, there is none; a shape that nothing has settled fails.
template <typename Params>
struct SettledLaunch {
    const void* kernel = nullptr;
    LaunchShape shape;
    Params params;

    void run(const Params& of_call, void* stream) const {
        if (kernel == nullptr || (shape.blocks.x == 0 && shape.threads > 0)) return;
        launch(kernel, shape, stream, of_call);
    }
};

// Sets every byte of memory to `byte`.
void fill(void* memory, int byte, size_t bytes, void* stream);
// The launch that sets all bits of memory, which is what blocks find there before a value is published. The next launch
// may overlap it.
class ClearLaunch {
  public:
    ClearLaunch() = default;
    explicit ClearLaunch(size_t bytes);  // a multiple of 8
    // Sets the bits of this memory; without any it launches nothing.
    void run(void* memory, void* stream) const;
    explicit operator bool() const { return words_ > 0; }

  private:
    int64_t words_ = 0;
    LaunchShape shape_;
};

// How many clusters of a kernel can run at once.
int resident_clusters(const void* kernel, const LaunchShape& shape);

// Whether launches of `kernel` may overlap the launch ahead: the device and the kernel's code must be of compute
// capability 9.0 or newer, so that the kernel waits for that launch where it must.
bool can_overlap(const void* kernel, int device);

}  // namespace flashscan::cuda
