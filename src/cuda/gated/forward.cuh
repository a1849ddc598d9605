// SPDX-License-Identifier: Apache-2.0
// The kernel "chunked" of gated layers (minGRU, minLSTM, HGRN, RG-LRU, QRNN, GILR and free combinations),
// gated_forward: a chained scan, in which a block publishes the carry into the next chunk (math/gated.h defines the
// parts):
//
//     a = decay(g)     v = activation(x) gate(i)     h[t] = a h[t-1] + scale(a) v     y[t] = h[t] epilogue(o[t])
//
// Ownership  A lane has L steps of V channels (tile.cuh), a block has a chunk of steps.
// Passes     1. Lanes load all that they need for their steps and compute a and b = scale(a) v in registers.
//            2. The chunk is scanned (scan.cuh).
//            3. Lanes compute y and store it.
// Order      Block indices run through all channels of a chunk before the next chunk.
// Bytes      Every element of the named arrays moves once, beside what chunks exchange (scan.cuh).
// Sync       As in scan.cuh, and a __syncthreads for parameters of channels.
// Limits     None where Plain is false; tile.cuh says what Plain takes.
// Bound      The least time is that of a copy of the named arrays. With three arrays in 16 bits, an H200 can issue
//            about 50 instructions for every 32 elements in that time, so lanes handle pairs of elements and keep what
//            they load.
#pragma once

#include "cuda/gated/channels.cuh"
#include "cuda/gated/scan.cuh"

namespace flashscan::cuda {

template <typename Shape, typename Parts, bool Plain, bool FewRows>
struct GatedForward {
    using R = typename Shape::R;
    using Tile = GatedTile<Shape, Plain>;
    using Elements = typename Tile::Elements;
    using Values = typename Tile::Values;
    using Scan = GatedScan<Shape, Plain, FewRows, Plain && Parts::bounded>;
    using Channels = GatedChannels<Shape>;
    static constexpr int L = Shape::L, V = Shape::V;
    struct Shared {
        typename Scan::Shared scan;
        typename Channels::Shared channels;
    };
    struct Inputs {
        Elements gate, second, input, input_gate;
    };

    const GatedParams& p;
    const Tile t;

    template <bool Whole>
    __device__ __forceinline__ void load(Inputs& x) const {
        t.template load_gate<Whole>(p.gate, x.gate);
        t.template load<Whole>(p.input, x.input);
        if (Parts::has_second_gate(p)) t.template load_gate<Whole>(p.second_gate, x.second);
        if (Parts::has_input_gate(p)) t.template load<Whole>(p.input_gate, x.input_gate);
    }

    __device__ __forceinline__ void run(Shared& shared) const {
        const Scan scan(t, shared.scan);
        Inputs x;
        if (Plain && t.whole)
            load<true>(x);
        else
            load<false>(x);
        R rate[V], bias[V];
        Channels::template look_up<Parts>(p, t, shared.channels);
        Channels::template take<Parts>(p, t, shared.channels, rate, bias);
        Values a, b;
        const bool far = form_maps(x, rate, bias, a, b);
        take_states(a, b);
        if (!t.whole) t.leave_out(a, b);
        scan.run(a, b, far);
        finish(b);
    }

    // Computes the maps of the lane's steps; returns whether products of factors may leave the range of numbers.
    __device__ __forceinline__ bool form_maps(const Inputs& x, const R (&rate)[V], const R (&bias)[V], Values& a,
                                              Values& b) const {
        bool far = rates_exceed_one<Parts>(p, rate);
#pragma unroll
        for (int i = 0; i < L; ++i) {
            R gate[V], second[V], input[V], input_gate[V];
#pragma unroll
            for (int v = 0; v < V; ++v) {
                gate[v] = Parts::has_bias ? x.gate.get(i, v) + bias[v] : x.gate.get(i, v);
                input[v] = x.input.get(i, v);
                second[v] = Parts::has_second_gate(p) ? x.second.get(i, v) : R(0);
                input_gate[v] = Parts::has_input_gate(p) ? x.input_gate.get(i, v) : R(0);
            }
            const bool unscaled = (!Plain || i == 0) && Parts::may_be_unscaled(p) && t.is_unscaled(i);
            far = make_maps<Parts, true>(p, gate, second, input, input_gate, rate, unscaled, a[i], b[i]) || far;
        }
        return far && t.steps > 0;
    }
    // Adds STATE_IN to b of the first step of a sequence; nothing else enters that step.
    __device__ __forceinline__ void take_states(Values& a, Values& b) const {
        if (Plain && t.chunk > 0) return;
#pragma unroll
        for (int i = 0; i < (Plain ? 1 : L); ++i) {
            if (!t.is_first(i)) continue;
#pragma unroll
            for (int v = 0; v < V; ++v) {
                if (p.state_in != nullptr && !t.resets(i) && v < t.channels)
                    b[i][v] = multiply_add(a[i][v], static_cast<const R*>(p.state_in)[t.state_of(i, v)], b[i][v]);
                if (Plain) a[i][v] = R(0);
            }
        }
    }
    // Stores h where RESERVE wants it, the final states, and OUTPUT.
    __device__ __forceinline__ void finish(const Values& h) const {
        Elements output_gate, out;
        if (Parts::has_output_gate(p)) {
            if (Plain && t.whole)
                t.template load<true>(p.output_gate, output_gate);
            else
                t.template load<false>(p.output_gate, output_gate);
#pragma unroll
            for (int i = 0; i < L; ++i) out.set(i, h[i]);
            t.store(p.states, out);
        }
        if (p.state_out != nullptr && (!Plain || t.chunk + 1 == t.chunks)) {
#pragma unroll
            for (int i = 0; i < L; ++i)
#pragma unroll
                for (int v = 0; v < V; ++v)
                    if (t.is_last(i) && v < t.channels) static_cast<R*>(p.state_out)[t.state_of(i, v)] = h[i][v];
        }
#pragma unroll
        for (int i = 0; i < L; ++i) {
            R gate[V], y[V];
#pragma unroll
            for (int v = 0; v < V; ++v) {
                gate[v] = Parts::has_output_gate(p) ? output_gate.get(i, v) : R(0);
                y[v] = h[i][v];
            }
            apply_epilogue<Parts, true>(p, gate, y);
            out.set(i, y);
        }
        t.store(p.output, out);
    }
};

template <typename Shape, typename Parts, bool Plain, bool FewRows>
__global__ void __launch_bounds__(Shape::threads, gated_resident<Shape, Parts, Plain, FewRows>)
    gated_forward(const __grid_constant__ GatedParams p) {
    using Pass = GatedForward<Shape, Parts, Plain, FewRows>;
    __shared__ typename Pass::Shared shared;
    const Pass pass{p, typename Pass::Tile(p)};
    if (!Plain && pass.t.length == 0)          // the slot has no chunk
        return ptx::wait_for_launch_before();  // the next launch must not find the clearing of memory still at work
    pass.run(shared);
}

}  // namespace flashscan::cuda
