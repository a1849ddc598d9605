// SPDX-License-Identifier: Apache-2.0
// Fills the table's entry for one type of number.
#pragma once

#include <array>

#include "cuda/matrix/gradient.cuh"
#include "cuda/matrix/instances/table.h"
#include "cuda/matrix/product_simt.cuh"
#include "cuda/matrix/walk_general.cuh"

namespace flashscan::cuda {

static_assert(matrix_gradient_block == matrix_gradient_threads && matrix_gradient_block_tile == matrix_gradient_tile);

// MatrixKernel::drift after MakeUp's correction, as measured on chains of random matrices.
constexpr double tensor_drift = 0.2;

template <typename Tile>
MatrixKernel make_matrix_walk(double step, double rate) {
    const void* plain = nullptr;
    if constexpr (std::is_same_v<typename Tile::Number, float>)
        plain = reinterpret_cast<const void*>(&matrix_walk_general<Tile, true>);
    return {reinterpret_cast<const void*>(&matrix_walk_general<Tile, false>),
            plain,
            Tile::threads,
            matrix_shared_bytes<Tile>,
            Tile::rows,
            Tile::dim,
            Tile::on_tensor_cores,
            Tile::by_warpgroups,
            false,
            false,
            false,
            Tile::on_tensor_cores ? tensor_drift : 0,
            step,
            rate};
}

template <typename Number>
MatrixKernels make_matrix_kernels(std::span<const MatrixKernel> walks) {
    return {walks, reinterpret_cast<const void*>(&matrix_gradient<Number>),
            reinterpret_cast<const void*>(&affine_gradient<Number>)};
}

template <typename Number>
const MatrixKernels& make_simt_kernels() {
    constexpr int k_tile = sizeof(Number) > 8 ? 8 : 16;
    constexpr double rate = 60.0 / (is_complex(dtype_of<Number>) ? 4 : 1) * (sizeof(RealOf<Number>) == 4 ? 1.5 : 1);
    constexpr double slower = 90 / rate;
    static const std::array walks{
        make_matrix_walk<SimtTile<Number, 32, 32, 16, 8, k_tile>>(1.2 * slower, rate),
        make_matrix_walk<SimtTile<Number, 32, 128, 8, 32, k_tile>>(6 * slower, rate),
        make_matrix_walk<SimtTile<Number, 4, 1024, 1, 256, 2>>(50 * slower, rate),
    };
    static const MatrixKernels kernels = make_matrix_kernels<Number>(walks);
    return kernels;
}

}  // namespace flashscan::cuda
