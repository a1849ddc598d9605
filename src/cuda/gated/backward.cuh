// SPDX-License-Identifier: Apache-2.0
// The kernel "chunked" of gated layers, gated_backward: a chained scan from the last chunk to the first. Let v be the
// activated and gated input, e the gradient of h that comes from OUTPUT, and h[t-1] be read from OUTPUT, RESERVE or
// STATE_IN. Then
//
//     g[t] = e[t] + a[t+1] g[t+1]     the gradient of a is g (h[t-1] + v dm/da), that of v is g m
//
// and the gradients of gates and INPUT follow by the slopes of math/gated.h. Steps are counted from the layer's last to
// its first.
//
// Ownership  A lane has L steps of V channels (tile.cuh), a block has a chunk of steps.
// Passes     1. Lanes load all that they need for their steps and compute a and e.
//            2. The chunk is scanned (scan.cuh).
//            3. Lanes compute the slopes step by step, and store the gradients.
// Sums       The gradients of PARAM and BIAS are sums over batch and time. A block adds those of its lanes and warps in
//            order and stores one number for each channel; edges.cuh adds the numbers of blocks in order.
// Bytes      Every element of the named arrays moves once, h of a lane's first step twice, beside what chunks exchange
//            (scan.cuh).
// Bound      As forward.cuh.
// Sync       As in scan.cuh, and a __syncthreads for parameters of channels and for sums each.
// Limits     None where Plain is false.
#pragma once

#include "cuda/gated/channels.cuh"
#include "cuda/gated/scan.cuh"

namespace flashscan::cuda {

template <typename Shape, typename Parts, bool Plain, bool FewRows>
struct GatedBackward {
    using X = typename Shape::X;
    using R = typename Shape::R;
    using Tile = GatedTile<Shape, Plain>;
    using Elements = typename Tile::Elements;
    using Values = typename Tile::Values;
    using Scan = GatedScan<Shape, Plain, FewRows, Plain && Parts::bounded>;
    using Channels = GatedChannels<Shape>;
    using D = Formula<R, false, !Parts::has_root>;  // the numbers for the decay and its scale
    using F = Formula<R, false, true>;
    // Whether lanes keep numbers of the decay for pass 3.
    static constexpr bool keeps = Parts::named && std::is_same_v<R, float>;
    static constexpr bool has_sums = Parts::has_param || Parts::has_bias;
    // Whether lanes load h of their own steps, which with time innermost are aligned vectors and which an epilogue
    // needs, and h before their last step (the edge). Otherwise they load h before each of their steps.
    static constexpr bool holds_h = Plain && (Shape::by_time || Parts::may_have_epilogue);
    static constexpr int L = Shape::L, V = Shape::V;
    struct Shared {
        typename Scan::Shared scan;
        typename Channels::Shared channels;
        R sums[has_sums ? Shape::warps : 1][2][V][32];
    };
    struct Inputs {
        Elements gate, second, input, input_gate, output_gate, grad_output;
        Elements states;  // h if holds_h, otherwise h before each step
        R edge[V];        // h before the lane's last step
        bool has_edge;    // whether it is in `edge`; it always is if holds_h
    };
    struct Gradients {
        Elements gate, second, input, input_gate;
        R rate[V], bias[V];  // sums over the lane's steps
    };
    using Step = R[V];
    using Kept = KeptDecay<Parts::decay>[L][V];

    const GatedParams& p;
    const Tile t;

    template <bool Whole>
    __device__ __forceinline__ void load(Inputs& x) const {
        t.template load_gate<Whole>(p.gate, x.gate);
        t.template load<Whole>(p.grad_output, x.grad_output);
        if (Parts::has_output_gate(p)) t.template load<Whole>(p.output_gate, x.output_gate);
        if (Parts::has_second_gate(p)) t.template load_gate<Whole>(p.second_gate, x.second);
        if (Parts::has_input(p)) t.template load<Whole>(p.input, x.input);
        if (Parts::has_input_gate(p)) t.template load<Whole>(p.input_gate, x.input_gate);
        if (holds_h) t.template load<Whole>(p.states, x.states);
    }
    // Loads the states. With channels innermost, h before the layer's first step lies outside of the tensor.
    __device__ __forceinline__ void load_states(Inputs& x) const {
        if constexpr (!Plain) {
            load_each_before(x.states);
        } else if constexpr (!holds_h) {
            if (t.whole && t.step + L < static_cast<int>(p.time))
                t.template load<true>(p.states, x.states, 1);
            else
                t.template load<false>(p.states, x.states, 1);
        }
        if constexpr (Plain) load_edge(x);
    }
    __device__ __forceinline__ R state_in(int v) const {
        if (p.state_in == nullptr || v >= t.channels) return R(0);
        return static_cast<const R*>(p.state_in)[t.batch * p.channels + t.channel + v];
    }
    __device__ __forceinline__ void load_edge(Inputs& x) const {
        const bool at_end = t.steps > 0 && t.step + L == static_cast<int>(p.time);
        x.has_edge = holds_h || (at_end && p.state_in != nullptr);
#pragma unroll
        for (int v = 0; v < V; ++v) {
            x.edge[v] = R(0);
            if (at_end) {
                x.edge[v] = state_in(v);
            } else if (holds_h && t.steps > 0 && v < t.channels && (!Shape::by_time || t.lane == 31)) {
                const char* const from = t.address_before(p.states, v);
                x.edge[v] = Element<X>::widen(*reinterpret_cast<const X*>(from));
            }
        }
        if constexpr (Shape::by_time) {
#pragma unroll
            for (int v = 0; v < V; ++v) {
                const R next = shuffle(x.states.get(0, v), t.lane + 1 & 31);
                if (t.lane < 31 && !at_end) x.edge[v] = next;
            }
        }
    }
    __device__ __forceinline__ void load_each_before(Elements& before) const {
#pragma unroll
        for (int i = 0; i < L; ++i)
#pragma unroll
            for (int v = 0; v < V; ++v) before.value[i][v] = R(0);
        if (p.states.data != nullptr && t.steps > 0) {
#pragma unroll
            for (int i = 0; i < L; ++i)
#pragma unroll
                for (int v = 0; v < V; ++v) {
                    const auto* const from = reinterpret_cast<const X*>(t.existing_address(p.states, i + 1, v));
                    before.value[i][v] = Tile::kept(Element<X>::widen(*from));
                }
        }
#pragma unroll
        for (int i = 0; i < L; ++i)
#pragma unroll
            for (int v = 0; v < V; ++v) {
                if (t.has(i, v) && !t.resets(i) && !t.is_first(i)) continue;
                before.value[i][v] = R(0);
                if (p.state_in != nullptr && t.is_first(i) && t.has(i, v) && !t.resets(i))
                    before.value[i][v] = static_cast<const R*>(p.state_in)[t.state_of(i, v)];
            }
    }
    __device__ __forceinline__ R before(const Inputs& x, int i, int v) const {
        if (!Plain) return x.states.get(i, v);
        if (i + 1 == L && x.has_edge) return x.edge[v];
        return x.states.get(holds_h && i + 1 < L ? i + 1 : i, v);
    }
    // Sets h of the lane's own steps, loading it where the lane holds h before its steps instead.
    __device__ __forceinline__ void load_results(const Inputs& x, Elements& h) const {
        if constexpr (holds_h)
            h = x.states;
        else
            t.template load<false>(p.states, h);
    }

    __device__ __forceinline__ void run(Shared& shared) const {
        const Scan scan(t, shared.scan);
        Inputs x;
        if (Plain && t.whole)
            load<true>(x);
        else
            load<false>(x);
        load_states(x);
        Step rate, bias;
        Channels::template look_up<Parts>(p, t, shared.channels);
        Channels::template take<Parts>(p, t, shared.channels, rate, bias);
        Values a, g;
        Kept kept;
        const bool far = form_factors(x, rate, bias, a, kept);
        form_sources(x, g);
        if (!t.whole) t.leave_out(a, g);
        scan.run(a, g, far);
        leave_states(a, g);
        if (!t.whole) t.leave_out(a, g);
        Gradients to;
        form_gradients(x, rate, bias, a, kept, g, to);
        t.store_gate(p.grad_gate, to.gate);
        t.store(p.grad_input, to.input);
        if (Parts::has_second_gate(p)) t.store_gate(p.grad_second_gate, to.second);
        if (Parts::has_input_gate(p)) t.store(p.grad_input_gate, to.input_gate);
        if (has_sums && p.sums != nullptr) leave_sums(shared, to);
    }

    // The place of the block's sums for the lane's channels: those of PARAM, and those of BIAS p.channels further.
    __device__ __forceinline__ R* sums_of_block() const {
        return static_cast<R*>(p.sums) + (t.batch * p.chunks + t.slot) * 2 * p.channels + t.channel;
    }
    __device__ __forceinline__ bool writes_sums() const { return t.warp_time == 0 && (!Shape::by_time || t.lane == 0); }
    // A block whose slot has no chunk calls this in place of run(). It stores zeros as its sums, if there are any.
    __device__ __forceinline__ void leave_no_sums() const {
        ptx::wait_for_launch_before();  // the next launch must not find the clearing of memory still at work
        if constexpr (has_sums)
            for (int v = 0; v < t.channels && p.sums != nullptr && writes_sums(); ++v)
                sums_of_block()[v] = sums_of_block()[p.channels + v] = R(0);
    }

    static __device__ __forceinline__ R gate_of(const Inputs& x, const Step& bias, int i, int v) {
        return Parts::has_bias ? x.gate.get(i, v) + bias[v] : x.gate.get(i, v);
    }
    __device__ __forceinline__ bool form_factors(const Inputs& x, const Step& rate, const Step& bias, Values& a,
                                                 Kept& kept) const {
        bool far = rates_exceed_one<Parts>(p, rate);
#pragma unroll
        for (int i = 0; i < L; ++i)
            Parts::with_decay(p, [&](auto kind) {
#pragma unroll
                for (int v = 0; v < V; ++v) {
                    const R second = Parts::has_second_gate(p) ? x.second.get(i, v) : R(0);
                    if constexpr (keeps)
                        a[i][v] = kept[i][v].take(x.gate.get(i, v), second, rate[v]);
                    else
                        a[i][v] =
                            number_of(gated::decayed<kind.value>(D(gate_of(x, bias, i, v)), D(second), D(rate[v])).a);
                    far = far || may_exceed_one<kind.value>(a[i][v]);
                }
            });
        return far && t.steps > 0;
    }
    // Computes e of all steps, and stores the gradient of OUTPUT_GATE.
    __device__ __forceinline__ void form_sources(const Inputs& x, Values& e) const {
        if (Parts::has_output_gate(p)) {
            Elements h, slope;
            load_results(x, h);
#pragma unroll
            for (int i = 0; i < L; ++i) {
                Step of_gate;
                Parts::with_epilogue(p, [&](auto kind) {
#pragma unroll
                    for (int v = 0; v < V; ++v) {
                        const R of_y = x.grad_output.get(i, v);
                        const auto y = gated::epilogued<kind.value>(F(h.get(i, v)), F(x.output_gate.get(i, v)));
                        of_gate[v] = of_y * number_of(y.gate_slope);
                        e[i][v] = of_y * number_of(y.state_slope);
                    }
                });
                slope.set(i, of_gate);
            }
            t.store(p.grad_output_gate, slope);
        } else {
#pragma unroll
            for (int i = 0; i < L; ++i)
#pragma unroll
                for (int v = 0; v < V; ++v) e[i][v] = x.grad_output.get(i, v);
        }
        if (p.grad_state_out == nullptr || (Plain && t.chunk > 0)) return;
#pragma unroll
        for (int i = 0; i < L; ++i)
#pragma unroll
            for (int v = 0; v < V; ++v)
                if (t.is_last(i) && v < t.channels)
                    e[i][v] = e[i][v] + static_cast<const R*>(p.grad_state_out)[t.state_of(i, v)];
    }
    __device__ __forceinline__ void leave_states(const Values& a, const Values& g) const {
        if (p.grad_state_in == nullptr || (Plain && t.chunk + 1 < t.chunks)) return;
#pragma unroll
        for (int i = 0; i < L; ++i)
#pragma unroll
            for (int v = 0; v < V; ++v)
                if (t.is_first(i) && v < t.channels)
                    static_cast<R*>(p.grad_state_in)[t.state_of(i, v)] = t.resets(i) ? R(0) : a[i][v] * g[i][v];
    }

    template <Decay kind>
    __device__ __forceinline__ GatedSlopes<R> slopes_at(const Inputs& x, const Step& rate, const Step& bias,
                                                        const Values& a, const Kept& kept, int i, int v) const {
        // With channels innermost a lane that has the walk's last step has it last.
        const bool unscaled = (!Plain || i == L - 1) && Parts::may_be_unscaled(p) && t.is_unscaled(i);
        if constexpr (keeps) {
            return kept[i][v].slopes(a[i][v], rate[v], 2 * p.short_slope_limit, unscaled);
        } else {
            const D second(Parts::has_second_gate(p) ? x.second.get(i, v) : R(0));
            const auto d = gated::decayed<kind>(D(gate_of(x, bias, i, v)), second, D(rate[v]));
            const Scaled m = scaled(d, unscaled);
            return {
                m.value, m.slope, R(1), number_of(d.gate_slope), number_of(d.second_slope), number_of(d.rate_slope)};
        }
    }

    __device__ __forceinline__ void form_gradients(const Inputs& x, const Step& rate, const Step& bias, const Values& a,
                                                   const Kept& kept, const Values& g, Gradients& to) const {
#pragma unroll
        for (int v = 0; v < V; ++v) to.rate[v] = to.bias[v] = R(0);
#pragma unroll
        for (int i = 0; i < L; ++i) {
            Step value, value_slope, opening, opening_rest;
            Parts::with_activation(p, [&](auto kind) {
#pragma unroll
                for (int v = 0; v < V; ++v) {
                    const auto y = gated::activated<kind.value>(F(Parts::has_input(p) ? x.input.get(i, v) : R(0)));
                    value[v] = number_of(y.value);
                    value_slope[v] = number_of(y.slope);
                }
            });
#pragma unroll
            for (int v = 0; v < V; ++v) {
                opening[v] = R(1), opening_rest[v] = R(0);
                if (!Parts::has_input_gate(p)) continue;
                const auto s = sigmoids(F(x.input_gate.get(i, v)));
                opening[v] = number_of(s.open);
                opening_rest[v] = number_of(s.shut);
            }
            Step of_gate, of_second, of_input, of_input_gate;
            Parts::with_decay(p, [&](auto kind) {
#pragma unroll
                for (int v = 0; v < V; ++v) {
                    const GatedSlopes<R> d = slopes_at<kind.value>(x, rate, bias, a, kept, i, v);
                    R from_a = before(x, i, v);
                    if (keeps || !is_zero(d.scale_slope)) from_a = from_a + value[v] * opening[v] * d.scale_slope;
                    const R of_a = g[i][v] * from_a * d.common, of_v = g[i][v] * d.m * opening[v];
                    of_input[v] = of_v * value_slope[v];
                    of_input_gate[v] = of_v * value[v] * opening_rest[v];
                    of_gate[v] = of_a * d.gate;
                    of_second[v] = of_a * d.second;
                    if (!counts(i)) continue;
                    if (Parts::has_param) to.rate[v] = to.rate[v] + of_a * d.rate;
                    if (Parts::has_bias) to.bias[v] = to.bias[v] + of_gate[v];
                }
            });
            to.gate.set(i, of_gate);
            to.input.set(i, of_input);
            if (Parts::has_second_gate(p)) to.second.set(i, of_second);
            if (Parts::has_input_gate(p)) to.input_gate.set(i, of_input_gate);
        }
    }
    // Whether step i is added to sums. One that does not exist has g = 0, but its gate of 0 may make the slope of a
    // root infinite, and the product of both is NaN; the slopes of named layers are finite there.
    __device__ __forceinline__ bool counts(int i) const {
        if constexpr (!Plain) return t.events.at(t.events.valid, i);
        return keeps || t.whole || t.exists(i);
    }
    struct Scaled {
        R value, slope;
    };
    __device__ __forceinline__ Scaled scaled(const gated::Decayed<D>& d, bool unscaled) const {
        Scaled m{R(1), R(0)};
        const R limit = sizeof(R) == 4 ? R(p.short_slope_limit) : R(p.slope_limit);
        Parts::with_scale(p, [&](auto kind) {
            if (unscaled) return;
            const D value = gated::scaled<kind.value>(d.a, d.rest);
            m.value = number_of(value);
            m.slope = number_of(gated::scale_slope<kind.value>(d.a, value, D(limit)));
        });
        return m;
    }

    // Adds the sums of the lanes of a channel, then those of its warps, in order, and stores them.
    __device__ __forceinline__ void leave_sums(Shared& shared, Gradients& to) const {
        const int warp = static_cast<int>(threadIdx.x) / 32;
#pragma unroll
        for (int v = 0; v < V; ++v) {
            if constexpr (Shape::by_time) {
#pragma unroll
                for (int distance = 16; distance > 0; distance /= 2) {
                    to.rate[v] = to.rate[v] + shuffle(to.rate[v], t.lane ^ distance);
                    to.bias[v] = to.bias[v] + shuffle(to.bias[v], t.lane ^ distance);
                }
            }
            shared.sums[warp][0][v][t.lane] = to.rate[v];
            shared.sums[warp][1][v][t.lane] = to.bias[v];
        }
        __syncthreads();
        if (!writes_sums()) return;
        R* const out = sums_of_block();
#pragma unroll
        for (int v = 0; v < V; ++v) {
            if (v >= t.channels) continue;
#pragma unroll 1
            for (int w = 1; w < 1 << p.log2_time_warps; ++w) {
                to.rate[v] = to.rate[v] + shared.sums[warp + w][0][v][t.lane];
                to.bias[v] = to.bias[v] + shared.sums[warp + w][1][v][t.lane];
            }
            if (p.param != nullptr) to.rate[v] = to.rate[v] * shared.channels.slope[Channels::first_in_block(t) + v];
            out[v] = to.rate[v];
            out[p.channels + v] = to.bias[v];
        }
    }
};

template <typename Shape, typename Parts, bool Plain, bool FewRows>
__global__ void __launch_bounds__(Shape::threads, gated_resident<Shape, Parts, Plain, FewRows>)
    gated_backward(const __grid_constant__ GatedParams p) {
    using Pass = GatedBackward<Shape, Parts, Plain, FewRows>;
    __shared__ typename Pass::Shared shared;
    const Pass pass{p, typename Pass::Tile(p)};
    if constexpr (!Plain)
        if (pass.t.length == 0) return pass.leave_no_sums();
    pass.run(shared);
}

}  // namespace flashscan::cuda
