// SPDX-License-Identifier: Apache-2.0
// Fills one entry of the table.
#pragma once

#include "cuda/instances/linear.h"
#include "cuda/kernels/linear_chunked.cuh"
#include "cuda/kernels/linear_stream.cuh"

namespace flashscan::cuda {

template <typename Ty, bool TimeInner>
constexpr TileFacts stream_facts() {
    using Forward = StreamConfig<Ty, TimeInner, false>;
    using Backward = StreamConfig<Ty, TimeInner, true>;
    using Shape = typename Forward::Shape;
    return {
        Shape::V, Shape::L, 1, Shape::log2_widest, Shape::padding == 0, {Forward::shared_bytes, Backward::shared_bytes},
        0};
}

template <typename Ty, bool TimeInner>
constexpr TileFacts chunked_facts() {
    using Forward = ChunkedConfig<Ty, TimeInner, false>;
    using Backward = ChunkedConfig<Ty, TimeInner, true>;
    using Shape = typename Forward::Shape;
    return {Shape::V,
            Shape::L,
            Forward::warps,
            Shape::log2_widest,
            Shape::padding == 0,
            {Forward::events, Backward::events},
            Forward::event_bytes};
}

template <typename X, typename G>
LinearKernels make_linear_kernels(Dtype dtype, Dtype gate_dtype) {
    using Ty = Types<X, G>;
    LinearKernels k{};
    k.dtype = dtype;
    k.gate_dtype = gate_dtype;
    k.record_bytes = static_cast<int>(sizeof(Words<Record<Ty>>));
    k.carry_bytes = static_cast<int>(sizeof(Words<typename Ty::Wide>));
    const auto fill = [&]<bool TimeInner, bool Down, bool Backward>() {
        k.stream[TimeInner][Down][Backward] =
            reinterpret_cast<const void*>(&linear_stream<Ty, TimeInner, Down, Backward>);
        k.chunked[TimeInner][Down][Backward] =
            reinterpret_cast<const void*>(&linear_chunked<Ty, TimeInner, Down, Backward>);
    };
    fill.template operator()<false, false, false>();
    fill.template operator()<false, false, true>();
    fill.template operator()<false, true, false>();
    fill.template operator()<false, true, true>();
    fill.template operator()<true, false, false>();
    fill.template operator()<true, false, true>();
    fill.template operator()<true, true, false>();
    fill.template operator()<true, true, true>();
    k.stream_tile[0] = stream_facts<Ty, false>();
    k.stream_tile[1] = stream_facts<Ty, true>();
    k.chunked_tile[0] = chunked_facts<Ty, false>();
    k.chunked_tile[1] = chunked_facts<Ty, true>();
    k.reduce_gate_gradient = reinterpret_cast<const void*>(&reduce_gate_gradient<G>);
    k.pass_empty_sequences = reinterpret_cast<const void*>(&pass_empty_sequences<typename Ty::Wide>);
    return k;
}

}  // namespace flashscan::cuda
