// SPDX-License-Identifier: Apache-2.0
// The kernels for f32 numbers, with their times.
#include <vector>

#include "cuda/matrix/instances/instance.cuh"
#include "cuda/matrix/product_tensor.cuh"
#include "cuda/matrix/small_scan.cuh"

namespace flashscan::cuda {

std::span<const MatrixKernel> matrix_warpgroup_walks();

template <int Dim>
MatrixKernel make_matrix_scan(double step) {
    MatrixKernel kernel;
    kernel.function = reinterpret_cast<const void*>(&matrix_small_scan<Dim>);
    kernel.threads = 32 * matrix_scan_warps;
    kernel.shared_bytes = matrix_scan_shared_bytes(Dim, 1);
    kernel.rows = kernel.dim = Dim;
    kernel.plain_only = kernel.is_scan = true;
    kernel.step = step;
    return kernel;
}

// For each largest dim there are tiles with few rows, whose steps are shortest, and with many, which do the most work.
// TensorTile has none for matrices of 33 to 128 rows, as those of 16 x 64 gained no more than 5 % on an H200.
const MatrixKernels& matrix_f32() {
    static const std::array own{
        make_matrix_walk<SimtTile<float, 16, 16, 8, 4, 16>>(1, 60),
        make_matrix_walk<SimtTile<float, 16, 32, 16, 8, 32>>(1.4, 60),
        make_matrix_walk<SimtTile<float, 16, 64, 8, 16, 32>>(1.6, 60),
        make_matrix_walk<SimtTile<float, 64, 64, 8, 8, 32>>(5, 90),
        make_matrix_walk<SimtTile<float, 32, 128, 8, 32, 32>>(12, 70),
        make_matrix_walk<SimtTile<float, 16, 256, 4, 64, 16>>(20, 60),
        make_matrix_walk<SimtTile<float, 4, 1024, 1, 256, 4>>(50, 50),
        make_matrix_walk<TensorTile<16, 16, 1, 2, 16, 4>>(0.6, 40),
        make_matrix_walk<TensorTile<16, 32, 1, 4, 32, 4>>(0.8, 40),
        make_matrix_walk<TensorTile<16, 256, 1, 16, 16, 3>>(15, 40),
        make_matrix_walk<TensorTile<128, 256, 4, 4, 16, 3>>(50, 95),
        make_matrix_walk<TensorTile<64, 512, 2, 8, 8, 3>>(100, 95),
        make_matrix_walk<TensorTile<32, 1024, 1, 16, 8, 2>>(220, 95),
        make_matrix_scan<16>(0.4),
        make_matrix_scan<32>(1.4),
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
