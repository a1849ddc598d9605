// SPDX-License-Identifier: Apache-2.0
// The tile of a warp: L steps of V rows of a tensor in the registers of each lane.
//
// With time innermost neighbouring lanes hold neighbouring segments of time, with channels innermost neighbouring rows.
// A lane is a (pack of V rows, segment of L steps) pair. 2^log2_rows packs stand side by side in a warp and the
// remaining factor of 32 is consecutive segments, so a warp covers V 2^log2_rows rows and L 32 / 2^log2_rows steps.
#pragma once

#include "cuda/device/math/types.cuh"
#include "cuda/device/tile/view.h"

namespace flashscan::cuda {

__device__ __forceinline__ uint32_t quotient(uint32_t n, const Divisor& by) {
    return by.magic == 0 ? n : __umulhi(n, by.magic) >> by.shift;
}

template <int N>
constexpr int log2_of = N <= 1 ? 0 : 1 + log2_of<N / 2>;
template <>
constexpr int log2_of<0> = 0;

// The shape of a kernel's tiles. LaneBytes is the most that a lane keeps of all tensors together; Pack is how many rows
// a lane has with Access::channel_packs.
template <typename X, typename G, Access access_, bool Backward, int LaneBytes,
          int Pack = sizeof(X) < 4 ? 4 / sizeof(X) : 1>
struct TileShape {
    static constexpr Access access = access_;
    static constexpr bool time_inner = is_time_inner(access), backward = Backward;
    static constexpr int V = access == Access::channel_packs ? Pack : 1;

    // 16-bit elements lie in pairs in a register, except where a lane loads each of its elements by itself.
    template <typename T>
    static constexpr int element_bytes = sizeof(T) == 2 && access == Access::channels ? 4 : sizeof(T);
    // With channels innermost L is computed as for packs with either access, so that both associate alike.
    static constexpr int pack = time_inner ? 1 : Pack;
    static constexpr int step_bytes = pack * static_cast<int>(sizeof(X) * (Backward ? 2 : 1) + sizeof(G));
    static constexpr int longest = time_inner ? 64 : 32;
    static constexpr int fitting = 1 << log2_of<LaneBytes / step_bytes>;
    static constexpr int L = fitting < longest ? fitting : longest;
    static constexpr int max_rows = 32 * V;  // the most rows of a warp
};

// The most steps that a row's first lane may have before the row: 0 unless the shape of the tiles has a `skew`.
template <typename Shape>
constexpr int most_skew = 0;
template <typename Shape>
requires requires { Shape::skew; }
constexpr int most_skew<Shape> = Shape::skew;

template <int Words>
struct alignas(Words >= 4 ? 16 : 4 * Words) WordVector {
    uint32_t word[Words];
};

// Loads and stores of contiguous words in one access; the address must be aligned to all of them. Once tells that
// nothing else will need these words.
template <int Words, bool Once = false>
__device__ __forceinline__ void load_words(const char* from, uint32_t* to) {
    using Vector = WordVector<Words>;
    static_assert(!Once || Words == 4);
    Vector vector;
    if constexpr (Once)
        vector = __builtin_bit_cast(Vector, __ldcs(reinterpret_cast<const uint4*>(from)));
    else
        vector = *reinterpret_cast<const Vector*>(from);
#pragma unroll
    for (int i = 0; i < Words; ++i) to[i] = vector.word[i];
}
template <int Words>
__device__ __forceinline__ void store_words(const uint32_t* from, char* to) {
    WordVector<Words> vector;
#pragma unroll
    for (int i = 0; i < Words; ++i) vector.word[i] = from[i];
    *reinterpret_cast<WordVector<Words>*>(to) = vector;
}

// A lane's part of a tile: the bits of L steps of V rows, in registers.
template <typename T, typename Shape>
struct Steps {
    using Wide = typename Element<T>::Wide;
    static constexpr int L = Shape::L, V = Shape::V;
    static constexpr int element_bytes = Shape::template element_bytes<T>;
    static constexpr int count = L * V * element_bytes / 4;
    static constexpr bool paired = element_bytes == 2;
    uint32_t word[count];

    __device__ __forceinline__ Wide get(int step, int v) const {
        const int e = step * V + v;
        if constexpr (sizeof(T) == 2) {
            return Element<T>::widen_half(word[paired ? e / 2 : e], paired ? e % 2 : 0);
        } else if constexpr (sizeof(T) == 1) {
            return static_cast<T>(word[e / 4] >> e % 4 * 8);
        } else {
            struct {
                uint32_t part[sizeof(T) / 4];
            } bits;
#pragma unroll
            for (int i = 0; i < static_cast<int>(sizeof(T)) / 4; ++i)
                bits.part[i] = word[e * static_cast<int>(sizeof(T)) / 4 + i];
            return __builtin_bit_cast(T, bits);
        }
    }
    // Sets all rows of a step.
    __device__ __forceinline__ void set(int step, const Wide (&values)[V]) {
        if constexpr (paired && V == 2) {
            word[step] = Element<T>::narrow_pair(values[0], values[1]);
        } else {
#pragma unroll
            for (int v = 0; v < V; ++v) set(step, v, values[v]);
        }
    }
    __device__ __forceinline__ void set(int step, int v, Wide value) {
        const int e = step * V + v;
        if constexpr (sizeof(T) == 2) {
            uint32_t& to = word[paired ? e / 2 : e];
            to = Element<T>::narrow_half(to, value, paired ? e % 2 : 0);
        } else if constexpr (sizeof(T) == 1) {
            // Selectors 0 to 3 are the bytes of the word, 4 is the lowest of the value.
            constexpr uint32_t selectors[] = {0x3214, 0x3240, 0x3410, 0x4210};
            word[e / 4] = __byte_perm(word[e / 4], value, selectors[e % 4]);
        } else {
            struct Bits {
                uint32_t part[sizeof(T) / 4];
            };
            const Bits bits = __builtin_bit_cast(Bits, value);
#pragma unroll
            for (int i = 0; i < static_cast<int>(sizeof(T)) / 4; ++i)
                word[e * static_cast<int>(sizeof(T)) / 4 + i] = bits.part[i];
        }
    }
};

// Sets the steps of a tile one after another, all of them, in the order of memory or against it (Down). Two 16-bit
// steps that share a word are set together.
template <typename T, typename Shape, bool Down>
struct StepWriter {
    using Tile = Steps<T, Shape>;
    using Wide = typename Tile::Wide;
    Tile& to;
    Wide kept{};

    __device__ __forceinline__ void set(int step, const Wide (&values)[Shape::V]) {
        if constexpr (Tile::paired && Shape::V == 1) {
            if ((step % 2 != 0) == Down)
                kept = values[0];
            else
                to.word[step / 2] = Element<T>::narrow_pair(Down ? values[0] : kept, Down ? kept : values[0]);
        } else {
            to.set(step, values);
        }
    }
};

// Which rows and steps a lane and its warp hold. Where the host has reversed the tensors in time
// (SequenceOffsets::mirrored), the order of memory is that of the reversed tensors.
struct Place {
    uint32_t batch;
    int64_t row, t0;            // the lane's first row and first step in memory
    int rows, steps;            // how many of the lane's rows and steps exist; without rows there are no steps
    int first;                  // the first of the lane's steps that exists
    int64_t warp_row, warp_t0;  // the warp's first row and first step in memory
    int warp_rows, warp_steps;  // how many of the warp's rows and steps exist
    int lane, log2_rows;        // 2^log2_rows packs of rows stand side by side in the warp
    int pack, segment;          // the lane's pack of rows and its segment of time in the warp, in the order of memory

    __device__ __forceinline__ int segments() const { return 32 >> log2_rows; }
};

// The place of lane `lane` of a warp whose tile begins at (row, t0); steps exist from 0 up to `end`.
template <typename Shape>
__device__ __forceinline__ Place place_of(uint32_t batch, int64_t row, int64_t t0, int64_t rows, int64_t end, int lane,
                                          int log2_rows) {
    constexpr int L = Shape::L, V = Shape::V;
    Place at;
    at.batch = batch;
    at.lane = lane;
    at.log2_rows = log2_rows;
    at.pack = Shape::time_inner ? lane >> (5 - log2_rows) : lane & ((1 << log2_rows) - 1);
    at.segment = Shape::time_inner ? lane & (at.segments() - 1) : lane >> log2_rows;
    at.warp_row = row;
    at.warp_t0 = t0;
    at.warp_rows = static_cast<int>(max(min(rows - row, int64_t{V} << log2_rows), int64_t{0}));
    at.warp_steps = static_cast<int>(max(min(end - t0, int64_t{L * at.segments()}), int64_t{0}));
    at.row = row + at.pack * V;
    at.t0 = t0 + at.segment * L;
    at.rows = max(min(at.warp_rows - at.pack * V, V), 0);
    at.steps = at.rows == 0 ? 0 : max(min(at.warp_steps - at.segment * L, L), 0);
    at.first = most_skew<Shape> == 0 ? 0 : static_cast<int>(max(-at.t0, int64_t{0}));
    return at;
}

}  // namespace flashscan::cuda
