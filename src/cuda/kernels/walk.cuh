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

    // U steps of V channels.
    struct Group {
        GateWide raw[U][V];  // gates as given
        Wide x[U][V];
        Wide h[U][V];  // backward
    };

    // Elements of T that one access takes: 16 bytes, or all that lie together.
    template <typename T>
    static constexpr int vector_length = 16 / static_cast<int>(sizeof(T)) < (Shape::TimeInner ? U : V)
                                             ? 16 / static_cast<int>(sizeof(T))
                                             : (Shape::TimeInner ? U : V);

    // Offset of the k-th element of a group that starts at `first`, and at `start` in shared memory.
    template <typename T>
    static __device__ __forceinline__ int offset_of(const LaneTile<Shape, T>& tile, int first, int start, int k) {
        if constexpr (Shape::TimeInner) return tile.at(first + k);
        return start + k / V * tile.pitch + k % V * static_cast<int>(sizeof(T));
    }

    template <typename T>
    static __device__ __forceinline__ void read(const LaneTile<Shape, T>& tile, int first,
                                                typename Element<T>::Wide (&out)[U][V]) {
        constexpr int n = vector_length<T>;
        const int start = tile.at(first);
#pragma unroll
        for (int k = 0; k < U * V; k += n) {
            const int offset = offset_of(tile, first, start, k);
            const auto vector = *reinterpret_cast<const Vector<T, n>*>(shared_memory() + offset);
#pragma unroll
            for (int i = 0; i < n; ++i) out[(k + i) / V][(k + i) % V] = Element<T>::widen(vector.value[i]);
        }
    }

    template <typename T>
    static __device__ __forceinline__ void write(const LaneTile<Shape, T>& tile, int first,
                                                 const typename Element<T>::Wide (&in)[U][V]) {
        constexpr int n = vector_length<T>;
        const int start = tile.at(first);
#pragma unroll
        for (int k = 0; k < U * V; k += n) {
            Vector<T, n> vector;
#pragma unroll
            for (int i = 0; i < n; ++i) vector.value[i] = Element<T>::narrow(in[(k + i) / V][(k + i) % V]);
            *reinterpret_cast<Vector<T, n>*>(shared_memory() + offset_of(tile, first, start, k)) = vector;
        }
    }

    template <bool WithStates>
    __device__ __forceinline__ void read_group(const Tiles& tiles, int first, Group& group) const {
        read<G>(tiles.gate, first, group.raw);
        read<X>(tiles.source, first, group.x);
        if (WithStates && p.states.data != nullptr) read<X>(tiles.states, first, group.h);
    }

    // The values of a group's gates. Steps that do not exist become the identity.
    __device__ __forceinline__ void gates_of(const Lane& lane, int first, Group& group, GateWide (&a)[U][V]) const {
#pragma unroll
        for (int u = 0; u < U; ++u)
#pragma unroll
            for (int v = 0; v < V; ++v) a[u][v] = group.raw[u][v];
        if (p.gate_form != gate_value) {
#pragma unroll
            for (int u = 0; u < U; ++u)
#pragma unroll
                for (int v = 0; v < V; ++v) a[u][v] = gate_value_of(p.gate_form, group.raw[u][v]);
        }
        if (first + U > lane.steps) {
#pragma unroll
            for (int u = 0; u < U; ++u)
#pragma unroll
                for (int v = 0; v < V; ++v)
                    if (first + u >= lane.steps) a[u][v] = one(GateWide{}), group.x[u][v] = Wide{};
        }
    }

    // Calls process(first step, group, h beyond the group) for the groups of U steps in the order of the walk; `edge`
    // is h beyond the lane's last. Without events the next group is read before one is processed, to hide the latency
    // of shared memory.
    template <bool Events, bool WithStates, typename Process>
    __device__ __forceinline__ void for_groups(const Lane& lane, const Tiles& tiles, Wide edge,
                                               Process&& process) const {
        const int groups = (lane.steps + U - 1) / U;
        const auto first = [&](int n) { return (Down ? groups - 1 - n : n) * U; };
        Group one_group, other;
        const auto beyond = [&](const Group& next, bool more) {
            return WithStates && Shape::TimeInner && more ? next.h[Down ? U - 1 : 0][0] : edge;
        };
        if (groups > 0) read_group<WithStates>(tiles, first(0), one_group);
        if constexpr (Events) {
#pragma unroll 1
            for (int n = 0; n < groups; ++n) {
                const bool more = n + 1 < groups;
                if (more) read_group<WithStates>(tiles, first(n + 1), other);
                process(first(n), one_group, beyond(other, more));
                one_group = other;
            }
        } else {
#pragma unroll 1
            for (int n = 0; n < groups; n += 2) {
                const bool more = n + 1 < groups, still_more = n + 2 < groups;
                if (more) read_group<WithStates>(tiles, first(n + 1), other);
                process(first(n), one_group, beyond(other, more));
                if (!more) break;
                if (still_more) read_group<WithStates>(tiles, first(n + 2), one_group);
                process(first(n + 1), other, beyond(one_group, still_more));
            }
        }
    }

    // Steps past the end are the identity already; but for complex gates (1 + 0i) inf is NaN.
    static __device__ __forceinline__ bool skips(const Lane& lane, int step) {
        return Ty::complex_gate && step >= lane.steps;
    }

    static __device__ __forceinline__ int event_at(const Lane& lane, int step) {
        return step < lane.steps ? static_cast<uint8_t>(shared_memory()[lane.events + step]) : 0;
    }

    // Calls body(u, event) for the steps of a group in the order of the walk.
    template <bool Events, typename Body>
    static __device__ __forceinline__ void for_steps(const Lane& lane, int first, Body&& body) {
#pragma unroll
        for (int k = 0; k < U; ++k) {
            const int u = Down ? U - 1 - k : k;
            if (!skips(lane, first + u)) body(u, Events ? event_at(lane, first + u) : 0);
        }
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
        for_groups<Events, false>(lane, tiles, Wide{}, [&](int first, Group& group, Wide) {
            GateWide a[U][V];
            gates_of(lane, first, group, a);
            for_steps<Events>(lane, first, [&](int u, int event) {
#pragma unroll
                for (int v = 0; v < V; ++v) summarize_step(lane, first + u, v, event, a[u][v], group.x[u][v], m[v]);
            });
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
        for_groups<Events, false>(lane, tiles, Wide{}, [&](int first, Group& group, Wide) {
            GateWide a[U][V];
            gates_of(lane, first, group, a);
            for_steps<Events>(lane, first, [&](int u, int event) {
#pragma unroll
                for (int v = 0; v < V; ++v) {
                    if (event != 0 && begins(event)) h[v] = injected(lane, first + u, v);
                    h[v] = (event & event_reset) != 0 ? group.x[u][v] : multiply_add(a[u][v], h[v], group.x[u][v]);
                    group.x[u][v] = h[v];
                    if ((event & end_edge) != 0) leave(lane, first + u, v, h[v]);
                }
            });
            write<X>(tiles.source, first, group.x);
        });
    }

    // Walks with carry c in and out. `edge` is h beyond the lane's last walked step (time innermost only). The gate's
    // gradient, where h is there, goes to the tile, or to `sink(step, v, value)` for broadcast gates.
    template <bool Events, typename Sink>
    __device__ __forceinline__ void backward(const Lane& lane, const Tiles& tiles, Wide edge, Wide (&c)[V],
                                             Sink&& sink) const {
        for_groups<Events, true>(lane, tiles, edge, [&](int first, Group& group, Wide beyond) {
            GateWide a[U][V];
            gates_of(lane, first, group, a);
            for_steps<Events>(lane, first, [&](int u, int event) {
#pragma unroll
                for (int v = 0; v < V; ++v) {
                    if (event != 0 && begins(event)) c[v] = injected(lane, first + u, v);
                    const Wide g = group.x[u][v] + c[v];
                    group.x[u][v] = g;
                    c[v] = (event & event_reset) != 0 ? Wide{} : conj(a[u][v]) * g;
                    if ((event & end_edge) != 0) leave(lane, first + u, v, c[v]);
                }
            });
            write<X>(tiles.source, first, group.x);
            if (p.states.data == nullptr) return;
            if constexpr (Shape::TimeInner) shift_states(group, beyond);
            gate_gradient<Events>(lane, first, a, group);
            if (p.partial == nullptr) return write<G>(tiles.gate, first, group.raw);
#pragma unroll
            for (int u = 0; u < U; ++u)
#pragma unroll
                for (int v = 0; v < V; ++v)
                    if (first + u < lane.steps) sink(first + u, v, group.raw[u][v]);
        });
    }

    // Time innermost: moves h, as it lies in the tensor, to the steps that follow it.
    static __device__ __forceinline__ void shift_states(Group& group, Wide beyond) {
        if constexpr (Down) {
#pragma unroll
            for (int u = U - 1; u > 0; --u) group.h[u][0] = group.h[u - 1][0];
            group.h[0][0] = beyond;
        } else {
#pragma unroll
            for (int u = 0; u < U - 1; ++u) group.h[u][0] = group.h[u + 1][0];
            group.h[U - 1][0] = beyond;
        }
    }

    // With g in x and h before each step in h: the gradients of the gates as given, in raw.
    template <bool Events>
    __device__ __forceinline__ void gate_gradient(const Lane& lane, int first, const GateWide (&a)[U][V],
                                                  Group& group) const {
        if constexpr (Events) {
#pragma unroll
            for (int u = 0; u < U; ++u)
                if ((event_at(lane, first + u) & end_edge) != 0) {
#pragma unroll
                    for (int v = 0; v < V; ++v) group.h[u][v] = before_first(lane, first + u, v);
                }
        }
        if (p.gate_form != gate_value) {
#pragma unroll
            for (int u = 0; u < U; ++u)
#pragma unroll
                for (int v = 0; v < V; ++v)
                    group.h[u][v] = gate_derivative(p.gate_form, group.raw[u][v], a[u][v]) * group.h[u][v];
        }
#pragma unroll
        for (int u = 0; u < U; ++u) {
            const bool reset = Events && (event_at(lane, first + u) & event_reset) != 0;
#pragma unroll
            for (int v = 0; v < V; ++v)
                group.raw[u][v] = reset ? GateWide{} : gate_part<GateWide>(group.x[u][v] * conj(group.h[u][v]));
        }
    }
};

}  // namespace flashscan::cuda
