// SPDX-License-Identifier: Apache-2.0
// A team of blocks that holds a matrix on chip and multiplies it, step after step, by vectors that its blocks make:
//
//     out[m, n] = sum over k of W[m, k] v[k, n]
//
// Each block has the rows m of its units, `gates` for each unit, and all of k; n are 8 row_tiles rows of the batch. A
// block is unit_warps x parts warps: a warp has 8 `groups` units and one of the parts of k, its part of W in registers
// as left operands of the tensor cores from the first step to the last. Half a 16 x 16 operand is one gate of 8 units,
// so that a lane finds all gates of its elements in its own sums. Within 32 consecutive k the order is chosen such that
// the right operands of a lane are 16 consecutive bytes of v. Units of all blocks make `runs` runs of k.
//
// Sums of parts are added in order through shared memory: bits depend on nothing but the shape.
#pragma once

#include "cuda/kernels/rnn_team_vectors.cuh"
#include "cuda/ptx/mma.cuh"

namespace flashscan::cuda {

// Where a lane's element is: e = (group of units, tile of rows, one of two rows).
template <typename S>
struct TeamElement {
    int unit, row;  // in the block, in the team's rows
    __device__ __forceinline__ TeamElement(int i) {
        const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
        const int e = i * S::parts + warp % S::parts;
        unit = (warp / S::parts * S::groups + e / (2 * S::row_tiles)) * 8 + lane / 4;
        row = e / 2 % S::row_tiles * 8 + lane % 4 * 2 + e % 2;
    }
    // Whether this warp has elements: where there are fewer than parts of k, others only multiply.
    static __device__ __forceinline__ bool exist() {
        return S::elements >= S::parts || static_cast<int>(threadIdx.x) / 32 % S::parts < S::elements;
    }
};

// All gates of an element, moved at once.
template <int Gates>
struct alignas(Gates == 4 ? 16 : 4) TeamSums {
    float gate[Gates];
};

// Left operands of a warp, as rnn_fused_weights.cuh orders them.
template <typename S>
struct TeamWeights {
    uint32_t a[S::tiles][S::steps][4];

    // `from`: those of all blocks of the team.
    __device__ __forceinline__ void load(const uint4* from, int block) {
        from += (block * (S::threads / 32) + static_cast<int>(threadIdx.x) / 32) * (S::tiles * S::steps * 32);
#pragma unroll
        for (int m = 0; m < S::tiles; ++m)
#pragma unroll
            for (int k = 0; k < S::steps; ++k) {
                const uint4 w = from[(m * S::steps + k) * 32 + static_cast<int>(threadIdx.x) % 32];
                a[m][k][0] = w.x, a[m][k][1] = w.y, a[m][k][2] = w.z, a[m][k][3] = w.w;
            }
    }
};

template <typename S>
struct TeamAccumulators {
    float c[S::chains][S::tiles][S::row_tiles][4] = {};

    __device__ __forceinline__ float sum(int e, int gate) const {
        const int half = e / (2 * S::row_tiles) * S::gates + gate, at = half % 2 * 2 + e % 2;
        float total = c[0][half / 2][e / 2 % S::row_tiles][at];
#pragma unroll
        for (int chain = 1; chain < S::chains; ++chain) total += c[chain][half / 2][e / 2 % S::row_tiles][at];
        return total;
    }
};

template <typename X, typename S>
__device__ __forceinline__ void multiply(const TeamWeights<S>& weights, const TeamVectors<S>& vectors, uint32_t turn,
                                         TeamAccumulators<S>& sums) {
    constexpr int items = S::steps / 2 * S::row_tiles, window = items <= 12 ? items : 8;
    uint4 v[window];
    const auto fetch = [&](int item) { return vectors.get(turn, item / S::row_tiles, item % S::row_tiles); };
#pragma unroll
    for (int i = 0; i < window; ++i) v[i] = fetch(i);
#pragma unroll
    for (int first = 0; first < items; first += window) {
        if constexpr (!S::in_shared) {
            bool late = true;
            while (late) {
                bool mine = false;
#pragma unroll
                for (int i = 0; i < window; ++i)
                    if (first + i < items && TeamVectors<S>::empty(v[i])) {
                        v[i] = fetch(first + i);
                        mine = true;
                    }
                late = __any_sync(0xffffffffU, static_cast<int>(mine)) != 0;
            }
        }
#pragma unroll
        for (int i = 0; i < window; ++i) {
            const int item = first + i, pair = item / S::row_tiles, n = item % S::row_tiles;
            if (item >= items) continue;
#pragma unroll
            for (int m = 0; m < S::tiles; ++m)
                ptx::multiply_add<X>(sums.c[2 * pair % S::chains][m][n], weights.a[m][2 * pair], v[i].x, v[i].y);
#pragma unroll
            for (int m = 0; m < S::tiles; ++m)
                ptx::multiply_add<X>(sums.c[(2 * pair + 1) % S::chains][m][n], weights.a[m][2 * pair + 1], v[i].z,
                                     v[i].w);
            if (item + window < items) v[i] = fetch(item + window);
        }
    }
}

// The sums of a lane's own elements.
template <typename X, typename S>
__device__ __forceinline__ void team_product(const TeamWeights<S>& weights, const TeamVectors<S>& vectors, uint32_t turn,
                                             unsigned char* shared, float (&own)[S::own][S::gates]) {
    TeamAccumulators<S> sums;
    multiply<X>(weights, vectors, turn, sums);
    if constexpr (S::parts == 1) {
#pragma unroll
        for (int e = 0; e < S::own; ++e)
#pragma unroll
            for (int gate = 0; gate < S::gates; ++gate) own[e][gate] = sums.sum(e, gate);
    } else {
        using Sums = TeamSums<S::gates>;
        const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
        // [parity of turns][unit warp][part][element][lane]
        Sums* const partials = reinterpret_cast<Sums*>(shared) +
                               ((turn & 1) * S::unit_warps + warp / S::parts) * S::parts * S::elements * 32 + lane;
#pragma unroll
        for (int e = 0; e < S::elements; ++e) {
            Sums part;
#pragma unroll
            for (int gate = 0; gate < S::gates; ++gate) part.gate[gate] = sums.sum(e, gate);
            partials[(warp % S::parts * S::elements + e) * 32] = part;
        }
        __syncthreads();
        if (!TeamElement<S>::exist()) return;
#pragma unroll
        for (int i = 0; i < S::own; ++i) {
            Sums total{};
#pragma unroll
            for (int part = 0; part < S::parts; ++part) {
                const Sums more = partials[(part * S::elements + i * S::parts + warp % S::parts) * 32];
#pragma unroll
                for (int gate = 0; gate < S::gates; ++gate) total.gate[gate] += more.gate[gate];
            }
#pragma unroll
            for (int gate = 0; gate < S::gates; ++gate) own[i][gate] = total.gate[gate];
        }
    }
}

}  // namespace flashscan::cuda
