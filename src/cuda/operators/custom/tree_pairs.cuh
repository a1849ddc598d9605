// SPDX-License-Identifier: Apache-2.0
// The kernels that combine the pairs of one level of a custom operator's tree (tree_params.h), with operands where they
// are. They are compiled at run time around the user's functions.
//
// Ownership  A thread has a pair.
// Bytes      Two elements are read and one is written for each pair; the adjoint reads four and writes two.
// Sync       None, as each level is a launch.
// Limits     None.
//
// Op is a class around the user's function, which is made from the operator's state.
#pragma once

#include "cuda/operators/custom/tree_params.h"
#include "cuda/operators/custom/unaligned_numbers.cuh"

namespace flashscan::cuda {

template <typename Op>
__device__ __forceinline__ void tree_combine(const TreeParams& p, const TreeLevel& level) {
    const int64_t index = static_cast<int64_t>(blockIdx.x) * tree_block + threadIdx.x;
    if (index >= level.count) return;
    const TreePair pair = p.pair(level, index);
    if (pair.valid) Op{p.state}(pair.left, pair.right, pair.out);
}

// T is the type of the numbers that gradients consist of. `grad_left` is scratch memory for one element of each pair.
template <typename T, typename Adjoint>
__device__ __forceinline__ void tree_differentiate(const TreeParams& p, const TreeLevel& level, char* grad_left) {
    const int64_t index = static_cast<int64_t>(blockIdx.x) * tree_block + threadIdx.x;
    if (index >= level.count) return;
    const TreeAdjoint pair = p.adjoint(level, index);
    if (!pair.valid) return;
    char* more = grad_left + index * p.bytes;
    Adjoint{p.state}(pair.left, pair.right, pair.grad_out, more, pair.grad_right);
    for (int64_t i = 0; i < p.bytes / static_cast<int64_t>(sizeof(T)); ++i)
        add_number<T>(pair.grad_left, i, load_number<T>(more, i));
}

}  // namespace flashscan::cuda
