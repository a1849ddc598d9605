// SPDX-License-Identifier: Apache-2.0
// Compiles the kernel "decode" of the linear recurrence for all types.
#include "cuda/linear/decode.cuh"
#include "cuda/linear/instances/decode_table.h"

namespace flashscan::cuda {
namespace {

template <typename X, typename G = X>
LinearStepKernel kernel_of() {
    return {reinterpret_cast<const void*>(&linear_steps<X, G>), step_channels<typename Element<X>::Wide>};
}

}  // namespace

LinearStepKernel linear_step_kernel(Dtype dtype, Dtype gate_dtype) {
    const bool same = dtype == gate_dtype;
    if (dtype == Dtype::bf16) return same ? kernel_of<__nv_bfloat16>() : kernel_of<__nv_bfloat16, float>();
    if (dtype == Dtype::f16) return same ? kernel_of<__half>() : kernel_of<__half, float>();
    if (dtype == Dtype::c64) return same ? kernel_of<Complex<float>>() : kernel_of<Complex<float>, float>();
    if (dtype == Dtype::c128) return same ? kernel_of<Complex<double>>() : kernel_of<Complex<double>, double>();
    return dtype == Dtype::f64 ? kernel_of<double>() : kernel_of<float>();
}

}  // namespace flashscan::cuda
