// SPDX-License-Identifier: Apache-2.0
// Compiles the kernel of selective.cuh for all types of states.
#include "cuda/launch/by_dtype.cuh"
#include "cuda/ranks/selective.cuh"

namespace flashscan::cuda {

const void* enter_selective_kernel(Dtype matrix_dtype) {
    return StateTypes::visit(
        matrix_dtype, [&]<typename V>() { return reinterpret_cast<const void*>(&enter_selective<V, RealOf<V>>); });
}

}  // namespace flashscan::cuda
