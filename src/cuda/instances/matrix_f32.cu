// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include "cuda/instances/matrix_instance.cuh"
#include "cuda/kernels/matrix_tensor.cuh"

namespace flashscan::cuda {

std::span<const MatrixKernel> matrix_warpgroup_walks();

// For each largest dim the shortest step, and the most work a second.
const MatrixKernels& matrix_f32() {
    constexpr double tensor = 150, simt = 90;
    static const std::array own{
        make_matrix_walk<SimtTile<float, 16, 16, 8, 4, 16>>(simt),
        make_matrix_walk<SimtTile<float, 16, 32, 16, 8, 32>>(simt),
        make_matrix_walk<SimtTile<float, 16, 64, 8, 16, 32>>(simt),
        make_matrix_walk<SimtTile<float, 64, 64, 16, 8, 32>>(simt),
        make_matrix_walk<SimtTile<float, 32, 128, 8, 32, 32>>(simt),
        make_matrix_walk<SimtTile<float, 16, 256, 4, 64, 16>>(simt),
        make_matrix_walk<SimtTile<float, 4, 1024, 1, 256, 4>>(simt),
        make_matrix_walk<TensorTile<16, 16, 1, 2, 16, 4>>(tensor),
        make_matrix_walk<TensorTile<16, 32, 1, 4, 32, 4>>(tensor),
        make_matrix_walk<TensorTile<32, 32, 2, 2, 32, 3>>(tensor),
        make_matrix_walk<TensorTile<16, 64, 1, 8, 32, 4>>(tensor),
        make_matrix_walk<TensorTile<64, 64, 2, 2, 32, 3>>(tensor),
        make_matrix_walk<TensorTile<16, 128, 1, 16, 32, 3>>(tensor),
        make_matrix_walk<TensorTile<128, 128, 4, 2, 16, 3>>(tensor),
        make_matrix_walk<TensorTile<16, 256, 1, 16, 16, 3>>(tensor),
        make_matrix_walk<TensorTile<128, 256, 4, 4, 16, 3>>(tensor),
        make_matrix_walk<TensorTile<16, 512, 1, 16, 8, 3>>(tensor),
        make_matrix_walk<TensorTile<64, 512, 2, 8, 8, 3>>(tensor),
        make_matrix_walk<TensorTile<16, 1024, 1, 16, 8, 2>>(tensor),
        make_matrix_walk<TensorTile<32, 1024, 1, 16, 8, 2>>(tensor),
    };
    static const std::vector<MatrixKernel> walks = [] {
        const std::span<const MatrixKernel> by_warpgroups = matrix_warpgroup_walks();
        std::vector<MatrixKernel> all(own.begin(), own.end());
        all.insert(all.end(), by_warpgroups.begin(), by_warpgroups.end());
        return all;
    }();
    static const MatrixKernels kernels = make_matrix_kernels<float>(walks);
    return kernels;
}

}  // namespace flashscan::cuda
