// SPDX-License-Identifier: Apache-2.0
// What the fused kernels of recurrent networks share: where a lane's elements are in the tensors of a call.
#pragma once

#include "cuda/kernels/quick_float.cuh"
#include "cuda/kernels/rnn_element.cuh"
#include "cuda/kernels/rnn_team.cuh"

namespace flashscan::cuda {

// Steps between asking L2 for data and using it: several times the latency of memory.
constexpr int rnn_steps_ahead = 8;

// A team's work from the first step to the last: a head, and rows of the batch.
template <typename S>
struct RnnJob {
    int head, tile, block;  // block: of the team
    __device__ __forceinline__ RnnJob(const RnnFusedParams& f, int job)
        : head(job / f.tiles), tile(job % f.tiles), block(static_cast<int>(blockIdx.x) % f.blocks) {}
};

template <typename S>
__device__ __forceinline__ void load_weights(const RnnFusedParams& f, const RnnJob<S>& job, TeamWeights<S>& weights) {
    constexpr int64_t block = S::threads * S::tiles * S::steps;
    weights.load(static_cast<const uint4*>(f.weights) + job.head * f.blocks * block, job.block);
}

// An element of a job: a unit of the head and a row of the batch.
template <typename S>
struct RnnOwn {
    int unit, place;  // place: in a slot of the team's vectors
    int64_t row, w;   // w: head D + unit
    bool exists, inside;

    __device__ __forceinline__ RnnOwn(const RnnFusedParams& f, const RnnJob<S>& job, int i) {
        const TeamElement<S> e(i);
        unit = job.block * S::units + e.unit;
        place = e.row * S::stride + unit;
        row = static_cast<int64_t>(job.tile) * S::rows + e.row;
        w = job.head * f.p.dim + unit;
        exists = e.exists;
        inside = e.exists && unit < f.p.dim && row < f.p.rows;
    }
    // In a step of RESERVE, [patch, count, 2, 32]: a patch is what a warp has of 8 units and 8 rows.
    __device__ __forceinline__ int64_t kept(const RnnFusedParams& f, const RnnJob<S>& job, int count) const {
        const int64_t patch = (job.head * patch_rows(f) + row / 8) * patch_units(f) + unit / 8;
        return (patch * count * 2 + row % 2) * 32 + static_cast<int>(threadIdx.x) % 32;
    }
    static __device__ __forceinline__ int64_t patch_rows(const RnnFusedParams& f) { return (f.p.rows + 7) / 8; }
    static __device__ __forceinline__ int64_t patch_units(const RnnFusedParams& f) { return (f.p.dim + 7) / 8; }
    static __device__ __forceinline__ int64_t kept_step(const RnnFusedParams& f, int count) {
        return f.heads * patch_rows(f) * patch_units(f) * count * 64;
    }
    __device__ __forceinline__ int64_t tensor(const RnnTensorStrides& strides, int64_t t) const {
        return row * strides.batch + t * strides.time + w;
    }
    __device__ __forceinline__ int64_t state(const RnnParams& p, int s) const {
        return (s * p.state_rows + row) * p.width + w;
    }
};

// Where a team's vectors are: behind the partial sums in shared memory, or in the ring.
template <typename S>
__device__ __forceinline__ uint32_t* vectors_memory(const RnnFusedParams& f, unsigned char* shared) {
    if constexpr (S::local)
        return reinterpret_cast<uint32_t*>(shared + S::partial_floats * 4);
    else
        return static_cast<uint32_t*>(f.ring) +
               static_cast<int64_t>(blockIdx.x) / f.blocks * (rnn_ring_slots * S::rows * S::stride / 2);
}

// Every eighth turn, after its product: clears what this lane put into eight slots, its units of `Runs` runs of k. A
// block that has all vectors of turn n knows that all have put them and have therefore read turn n - 1; where a job
// begins, nothing is read, so that only turn n - 2 is certain.
template <typename S, int Runs>
__device__ __forceinline__ void clear_slots(const RnnFusedParams& f, const RnnJob<S>& job,
                                            const TeamVectors<S>& vectors, int64_t turn) {
    if constexpr (!S::local) {
        if (turn % 8 != 0) return;
#pragma unroll 1
        for (int i = 0; i < S::own; ++i) {
            const RnnOwn<S> e(f, job, i);
            if (!e.exists) continue;
#pragma unroll 1
            for (int n = 2; n < 10; ++n)
                for (int run = 0; run < Runs; ++run) vectors.clear(turn - n, e.place + run * (S::depth / Runs));
        }
        ptx::fence_device();
    }
}

template <typename S, int N>
__device__ __forceinline__ void load_states(const RnnParams& p, const RnnOwn<S>& e, const void* data,
                                            Quick (&state)[N]) {
#pragma unroll
    for (int s = 0; s < N; ++s)
        state[s] = data != nullptr && e.inside ? static_cast<const float*>(data)[e.state(p, s)] : 0.0F;
}
template <typename S, int N>
__device__ __forceinline__ void store_states(const RnnParams& p, const RnnOwn<S>& e, void* data,
                                             const Quick (&state)[N]) {
    if (data == nullptr || !e.inside) return;
#pragma unroll
    for (int s = 0; s < N; ++s) static_cast<float*>(data)[e.state(p, s)] = state[s].value;
}

template <typename X>
__device__ __forceinline__ uint32_t bits_of(Quick x) {
    const X narrow = Element<X>::narrow(x.value);
    return *reinterpret_cast<const uint16_t*>(&narrow);
}

}  // namespace flashscan::cuda
