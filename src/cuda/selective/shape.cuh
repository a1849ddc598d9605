// SPDX-License-Identifier: Apache-2.0
// How many channels, states and steps the kernels of selective scans give a block and a lane (SelectiveShape, which the
// closed table of instances chooses), and what a block's tile of steps has in shared memory.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "cuda/device/math/types.cuh"

namespace flashscan::cuda {

// Data have type X, states type V. `Lanes` lanes of a warp divide the states of a channel and have `States` of them
// each. ByTime tells that neighbouring threads load neighbouring steps; otherwise they load neighbouring channels.
template <typename X_, typename V_, int Lanes, int States, bool ByTime>
struct SelectiveShape {
    using X = X_;
    using V = V_;
    using R = typename Element<X>::Wide;
    static constexpr bool complex = !std::is_same_v<V, R>, by_time = ByTime;
    using Stored = std::conditional_t<complex, V, X>;  // the type of B and C of a step in memory
    static constexpr int lanes = Lanes, states = States, padded = Lanes * States;
    static constexpr bool large = sizeof(V) > 4;  // numbers that take two registers or more
    // Threads and channels of a block, which has 16 channels or more where 256 threads of f32 can have them: each block
    // has its own sums of GRAD|B and GRAD|C for every step, and 16-bit elements of 16 channels fill a sector of memory.
    static constexpr int threads = std::clamp((large ? 8 : 16) * Lanes, 128, 256), channels = threads / Lanes;
    // Steps from one checkpoint to the next, whose states backward holds in 32 registers, and their factors in as many
    // more where it holds these.
    static constexpr int kept_steps = 128 / (States * static_cast<int>(sizeof(V)));
    static constexpr bool wide = padded * sizeof(V) > 512;  // whether B and C of a step are large
    // Blocks per multiprocessor, for which __launch_bounds__ limits the registers.
    static constexpr int resident = wide ? 1 : (large ? 256 : 512) / threads;
    // Steps of a tile of each pass.
    static constexpr int forward_steps = wide ? 8 : std::min(32, 8 * Lanes), backward_steps = wide ? 8 : 16;
    // Steps whose sums over lanes are computed together.
    static constexpr int summed = std::min(kept_steps, Lanes);
    // The channels of a warp. Of four neighbouring threads, threads 0 and 1, 2 and 3 have the same states and threads 0
    // and 2, 1 and 3 the same channel: 16-byte loads from shared memory take half as long where all pairs of threads
    // whose numbers differ in the last bit, or in the last but one, load the same.
    static constexpr int warp_channels = 32 / Lanes;
    // A lane's numbers begin at multiples of 16 bytes, and those of neighbouring steps lie in different banks.
    static constexpr int matrix_pitch = padded + std::max(1, 16 / static_cast<int>(sizeof(V)));
};

// The numbers of a lane, which are loaded and stored 16 bytes at a time.
template <typename V, int N>
struct alignas(16) LaneNumbers {
    V of[N];
};

// Numbers of the steps and channels of a tile in shared memory. A thread loads those of neighbouring steps 16 bytes at
// a time; with this pitch such loads, by neighbouring channels, have no bank conflicts.
template <typename Shape, int Steps>
struct alignas(16) SelectiveValues {
    typename Shape::R of[Shape::channels][Steps + 4];
};
// The numbers of `Count` neighbouring steps of a channel.
template <int Count, typename R>
struct StepNumbers {
    R of[Count];
};
template <int Count, typename R>
__device__ __forceinline__ StepNumbers<Count, R> steps_from(const R* from) {
    StepNumbers<Count, R> numbers;
    constexpr int pack = 16 / static_cast<int>(sizeof(R));
#pragma unroll
    for (int i = 0; i < Count; ++i) {
        if constexpr (Count % pack == 0)
            numbers.of[i] = reinterpret_cast<const LaneNumbers<R, pack>&>(from[i / pack * pack]).of[i % pack];
        else
            numbers.of[i] = from[i];
    }
    return numbers;
}

// The tile has in shared memory: B and C as rows of `matrix_pitch` numbers, one for each step or, where they are
// constant, one for each channel; BIAS and D of the block's channels; and the resets of the tile's steps.
template <typename Shape, int Steps>
struct SelectiveMatrices {
    static constexpr int rows = std::max(Steps, Shape::channels);
    alignas(16) typename Shape::V b[rows * Shape::matrix_pitch];
    alignas(16) typename Shape::V c[rows * Shape::matrix_pitch];
    typename Shape::R bias[Shape::channels], d[Shape::channels];
    uint8_t resets[Steps];
};

}  // namespace flashscan::cuda
