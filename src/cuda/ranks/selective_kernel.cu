// SPDX-License-Identifier: Apache-2.0
// Compiles the kernel of selective.cuh for all types of states.
#include "cuda/ranks/selective.cuh"

namespace flashscan::cuda {

const void* enter_selective_kernel(Dtype matrix_dtype) {
    switch (matrix_dtype) {
    case Dtype::f64: return reinterpret_cast<const void*>(&enter_selective<double, double>);
    case Dtype::c64: return reinterpret_cast<const void*>(&enter_selective<Complex<float>, float>);
    case Dtype::c128: return reinterpret_cast<const void*>(&enter_selective<Complex<double>, double>);
    default: return reinterpret_cast<const void*>(&enter_selective<float, float>);
    }
}

}  // namespace flashscan::cuda
