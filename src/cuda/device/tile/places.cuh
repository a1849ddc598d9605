// SPDX-License-Identifier: Apache-2.0
// How the threads of a block share the elements of a tile that they move between tensors and shared memory.
#pragma once

#include <cuda_runtime.h>

namespace flashscan::cuda {

// The elements of a tile of `Steps` steps x `Width` rows that a thread moves: one in each of `turns` turns.
// Neighbouring threads are neighbours along the tensors' inner axis, which is time where ByTime; otherwise a thread's
// elements are those of neighbouring steps.
template <int Steps, int Width, int Threads, bool ByTime>
struct TilePlaces {
    static constexpr int elements = Steps * Width, turns = (elements + Threads - 1) / Threads;
    static constexpr int steps_of_turn = ByTime ? 0 : 1, rows_of_turn = ByTime ? Threads / Steps : 0;
    // Whether a whole tile has an element for every thread in every turn, and a thread's are neighbours in time.
    static constexpr bool next_are_steps = !ByTime && elements >= Threads;
    static_assert(elements < Threads || (Threads % Width == 0 && Threads % Steps == 0));
    int step, column;

    __device__ __forceinline__ TilePlaces() {
        const int thread = static_cast<int>(threadIdx.x);
        step = ByTime ? thread % Steps : thread / Width * turns;
        column = ByTime ? thread / Steps : thread % Width;
    }
    __device__ __forceinline__ int step_of(int turn) const { return step + turn * steps_of_turn; }
    __device__ __forceinline__ int column_of(int turn) const { return column + turn * rows_of_turn; }
    template <bool Whole>
    __device__ __forceinline__ bool exists(int turn, int steps, int columns) const {
        return (Whole && elements >= Threads) || (step_of(turn) < steps && column_of(turn) < columns);
    }
};

}  // namespace flashscan::cuda
