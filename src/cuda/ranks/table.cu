// SPDX-License-Identifier: Apache-2.0
// Compiles the kernels of one rank of several, for all pairs of data and gates.
#include "cuda/ranks/kernels.cuh"
#include "cuda/ranks/table.h"

namespace flashscan::cuda {
namespace {

template <typename X, typename G>
RankKernels kernels() {
    using Ty = Types<X, G>;
    RankKernels k{};
    k.summarise[0][0] = reinterpret_cast<const void*>(&summarise_rows<Ty, false>);
    k.summarise[0][1] = reinterpret_cast<const void*>(&summarise_rows<Ty, true>);
    k.summarise[1][0] = reinterpret_cast<const void*>(&summarise_time<Ty, false>);
    k.summarise[1][1] = reinterpret_cast<const void*>(&summarise_time<Ty, true>);
    k.close = reinterpret_cast<const void*>(&close_rank<Ty>);
    k.enter = reinterpret_cast<const void*>(&enter_rank<Ty>);
    return k;
}

}  // namespace

RankKernels rank_kernels(Dtype dtype, Dtype gate) {
    switch (dtype) {
    case Dtype::f32: return kernels<float, float>();
    case Dtype::bf16:
        return gate == Dtype::bf16 ? kernels<__nv_bfloat16, __nv_bfloat16>() : kernels<__nv_bfloat16, float>();
    case Dtype::f16: return gate == Dtype::f16 ? kernels<__half, __half>() : kernels<__half, float>();
    case Dtype::f64: return kernels<double, double>();
    case Dtype::c64:
        return gate == Dtype::c64 ? kernels<Complex<float>, Complex<float>>() : kernels<Complex<float>, float>();
    case Dtype::c128:
        return gate == Dtype::c128 ? kernels<Complex<double>, Complex<double>>() : kernels<Complex<double>, double>();
    default: return {};
    }
}

}  // namespace flashscan::cuda
