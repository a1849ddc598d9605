// SPDX-License-Identifier: Apache-2.0
// Compiles the kernels of affine maps of complex numbers.
#include "cuda/operators/instances/affine.cuh"

namespace flashscan::cuda {

void add_affine_complex(std::vector<ElementKernels>& table) {
    add_affine<Complex<float>>(table, Dtype::c64);
    add_affine<Complex<double>>(table, Dtype::c128);
}

}  // namespace flashscan::cuda
