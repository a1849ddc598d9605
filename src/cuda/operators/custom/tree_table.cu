// SPDX-License-Identifier: Apache-2.0
// The table of tree_table.h.
#include "cuda/operators/custom/tree_copies.cuh"
#include "cuda/operators/custom/tree_table.h"

namespace flashscan::cuda {
namespace {

template <typename T>
TreeKernels make() {
    const auto address = [](auto* kernel) { return reinterpret_cast<const void*>(kernel); };
    return {address(&tree_first), address(&tree_last), address(&tree_gather), address(&tree_enter<T>),
            address(&tree_add<T>)};
}

}  // namespace

TreeKernels tree_kernels(Dtype dtype) { return dtype == Dtype::f64 ? make<double>() : make<float>(); }

}  // namespace flashscan::cuda
