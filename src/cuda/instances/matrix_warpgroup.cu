// SPDX-License-Identifier: Apache-2.0
#include "cuda/instances/matrix_instance.cuh"
#include "cuda/kernels/matrix_warpgroup.cuh"

namespace flashscan::cuda {

// For each largest dim the shortest step, and the most work a second.
std::span<const MatrixKernel> matrix_warpgroup_walks() {
    constexpr double rate = 230;
    static const std::array walks{
        make_matrix_walk<WarpgroupTile<16, 64, 1, 32, 3, 4>>(rate / 2),
        make_matrix_walk<WarpgroupTile<64, 64, 1, 16, 3, 1>>(rate),
        make_matrix_walk<WarpgroupTile<16, 128, 2, 32, 3, 4>>(rate / 2),
        make_matrix_walk<WarpgroupTile<64, 128, 2, 16, 3, 1>>(rate),
        make_matrix_walk<WarpgroupTile<16, 256, 4, 32, 3, 4>>(rate / 2),
        make_matrix_walk<WarpgroupTile<64, 256, 4, 16, 3, 1>>(rate),
        make_matrix_walk<WarpgroupTile<16, 512, 4, 32, 2, 4>>(rate / 2),
        make_matrix_walk<WarpgroupTile<32, 512, 4, 8, 3, 1>>(rate),
        make_matrix_walk<WarpgroupTile<16, 1024, 4, 8, 2, 1>>(rate / 2),
    };
    return walks;
}

}  // namespace flashscan::cuda
