// SPDX-License-Identifier: Apache-2.0
// Fills the fused kernels' entries of the table for one dtype and cell.
#pragma once

#include <array>

#include "cuda/instances/rnn_fused.h"
#include "cuda/kernels/rnn_fused_backward.cuh"
#include "cuda/kernels/rnn_fused_forward.cuh"
#include "cuda/kernels/rnn_fused_weights.cuh"

namespace flashscan::cuda {

static_assert(rnn_fused_weight_block == rnn_fused_weight_threads);

template <typename X>
const void* make_weight_kernel(Dtype weight_dtype) {
    return weight_dtype == Dtype::f32 ? reinterpret_cast<const void*>(&rnn_fused_weights<X, float>)
                                      : reinterpret_cast<const void*>(&rnn_fused_weights<X, X>);
}

template <typename S>
RnnFusedKernel describe_team(const void* function) {
    return {function,  S::threads, S::shared_bytes, S::units, S::rows,  S::depth,
            S::gates, S::groups,  S::unit_warps,   S::parts, S::tiles, S::steps};
}

// A warp has 8 units forward, and backward 16 and a half of k.
template <typename X, typename Cell, int HeadDim>
RnnFusedShape make_local_shape() {
    constexpr int G = Cell::gates;
    using Forward = TeamShape<G, 1, 1, HeadDim / 8, 1, HeadDim / 16, true>;
    using Backward = TeamShape<1, 2, 1, HeadDim / 16, 2, G * HeadDim / 32, true>;
    RnnFusedShape shape{true, HeadDim, {}, {}};
    shape.forward = describe_team<Forward>(reinterpret_cast<const void*>(&rnn_fused_forward<X, Cell, Forward>));
    shape.backward = describe_team<Backward>(reinterpret_cast<const void*>(&rnn_fused_backward<X, Cell, Backward>));
    return shape;
}

// A block has 16 units and eight parts of k.
template <typename X, typename Cell, int HeadDim, int RowTiles>
RnnFusedShape make_ring_shape() {
    constexpr int G = Cell::gates, KT = HeadDim / 128;
    using Forward = TeamShape<G, 2, RowTiles, 1, 8, KT, false>;
    using Backward = TeamShape<1, 2, RowTiles, 1, 8, G * KT, false>;
    RnnFusedShape shape{false, HeadDim, {}, {}};
    shape.forward = describe_team<Forward>(reinterpret_cast<const void*>(&rnn_fused_forward<X, Cell, Forward>));
    shape.backward = describe_team<Backward>(reinterpret_cast<const void*>(&rnn_fused_backward<X, Cell, Backward>));
    return shape;
}

template <typename X, typename Cell>
std::span<const RnnFusedShape> make_cell_shapes() {
    static const std::array shapes{
        make_local_shape<X, Cell, 64>(),     make_local_shape<X, Cell, 128>(),
        make_ring_shape<X, Cell, 256, 1>(),  make_ring_shape<X, Cell, 256, 4>(),
        make_ring_shape<X, Cell, 512, 1>(),  make_ring_shape<X, Cell, 512, 4>(),
        make_ring_shape<X, Cell, 768, 1>(),  make_ring_shape<X, Cell, 768, 4>(),
        make_ring_shape<X, Cell, 1024, 1>(), make_ring_shape<X, Cell, 1024, 4>(),
    };
    return shapes;
}

template <typename X>
std::span<const RnnFusedShape> make_fused_shapes(flashscan::Cell cell) {
    switch (cell) {
    case flashscan::Cell::lstm: return make_cell_shapes<X, LstmCell>();
    case flashscan::Cell::gru: return make_cell_shapes<X, GruCell>();
    case flashscan::Cell::elman: return make_cell_shapes<X, ElmanCell<false>>();
    case flashscan::Cell::slstm: return make_cell_shapes<X, SlstmCell>();
    case flashscan::Cell::elman_relu: return make_cell_shapes<X, ElmanCell<true>>();
    default: return {};
    }
}

}  // namespace flashscan::cuda
