// SPDX-License-Identifier: Apache-2.0
// The launches of kernels for few steps, and the states of a call as these take them.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <limits>

#include "core/sequences.h"
#include "cuda/device/tile/step_rows.h"
#include "cuda/launch/launch.h"

namespace flashscan::cuda {

// `bytes` is the size of an element of the states.
inline StateRows state_rows_of(const Sequences& problem, const void* in, void* out, const int32_t* indices,
                               int64_t bytes) {
    return {static_cast<const char*>(in),         static_cast<char*>(out),
            problem.state_in.row * bytes,         problem.state_out.row * bytes,
            problem.pooled() ? indices : nullptr, problem.pooled() ? problem.state_pool : problem.state_rows()};
}

inline bool is_multiple(const void* address, int64_t bytes) {
    return reinterpret_cast<uintptr_t>(address) % static_cast<uintptr_t>(bytes) == 0;
}

// Whether the rows of the states begin at multiples of 16 bytes.
inline bool lie_aligned(const StateRows& states) {
    constexpr int64_t bytes = 16;
    return is_multiple(states.in, bytes) && is_multiple(states.out, bytes) && states.in_step % bytes == 0 &&
           states.out_step % bytes == 0;
}

// A tensor of a call with the bytes of its elements; its data may be null.
struct StepTensor {
    const View& view;
    int64_t bytes;
};
// Whether `pack` neighbouring elements of each step lie next to each other and aligned to all of them.
inline bool lies_in_packs(const StepTensor& tensor, int64_t pack) {
    const View& v = tensor.view;
    const int64_t bytes = tensor.bytes * pack;
    return v.data == nullptr ||
           (v.row == tensor.bytes && v.batch % bytes == 0 && v.time % bytes == 0 && is_multiple(v.data, bytes));
}

// Threads of a block, at most `most`, where `threads` threads are wanted: fewer, where that lets more multiprocessors
// have a block.
inline int step_block(int64_t threads, int most, int multiprocessors) {
    int block = most;
    while (block > 32 && ceil_div(threads, block) < multiprocessors) block /= 2;
    return block;
}

// Whether kernels for few steps can take a problem. They count channels, steps, and the threads of all rows (`threads`
// for each) in 31 bits.
inline bool has_step_threads(const Sequences& problem, Extent channels, Extent threads) {
    constexpr int64_t most = std::numeric_limits<int32_t>::max() - 1024;
    return max(problem.state_rows(), 1) * threads <= most && max(channels, problem.time) <= most;
}

// Launches a kernel with a thread for `pack` channels of each of `rows` rows.
template <typename Params>
void launch_steps(const void* kernel, const Params& params, const StateRows& states,
                  std::initializer_list<StepTensor> tensors, int64_t rows, int64_t channels, int pack,
                  int multiprocessors, void* stream) {
    StepParams steps;
    steps.states = states;
    steps.packs = static_cast<uint32_t>(ceil_div(channels, pack));
    steps.threads = static_cast<uint32_t>(rows) * steps.packs;
    if (steps.threads == 0) return;
    steps.by_packs = divisor_of(steps.packs);
    steps.whole = channels % pack == 0 && lie_aligned(states) &&
                  std::all_of(tensors.begin(), tensors.end(),
                              [&](const StepTensor& tensor) { return lies_in_packs(tensor, pack); });
    launch(kernel, threads_in_blocks(steps.threads, step_block(steps.threads, step_threads, multiprocessors)), stream,
           params, steps);
}

}  // namespace flashscan::cuda
