// SPDX-License-Identifier: Apache-2.0
// Compiles the kernels of one rank of several, for all pairs of data and gates.
#include "cuda/launch/by_dtype.cuh"
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
    return NumberTypes::visit_pair(dtype, gate, [&]<typename X, typename G>() { return kernels<X, G>(); });
}

}  // namespace flashscan::cuda
