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

template <typename X, typename Cell, Team Kind, int HeadDim, TeamSize Forward, TeamSize Backward>
RnnFusedShape make_shape() {
    using F = TeamShape<Cell::gates, 1, Kind, Forward>;
    using B = TeamShape<1, Cell::gates, Kind, Backward>;
    RnnFusedShape shape{Kind, HeadDim, {}, {}};
    shape.forward = describe_team<F>(reinterpret_cast<const void*>(&rnn_fused_forward<X, Cell, F>));
    shape.backward = describe_team<B>(reinterpret_cast<const void*>(&rnn_fused_backward<X, Cell, B>));
    return shape;
}

// All 64 units in a block.
template <typename X, typename Cell>
RnnFusedShape make_block_shape() {
    constexpr int G = Cell::gates, parts = G % 2 == 0 ? 4 : 2;
    return make_shape<X, Cell, Team::block, 64, TeamSize{1, 1, 8, 2, 2}, TeamSize{2, 1, 4, parts, 4 * G / parts}>();
}
// 32 units a block.
template <typename X, typename Cell, int HeadDim>
RnnFusedShape make_cluster_shape() {
    return make_shape<X, Cell, Team::cluster, HeadDim, TeamSize{1, 1, 4, 2, HeadDim / 32},
                      TeamSize{2, 1, 2, 4, Cell::gates * HeadDim / 64}>();
}
// 16 units a block.
template <typename X, typename Cell, int HeadDim, int RowTiles>
RnnFusedShape make_grid_shape() {
    return make_shape<X, Cell, Team::grid, HeadDim, TeamSize{2, RowTiles, 1, 8, HeadDim / 128},
                      TeamSize{2, RowTiles, 1, 8, Cell::gates * HeadDim / 128}>();
}

template <typename X, typename Cell>
std::span<const RnnFusedShape> make_cell_shapes() {
    static const std::array shapes{
        make_block_shape<X, Cell>(),         make_cluster_shape<X, Cell, 128>(),  make_cluster_shape<X, Cell, 256>(),
        make_cluster_shape<X, Cell, 512>(),  make_grid_shape<X, Cell, 512, 1>(),  make_grid_shape<X, Cell, 512, 4>(),
        make_grid_shape<X, Cell, 768, 1>(),  make_grid_shape<X, Cell, 768, 4>(),  make_grid_shape<X, Cell, 1024, 1>(),
        make_grid_shape<X, Cell, 1024, 4>(),
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
