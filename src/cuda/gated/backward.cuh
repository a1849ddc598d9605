// SPDX-License-Identifier: Apache-2.0
// The backward pass of the kernel "chunked" of gated layers (chunk.cuh). With v the activated and gated input, da/dg the
// slope of the decay, and h[t-1] from OUTPUT, RESERVE or STATE_IN:
//
//     the gradient of a is  g (h[t-1] + v dm/da),  of v it is  g m;  gates and INPUT follow by the slopes of math/gated.h
//
// Sums over batch and time for PARAM and BIAS leave the block as one number for each channel, which sums.cuh adds in order.
#pragma once

#include "cuda/gated/chunk.cuh"

namespace flashscan::cuda {

template <typename Shape, bool Plain>
struct GatedBackward : GatedChunk<Shape, Plain> {
    using Base = GatedChunk<Shape, Plain>;
    using F = typename Base::F;
    using R = typename Shape::R;
    using Values = typename Base::Values;
    using Base::Base, Base::p, Base::places, Base::tile, Base::turns;

    // A thread's elements.
    struct Elements {
        Values gate, second, input, input_gate, output_gate, grad_output;
        Values h, before;  // the states after and before a step
    };

    __device__ __forceinline__ void load_all(Elements& x) {
        this->load_gate(p.gate, x.gate);
        this->load_gate(p.second_gate, x.second);
        this->load(p.input, x.input);
        this->load(p.input_gate, x.input_gate);
        this->load(p.output_gate, x.output_gate);
        this->load(p.grad_output, x.grad_output);
        if (p.output_gate.data != nullptr) this->load(p.states, x.h);
        load_before(x.before);
    }
    __device__ __forceinline__ void load_before(Values& before) {
        const int64_t last = p.down ? 1 : -1;
        if (Plain && p.states.data != nullptr) return this->template load_as<typename Shape::X>(p.states, before, last);
#pragma unroll
        for (int i = 0; i < turns; ++i) {
            const uint8_t flags = this->flags_of(i);
            before[i] = R(0);
            if (Plain || !this->has(i) || (flags & gated_reset) != 0) continue;
            if ((flags & gated_first) != 0) {
                if (p.state_in != nullptr) before[i] = static_cast<const R*>(p.state_in)[this->state_of(i)];
            } else if (p.states.data != nullptr) {
                const char* const at = p.states.data + this->offset_in(p.states, i) + last * p.states.time;
                before[i] = Element<typename Shape::X>::widen(*reinterpret_cast<const typename Shape::X*>(at));
            }
        }
    }

    template <Decay kind>
    __device__ __forceinline__ gated::Decayed<F> decay_of(const Elements& x, int i) const {
        return gated::decayed<kind>(F(x.gate[i]), F(x.second[i]), F(tile.rate[places.column_of(i)]));
    }

    __device__ __forceinline__ void run() {
        Elements x;
        if (!Plain) this->look_up();
        load_all(x);
        if (Plain) this->look_up();
        this->add_bias(x.gate);
        Values a;
        with_decay(p.decay, [&](auto kind) {
#pragma unroll
            for (int i = 0; i < turns; ++i) a[i] = number_of(decay_of<kind.value>(x, i).a);
        });
#pragma unroll
        for (int i = 0; i < turns; ++i) this->in(tile.a, i) = a[i];
        with_epilogue(p.epilogue, [&](auto kind) {
            if constexpr (kind.value != Epilogue::none) {
                Values slope;
#pragma unroll
                for (int i = 0; i < turns; ++i) {
                    const auto y = gated::epilogued<kind.value>(F(x.h[i]), F(x.output_gate[i]));
                    slope[i] = x.grad_output[i] * number_of(y.gate_slope);
                    x.grad_output[i] = x.grad_output[i] * number_of(y.state_slope);
                }
                this->store(p.grad_output_gate, slope);
            }
        });
#pragma unroll
        for (int i = 0; i < turns; ++i) {
            R e = x.grad_output[i];
            if (p.grad_state_out != nullptr && this->has(i) && (this->flags_of(i) & gated_last) != 0)
                e = e + static_cast<const R*>(p.grad_state_out)[this->state_of(i)];
            this->in(tile.b, i) = e;
        }
        ptx::wait_for_launch_before();  // which clears the carries
        this->scan(a);
        Values g;
#pragma unroll
        for (int i = 0; i < turns; ++i) g[i] = this->in(tile.b, i);
        if (p.grad_state_in != nullptr) {
#pragma unroll
            for (int i = 0; i < turns; ++i) {
                const uint8_t flags = this->flags_of(i);
                if (this->has(i) && (flags & gated_first) != 0)
                    static_cast<R*>(p.grad_state_in)[this->state_of(i)] =
                        (flags & gated_reset) != 0 ? R(0) : this->in(tile.a, i) * g[i];
            }
        }
        store_gradients(x, g);
    }

    __device__ __forceinline__ void store_gradients(Elements& x, const Values& g) {
        Values a, m, m_slope, value, slope, gate, gate_slope;
        with_activation(p.activation, [&](auto kind) {
#pragma unroll
            for (int i = 0; i < turns; ++i) {
                const auto v = gated::activated<kind.value>(F(x.input[i]));
                value[i] = number_of(v.value);
                slope[i] = number_of(v.slope);
            }
        });
#pragma unroll
        for (int i = 0; i < turns; ++i) gate[i] = R(1), gate_slope[i] = R(0);
        if (p.input_gating != static_cast<int>(InputGating::none)) {
#pragma unroll
            for (int i = 0; i < turns; ++i) {
                const auto s = gated::input_gated<InputGating::sigmoid>(F(x.input_gate[i]));
                gate[i] = number_of(s.value);
                gate_slope[i] = number_of(s.slope);
            }
        }
        Values of_gate, of_second, of_rate;
        with_decay(p.decay, [&](auto kind) {
#pragma unroll
            for (int i = 0; i < turns; ++i) {
                const auto d = decay_of<kind.value>(x, i);
                a[i] = number_of(d.a);
                m[i] = number_of(d.rest);
                of_gate[i] = number_of(d.gate_slope);
                of_second[i] = number_of(d.second_slope);
                of_rate[i] = number_of(d.rate_slope);
            }
        });
        with_scale(p.scale, [&](auto kind) {
#pragma unroll
            for (int i = 0; i < turns; ++i) {
                const bool open = this->is_open(i);
                m[i] = open ? R(1) : number_of(gated::scaled<kind.value>(F(a[i]), F(m[i])));
                m_slope[i] =
                    open
                        ? R(0)
                        : number_of(gated::scale_slope<kind.value>(F(a[i]), F(m[i]), F(static_cast<R>(p.slope_limit))));
            }
        });
#pragma unroll
        for (int i = 0; i < turns; ++i) {
            R of_a = g[i] * x.before[i];
            if (!is_zero(m_slope[i])) of_a = of_a + g[i] * (value[i] * gate[i]) * m_slope[i];
            const R of_v = g[i] * m[i];
            slope[i] = of_v * gate[i] * slope[i];
            gate_slope[i] = of_v * value[i] * gate_slope[i];
            of_gate[i] = of_a * of_gate[i];
            of_second[i] = of_a * of_second[i];
            of_rate[i] = of_a * of_rate[i];
        }
        this->store(p.grad_input, slope);
        this->store(p.grad_input_gate, gate_slope);
        this->store_gate(p.grad_gate, of_gate);
        this->store_gate(p.grad_second_gate, of_second);
        if (p.sums == nullptr) return;
        __syncthreads();  // a and g are not needed any more
#pragma unroll
        for (int i = 0; i < turns; ++i) {
            this->in(tile.a, i) = this->has(i) ? of_rate[i] : R(0);
            this->in(tile.b, i) = this->has(i) ? of_gate[i] : R(0);
        }
        leave_sums();
    }

    // Over the chunk's steps: a warp adds its own, the first warp those of all.
    __device__ __forceinline__ void leave_sums() {
        __syncthreads();
        R rate = R(0), bias = R(0);
#pragma unroll
        for (int k = 0; k < Shape::warp_steps; ++k) {
            rate = rate + tile.a[this->warp() * Shape::warp_steps + k][this->lane()];
            bias = bias + tile.b[this->warp() * Shape::warp_steps + k][this->lane()];
        }
        tile.factors[this->warp()][this->lane()] = rate;
        tile.results[this->warp()][this->lane()] = bias;
        __syncthreads();
        const int64_t c = this->channel_of(this->lane());
        if (this->warp() != 0 || c >= p.channels) return;
        for (int w = 1; w < Shape::warps; ++w) {
            rate = rate + tile.factors[w][this->lane()];
            bias = bias + tile.results[w][this->lane()];
        }
        R* const to = static_cast<R*>(p.sums) + (this->batch * p.chunks + this->chunk) * 2 * p.channels;
        to[c] = rate * tile.rate_slope[this->lane()];
        to[p.channels + c] = bias;
    }
};

template <typename Shape>
__global__ void __launch_bounds__(Shape::threads) gated_backward(const __grid_constant__ GatedParams p) {
    __shared__ GatedTile<Shape> tile;
    const GatedPlace place = GatedPlace::here(p);
    if (place.is_plain<Shape>(p))
        GatedBackward<Shape, true>(p, tile, place).run();
    else
        GatedBackward<Shape, false>(p, tile, place).run();
}

}  // namespace flashscan::cuda
