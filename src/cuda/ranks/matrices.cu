// SPDX-License-Identifier: Apache-2.0
// Compiles the kernels of matrices.cuh for all types of data.
#include "cuda/launch/by_dtype.cuh"
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
    return NumberTypes::visit(dtype, [&]<typename X>() { return kernels<X>(); });
}

}  // namespace flashscan::cuda
