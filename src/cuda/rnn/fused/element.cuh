// SPDX-License-Identifier: Apache-2.0
// Finds a lane's elements (unit, row) in the tensors of a call, and how many steps their rows have. forward.cuh and
// backward.cuh share this.
#pragma once

#include "cuda/device/tile/sequences.cuh"
#include "cuda/rnn/element.cuh"
#include "cuda/rnn/fused/kept.cuh"
#include "cuda/rnn/fused/team.cuh"

namespace flashscan::cuda {

// How many steps before their use data are prefetched into L2: these steps take several times the latency of memory.
constexpr int rnn_steps_ahead = 8;

__device__ __forceinline__ bool is_packed(const RnnFusedParams& f) { return f.offsets.data != nullptr; }

// The steps of a row: how many, and the time of the first in the order of computation.
struct RnnRowSteps {
    int64_t first;
    int count;
    __device__ __forceinline__ RnnRowSteps(const RnnFusedParams& f, int64_t row)
        : first(0), count(static_cast<int>(f.p.time)) {
        int64_t begin = 0, end = f.p.time;
        if (is_packed(f) && row < f.p.state_rows)
            begin = load_offset(f.offsets, row), end = load_offset(f.offsets, row + 1);
        first = f.p.reverse != 0 ? end - 1 : begin;
        count = row < f.p.state_rows ? static_cast<int>(max(end - begin, int64_t{0})) : 0;
    }
};

// A job of a team: a head and a tile of rows, from the first step to the last.
template <typename S>
struct RnnJob {
    int head, block;  // the job's head, and the number of the block in its team
    int steps = 0;    // steps of the longest row
    int64_t row;      // the first row of tile `shift`, of the tiles that a block's warps alternate (warp_roles.cuh)
    __device__ __forceinline__ RnnJob(const RnnFusedParams& f, int job, int shift)
        : head(job / f.tiles), block(static_cast<int>(blockIdx.x) % f.blocks) {
        const int64_t first = static_cast<int64_t>(job % f.tiles) * S::team_rows;
        row = first + shift * S::rows;
        if (!is_packed(f)) steps = static_cast<int>(f.p.time);
#pragma unroll 1
        for (int i = 0; i < S::team_rows && is_packed(f); ++i) steps = max(steps, RnnRowSteps(f, first + i).count);
    }
};

template <typename S>
__device__ __forceinline__ void load_weights(const RnnFusedParams& f, const RnnJob<S>& job, TeamWeights<S>& weights) {
    constexpr int64_t block = S::threads * S::planes * S::tiles * S::steps;
    weights.load(static_cast<const uint4*>(f.weights) + job.head * f.blocks * block, job.block);
}

// An element of a job: a unit of the head and a row.
template <typename S>
struct RnnOwn {
    int unit;
    int64_t row, w;  // w = head D + unit
    bool inside;

    __device__ __forceinline__ RnnOwn(const RnnFusedParams& f, const RnnJob<S>& job, int i) {
        const TeamElement<S> e(i);
        unit = job.block * S::units + e.unit;
        row = job.row + e.row;
        w = job.head * f.p.dim + unit;
        inside = TeamElement<S>::exist() && unit < f.p.dim && row < f.p.state_rows;
    }
    // Its index in RESERVE, [T, rows, H, groups of 8 units, kept, 8].
    __device__ __forceinline__ int64_t kept(const RnnFusedParams& f, const RnnJob<S>& job, int count, int64_t t) const {
        const int64_t groups = (f.p.dim + 7) / 8;
        return (((t * f.p.rows + tensor_row(f)) * f.heads + job.head) * groups + unit / 8) * count * 8 + unit % 8;
    }
    static __device__ __forceinline__ int64_t kept_step(const RnnFusedParams& f, int count) {
        return f.p.rows * f.heads * ((f.p.dim + 7) / 8) * count * 8;
    }
    // Its row in tensors; packed sequences share one.
    __device__ __forceinline__ int64_t tensor_row(const RnnFusedParams& f) const { return is_packed(f) ? 0 : row; }
    __device__ __forceinline__ int64_t tensor(const RnnFusedParams& f, const RnnTensorStrides& strides,
                                              int64_t t) const {
        return tensor_row(f) * strides.batch + t * strides.time + w;
    }
    __device__ __forceinline__ int64_t reset(const RnnFusedParams& f, int64_t t) const {
        return tensor_row(f) * f.p.time + t;
    }
    __device__ __forceinline__ int64_t state(const RnnParams& p, int s) const {
        return (s * p.state_rows + row) * p.width + w;
    }
};

// Clears slots of the ring for later turns, where the team exchanges through a ring (team_vectors.cuh).
template <typename S>
__device__ __forceinline__ void clear_slots(const RnnFusedParams& f, const RnnJob<S>& job,
                                            const TeamVectors<S>& vectors, uint32_t turn) {
    if constexpr (S::kind == Team::grid && !S::scatters) {
        if (turn % rnn_ring_cleared != 0) return;
        if (TeamElement<S>::exist())
#pragma unroll 1
            for (int i = 0; i < S::own; ++i) {
                const TeamElement<S> e(i);
                vectors.clear(turn, vectors.place(e.row, e.unit));
            }
        ptx::fence_device();
    }
}

template <typename S, typename Real, int N>
__device__ __forceinline__ void load_states(const RnnParams& p, const RnnOwn<S>& e, const void* data,
                                            Real (&state)[N]) {
#pragma unroll
    for (int s = 0; s < N; ++s)
        state[s] = data != nullptr && e.inside ? static_cast<const float*>(data)[e.state(p, s)] : 0.0F;
}
template <typename S, typename Real, int N>
__device__ __forceinline__ void store_states(const RnnParams& p, const RnnOwn<S>& e, void* data,
                                             const Real (&state)[N]) {
    if (data == nullptr || !e.inside) return;
#pragma unroll
    for (int s = 0; s < N; ++s) static_cast<float*>(data)[e.state(p, s)] = value_of(state[s]);
}

}  // namespace flashscan::cuda
