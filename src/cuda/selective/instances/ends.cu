// SPDX-License-Identifier: Apache-2.0
// Compiles the kernel of ends.cuh for all types of states.
#include "cuda/launch/by_dtype.cuh"
#include "cuda/selective/ends.cuh"

namespace flashscan::cuda {

const void* selective_ends_kernel(Dtype matrix_dtype) {
    return StateTypes::visit(
        matrix_dtype, [&]<typename V>() { return reinterpret_cast<const void*>(&selective_ends<V, RealOf<V>>); });
}

}  // namespace flashscan::cuda
