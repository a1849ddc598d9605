// SPDX-License-Identifier: Apache-2.0
// Compiles the kernels of matrices.cuh for all types of data.
#include "cuda/ranks/matrices.cuh"

namespace flashscan::cuda {
namespace {

template <typename X>
RankMatrixKernels kernels() {
    using Wide = typename Element<X>::Wide;
    return {reinterpret_cast<const void*>(&edge_states<X>), reinterpret_cast<const void*>(&find_edges<Wide>),
            reinterpret_cast<const void*>(&join_gradients<Wide>)};
}

}  // namespace

RankMatrixKernels rank_matrix_kernels(Dtype dtype) {
    switch (dtype) {
    case Dtype::f32: return kernels<float>();
    case Dtype::bf16: return kernels<__nv_bfloat16>();
    case Dtype::f16: return kernels<__half>();
    case Dtype::f64: return kernels<double>();
    case Dtype::c64: return kernels<Complex<float>>();
    case Dtype::c128: return kernels<Complex<double>>();
    default: return {};
    }
}

}  // namespace flashscan::cuda
