// SPDX-License-Identifier: Apache-2.0
// Compiles the kernel "decode" of the linear recurrence for all types.
#include "cuda/launch/by_dtype.cuh"
#include "cuda/linear/decode.cuh"
#include "cuda/linear/instances/decode_table.h"

namespace flashscan::cuda {

LinearStepKernel linear_step_kernel(Dtype dtype, Dtype gate_dtype) {
    return NumberTypes::visit_pair(dtype, gate_dtype, [&]<typename X, typename G>() {
        return LinearStepKernel{reinterpret_cast<const void*>(&linear_decode<X, G>),
                                step_channels<typename Element<X>::Wide>};
    });
}

}  // namespace flashscan::cuda
