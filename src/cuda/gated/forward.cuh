// SPDX-License-Identifier: Apache-2.0
// The forward pass of the kernel "chunked" of gated layers (chunk.cuh).
#pragma once

#include "cuda/gated/chunk.cuh"

namespace flashscan::cuda {

template <typename Shape, bool Plain>
struct GatedForward : GatedChunk<Shape, Plain> {
    using Base = GatedChunk<Shape, Plain>;
    using F = typename Base::F;
    using R = typename Shape::R;
    using Values = typename Base::Values;
    using Base::Base, Base::p, Base::places, Base::tile, Base::turns;

    __device__ __forceinline__ void run() {
        Values gate, second, input, input_gate;
        if (!Plain) this->look_up();
        this->load_gate(p.gate, gate);
        this->load_gate(p.second_gate, second);
        this->load(p.input, input);
        this->load(p.input_gate, input_gate);
        if (Plain) this->look_up();
        Values a;
        stage_maps(gate, second, input, input_gate, a);
        ptx::wait_for_launch_before();  // which clears the carries
        this->scan(a);
        Values output_gate, h;
        this->load(p.output_gate, output_gate);
#pragma unroll
        for (int i = 0; i < turns; ++i) h[i] = this->in(tile.b, i);
        if (p.state_out != nullptr) {
#pragma unroll
            for (int i = 0; i < turns; ++i)
                if (this->has(i) && (this->flags_of(i) & gated_last) != 0)
                    static_cast<R*>(p.state_out)[this->state_of(i)] = h[i];
        }
        this->store(p.states, h);
        apply_epilogue<F>(p, output_gate, h);
        this->store(p.output, h);
    }

    __device__ __forceinline__ void stage_maps(Values& gate, const Values& second, const Values& input,
                                               const Values& input_gate, Values& a) {
        Values b;
        this->add_bias(gate);
        make_maps<F>(
            p, gate, second, input, input_gate, [&](int i) { return tile.rate[places.column_of(i)]; },
            [&](int i) { return this->is_open(i); }, a, b);
#pragma unroll
        for (int i = 0; i < turns; ++i) {
            constexpr uint8_t start = gated_valid | gated_first;
            if (p.state_in != nullptr && this->has(i) && (this->flags_of(i) & (start | gated_reset)) == start)
                b[i] = multiply_add(a[i], static_cast<const R*>(p.state_in)[this->state_of(i)], b[i]);
            this->in(tile.a, i) = a[i];
            this->in(tile.b, i) = b[i];
        }
    }
};

template <typename Shape>
__global__ void __launch_bounds__(Shape::threads) gated_forward(const __grid_constant__ GatedParams p) {
    __shared__ GatedTile<Shape> tile;
    const GatedPlace place = GatedPlace::here(p);
    if (place.is_plain<Shape>(p))
        GatedForward<Shape, true>(p, tile, place).run();
    else
        GatedForward<Shape, false>(p, tile, place).run();
}

}  // namespace flashscan::cuda
