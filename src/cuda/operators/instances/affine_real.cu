// SPDX-License-Identifier: Apache-2.0
// Compiles the kernels of affine maps of real numbers.
#include "cuda/operators/instances/affine.cuh"

namespace flashscan::cuda {

void add_affine_real(std::vector<ElementKernels>& table) {
    add_affine<float>(table, Dtype::f32);
    add_affine<__nv_bfloat16>(table, Dtype::bf16);
    add_affine<__half>(table, Dtype::f16);
    add_affine<double>(table, Dtype::f64);
}

}  // namespace flashscan::cuda
