// SPDX-License-Identifier: Apache-2.0
#include "cuda/instances/matrix_instance.cuh"
#include "cuda/kernels/matrix_warpgroup.cuh"

namespace flashscan::cuda {

// For each largest dim the shortest step, and the most work a second.
std::span<const MatrixKernel> matrix_warpgroup_walks() {
    static const std::array walks{
        make_matrix_walk<WarpgroupTile<16, 64, 1, 64, 3, 2>>(0.8, 100),
        make_matrix_walk<WarpgroupTile<64, 64, 1, 64, 3, 1>>(2.2, 200),
        make_matrix_walk<WarpgroupTile<16, 128, 2, 64, 3, 4>>(1.3, 120),
        make_matrix_walk<WarpgroupTile<64, 128, 2, 32, 3, 2>>(4, 200),
        make_matrix_walk<WarpgroupTile<16, 256, 4, 32, 4, 4>>(2.6, 120),
        make_matrix_walk<WarpgroupTile<64, 256, 4, 32, 2, 2>>(11, 200),
        make_matrix_walk<WarpgroupTile<16, 512, 4, 32, 2, 4>>(9, 120),
        make_matrix_walk<WarpgroupTile<32, 512, 4, 16, 2, 2>>(30, 180),
        make_matrix_walk<WarpgroupTile<16, 1024, 4, 8, 2, 1>>(60, 100),
    };
    return walks;
}

}  // namespace flashscan::cuda
