// SPDX-License-Identifier: Apache-2.0
// One lane's walk over its steps of a tile, which is the recurrence itself.
//
//   forward    h' = a h + x                              writes h over x
//   backward   g = d + c, c' = conj(a) g, from the last step to the first in the order of computation
//              writes g over d, and g conj(h_before da/dg) over the gate
//
// Both carry one number from step to step (h or c) through an affine map, so a run of steps is summarised as
// (product of the gates, result for a zero carry): `summarize`. Down walks against the order of memory.
// Steps that do not exist are made the identity, a = 1 and x = 0. Tiles without events take loops without their code.
#pragma once

#include "cuda/kernels/events.cuh"
#include "cuda/kernels/tile.cuh"

namespace flashscan::cuda {

// A lane's place in the problem.
struct Lane {
    int events;          // offset in shared memory of its segment's events
    int steps;           // of the lane that exist
    int64_t t0;          // its first step in memory
    int64_t batch, row;  // first of its V rows
    int rows;            // of its V rows that exist
};

// A lane's steps in the tiles of gate, source and, backward, h (time innermost: as it lies, channel innermost: shifted
// to h before each step).
template <typename Shape, typename X, typename G>
struct LaneTiles {
    LaneTile<Shape, G> gate;
    LaneTile<Shape, X> source, states;
};

// States at the edges of packed sequences: [sequence, row], the sequence being that of step t, searched from `from`.
// Out of line: they are rare.
template <typename Wide>
__device__ __noinline__ Wide load_sequence_state(const void* states, const SequenceOffsets& offsets, int64_t from,
                                                 int64_t t, int64_t rows, int64_t row) {
    while (load_offset(offsets, from + 1) <= t) ++from;
    return static_cast<const Wide*>(states)[from * rows + row];
}
template <typename Wide>
__device__ __noinline__ void store_sequence_state(void* states, const SequenceOffsets& offsets, int64_t from, int64_t t,
                                                  int64_t rows, int64_t row, Wide value) {
    while (load_offset(offsets, from + 1) <= t) ++from;
    static_cast<Wide*>(states)[from * rows + row] = value;
}

template <typename Ty_, typename Shape_, bool Down, bool Backward>
struct Walk {
    using Ty = Ty_;
    using Shape = Shape_;
    using X = typename Ty::X;
    using G = typename Ty::G;
    using Wide = typename Ty::Wide;
    using GateWide = typename Ty::GateWide;
    using Map = typename Ty::Map;
    using Tiles = LaneTiles<Shape, X, G>;
    static constexpr int U = Shape::U, V = Shape::V;
    static constexpr Event begin_edge = Down ? event_high_edge : event_low_edge;
    static constexpr Event end_edge = Down ? event_low_edge : event_high_edge;

    const LinearParams& p;
    const SequenceCursor& cursor;

    // Reads U steps of V channels from step `first` of the lane.
    template <typename T>
    static __device__ __forceinline__ void read(const LaneTile<Shape, T>& tile, int first,
                                                typename Element<T>::Wide (&out)[U][V]) {
        constexpr int n =
            Shape::TimeInner ? (16 / static_cast<int>(sizeof(T)) < U ? 16 / static_cast<int>(sizeof(T)) : U) : V;
#pragma unroll
        for (int k = 0; k < U * V; k += n) {
            const int offset = tile.at(first + k / V);
            const auto vector = *reinterpret_cast<const Vector<T, n>*>(shared_memory() + offset);
#pragma unroll
            for (int i = 0; i < n; ++i) out[(k + i) / V][(k + i) % V] = Element<T>::widen(vector.value[i]);
        }
    }

    template <typename T>
    static __device__ __forceinline__ void write(const LaneTile<Shape, T>& tile, int first,
                                                 const typename Element<T>::Wide (&in)[U][V]) {
        constexpr int n =
            Shape::TimeInner ? (16 / static_cast<int>(sizeof(T)) < U ? 16 / static_cast<int>(sizeof(T)) : U) : V;
#pragma unroll
        for (int k = 0; k < U * V; k += n) {
            const int offset = tile.at(first + k / V);
            Vector<T, n> vector;
#pragma unroll
            for (int i = 0; i < n; ++i) vector.value[i] = Element<T>::narrow(in[(k + i) / V][(k + i) % V]);
            *reinterpret_cast<Vector<T, n>*>(shared_memory() + offset) = vector;
        }
    }

    // Gates and sources of U steps; `raw` are the gates as given.
    __device__ __forceinline__ void read_group(const Lane& lane, const Tiles& tiles, int first, GateWide (&raw)[U][V],
                                               GateWide (&a)[U][V], Wide (&x)[U][V]) const {
        read<G>(tiles.gate, first, raw);
        read<X>(tiles.source, first, x);
#pragma unroll
        for (int u = 0; u < U; ++u)
#pragma unroll
            for (int v = 0; v < V; ++v) a[u][v] = raw[u][v];
        if (p.gate_form != gate_value) {
#pragma unroll
            for (int u = 0; u < U; ++u)
#pragma unroll
                for (int v = 0; v < V; ++v) a[u][v] = gate_value_of(p.gate_form, raw[u][v]);
        }
        if (first + U > lane.steps) {
#pragma unroll
            for (int u = 0; u < U; ++u)
#pragma unroll
                for (int v = 0; v < V; ++v)
                    if (first + u >= lane.steps) a[u][v] = one(GateWide{}), x[u][v] = Wide{};
        }
    }

    // Calls body(first step of the group) for the groups of U steps in the order of the walk.
    template <typename Body>
    static __device__ __forceinline__ void for_groups(const Lane& lane, Body&& body) {
        const int groups = (lane.steps + U - 1) / U;
#pragma unroll 1
        for (int n = 0; n < groups; ++n) body((Down ? groups - 1 - n : n) * U);
    }

    static __device__ __forceinline__ int event_at(const Lane& lane, int step) {
        return step < lane.steps ? static_cast<uint8_t>(shared_memory()[lane.events + step]) : 0;
    }

    __device__ __forceinline__ Wide load_edge_carry(int64_t batch, int v, const Lane& lane) const {
        if (p.edge_in == nullptr || v >= lane.rows) return Wide{};
        return static_cast<const Wide*>(p.edge_in)[batch * p.rows + lane.row + v];
    }
    // The carry that enters at a begin edge of a packed sequence.
    __device__ __forceinline__ Wide injected(const Lane& lane, int step, int v) const {
        if (p.carry_in == nullptr || v >= lane.rows) return Wide{};
        return load_sequence_state<Wide>(p.carry_in, p.offsets, cursor.n, lane.t0 + step, p.rows, lane.row + v);
    }
    __device__ __forceinline__ void leave(const Lane& lane, int step, int v, Wide carry) const {
        if (p.carry_out == nullptr || v >= lane.rows) return;
        store_sequence_state<Wide>(p.carry_out, p.offsets, cursor.n, lane.t0 + step, p.rows, lane.row + v, carry);
    }
    // h before the first step of a sequence.
    __device__ __forceinline__ Wide before_first(const Lane& lane, int step, int v) const {
        if (p.state_in == nullptr || v >= lane.rows) return Wide{};
        if (p.offsets.data == nullptr) return static_cast<const Wide*>(p.state_in)[lane.batch * p.rows + lane.row + v];
        return load_sequence_state<Wide>(p.state_in, p.offsets, cursor.n, lane.t0 + step, p.rows, lane.row + v);
    }
    __device__ __forceinline__ bool begins(int event) const {
        return p.offsets.data != nullptr && (event & begin_edge) != 0;
    }

    template <bool Events>
    __device__ __forceinline__ void summarize(const Lane& lane, const Tiles& tiles, Map (&m)[V]) const {
#pragma unroll
        for (int v = 0; v < V; ++v) m[v] = Ty::identity();
        for_groups(lane, [&](int first) {
            GateWide raw[U][V], a[U][V];
            Wide x[U][V];
            read_group(lane, tiles, first, raw, a, x);
#pragma unroll
            for (int k = 0; k < U; ++k) {
                const int u = Down ? U - 1 - k : k;
                const int event = Events ? event_at(lane, first + u) : 0;
#pragma unroll
                for (int v = 0; v < V; ++v) summarize_step(lane, first + u, v, event, a[u][v], x[u][v], m[v]);
            }
        });
    }

    __device__ __forceinline__ void summarize_step(const Lane& lane, int step, int v, int event, GateWide a, Wide x,
                                                   Map& m) const {
        if (event != 0) {
            if (begins(event)) m = {a, injected(lane, step, v), true};
            if ((event & event_reset) != 0) {
                m = {a, Backward ? Wide{} : x, true};
                return;
            }
        }
        if constexpr (Backward) {
            m.x = conj(a) * (x + m.x);
            m.a = conj(a) * m.a;
        } else {
            m.x = multiply_add(a, m.x, x);
            m.a = a * m.a;
        }
    }

    // Walks with carry h in and out; results stay in the tile.
    template <bool Events>
    __device__ __forceinline__ void forward(const Lane& lane, const Tiles& tiles, Wide (&h)[V]) const {
        for_groups(lane, [&](int first) {
            GateWide raw[U][V], a[U][V];
            Wide x[U][V];
            read_group(lane, tiles, first, raw, a, x);
#pragma unroll
            for (int k = 0; k < U; ++k) {
                const int u = Down ? U - 1 - k : k;
                const int event = Events ? event_at(lane, first + u) : 0;
#pragma unroll
                for (int v = 0; v < V; ++v) {
                    if (event != 0 && begins(event)) h[v] = injected(lane, first + u, v);
                    h[v] = (event & event_reset) != 0 ? x[u][v] : multiply_add(a[u][v], h[v], x[u][v]);
                    x[u][v] = h[v];
                    if ((event & end_edge) != 0) leave(lane, first + u, v, h[v]);
                }
            }
            write<X>(tiles.source, first, x);
        });
    }

    // Walks with carry c in and out. `edge` is h beyond the lane's last walked step (time innermost only). The gate's
    // gradient, where h is there, goes to the tile, or to `sink(step, v, value)` for broadcast gates.
    template <bool Events, typename Sink>
    __device__ __forceinline__ void backward(const Lane& lane, const Tiles& tiles, Wide edge, Wide (&c)[V],
                                             Sink&& sink) const {
        const bool gate_gradient = p.states.data != nullptr, to_tile = p.partial == nullptr;
        Wide ahead[U][V];  // time innermost: h of the group walked next
        if (Shape::TimeInner && gate_gradient && lane.steps > 0)
            read<X>(tiles.states, Down ? (lane.steps - 1) / U * U : 0, ahead);
        for_groups(lane, [&](int first) {
            GateWide raw[U][V], a[U][V];
            Wide x[U][V], before[U][V];
            read_group(lane, tiles, first, raw, a, x);
            if (gate_gradient) read_before(lane, tiles, first, edge, ahead, before);
#pragma unroll
            for (int k = 0; k < U; ++k) {
                const int u = Down ? U - 1 - k : k;
                const int event = Events ? event_at(lane, first + u) : 0;
#pragma unroll
                for (int v = 0; v < V; ++v) {
                    const GateWide gradient =
                        backward_step(lane, first + u, v, event, raw[u][v], a[u][v], x[u][v], before[u][v], c[v]);
                    if (!to_tile && gate_gradient && first + u < lane.steps) sink(first + u, v, gradient);
                    raw[u][v] = gradient;
                }
            }
            write<X>(tiles.source, first, x);
            if (to_tile && gate_gradient) write<G>(tiles.gate, first, raw);
        });
    }

    // h before each step of a group.
    __device__ __forceinline__ void read_before(const Lane& lane, const Tiles& tiles, int first, Wide edge,
                                                Wide (&ahead)[U][V], Wide (&before)[U][V]) const {
        if constexpr (!Shape::TimeInner) {
            read<X>(tiles.states, first, before);
        } else {
            constexpr int late = Down ? 0 : U - 1;  // the step whose predecessor is in the next group
#pragma unroll
            for (int u = 0; u < U; ++u)
                if (u != late) before[u][0] = ahead[Down ? u - 1 : u + 1][0];
            const int next = Down ? first - U : first + U;
            if (next >= 0 && next < lane.steps) {
                read<X>(tiles.states, next, ahead);
                before[late][0] = ahead[U - 1 - late][0];
            } else {
                before[late][0] = edge;
            }
        }
    }

    // x is d on entry and g on return; returns the gradient of the gate.
    __device__ __forceinline__ GateWide backward_step(const Lane& lane, int step, int v, int event, GateWide raw,
                                                      GateWide a, Wide& x, Wide before, Wide& c) const {
        if (event != 0) {
            if (begins(event)) c = injected(lane, step, v);
            if ((event & end_edge) != 0) before = before_first(lane, step, v);
        }
        const Wide g = x + c;
        const bool reset = (event & event_reset) != 0;
        GateWide gradient{};
        if (!reset) {
            const Wide d = p.gate_form == gate_value ? before : gate_derivative(p.gate_form, raw, a) * before;
            gradient = gate_part<GateWide>(g * conj(d));
        }
        x = g;
        c = reset ? Wide{} : conj(a) * g;
        if ((event & end_edge) != 0) leave(lane, step, v, c);
        return gradient;
    }
};

}  // namespace flashscan::cuda
