// SPDX-License-Identifier: Apache-2.0
// One lane's walk over its steps of a tile, which is the recurrence itself.
//
//   forward    h' = a h + x                              writes h over x
//   backward   g = d + c, c' = conj(a) g, from the last step to the first in the order of computation
//              writes g over d, and g conj(h_before da/dg) over the gate
//
// Both carry one number from step to step (h or c) through an affine map, so a run of steps is summarised as
// (product of the gates, result for a zero carry): `summarize`. Down walks against the order of memory.
// Steps that do not exist are made the identity, a = 1 and x = 0.
#pragma once

#include "cuda/kernels/events.cuh"
#include "cuda/kernels/tile.cuh"

namespace flashscan::cuda {

// A lane's place in the tile and in the problem.
struct Lane {
    char* gate;
    char* source;
    char* states;           // tile of h; time innermost: unshifted, channel innermost: h before each step
    const uint8_t* events;  // of the lane's segment; null when the tile has none
    int gate_step, source_step;
    int steps;           // of the lane that exist
    int64_t t0;          // its first step in memory
    int64_t batch, row;  // first of its V rows
    int rows;            // of its V rows that exist
    bool want_gate_gradient;
};

template <typename Ty_, typename Shape_, bool Down, bool Backward>
struct Walk {
    using Ty = Ty_;
    using Shape = Shape_;
    using X = typename Ty::X;
    using G = typename Ty::G;
    using Wide = typename Ty::Wide;
    using GateWide = typename Ty::GateWide;
    using Map = typename Ty::Map;
    static constexpr int U = Shape::U, V = Shape::V;
    static constexpr Event begin_edge = Down ? event_high_edge : event_low_edge;
    static constexpr Event end_edge = Down ? event_low_edge : event_high_edge;

    const LinearParams& p;
    const SequenceCursor& cursor;

    // Reads U steps of V channels from step `first` of the lane.
    template <typename T>
    static __device__ __forceinline__ void read(const char* lane, int step_bytes, int first,
                                                typename Element<T>::Wide (&out)[U][V]) {
        constexpr int n = Shape::TimeInner ? U : V;
#pragma unroll
        for (int u = 0; u < U * V / n; ++u) {
            const auto vector = *reinterpret_cast<const Vector<T, n>*>(lane + (first + u) * step_bytes);
#pragma unroll
            for (int k = 0; k < n; ++k) (n == U ? out[k][0] : out[u][k]) = Element<T>::widen(vector.value[k]);
        }
    }

    template <typename T>
    static __device__ __forceinline__ void write(char* lane, int step_bytes, int first,
                                                 const typename Element<T>::Wide (&in)[U][V]) {
        constexpr int n = Shape::TimeInner ? U : V;
#pragma unroll
        for (int u = 0; u < U * V / n; ++u) {
            Vector<T, n> vector;
#pragma unroll
            for (int k = 0; k < n; ++k) vector.value[k] = Element<T>::narrow(n == U ? in[k][0] : in[u][k]);
            *reinterpret_cast<Vector<T, n>*>(lane + (first + u) * step_bytes) = vector;
        }
    }

    // Gates and sources of U steps; `raw` are the gates as given.
    __device__ __forceinline__ void read_group(const Lane& lane, int first, GateWide (&raw)[U][V], GateWide (&a)[U][V],
                                               Wide (&x)[U][V]) const {
        read<G>(lane.gate, lane.gate_step, first, raw);
        read<X>(lane.source, lane.source_step, first, x);
        const int form = p.gate_form;
#pragma unroll
        for (int u = 0; u < U; ++u)
#pragma unroll
            for (int v = 0; v < V; ++v) a[u][v] = form == gate_value ? raw[u][v] : gate_value_of(form, raw[u][v]);
        if (first + U > lane.steps) {
#pragma unroll
            for (int u = 0; u < U; ++u)
#pragma unroll
                for (int v = 0; v < V; ++v)
                    if (first + u >= lane.steps) a[u][v] = one(GateWide{}), x[u][v] = Wide{};
        }
    }

    __device__ __forceinline__ Wide load_state(const void* states, int64_t index, int v, const Lane& lane) const {
        return v < lane.rows ? static_cast<const Wide*>(states)[index * p.rows + lane.row + v] : Wide{};
    }
    // The carry that enters at a begin edge of a packed sequence.
    __device__ __forceinline__ Wide injected(const Lane& lane, int step, int v) const {
        if (p.carry_in == nullptr) return Wide{};
        return load_state(p.carry_in, cursor.at(p.offsets, lane.t0 + step), v, lane);
    }
    __device__ __forceinline__ void leave(const Lane& lane, int step, int v, Wide carry) const {
        if (p.carry_out == nullptr || v >= lane.rows) return;
        static_cast<Wide*>(p.carry_out)[cursor.at(p.offsets, lane.t0 + step) * p.rows + lane.row + v] = carry;
    }
    // h before the first step of a sequence.
    __device__ __forceinline__ Wide before_first(const Lane& lane, int step, int v) const {
        if (p.state_in == nullptr) return Wide{};
        return load_state(p.state_in, p.offsets.data == nullptr ? lane.batch : cursor.at(p.offsets, lane.t0 + step), v,
                          lane);
    }
    __device__ __forceinline__ bool begins(int event) const {
        return p.offsets.data != nullptr && (event & begin_edge) != 0;
    }

    __device__ __forceinline__ void summarize(const Lane& lane, Map (&m)[V]) const {
#pragma unroll
        for (int v = 0; v < V; ++v) m[v] = Ty::identity();
        const int groups = (lane.steps + U - 1) / U;
        for (int n = 0; n < groups; ++n) {
            const int first = (Down ? groups - 1 - n : n) * U;
            GateWide raw[U][V], a[U][V];
            Wide x[U][V];
            read_group(lane, first, raw, a, x);
#pragma unroll
            for (int k = 0; k < U; ++k) {
                const int u = Down ? U - 1 - k : k;
                const int event = lane.events != nullptr && first + u < lane.steps ? lane.events[first + u] : 0;
#pragma unroll
                for (int v = 0; v < V; ++v) summarize_step(lane, first + u, v, event, a[u][v], x[u][v], m[v]);
            }
        }
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
    __device__ __forceinline__ void forward(const Lane& lane, Wide (&h)[V]) const {
        const int groups = (lane.steps + U - 1) / U;
        for (int n = 0; n < groups; ++n) {
            const int first = (Down ? groups - 1 - n : n) * U;
            GateWide raw[U][V], a[U][V];
            Wide x[U][V];
            read_group(lane, first, raw, a, x);
#pragma unroll
            for (int k = 0; k < U; ++k) {
                const int u = Down ? U - 1 - k : k;
                const int event = lane.events != nullptr && first + u < lane.steps ? lane.events[first + u] : 0;
#pragma unroll
                for (int v = 0; v < V; ++v) {
                    if (event != 0 && begins(event)) h[v] = injected(lane, first + u, v);
                    h[v] = (event & event_reset) != 0 ? x[u][v] : multiply_add(a[u][v], h[v], x[u][v]);
                    x[u][v] = h[v];
                    if ((event & end_edge) != 0) leave(lane, first + u, v, h[v]);
                }
            }
            write<X>(lane.source, lane.source_step, first, x);
        }
    }

    // Walks with carry c in and out. `edge` is h beyond the lane's last walked step (time innermost only). The gate's
    // gradient goes to the tile, or to `sink(step, v, value)` for broadcast gates.
    template <typename Sink>
    __device__ __forceinline__ void backward(const Lane& lane, Wide edge, Wide (&c)[V], bool to_tile,
                                             Sink&& sink) const {
        const int groups = (lane.steps + U - 1) / U;
        Wide ahead[U][V];  // time innermost: h of the group walked next
        if (Shape::TimeInner && lane.want_gate_gradient && groups > 0)
            read<X>(lane.states, lane.source_step, (Down ? groups - 1 : 0) * U, ahead);
        for (int n = 0; n < groups; ++n) {
            const int first = (Down ? groups - 1 - n : n) * U;
            GateWide raw[U][V], a[U][V];
            Wide x[U][V], before[U][V];
            read_group(lane, first, raw, a, x);
            if (lane.want_gate_gradient) read_before(lane, n, groups, edge, ahead, before);
#pragma unroll
            for (int k = 0; k < U; ++k) {
                const int u = Down ? U - 1 - k : k;
                const int event = lane.events != nullptr && first + u < lane.steps ? lane.events[first + u] : 0;
#pragma unroll
                for (int v = 0; v < V; ++v) {
                    GateWide gradient{};
                    backward_step(lane, first + u, v, event, raw[u][v], a[u][v], x[u][v], before[u][v], c[v], gradient);
                    if (!to_tile && lane.want_gate_gradient && first + u < lane.steps) sink(first + u, v, gradient);
                    raw[u][v] = gradient;
                }
            }
            write<X>(lane.source, lane.source_step, first, x);
            if (to_tile && lane.want_gate_gradient) write<G>(lane.gate, lane.gate_step, first, raw);
        }
    }

    // h before each step of the n-th walked group.
    __device__ __forceinline__ void read_before(const Lane& lane, int n, int groups, Wide edge, Wide (&ahead)[U][V],
                                                Wide (&before)[U][V]) const {
        const int first = (Down ? groups - 1 - n : n) * U;
        if constexpr (!Shape::TimeInner) {
            read<X>(lane.states, lane.source_step, first, before);
        } else {
            constexpr int late = Down ? 0 : U - 1;  // the step whose predecessor is in the next group
#pragma unroll
            for (int u = 0; u < U; ++u)
                if (u != late) before[u][0] = ahead[Down ? u - 1 : u + 1][0];
            if (n + 1 < groups) {
                read<X>(lane.states, lane.source_step, Down ? first - U : first + U, ahead);
                before[late][0] = ahead[U - 1 - late][0];
            } else {
                before[late][0] = edge;
            }
        }
    }

    // x is d on entry and g on return.
    __device__ __forceinline__ void backward_step(const Lane& lane, int step, int v, int event, GateWide raw,
                                                  GateWide a, Wide& x, Wide before, Wide& c, GateWide& gradient) const {
        if (event != 0) {
            if (begins(event)) c = injected(lane, step, v);
            if ((event & end_edge) != 0) before = before_first(lane, step, v);
        }
        const Wide g = x + c;
        const bool reset = (event & event_reset) != 0;
        if (lane.want_gate_gradient && !reset) {
            const Wide d = p.gate_form == gate_value ? before : gate_derivative(p.gate_form, raw, a) * before;
            gradient = gate_part<GateWide>(g * conj(d));
        }
        x = g;
        c = reset ? Wide{} : conj(a) * g;
        if ((event & end_edge) != 0) leave(lane, step, v, c);
    }
};

}  // namespace flashscan::cuda
