// SPDX-License-Identifier: Apache-2.0
// The kernels for the gradients of the elements of a chain of matrices, from the gradients g[t] of its prefixes y[t]:
//
//     matrix_gradient, of MATMUL    GRAD|INPUT[t] = y[t-1]^H g[t]
//     affine_gradient, of AFFINE    GRAD|GATE[t] = g[t] y[t-1]^H,  beside GRAD|INPUT[t] = g[t]
//
// Without STATE_IN the first step was combined with nothing, so its gradients are g and zeros.
//
// Ownership  MATMUL: a block of 256 threads computes a tile of 64 x 64 of a product, a thread 4 x 4 of it; the factors
//            go through shared memory in k-tiles of 16 rows. AFFINE: a thread computes one number of GRAD|GATE.
// Bytes      MATMUL reads both factors d / 64 times each and writes the product once; AFFINE reads vectors and writes
//            GRAD|GATE once.
// Sync       MATMUL: two __syncthreads for each k-tile. Blocks do not depend on each other.
// Limits     None.
#pragma once

#include "cuda/device/tile/sequences.cuh"
#include "cuda/matrix/numbers.cuh"
#include "cuda/matrix/params.h"

namespace flashscan::cuda {

inline constexpr int matrix_gradient_tile = 64, matrix_gradient_threads = 256;

// A step of a chain.
struct MatrixStep {
    int64_t place = 0;   // where its element is
    int64_t before = 0;  // where y[t-1] is; not used for the first step, whose y[-1] is STATE_IN of `chain`
    int64_t chain = 0;
    bool first = false;
    bool valid = false;  // whether it belongs to a sequence
};

// Finds a step from its number among the steps of all chains.

__device__ __forceinline__ MatrixStep find_matrix_step(const MatrixGradient& m, int64_t index) {
    MatrixStep step;
    int64_t outer = index / m.chains_inside / m.steps, t = index / m.chains_inside % m.steps;
    const int64_t inner = index % m.chains_inside, row = m.offsets.data != nullptr ? 0 : outer;
    int64_t from = 0, end = m.steps;
    if (m.offsets.data != nullptr) {
        outer = find_sequence(m.offsets, t);
        from = load_offset(m.offsets, outer);
        end = load_offset(m.offsets, outer + 1);
        if (t < from || t >= end) return step;
    }
    step.valid = true;
    step.chain = outer * m.chains_inside + inner;
    step.first = t == (m.turned != 0 ? end - 1 : from);
    step.place = row * m.places.outer + t * m.places.time + inner * m.places.inner;
    step.before = m.y_is_before != 0 ? step.place : step.place + (m.turned != 0 ? m.places.time : -m.places.time);
    return step;
}

template <typename Number>
__global__ __launch_bounds__(matrix_gradient_threads) void matrix_gradient(const __grid_constant__ MatrixGradient m,
                                                                           int32_t tiles) {
    constexpr int tile = matrix_gradient_tile, depth = 16, own = 4;
    __shared__ Number left[depth][tile], right[depth][tile];
    const int d = m.dim, thread = static_cast<int>(threadIdx.x);
    const int row0 = static_cast<int>(blockIdx.x) % (tiles * tiles) / tiles * tile;
    const int column0 = static_cast<int>(blockIdx.x) % tiles * tile;
    const MatrixStep step = find_matrix_step(m, blockIdx.x / (tiles * tiles));
    if (!step.valid) return;
    const auto* g = static_cast<const Number*>(m.g) + step.place * d * d;
    const bool known = !step.first || m.state_in != nullptr;
    const auto y = [&](int i, int j) {
        if (step.first) return static_cast<const Number*>(m.state_in)[(step.chain * d + i) * d + j];
        return load_number<Number>(m.y, m.y_dtype, (step.before * d + i) * d + j);
    };
    Number sum[own][own] = {};
    const int r = thread / 16, c = thread % 16;
    for (int k0 = 0; known && k0 < d; k0 += depth) {
        __syncthreads();
        for (int i = thread; i < depth * tile; i += matrix_gradient_threads) {
            const int k = i / tile, n = i % tile;
            const bool inside = k0 + k < d;
            left[k][n] = inside && row0 + n < d ? conj(y(k0 + k, row0 + n)) : Number{};
            right[k][n] = inside && column0 + n < d ? g[static_cast<int64_t>(k0 + k) * d + column0 + n] : Number{};
        }
        __syncthreads();
        for (int k = 0; k < min(depth, d - k0); ++k)
#pragma unroll
            for (int i = 0; i < own; ++i)
#pragma unroll
                for (int j = 0; j < own; ++j)
                    sum[i][j] = multiply_add(left[k][r + 16 * i], right[k][c + 16 * j], sum[i][j]);
    }
#pragma unroll
    for (int i = 0; i < own; ++i)
#pragma unroll
        for (int j = 0; j < own; ++j) {
            const int row = row0 + r + 16 * i, column = column0 + c + 16 * j;
            if (row >= d || column >= d) continue;
            const int64_t at = static_cast<int64_t>(row) * d + column;
            store_number(m.grad_input, m.dtype, step.place * d * d + at, known ? sum[i][j] : g[at]);
        }
}

template <typename Number>
__global__ __launch_bounds__(matrix_gradient_threads) void affine_gradient(const __grid_constant__ MatrixGradient m,
                                                                           int64_t count) {
    const int d = m.dim;
    for (int64_t n = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; n < count;
         n += static_cast<int64_t>(gridDim.x) * blockDim.x) {
        const int i = static_cast<int>(n / d % d), j = static_cast<int>(n % d);
        const MatrixStep step = find_matrix_step(m, n / d / d);
        if (!step.valid) continue;
        const Number g = static_cast<const Number*>(m.g)[step.place * d + i];
        if (m.grad_input != nullptr && j == 0) store_number(m.grad_input, m.dtype, step.place * d + i, g);
        if (m.grad_gate == nullptr) continue;
        Number product{};
        if (!step.first)
            product = g * conj(load_number<Number>(m.y, m.y_dtype, step.before * d + j));
        else if (m.state_in != nullptr)
            product = g * conj(static_cast<const Number*>(m.state_in)[step.chain * d + j]);
        store_number(m.grad_gate, m.dtype, (step.place * d + i) * d + j, product);
    }
}

}  // namespace flashscan::cuda
