// SPDX-License-Identifier: Apache-2.0
// How linear_rows and linear_columns sum the gradient of a gate that batch entries share, or rows with time innermost,
// over n = 2^log2_warp_rows warps of a block, which have the same steps of neighbouring batch entries or rows.
//
// Ownership  A lane writes the gradients of its steps to shared memory. Then each of the n warps sums a part of the
//            tile over all of them, in the order of their entries or rows, and writes the sums as terms in the
//            arithmetic's dtype: [ceil(batches / n), time, rows] with channels innermost, [ceil(batches / n), rows,
//            time] or [batches, ceil(rows / n), time] with time innermost. reduce_gate_gradient adds these up. If no
//            other warps share the gate, no values of gates were found before, and neighbours of GRAD|GATE lie side by
//            side, they write GRAD|GATE.
// Bytes      One term for each step of 2 to 8 rows, in place of one for each step of each row.
// Sync       One __syncthreads, which is also the vote whether steps have to be walked again.
// Limits     Gates wider than 16 bits are values (find_gate_values computes those of logs and logits). 16-bit ones may
//            be logs or logits, without resets.
#pragma once

#include "cuda/device/scan/chained_rows.cuh"
#include "cuda/device/tile/time_vectors.cuh"
#include "cuda/linear/params.h"
#include "cuda/linear/walk.cuh"

namespace flashscan::cuda {

// A block's terms follow `BufferBytes` of each of its warps in dynamic shared memory.
template <typename Ty, typename Shape, bool Down, int BufferBytes>
struct BlockSums {
    using G = typename Ty::G;
    using GateWide = typename Ty::GateWide;
    static constexpr int L = Shape::L, V = Shape::V, size = static_cast<int>(sizeof(GateWide));
    static constexpr int pack = 16 / size;  // terms of a vector of 16 bytes, which are neighbours in memory
    static constexpr bool time_inner = Shape::time_inner;
    // With time innermost a lane's terms are vectors behind each other, with channels innermost the terms of a step lie
    // side by side.
    using LaneTerms = LaneVectors<GateWide, Shape, true>;
    static constexpr int vectors = 32 * L * V / pack;  // of a warp
    static constexpr int warp_bytes = time_inner ? 32 * LaneTerms::stride : 32 * L * V * size;
    static_assert(time_inner ? V == 1 && L % pack == 0 : 32 * V % pack == 0);
    struct alignas(16) Vector {
        GateWide of[pack];
    };

    // Whether sums are wanted, which is the same for all threads of a launch.
    static __device__ __forceinline__ bool wanted(const LinearParams& p) { return p.partial != nullptr; }
    // Calls f with the kind of a warp's steps. Gates wider than 16 bits are values.
    template <typename Walker, typename F>
    static __device__ __forceinline__ void with_kind(const LinearParams& p, bool events, F&& f) {
        if constexpr (sizeof(G) == 2)
            Walker::with_kind(p, events, f);
        else
            with_value_kind(events, f);
    }
    // The terms of a warp of the block.
    static __device__ __forceinline__ char* of_warp(int warp) {
        return shared_memory() + static_cast<int>(blockDim.x / 32) * BufferBytes + warp * warp_bytes;
    }
    // The terms of a lane, of which those of a step lie `step_bytes` apart from those of the next.
    static constexpr int step_bytes = (time_inner ? 1 : 32 * V) * size;
    static __device__ __forceinline__ char* of_lane(const Place& at) {
        return of_warp(ptx::thread_index() / 32) + at.lane * (time_inner ? LaneTerms::stride : V * size);
    }

    // Takes the gradients of a lane's steps one after another, all of them, in the order of the walk.
    struct Writer {
        char* lane;
        Vector kept{};

        __device__ __forceinline__ explicit Writer(const Place& at) : lane(of_lane(at)) {}
        __device__ __forceinline__ void set(int i, const GateWide (&values)[V]) {
            if constexpr (time_inner) {
                kept.of[i % pack] = values[0];
                if (i % pack == (Down ? 0 : pack - 1)) reinterpret_cast<Vector*>(lane)[i / pack] = kept;
            } else {
                struct alignas(V * size) Rows {
                    GateWide of[V];
                } rows;
#pragma unroll
                for (int v = 0; v < V; ++v) rows.of[v] = values[v];
                *reinterpret_cast<Rows*>(lane + i * step_bytes) = rows;
            }
        }
    };
    // Writes the gradients of a row of the lane, which were found in order: terms[k] is that of the k-th step that was
    // walked.
    static __device__ __forceinline__ void set_in_order(const Place& at, int v, const GateWide (&terms)[L]) {
        char* const lane = of_lane(at) + v * size;
        for (int k = 0; k < at.steps; ++k)
            *reinterpret_cast<GateWide*>(lane + (Down ? at.steps - 1 - k : k) * step_bytes) = terms[k];
    }

    // Sums over the warps that share gates and writes the terms; all threads must call it. If one of them has to walk
    // `again`, it writes nothing and returns true to all.
    static __device__ __forceinline__ bool write(const LinearParams& p, const Place& at, const WarpsInTime& warps,
                                                 bool again) {
        if (__syncthreads_or(again) != 0) return true;
        const bool rows = p.shared_rows != 0;
        const int most = 1 << p.log2_warp_rows;
        const int64_t mine = rows ? at.warp_row : at.batch, first = mine & ~int64_t{most - 1};
        const int64_t all = rows ? p.rows : p.batches;
        if (first >= all || (rows && at.batch >= p.batches)) return false;
        const int sharing = static_cast<int>(min(all - first, int64_t{most})), part = (vectors + sharing - 1) / sharing;
        const int rank = static_cast<int>(mine - first);
        // The terms of the first of the warps, and how far apart those of the others lie.
        const char* const from = of_warp(time_inner ? warps.mine : warps.mine * warps.step);
        const int apart = (time_inner ? warps.count : 1) * warp_bytes;
        const View& terms = p.grad_gate;
        char* const to = terms.data + (at.batch >> (rows ? 0 : p.log2_warp_rows)) * terms.batch;
        for (int k = rank * part + at.lane; k < min((rank + 1) * part, vectors); k += 32) {
            // The vector's first row and step in memory, and how many terms of it exist.
            const int across = 32 * V / pack;
            const int lane = k / LaneTerms::count, lane_stride = LaneTerms::stride / 16;
            const int place = time_inner ? lane * lane_stride + k % LaneTerms::count : k;
            const int64_t t = at.warp_t0 + (time_inner ? k * pack : k / across);
            const int64_t row = time_inner ? at.warp_row : at.warp_row + k % across * pack;
            const int64_t exist = t >= p.time ? 0 : time_inner ? p.time - t : p.rows - row;
            if (exist <= 0) continue;
            Vector sum = *reinterpret_cast<const Vector*>(from + place * 16);
            for (int q = 1; q < sharing; ++q) {
                const Vector other = *reinterpret_cast<const Vector*>(from + q * apart + place * 16);
#pragma unroll
                for (int n = 0; n < pack; ++n) sum.of[n] = sum.of[n] + other.of[n];
            }
            char* const there = to + (rows ? row >> p.log2_warp_rows : row) * terms.row + t * terms.time;
            if (p.sums_whole != 0)
                store<G>(there, exist, sum, [](GateWide x) { return Element<G>::narrow(x); });
            else
                store<GateWide>(there, exist, sum, [](GateWide x) { return x; });
        }
        return false;
    }

  private:
    // Stores the terms that exist as elements of type T.
    template <typename T, typename Convert>
    static __device__ __forceinline__ void store(char* to, int64_t exist, const Vector& terms, Convert&& convert) {
        struct alignas(pack * sizeof(T)) Elements {
            T of[pack];
        } elements;
#pragma unroll
        for (int n = 0; n < pack; ++n) elements.of[n] = convert(terms.of[n]);
        if (exist >= pack && reinterpret_cast<uintptr_t>(to) % sizeof(Elements) == 0) {
            *reinterpret_cast<Elements*>(to) = elements;
        } else {
#pragma unroll
            for (int n = 0; n < pack; ++n)
                if (n < exist) reinterpret_cast<T*>(to)[n] = elements.of[n];
        }
    }
};

}  // namespace flashscan::cuda
