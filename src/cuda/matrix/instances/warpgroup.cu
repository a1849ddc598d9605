// SPDX-License-Identifier: Apache-2.0
// The kernels for f32 numbers that use warpgroups (wgmma), with their times.
#include "cuda/matrix/instances/instance.cuh"
#include "cuda/matrix/prefix_tree.cuh"
#include "cuda/matrix/product_warpgroup.cuh"
#include "cuda/matrix/walk_pipelined.cuh"

namespace flashscan::cuda {

namespace {

template <typename Tile>
MatrixKernel make_matrix_pipeline(double step, double rate) {
    return {reinterpret_cast<const void*>(&matrix_walk_pipelined<Tile>),
            nullptr,
            Tile::threads,
            Tile::shared_bytes,
            Tile::rows,
            Tile::dim,
            true,
            true,
            true,
            false,
            false,
            tensor_drift,
            step,
            rate};
}

MatrixKernel make_matrix_tree(double step, double rate) {
    return {reinterpret_cast<const void*>(&matrix_prefix_tree),
            nullptr,
            matrix_tree_threads,
            matrix_tree_shared_bytes,
            matrix_tree_tile,
            1024,
            true,
            true,
            true,
            true,
            false,
            tensor_drift,
            step,
            rate};
}

}  // namespace

// For each largest dim there are tiles with few rows, whose steps are shortest, and with many, which do the most work.
std::span<const MatrixKernel> matrix_warpgroup_walks() {
    static const std::array walks{
        make_matrix_walk<WarpgroupTile<16, 64, 1, 64, 3, 2>>(1.3, 100),
        make_matrix_walk<WarpgroupTile<64, 64, 1, 64, 3, 1>>(2.2, 200),
        make_matrix_walk<WarpgroupTile<16, 128, 2, 64, 3, 4>>(3.2, 120),
        make_matrix_walk<WarpgroupTile<64, 128, 2, 32, 3, 2>>(4, 200),
        make_matrix_walk<WarpgroupTile<16, 256, 4, 32, 4, 4>>(8, 120),
        make_matrix_walk<WarpgroupTile<64, 256, 4, 32, 2, 2>>(11, 200),
        make_matrix_walk<WarpgroupTile<16, 512, 4, 32, 2, 4>>(25, 120),
        make_matrix_walk<WarpgroupTile<32, 512, 4, 16, 2, 2>>(30, 180),
        make_matrix_walk<WarpgroupTile<16, 1024, 4, 8, 2, 1>>(60, 100),
        make_matrix_pipeline<PipelineTile<64, 1, 1, 64, 2, 2>>(1.4, 200),
        make_matrix_pipeline<PipelineTile<128, 2, 1, 32, 4, 2>>(6, 250),
        make_matrix_pipeline<PipelineTile<256, 2, 1, 16, 3, 2>>(19, 290),
        make_matrix_pipeline<PipelineTile<512, 1, 2, 8, 3, 1>>(50, 260),
        make_matrix_tree(2.6, 120),
    };
    return walks;
}

}  // namespace flashscan::cuda
