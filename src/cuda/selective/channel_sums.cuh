// SPDX-License-Identifier: Apache-2.0
// Sums over the channels of a block for the gradients of B and C, which the channels of a group share, in the backward
// pass of the kernel "resident" (backward.cuh):
//
//     GRAD|C[t] = sum of e h       GRAD|B[t] = sum of d u g
//
// and of complex states GRAD|C is twice the conjugate of that.
//
// Order      1. Lanes put their terms, h and g of a step, into shared memory. 2. The lanes of each warp add those of
//            its channels, times e and d u, in the order of channels; a warp of one or two channels does both in
//            registers. 3. Threads add the sums of warps in order and store the block's in its slice of SCRATCH, which
//            has a line of numbers for each step. Terms of a constant B or C are added over time instead, by each lane.
// Sync       None here: the caller has __syncwarp() before steps 1 and 2, and __syncthreads() before step 3.
#pragma once

#include "cuda/selective/backward_tile.cuh"

namespace flashscan::cuda {

template <typename Shape>
struct SelectiveChannelSums {
    using R = typename Shape::R;
    using V = typename Shape::V;
    using Block = SelectiveBlock<Shape>;
    using Numbers = typename Block::Numbers;
    using Tile = SelectiveBackwardTile<Shape>;
    static constexpr int S = Shape::states, lanes = Shape::lanes, joined = Tile::joined;
    static constexpr int G = Shape::summed;  // steps whose sums over lanes are computed together
    // 2 for complex states, because y is then twice the real part of the sum of C times the states; gradients that come
    // through y have this factor.
    static constexpr R factor = Shape::complex ? R(2) : R(1);

    const Block& block;
    Tile& tile;

    // Puts the terms of the tile's step t for GRAD|B or GRAD|C, which are g or the states times `weight`, where they
    // are added over channels: step i of those that are summed together. For a constant matrix it adds them to the
    // lane's.
    template <bool Plain>
    __device__ __forceinline__ void put(bool of_c, int i, int t, const Numbers& numbers, R weight) const {
        auto* const terms = of_c ? tile.c : tile.b;
        const void* const constant = of_c ? block.p.constant_c : block.p.constant_b;
        if (!Plain && constant != nullptr) {
            Numbers& to = own_terms(terms, 0);
            if (of_c) weight = factor * weight;
#pragma unroll
            for (int s = 0; s < S; ++s)
                to.of[s] = multiply_add(weight, of_c ? conj(numbers.of[s]) : numbers.of[s], to.of[s]);
        } else if constexpr (Tile::in_registers) {
            add_in_registers<Plain>(of_c, t, numbers, weight);
        } else {
            own_terms(terms, i) = numbers;
        }
    }
    // Stores the sums of the terms at the tile's step t over the warp's one or two channels. With two channels, the
    // lanes of the first store the sums of the first half of their states, and the lanes of the second the other half.
    template <bool Plain>
    __device__ __forceinline__ void add_in_registers(bool of_c, int t, const Numbers& numbers, R weight) const {
        Numbers& sum = tile.sum_of_warp(warp(), of_c, static_cast<uint32_t>(t) % joined, block.lane());
        Numbers terms;
#pragma unroll
        for (int s = 0; s < S; ++s) terms.of[s] = Plain || block.has_channel() ? weight * numbers.of[s] : V{};
        if constexpr (Shape::warp_channels == 1) {
            sum = terms;
        } else {
            static_assert(S % 2 == 0);
            constexpr int half = S / 2;
            struct alignas(half * sizeof(V)) Half {
                V of[half];
            } kept;
            const bool second = threadIdx.x % 2 != 0;
#pragma unroll
            for (int s = 0; s < half; ++s) {
                const V sent = second ? terms.of[s] : terms.of[s + half];
                kept.of[s] = (second ? terms.of[s + half] : terms.of[s]) + __shfl_xor_sync(0xffffffffU, sent, 1);
            }
            reinterpret_cast<Half*>(&sum)[second ? 1 : 0] = kept;
        }
    }
    // The thread's terms of a step.
    __device__ __forceinline__ Numbers& own_terms(typename Tile::Terms* terms, int i) const {
        return terms[warp()][i][Tile::place(block.lane(), block.local_channel() % Shape::warp_channels)];
    }
    static __device__ __forceinline__ int warp() { return static_cast<int>(threadIdx.x) / 32; }

    // Adds the terms of the warp's channels for each of the tile's G steps from `begin` on, of which `valid` exist.
    template <bool Plain>
    __device__ __forceinline__ void over_channels(int begin, int valid) const {
        static_assert(2 * G * lanes % 32 == 0);
        const SelectiveParams& p = block.p;
        const int first_channel = warp() * Shape::warp_channels;
#pragma unroll
        for (int first = 0; first < 2 * G * lanes; first += 32) {
            const int i = first + static_cast<int>(threadIdx.x) % 32;
            const int lane = i % lanes, k = i / lanes % G;
            const bool of_c = i / (lanes * G) != 0;
            if (!Plain && ((of_c ? p.step_c : p.step_b) == nullptr || k >= valid)) continue;
            const auto& terms = (of_c ? tile.c : tile.b)[warp()][k];
            const auto& weights = (of_c ? tile.e : tile.scaled).of;
            Numbers sum{};
#pragma unroll
            for (int c = 0; c < Shape::warp_channels; ++c) {
                if (!Plain && first_channel + c >= block.channels) break;
                const Numbers numbers = terms[Tile::place(lane, c)];
                const R weight = weights[first_channel + c][begin + k];
#pragma unroll
                for (int s = 0; s < S; ++s) sum.of[s] = multiply_add(weight, numbers.of[s], sum.of[s]);
            }
            tile.sum_of_warp(warp(), of_c, static_cast<uint32_t>(begin + k) % joined, lane) = sum;
        }
    }
    // Adds the sums of warps for the `joined` steps just walked, of which `valid` exist, into the block's slice at
    // `line`.
    __device__ __forceinline__ void over_warps(int valid, int64_t line) const {
        const SelectiveParams& p = block.p;
#pragma unroll
        for (int first = 0; first < 2 * joined * lanes; first += Shape::threads) {
            const int i = first + static_cast<int>(threadIdx.x);
            const int lane = i % lanes, k = i / lanes % joined;
            const bool of_c = i / (lanes * joined) != 0;
            void* const slices = of_c ? p.step_c : p.step_b;
            if (i >= 2 * joined * lanes || k >= valid || slices == nullptr) continue;
            Numbers sum = tile.sum_of_warp(0, of_c, k, lane);
#pragma unroll
            for (int w = 1; w < Tile::warps; ++w) {
                const Numbers& more = tile.sum_of_warp(w, of_c, k, lane);
#pragma unroll
                for (int s = 0; s < S; ++s) sum.of[s] = sum.of[s] + more.of[s];
            }
            V* const to = static_cast<V*>(slices) + line + k * step_numbers() + lane * S;
            if (of_c) {
#pragma unroll
                for (int s = 0; s < S; ++s) sum.of[s] = factor * conj(sum.of[s]);
            }
            if (p.states % S == 0) {
                if (lane * S < p.states) *reinterpret_cast<Numbers*>(to) = sum;
                continue;
            }
#pragma unroll
            for (int s = 0; s < S; ++s)
                if (lane * S + s < p.states) to[s] = sum.of[s];
        }
    }
    // The distance from one step to the next in a slice; and where a step of the block's group begins.
    __device__ __forceinline__ int64_t step_numbers() const {
        const int64_t numbers = static_cast<int64_t>(block.p.groups) * block.p.states;
        return block.p.down ? -numbers : numbers;
    }
    __device__ __forceinline__ int64_t line_of(int64_t step) const {
        const SelectiveParams& p = block.p;
        const int64_t batches = p.offsets.data == nullptr ? batches_of_grid() : 1;
        const int64_t row = (block.slice * batches + block.batch) * p.time + block.time_of(step);
        return (row * p.groups + block.group) * p.states;
    }
    __device__ __forceinline__ int64_t batches_of_grid() const {
        return gridDim.x / (static_cast<int64_t>(block.p.groups) * block.p.slices * block.p.segments);
    }
};

}  // namespace flashscan::cuda
