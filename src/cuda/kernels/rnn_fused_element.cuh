// SPDX-License-Identifier: Apache-2.0
// What the fused kernels of recurrent networks share: where a lane's elements are in the tensors of a call.
#pragma once

#include "cuda/kernels/rnn_element.cuh"
#include "cuda/kernels/rnn_team.cuh"

namespace flashscan::cuda {

// A team's work from the first step to the last: a head, and rows of the batch.
template <typename S>
struct RnnJob {
    int head, tile, block;  // block: of the team
    __device__ __forceinline__ RnnJob(const RnnFusedParams& f, int job)
        : head(job / f.tiles), tile(job % f.tiles), block(static_cast<int>(blockIdx.x) % f.blocks) {}
};

// An element of a job: a unit of the head and a row of the batch.
template <typename S>
struct RnnOwn {
    int unit, team_row;
    int64_t row;
    bool inside;
    int64_t w;     // head D + unit
    int64_t kept;  // in a step of RESERVE, before `kept` and lanes: patches of 8 rows and 8 units are stored together

    __device__ __forceinline__ RnnOwn(const RnnFusedParams& f, const RnnJob<S>& job, int i, int count) {
        const TeamElement<S> e(i);
        unit = job.block * S::units + e.unit;
        team_row = e.row;
        row = static_cast<int64_t>(job.tile) * S::rows + e.row;
        inside = e.exists && unit < f.p.dim && row < f.p.rows;
        w = job.head * f.p.dim + unit;
        const int64_t patch = (job.head * patch_rows(f) + row / 8) * patch_units(f) + unit / 8;
        kept = (patch * count * 2 + row % 2) * 32 + static_cast<int>(threadIdx.x) % 32;
    }
    static __device__ __forceinline__ int64_t patch_rows(const RnnFusedParams& f) { return (f.p.rows + 7) / 8; }
    static __device__ __forceinline__ int64_t patch_units(const RnnFusedParams& f) { return (f.p.dim + 7) / 8; }
    static __device__ __forceinline__ int64_t kept_step(const RnnFusedParams& f, int count) {
        return f.heads * patch_rows(f) * patch_units(f) * count * 64;
    }
    __device__ __forceinline__ int64_t tensor(const RnnTensorStrides& strides, int s, int64_t t) const {
        return s * strides.state + row * strides.batch + t * strides.time + w;
    }
    __device__ __forceinline__ int64_t state(const RnnParams& p, int s) const {
        return (s * p.state_rows + row) * p.width + w;
    }
};

// Where a team's vectors are: behind the partial sums in shared memory, or in the ring.
template <typename S>
__device__ __forceinline__ uint32_t* vectors_memory(const RnnFusedParams& f, int team, unsigned char* shared) {
    if constexpr (S::local)
        return reinterpret_cast<uint32_t*>(shared + S::partial_floats * 4);
    else
        return static_cast<uint32_t*>(f.ring) + static_cast<int64_t>(team) * (rnn_ring_slots * S::rows * S::depth / 2);
}

// Every eighth turn, after its product: empties what this lane put into eight slots, its units of `Runs` runs of k. A
// block that has all vectors of turn n knows that all have put them and have therefore read turn n - 1; where a job
// begins, nothing is read, so that only turn n - 2 is certain.
template <typename S, int Runs>
__device__ __forceinline__ void empty_slots(const RnnFusedParams& f, const RnnJob<S>& job,
                                            const TeamVectors<S>& vectors, int64_t turn) {
    if constexpr (!S::local) {
        if (turn % 8 != 0) return;
#pragma unroll 1
        for (int i = 0; i < S::own; ++i) {
            if (!TeamElement<S>(i).exists) continue;
            const RnnOwn<S> e(f, job, i, 0);
#pragma unroll 1
            for (int n = 2; n < 10; ++n)
                for (int run = 0; run < Runs; ++run)
                    vectors.empty(turn - n, e.team_row, run * (S::depth / Runs) + e.unit);
        }
        ptx::fence_device();
    }
}

// Whether states are cut before `step`.
template <typename S>
__device__ __forceinline__ bool cuts(const RnnParams& p, const RnnOwn<S>& e, int64_t step) {
    return p.reset != nullptr && e.inside && step < p.time && p.reset[e.row * p.time + time_of(p, step)] != 0;
}

template <typename S, int N>
__device__ __forceinline__ void load_states(const RnnParams& p, const RnnOwn<S>& e, const void* data,
                                            float (&state)[N]) {
#pragma unroll
    for (int s = 0; s < N; ++s)
        state[s] = data != nullptr && e.inside ? static_cast<const float*>(data)[e.state(p, s)] : 0.0F;
}
template <typename S, int N>
__device__ __forceinline__ void store_states(const RnnParams& p, const RnnOwn<S>& e, void* data,
                                             const float (&state)[N]) {
    if (data == nullptr || !e.inside) return;
#pragma unroll
    for (int s = 0; s < N; ++s) static_cast<float*>(data)[e.state(p, s)] = state[s];
}

template <typename X>
__device__ __forceinline__ uint32_t bits_of(float value) {
    const X x = Element<X>::narrow(value);
    return *reinterpret_cast<const uint16_t*>(&x);
}

}  // namespace flashscan::cuda
