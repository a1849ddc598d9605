// SPDX-License-Identifier: Apache-2.0
// The states that a walk needs beside its carry: initial and final states of packed sequences, and, backward, h before
// each step.
#pragma once

#include "cuda/device/tile/copies.cuh"
#include "cuda/device/tile/sequences.cuh"
#include "cuda/linear/params.h"

namespace flashscan::cuda {

// The state of the packed sequence that holds the kernel's step t, in an array [sequence, row]. These functions are not
// inlined because they are rarely called.
template <typename Wide>
__device__ __noinline__ Wide load_sequence_state(const void* states, const SequenceOffsets& offsets, int64_t t,
                                                 int64_t rows, int64_t row) {
    return static_cast<const Wide*>(states)[find_sequence(offsets, offsets.in_memory(t)) * rows + row];
}
template <typename Wide>
__device__ __noinline__ void store_sequence_state(void* states, const SequenceOffsets& offsets, int64_t t, int64_t rows,
                                                  int64_t row, Wide value) {
    static_cast<Wide*>(states)[find_sequence(offsets, offsets.in_memory(t)) * rows + row] = value;
}

// The states at the steps of a lane where packed sequences begin or end. They are loaded before its walks and stored
// after them, so that the loops over steps have no calls. They lie in local memory, since only lanes with such steps
// use any of it.
template <typename Ty, typename Shape, bool Backward>
struct SequenceStates {
    using Wide = typename Ty::Wide;
    Wide carry[Shape::L][Shape::V];  // which enters at a step where the walk enters a sequence, or leaves at its end
    Wide before[Backward ? Shape::L : 1][Shape::V];  // backward: h before the step at which the walk leaves a sequence
};
struct NoSequenceStates {};

// Supplies h before each step of a lane in the backward pass. With channels innermost `states` were loaded from one
// step earlier, so they are the answers. With time innermost `states` are those of the lane's own steps, so a step
// finds its answer one place further, and `edge` is the state beyond the lane's last place.
template <typename X, typename Shape, bool Down>
struct StatesBefore {
    using Wide = typename Element<X>::Wide;
    const Place& at;
    const Steps<X, Shape>& states;
    Wide edge;

    __device__ __forceinline__ Wide operator()(int i, int v) const {
        if constexpr (!Shape::time_inner) return states.get(i, v);
        const int neighbour = Down ? i - 1 : i + 1;
        if (neighbour < 0 || neighbour >= Shape::L) return edge;
        const Wide h = states.get(neighbour, 0);
        const bool beyond = Down ? i <= most_skew<Shape> && i == at.first : neighbour == at.steps;
        return beyond ? edge : h;
    }
    // Whether a neighbouring lane of the warp holds the edge; and the edge as that lane holds it.
    static __device__ __forceinline__ bool is_held(const LinearParams& p, const Place& at) {
        return Down ? at.segment > 0
                    : at.segment < at.segments() - 1 && at.steps == Shape::L && at.t0 + Shape::L < p.time;
    }
    static __device__ __forceinline__ Wide held_edge(const Place& at, const Steps<X, Shape>& states) {
        return shuffle(states.get(Down ? Shape::L - 1 : 0, 0), Down ? at.lane - 1 & 31 : at.lane + 1 & 31);
    }
    // Loads the edge from memory. Beyond an unpacked row it is STATE_IN; that of a packed sequence is taken where the
    // sequence ends (events.cuh).
    static __device__ __forceinline__ Wide load_edge(const LinearParams& p, const Place& at) {
        const int64_t t = Down ? at.t0 - 1 : at.t0 + at.steps;
        if (at.steps <= 0) return {};
        if (t < 0 || t >= p.time) {
            const bool given = p.state_in != nullptr && p.offsets.data == nullptr;
            return given ? static_cast<const Wide*>(p.state_in)[at.batch * p.rows + at.row] : Wide{};
        }
        Steps<X, Shape> one{};
        load_element<X>(p.states.data + at.batch * p.states.batch + at.row * p.states.row + t * p.states.time,
                        one.word);
        return one.get(0, 0);
    }
};

}  // namespace flashscan::cuda
