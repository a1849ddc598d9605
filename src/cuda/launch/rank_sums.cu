// SPDX-License-Identifier: Apache-2.0
// The kernels by which ranks add up gradients, a thread an element: pack_terms and add_up_terms, which adds the terms
// in their order, 16-bit ones in f32.
#include "cuda/launch/by_dtype.cuh"
#include "cuda/launch/rank_sums_kernels.h"
#include "cuda/launch/rank_threads.h"

namespace flashscan::cuda {
namespace {

// Returns where element i of the dense tensor lies in the other one.
__device__ __forceinline__ int64_t place_of(const RankSumParams& p, int64_t i) {
    int64_t place = 0;
    for (int axis = p.axes - 1; axis >= 0; --axis) {
        const int64_t next = i / p.extents[axis];
        place += (i - next * p.extents[axis]) * p.strides[axis];
        i = next;
    }
    return place;
}

template <typename X>
__global__ void __launch_bounds__(rank_threads) pack_terms(const __grid_constant__ RankSumParams p) {
    const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < p.count) static_cast<X*>(p.to)[i] = static_cast<const X*>(p.from)[place_of(p, i)];
}

template <typename X>
__global__ void __launch_bounds__(rank_threads) add_up_terms(const __grid_constant__ RankSumParams p) {
    const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i >= p.count) return;
    typename Element<X>::Wide sum{};
    for (int32_t k = 0; k < p.terms; ++k)
        sum = sum + Element<X>::widen(reinterpret_cast<const X*>(static_cast<const char*>(p.from) + k * p.step)[i]);
    static_cast<X*>(p.to)[place_of(p, i)] = Element<X>::narrow(sum);
}

template <typename X>
RankSumKernels kernels() {
    return {reinterpret_cast<const void*>(&pack_terms<X>), reinterpret_cast<const void*>(&add_up_terms<X>)};
}

}  // namespace

RankSumKernels rank_sum_kernels(Dtype dtype) {
    return NumberTypes::visit(dtype, [&]<typename X>() { return kernels<X>(); });
}

}  // namespace flashscan::cuda
