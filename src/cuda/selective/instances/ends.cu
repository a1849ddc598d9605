// SPDX-License-Identifier: Apache-2.0
// Compiles the kernel of ends.cuh for all types of states.
#include "cuda/selective/ends.cuh"

namespace flashscan::cuda {

const void* selective_ends_kernel(Dtype matrix_dtype) {
    switch (matrix_dtype) {
    case Dtype::f64: return reinterpret_cast<const void*>(&selective_ends<double, double>);
    case Dtype::c64: return reinterpret_cast<const void*>(&selective_ends<Complex<float>, float>);
    case Dtype::c128: return reinterpret_cast<const void*>(&selective_ends<Complex<double>, double>);
    default: return reinterpret_cast<const void*>(&selective_ends<float, float>);
    }
}

}  // namespace flashscan::cuda
