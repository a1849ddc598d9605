// SPDX-License-Identifier: Apache-2.0
// Tensors as kernels see them, and how warps lie over them: plain data, no CUDA types.
#pragma once

#include <cstdint>

namespace flashscan::cuda {

// How a warp is laid out over a tensor and accesses memory.
//   channels       neighbouring lanes hold neighbouring rows; elements are accessed one by one, with any strides
//   channel_packs  the same, but rows are contiguous and aligned, and the pack of rows of a lane is one access
//   time           neighbouring lanes hold neighbouring segments of time, with any strides; accesses are vectors of 16
//                  bytes where rows begin and end at multiples of these
//   time_vectors   the same, but rows always do
enum class Access {
    channels,
    channel_packs,
    time,
    time_vectors
};
constexpr bool is_time_inner(Access access) { return access >= Access::time; }

// A tensor as a kernel sees it. Strides are in bytes. A tensor with a negative stride of time begins with its last step
// in memory.
struct View {
    char* data = nullptr;
    int64_t batch = 0, row = 0, time = 0;

    // Sets `data` for a tensor of `steps` steps that begins in memory at `from`, which may be null.
    void point(const void* from, int64_t steps) {
        data = static_cast<char*>(const_cast<void*>(from));
        if (from != nullptr && time < 0) data -= (steps - 1) * time;
    }
};

// Divides numbers below 2^31 by a constant: n / d = n * magic / 2^(32 + shift).
struct Divisor {
    uint32_t magic = 0, shift = 0;
};
constexpr Divisor divisor_of(uint32_t d) {
    uint32_t log2 = 0;
    while (uint64_t{1} << log2 < d) ++log2;
    if (log2 == 0) return {0, 0};
    return {static_cast<uint32_t>(((uint64_t{1} << (31 + log2)) + d - 1) / d), log2 - 1};
}

// How many lanes of a warp have rows in skewed_pairs.cuh: all but the last.
inline constexpr int skewed_pair_lanes = 31;

}  // namespace flashscan::cuda
