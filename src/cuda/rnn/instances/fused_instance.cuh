// SPDX-License-Identifier: Apache-2.0
// Fills the entries of the fused kernels' table for one dtype: which shapes of teams are compiled for which head dims.
#pragma once

#include <array>

#include "cuda/rnn/fused/backward.cuh"
#include "cuda/rnn/fused/forward.cuh"
#include "cuda/rnn/fused/team_scatter.cuh"
#include "cuda/rnn/fused/weights.cuh"
#include "cuda/rnn/instances/fused_table.h"
#include "math/cells.h"

namespace flashscan::cuda {

static_assert(rnn_fused_weight_block == rnn_fused_weight_threads);

template <typename X>
const void* make_weight_kernel(Dtype weight_dtype) {
    return weight_dtype == Dtype::f32 ? reinterpret_cast<const void*>(&rnn_fused_weights<X, float>)
                                      : reinterpret_cast<const void*>(&rnn_fused_weights<X, X>);
}

template <typename X, typename Cell, typename S>
RnnFusedKernel describe_team(const void* function) {
    return {function,        S::threads,  S::product_threads,
            S::shared_bytes, S::units,    S::team_rows,
            S::depth,        S::scatters, RnnKept<X, Cell>::count,
            S::gates,        S::groups,   S::unit_warps,
            S::parts,        S::planes,   S::tiles,
            S::steps};
}
template <typename X, typename Cell, typename S>
RnnFusedKernel make_backward() {
    return describe_team<X, Cell, S>(reinterpret_cast<const void*>(&rnn_fused_backward<X, Cell, S>));
}

template <typename X, typename Cell, Team Kind, int HeadDim, TeamSize Forward, TeamSize Backward>
RnnFusedShape make_shape() {
    constexpr int planes = TeamNumber<X>::planes;
    using F = TeamShape<planes, Cell::gates, 1, Kind, Forward>;
    RnnFusedShape shape{Kind, HeadDim, {}, {}};
    shape.forward = describe_team<X, Cell, F>(reinterpret_cast<const void*>(&rnn_fused_forward<X, Cell, F>));
    shape.backward = make_backward<X, Cell, TeamShape<planes, 1, Cell::gates, Kind, Backward>>();
    return shape;
}

// How many of a warp's `all` operands are in shared memory if registers hold `resident` of them.
constexpr int stored_operands(int all, int resident) { return all > resident ? all - resident : 0; }

// The team is one block, which has all 64 units.
template <typename X, typename Cell, int Rows>
RnnFusedShape make_block_shape() {
    constexpr int G = Cell::gates, parts = Rows == 8 && G % 2 == 0 ? 4 : 2;
    return make_shape<X, Cell, Team::block, 64, TeamSize{1, 1, 8, 1, 4, Rows},
                      TeamSize{2, 1, 4, parts, 4 * G / parts, Rows}>();
}
// The team is a cluster, whose blocks have 32 units each.
template <typename X, typename Cell, int HeadDim, int Rows>
RnnFusedShape make_cluster_shape() {
    return make_shape<X, Cell, Team::cluster, HeadDim, TeamSize{1, 1, 4, 2, HeadDim / 32, Rows},
                      TeamSize{2, 1, 2, 4, Cell::gates * HeadDim / 64, Rows}>();
}
// The team is a part of the grid, whose blocks have 16 units each, with tiles of 8 rows. Backward exchanges `gates`
// times as much, so fewer tiles pay there.
template <typename X, typename Cell, int HeadDim, int ForwardTiles, int BackwardTiles>
RnnFusedShape make_grid_shape() {
    return make_shape<X, Cell, Team::grid, HeadDim, TeamSize{2, ForwardTiles, 1, 8, HeadDim / 128},
                      TeamSize{2, BackwardTiles, 1, 8, Cell::gates * HeadDim / 128}>();
}

// For large heads, backward has 32 units for each block and tiles of 4 rows: half as many blocks read the vectors of
// all, and each reads half as much. The price is that registers do not hold all weights.
template <typename X, typename Cell, int HeadDim>
RnnFusedShape make_large_grid_shape() {
    constexpr int steps = Cell::gates * HeadDim / 128;
    return make_shape<X, Cell, Team::grid, HeadDim, TeamSize{2, 1, 1, 8, HeadDim / 128},
                      TeamSize{4, 1, 1, 8, steps, 4, stored_operands(2 * steps, 14)}>();
}
// Teams of 16 rows in two tiles that alternate, with specialised warps (warp_roles.cuh): four teams instead of two
// share the rows of a batch.
template <typename X, typename Cell, int HeadDim>
RnnFusedShape make_rows_grid_shape() {
    constexpr int G = Cell::gates, steps = HeadDim / 128, forward = (3 * G + 1) / 2 * steps, backward = 2 * G * steps;
    return make_shape<X, Cell, Team::grid, HeadDim,
                      TeamSize{3, 1, 1, 8, steps, 8, stored_operands(forward, 24), 3, 160, 96},
                      TeamSize{4, 1, 1, 8, G * steps, 8, stored_operands(backward, 4), 4, 96, 160}>();
}

// f32 with large heads, whose blocks have 8 units each. Backward of cells with one gate exchanges by all-gather, of
// cells with more gates by reduce-scatter.
template <typename Cell, int HeadDim, int RowTiles, int Stored>
RnnFusedShape make_wide_grid_shape() {
    constexpr int steps = HeadDim / 128, plane = (Cell::gates + 1) / 2 * steps;
    using F =
        TeamShape<3, Cell::gates, 1, Team::grid, TeamSize{1, RowTiles, 1, 8, steps, 8, HeadDim > 768 ? plane : 0}>;
    RnnFusedShape shape{Team::grid, HeadDim, {}, {}};
    shape.forward = describe_team<float, Cell, F>(reinterpret_cast<const void*>(&rnn_fused_forward<float, Cell, F>));
    if constexpr (Cell::gates > 1)
        shape.backward = make_backward<float, Cell, ScatterShape<3, Cell::gates, HeadDim, RowTiles, Stored>>();
    else
        shape.backward =
            make_backward<float, Cell, TeamShape<3, 1, 1, Team::grid, TeamSize{2, 1, 1, 8, HeadDim / 128}>>();
    return shape;
}
template <typename Cell>
std::span<const RnnFusedShape> make_wide_shapes() {
    constexpr int G = Cell::gates;
    static const std::array shapes{
        make_block_shape<float, Cell, 8>(),
        make_cluster_shape<float, Cell, 128, 8>(),
        make_shape<float, Cell, Team::grid, 256, TeamSize{2, 1, 1, 8, 2}, TeamSize{2, 1, 1, 8, 2 * G}>(),
        make_wide_grid_shape<Cell, 512, 1, 0>(),
        make_wide_grid_shape<Cell, 768, 2, 1>(),
        make_wide_grid_shape<Cell, 1024, 2, 1>(),
    };
    return shapes;
}

template <typename X, typename Cell>
std::span<const RnnFusedShape> make_half_shapes() {
    static const std::array shapes{
        make_block_shape<X, Cell, 4>(),         make_block_shape<X, Cell, 8>(),
        make_cluster_shape<X, Cell, 128, 8>(),  make_cluster_shape<X, Cell, 256, 4>(),
        make_cluster_shape<X, Cell, 256, 8>(),  make_cluster_shape<X, Cell, 512, 4>(),
        make_cluster_shape<X, Cell, 512, 8>(),  make_grid_shape<X, Cell, 512, 4, 2>(),
        make_large_grid_shape<X, Cell, 768>(),  make_rows_grid_shape<X, Cell, 768>(),
        make_large_grid_shape<X, Cell, 1024>(), make_grid_shape<X, Cell, 1024, 4, 2>(),
    };
    return shapes;
}

template <typename X, typename Cell>
std::span<const RnnFusedShape> make_cell_shapes() {
    if constexpr (std::is_same_v<X, float>)
        return make_wide_shapes<Cell>();
    else
        return make_half_shapes<X, Cell>();
}

template <typename X>
std::span<const RnnFusedShape> make_fused_shapes(flashscan::Cell cell) {
    return with_formula(cell, [](auto formula) -> std::span<const RnnFusedShape> {
        using Formula = typename decltype(formula)::Type;
        if constexpr (Formula::resets_before)
            return {};
        else
            return make_cell_shapes<X, Formula>();
    });
}

}  // namespace flashscan::cuda
