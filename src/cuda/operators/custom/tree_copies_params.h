// SPDX-License-Identifier: Apache-2.0
// What the kernels of tree_copies.cuh are launched with besides the tree.
#pragma once

#include <cstdint>

namespace flashscan::cuda {

struct TreeEdge {
    int32_t word;       // bytes that are moved at once
    int32_t levels;     // of the highest tree
    int32_t gradients;  // of tree_first: those, not the elements
};

enum class TreeOperand : int32_t {
    left,
    right,
    out,
    grad_out
};

}  // namespace flashscan::cuda
