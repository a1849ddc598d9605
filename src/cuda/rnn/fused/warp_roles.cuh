// SPDX-License-Identifier: Apache-2.0
// Warp specialisation in a team's blocks, as producers and consumers: warps for products and warps for cells. They work
// on two tiles of rows, called shifts, alternately (ping-pong).
//
//     products    wait until the block has put a shift's vectors, load those of all blocks, multiply, store the sums
//     cells       wait for the sums of a shift, add them up, run the cells, put the vectors, store and load tensors
//
// A step of one shift is a chain of latencies. With two shifts and each warp in one role, products, cells and the
// exchange through L2 overlap. Each shift has two named barriers: one tells that sums are ready to be added, the other
// that vectors are put. The latter also tells that the sums of the turn before have been read, because a cell warp puts
// the vectors of a turn after it has read those sums.
#pragma once

#include "cuda/device/ptx/role_barrier.cuh"
#include "cuda/device/ptx/wgmma.cuh"
#include "cuda/rnn/fused/element.cuh"

namespace flashscan::cuda {

template <typename S>
struct TeamRoles {
    static __device__ __forceinline__ bool multiplies() { return threadIdx.x < S::product_threads; }
    // Threads that meet at the barriers of one shift.
    static constexpr int working = S::product_threads + 32 * S::cell_warps;
    // The shift that this cell warp works on; 2 for a warp that only fills up the last warpgroup and has no work.
    static __device__ __forceinline__ int shift() {
        return min((static_cast<int>(threadIdx.x) / 32 - S::product_threads / 32) / S::cell_warps, 2);
    }
    // Sets the registers of the thread from here on; on hardware without that, it keeps those of the launch.
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

// One turn of a product warp.
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

// The counterpart in a cell warp: takes the sums of its own elements.
template <typename S, typename Early, typename Late>
__device__ __forceinline__ void team_take_sums(const TeamVectors<S>& vectors, uint32_t turn, int shift,
                                               unsigned char* shared, Early early, Late late,
                                               float (&own)[S::own][S::gates]) {
    early();
    late();
    TeamRoles<S>::wait_for_sums(shift);
    add_sums<S>(team_partials(vectors, turn, shared, 0), own);
}

// The loop of a product warp over all jobs of its team. A job takes `steps(job)` turns, of which the last has a product
// only if `last`.
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
