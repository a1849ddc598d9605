// SPDX-License-Identifier: Apache-2.0
// Arguments of the kernels of tree_copies.cuh besides the tree.
#pragma once

#include <cstdint>

namespace flashscan::cuda {

struct TreeEdge {
    int32_t word;       // bytes that a thread copies at once
    int32_t levels;     // levels of the highest tree
    int32_t gradients;  // tree_first alone: whether to copy gradients instead of elements
};

enum class TreeOperand : int32_t {
    left,
    right,
    out,
    grad_out
};

}  // namespace flashscan::cuda
