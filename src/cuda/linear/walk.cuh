// SPDX-License-Identifier: Apache-2.0
// The recurrence itself: one lane's walk over the steps that it holds in registers.
//
//   forward    h' = a h + x                              h takes the place of x
//   backward   g = d + c, c' = conj(a) g, from the last step to the first in the order of computation
//              g takes the place of d, and g conj(h_before da/dg) that of the gate
//
// Either way one number, h or c, is carried from step to step through an affine map, so a run of steps is summarised as
// (product of the gates, result for a carry of zero): `summarize`. Walks go with time or against it (Down: against the
// order of memory). Steps that do not exist have a gate of 1 and zeros, which is the identity. Loops are compiled for
// several cases (Kind), so that warps without events (events.cuh), and gates given by value, do without the code for
// them.
#pragma once

#include "cuda/device/scan/segments.cuh"
#include "cuda/device/tile/copies.cuh"
#include "cuda/linear/events.cuh"
#include "cuda/linear/states.cuh"

namespace flashscan::cuda {

// The cases that the loops over steps are compiled for. A cut is an event that needs no state of a packed sequence: a
// reset, the begin or end of a packed sequence without states, or the first step of an unpacked row with STATE_IN in
// backward. Events with states of packed sequences take Kind::general.
enum class Kind {
    plain,      // gates by value, no events
    forms,      // log or logit gates, no events
    logs,       // log gates of 16 bits, no events; then `forms` is for logit gates alone
    cuts,       // gates by value, with cuts
    form_cuts,  // log or logit gates whose values tiles hold (Walk::holds_values), with cuts
    general     // any gates and any events
};

// Calls f with the kind of a warp's steps as a compile-time constant, of a problem that has gates by value and no
// states of packed sequences.
template <typename F>
__device__ __forceinline__ void with_value_kind(bool events, F&& f) {
    if (events)
        f(std::integral_constant<Kind, Kind::cuts>{});
    else
        f(std::integral_constant<Kind, Kind::plain>{});
}

// The carry of the backward recurrence, c = conj(a) g, between two steps of a lane. Where gates are real the product is
// left to the next step, whose g is d + c in one rounding. Every kernel rounds in this way, whatever stands between its
// steps, so that a row has the same bits in all of them.
template <typename Ty>
struct BackwardCarry {
    using Wide = typename Ty::Wide;
    using GateWide = typename Ty::GateWide;
    Wide value;  // c, or g where `gate` is to be multiplied with it
    GateWide gate{};
    bool product = false, dropped = false;

    __device__ __forceinline__ Wide added_to(Wide d) const {
        if (dropped) return d;
        if constexpr (!Ty::complex_gate)
            if (product) return multiply_add(gate, value, d);
        return d + value;
    }
    __device__ __forceinline__ Wide number() const {
        if (dropped) return Wide{};
        return product ? multiply(gate, value) : value;
    }
    // Sets the carry to conj(a) g, or to nothing.
    __device__ __forceinline__ void leave_step(GateWide a, Wide g, bool drop) {
        if constexpr (Ty::complex_gate)
            *this = {drop ? Wide{} : multiply(conj(a), g)};
        else
            *this = {g, a, true, drop};
    }
};

// The loops over the steps of one lane. Where Packed is false, there are no states of packed sequences.
template <typename Ty_, typename Shape_, bool Down_, bool Backward_, bool Packed = true>
struct Walk {
    using Ty = Ty_;
    using Shape = Shape_;
    static constexpr bool Down = Down_, Backward = Backward_;
    using X = typename Ty::X;
    using G = typename Ty::G;
    using Wide = typename Ty::Wide;
    using GateWide = typename Ty::GateWide;
    using Map = typename Ty::Map;
    static constexpr int L = Shape::L, V = Shape::V;

    const LinearParams& p;
    const Place& at;
    const Events<L>& events;
    std::conditional_t<Packed, SequenceStates<Ty, Shape, Backward>&, NoSequenceStates> sequences;

    // Whether a tile holds values in the place of log and logit gates, so that each is computed once. 16-bit gates have
    // no room for theirs; backward, where the derivative is wanted too, complex gates have none.
    static constexpr bool holds_values = std::is_same_v<G, GateWide> && !(Backward && Ty::complex_gate);
    static constexpr bool holds_all = holds_values && !Backward;  // and loops need not know how gates were given

    // Calls f with the kind of a warp's steps, of a problem without states of packed sequences, and, unless the tile
    // holds_values, without events where gates are not given by value.
    template <typename F>
    static __device__ __forceinline__ void with_kind(const LinearParams& p, bool events, F&& f) {
        // In f64 the functions of log and logit gates are calls, for which one loop is enough.
        constexpr bool logs_apart = !holds_values && std::is_same_v<GateWide, float>;
        constexpr Kind of_logs = logs_apart ? Kind::logs : Kind::forms;
        constexpr Kind with_events = holds_values ? Kind::form_cuts : Kind::cuts;
        if (holds_all || p.gate_form == gate_value)
            with_value_kind(events, f);
        else if constexpr (!holds_all) {
            if (events)
                f(std::integral_constant<Kind, with_events>{});
            else if (logs_apart && p.gate_form == gate_log)
                f(std::integral_constant<Kind, of_logs>{});
            else
                f(std::integral_constant<Kind, Kind::forms>{});
        }
    }
    // Whether a warp with events needs the general loop.
    static __device__ __forceinline__ bool needs_general(const LinearParams& p) {
        const bool states =
            p.carry_in != nullptr || p.carry_out != nullptr || (p.offsets.data != nullptr && p.state_in != nullptr);
        return states || (!holds_all && p.gate_form != gate_value);
    }
    // Calls f with the kind of a warp that has events, for the kernel "chunked". States of sequences take the general
    // loop, and so do log and logit gates unless the tile holds_all.
    template <typename F>
    static __device__ __forceinline__ void with_event_kind(const LinearParams& p, F&& f) {
        if (needs_general(p))
            f(std::integral_constant<Kind, Kind::general>{});
        else
            f(std::integral_constant<Kind, Kind::cuts>{});
    }

    // Replaces log and logit gates by their values if the tile holds_values. Must be called before complete(), which
    // fills in gates of value 1, and before the loops.
    static __device__ __forceinline__ void hold(const LinearParams& p, Steps<G, Shape>& gate) {
        if constexpr (holds_values) {
            const auto replace = [&](auto&& held) {
#pragma unroll
                for (int i = 0; i < L; ++i)
#pragma unroll
                    for (int v = 0; v < V; ++v) gate.set(i, v, held(gate.get(i, v)));
            };
            if (p.gate_form == gate_log) replace([](GateWide g) { return gate_of(gate_log, g); });
            if (p.gate_form == gate_logit)
                replace([](GateWide g) {
                    if constexpr (Backward)
                        return held_logit(g);
                    else
                        return gate_of(gate_logit, g);
                });
        }
    }
    // Gives steps past the lane's last one a gate of value 1.
    static __device__ __forceinline__ void complete(const LinearParams& p, const Place& at, Steps<G, Shape>& gate) {
        if (at.steps >= L) return;
        const GateWide open = holds_values ? one(GateWide{}) : open_gate<GateWide>(p.gate_form);
#pragma unroll
        for (int i = 0; i < L; ++i)
#pragma unroll
            for (int v = 0; v < V; ++v)
                if (i >= at.steps) gate.set(i, v, open);
    }

    // The form of gates that the tile holds as they are given, as a constant where the kind determines it.
    template <Kind kind>
    __device__ __forceinline__ int form() const {
        if constexpr (kind == Kind::logs) return gate_log;
        if constexpr (kind == Kind::forms && std::is_same_v<GateWide, float>) return gate_logit;
        return p.gate_form;
    }
    // Whether steps of a kind have log or logit gates.
    template <Kind kind>
    __device__ __forceinline__ bool has_form() const {
        if constexpr (holds_all || kind == Kind::plain || kind == Kind::cuts) return false;
        return kind != Kind::general || p.gate_form != gate_value;
    }
    template <Kind kind>
    __device__ __forceinline__ GateWide gate_value_of(GateWide g) const {
        if (!has_form<kind>()) return g;
        if constexpr (holds_values && Backward)
            return value_of_held(g);
        else
            return gate_of(form<kind>(), g);
    }
    // The derivative of a gate that has_form and the value a.
    template <Kind kind>
    __device__ __forceinline__ GateWide derivative_of(GateWide g, GateWide a) const {
        if constexpr (holds_values)
            return derivative_of_held(p.gate_form, g);
        else
            return gate_derivative(form<kind>(), g, a);
    }
    __device__ __forceinline__ bool exists(int i) const {
        return (i >= most_skew<Shape> || i >= at.first) && i < at.steps;
    }
    // Calls body(i) for the lane's steps in the order of the walk. For complex gates (1 + 0i) inf is NaN, so steps that
    // do not exist are left out; kernels without states of packed sequences have a loop without conditions beside that.
    template <typename Body>
    __device__ __forceinline__ void for_steps(Body&& body) const {
        const auto for_all = [&](auto&& take) {
#pragma unroll
            for (int k = 0; k < L; ++k) take(Down ? L - 1 - k : k);
        };
        if (!Ty::complex_gate || (!Packed && at.steps >= L && (most_skew<Shape> == 0 || at.first <= 0)))
            for_all(body);
        else if constexpr (Ty::complex_gate)
            for_all([&](int i) {
                if (exists(i)) body(i);
            });
    }

    template <Kind kind>
    static constexpr bool has_cuts = kind == Kind::cuts || kind == Kind::form_cuts;
    template <Kind kind>
    static constexpr bool has_events = kind == Kind::general || has_cuts<kind>;

    // h before the first step of an unpacked row, for the lane that holds that step.
    __device__ __forceinline__ Wide before_row(int v) const {
        if (events.end == 0 || p.offsets.data != nullptr || p.state_in == nullptr || v >= at.rows) return Wide{};
        return static_cast<const Wide*>(p.state_in)[at.batch * p.rows + at.row + v];
    }
    // Calls body(step, v) for each row at each step of a mask.
    template <typename Body>
    __device__ __forceinline__ void for_events(typename Events<L>::Mask mask, Body&& body) const {
#pragma unroll 1
        for (int step = 0; mask != 0; ++step, mask >>= 1) {
            if ((mask & 1) == 0) continue;
#pragma unroll 1
            for (int v = 0; v < at.rows; ++v) body(step, v);
        }
    }
    // Loads the carries that enter sequences and, backward, the states before their first steps in the recurrence. Must
    // come before the loops of Kind::general.
    __device__ __forceinline__ void load_sequences() const {
        for_events(events.begin, [&](int step, int v) {
            sequences.carry[step][v] =
                p.carry_in == nullptr
                    ? Wide{}
                    : load_sequence_state<Wide>(p.carry_in, p.offsets, at.t0 + step, p.rows, at.row + v);
        });
        if constexpr (Backward)
            for_events(events.end, [&](int step, int v) {
                sequences.before[step][v] =
                    p.state_in == nullptr ? Wide{}
                    : p.offsets.data == nullptr
                        ? before_row(v)
                        : load_sequence_state<Wide>(p.state_in, p.offsets, at.t0 + step, p.rows, at.row + v);
            });
    }
    // Stores what leaves sequences, after the walk.
    __device__ __forceinline__ void store_sequences() const {
        if (p.carry_out == nullptr) return;
        for_events(events.end, [&](int step, int v) {
            store_sequence_state<Wide>(p.carry_out, p.offsets, at.t0 + step, p.rows, at.row + v,
                                       sequences.carry[step][v]);
        });
    }

    // For kinds that have cuts: forward the steps before which the carry is dropped, backward those after which it is.
    // Backward, the begin of a sequence drops the carry after the step that the walk took just before.
    __device__ __forceinline__ typename Events<L>::Mask cuts() const {
        if (!Backward) return events.begin | events.reset;
        return events.reset | (Down ? events.begin << 1 : events.begin >> 1);
    }
    // Whether a sequence begins at the lane's first step of the backward walk, so that the carry into it is dropped.
    __device__ __forceinline__ bool cut_at_start() const {
        return Backward && at.steps > 0 && events.at(events.begin, Down ? at.steps - 1 : 0);
    }

    // Composes the summary of the lane's steps: m maps the carry before them to the carry after them.
    template <Kind kind>
    __device__ __forceinline__ void summarize(const Steps<G, Shape>& gate, const Steps<X, Shape>& source,
                                              Map (&m)[V]) const {
        const auto cut = cuts();
        BackwardCarry<Ty> carry[V];
#pragma unroll
        for (int v = 0; v < V; ++v) {
            m[v] = Ty::identity();
            m[v].cut = has_cuts<kind> && (cut != 0 || cut_at_start());
            carry[v] = {Wide{}};
        }
        for_steps([&](int i) {
#pragma unroll
            for (int v = 0; v < V; ++v) {
                const GateWide a = gate_value_of<kind>(gate.get(i, v));
                const Wide x = source.get(i, v);
                if constexpr (kind == Kind::general) {
                    if (events.at(events.begin, i)) {
                        m[v] = {a, sequences.carry[i][v], true};
                        carry[v] = {m[v].x};
                    }
                    if (events.at(events.reset, i)) {
                        m[v] = {a, x, true};
                        carry[v] = {Wide{}};
                        continue;
                    }
                }
                const bool drop = has_cuts<kind> && events.at(cut, i);
                if constexpr (Backward) {
                    carry[v].leave_step(a, carry[v].added_to(x), drop);
                    m[v].a = multiply(conj(a), m[v].a);
                } else {
                    m[v].x = drop ? x : multiply_add(a, m[v].x, x);
                    m[v].a = multiply(a, m[v].a);
                }
            }
        });
        if constexpr (Backward)
#pragma unroll
            for (int v = 0; v < V; ++v) m[v].x = carry[v].number();
    }

    // Walks the lane's steps forward in the recurrence. h is the carry before them, then after them; source becomes
    // h[t].
    template <Kind kind>
    __device__ __forceinline__ void forward(const Steps<G, Shape>& gate, Steps<X, Shape>& source, Wide (&h)[V]) const {
        const auto cut = cuts();
        StepWriter<X, Shape, Down> writer{source};
        for_steps([&](int i) {
#pragma unroll
            for (int v = 0; v < V; ++v) {
                const GateWide a = gate_value_of<kind>(gate.get(i, v));
                const Wide x = source.get(i, v);
                if constexpr (kind == Kind::general) {
                    if (events.at(events.begin, i)) h[v] = sequences.carry[i][v];
                    h[v] = events.at(events.reset, i) ? x : multiply_add(a, h[v], x);
                    if (events.at(events.end, i)) sequences.carry[i][v] = h[v];
                } else {
                    h[v] = has_cuts<kind> && events.at(cut, i) ? x : multiply_add(a, h[v], x);
                }
            }
            writer.set(i, h);
        });
    }

    // Walks the lane's steps of the backward recurrence. c is the carry before them, then after them; source becomes
    // g[t]. before(i, v) supplies h before step i, first[v] is h before the row's first step. The gradients with
    // respect to the gates as given go to sink(i, values).
    template <Kind kind, typename Before, typename Sink>
    __device__ __forceinline__ void backward(const Steps<G, Shape>& gate, Steps<X, Shape>& source, Wide (&c)[V],
                                             const Wide (&first)[V], Before&& before, Sink&& sink) const {
        const auto cut = cuts();
        StepWriter<X, Shape, Down> writer{source};
        BackwardCarry<Ty> carry[V];
#pragma unroll
        for (int v = 0; v < V; ++v) carry[v] = {has_cuts<kind> && cut_at_start() ? Wide{} : c[v]};
        for_steps([&](int i) {
            Wide results[V];
            GateWide gate_gradients[V];
#pragma unroll
            for (int v = 0; v < V; ++v) {
                const GateWide a = gate_value_of<kind>(gate.get(i, v));
                Wide h = before(i, v);
                if constexpr (kind == Kind::general)
                    if (events.at(events.begin, i)) carry[v] = {sequences.carry[i][v]};
                if constexpr (kind == Kind::general) {
                    if (events.at(events.end, i)) h = sequences.before[i][v];
                } else if (has_events<kind> && events.at(events.end, i)) {
                    h = first[v];
                }
                const bool reset = has_events<kind> && events.at(events.reset, i);
                const Wide g = carry[v].added_to(source.get(i, v));
                carry[v].leave_step(a, g, has_cuts<kind> ? events.at(cut, i) : reset);
                if constexpr (kind == Kind::general)
                    if (events.at(events.end, i)) sequences.carry[i][v] = carry[v].number();
                results[v] = g;
                if (has_form<kind>()) h = derivative_of<kind>(gate.get(i, v), a) * h;
                gate_gradients[v] = reset ? GateWide{} : gate_part<GateWide>(multiply(g, conj(h)));
            }
            writer.set(i, results);
            sink(i, gate_gradients);
        });
#pragma unroll
        for (int v = 0; v < V; ++v) c[v] = carry[v].number();
    }
};

}  // namespace flashscan::cuda
