// SPDX-License-Identifier: Apache-2.0
// Specialised warps of a team's blocks: warps for products and warps for cells, and two tiles of rows, called shifts,
// that take turns.
//
//     products    wait until the block has put a shift's vectors, ask for those of all, multiply, leave the sums
//     cells       wait for the sums of a shift, add them up, run the cells, put the vectors, store and load
//
// A step of one shift is latency from end to end. With two of them and a warp's work in one role, products, cells and
// the way of vectors through L2 overlap. Each shift has two barriers: one for sums that wait to be added, one for
// vectors that are put and sums that are read. Whoever has put all vectors of a turn has read the sums of the turn
// before.
#pragma once

#include "cuda/device/ptx/role_barrier.cuh"
#include "cuda/device/ptx/wgmma.cuh"
#include "cuda/rnn/fused/element.cuh"

namespace flashscan::cuda {

template <typename S>
struct TeamRoles {
    static __device__ __forceinline__ bool multiplies() { return threadIdx.x < S::product_threads; }
    // Of one shift.
    static constexpr int working = S::product_threads + 32 * S::cell_warps;
    // Of a warp of cells; 2: none.
    static __device__ __forceinline__ int shift() {
        return min((static_cast<int>(threadIdx.x) / 32 - S::product_threads / 32) / S::cell_warps, 2);
    }
    // Of a thread from here on; where the hardware hands none over, all keep those of the launch.
    template <int Registers>
    static __device__ __forceinline__ void set_registers() {
        if constexpr (Registers > S::registers)
            ptx::take_registers<Registers>();
        else
            ptx::give_registers_up<Registers>();
    }
    static __device__ __forceinline__ void wait_for_put(int shift) { ptx::wait_at_barrier(1 + shift, working); }
    static __device__ __forceinline__ void tell_put(int shift) { ptx::arrive_at_barrier(1 + shift, working); }
    static __device__ __forceinline__ void wait_for_sums(int shift) { ptx::wait_at_barrier(3 + shift, working); }
    static __device__ __forceinline__ void tell_sums(int shift) { ptx::arrive_at_barrier(3 + shift, working); }
};

// A turn of a warp of products.
template <typename X, typename S>
__device__ __forceinline__ void team_multiply(const TeamWeights<S>& weights, const TeamVectors<S>& vectors,
                                              uint32_t turn, int shift, unsigned char* shared) {
    TeamAccumulators<S> sums;
    TeamRoles<S>::wait_for_put(shift);
    take_items(
        vectors, turn, [] {}, [] {},
        [&](int item, const uint4* v) { multiply_planes<X>(weights, item / S::planes, v, sums); });
    leave_sums<S>(sums, team_partials(vectors, turn, shared, 0));
    TeamRoles<S>::tell_sums(shift);
}

// The same, seen from a warp of cells.
template <typename S, typename Early, typename Late>
__device__ __forceinline__ void team_take_sums(const TeamVectors<S>& vectors, uint32_t turn, int shift,
                                               unsigned char* shared, Early early, Late late,
                                               float (&own)[S::own][S::gates]) {
    early();
    late();
    TeamRoles<S>::wait_for_sums(shift);
    add_sums<S>(team_partials(vectors, turn, shared, 0), own);
}

// The turns of a warp of products in all jobs of its team. A job takes `steps(job)` turns; in the last there is a product
// only where `last`.
template <typename X, typename S, typename Steps>
__device__ __forceinline__ void multiply_turns(const RnnFusedParams& f, unsigned char* shared, const Steps& steps,
                                               bool last) {
    const TeamVectors<S> vectors[] = {TeamVectors<S>(f, shared, 0), TeamVectors<S>(f, shared, 1)};
    TeamWeights<S> weights(shared);
    int head = -1;
    uint32_t turn = 0;
    for (int index = static_cast<int>(blockIdx.x) / f.blocks; index < f.jobs; index += f.teams) {
        const RnnJob<S> job(f, index, 0);
        if (job.steps == 0) continue;
        if (job.head != head) load_weights(f, job, weights);
        head = job.head;
        const uint32_t end = turn + static_cast<uint32_t>(steps(job));
        for (; turn + (last ? 0 : 1) != end; ++turn) {
            team_multiply<X>(weights, vectors[0], turn, 0, shared);
            team_multiply<X>(weights, vectors[1], turn, 1, shared);
        }
        turn = end;
    }
}

}  // namespace flashscan::cuda
