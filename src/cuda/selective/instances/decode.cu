// SPDX-License-Identifier: Apache-2.0
// Compiles the kernels of selective scans for few steps, of all types.
#include "cuda/launch/by_dtype.cuh"
#include "cuda/selective/decode.cuh"
#include "cuda/selective/instances/table.h"

namespace flashscan::cuda {
namespace {

template <typename X, typename V, int Lanes, int States, bool Plain>
SelectiveStepKernel::Instance instance_of() {
    return {reinterpret_cast<const void*>(&selective_decode<X, V, Lanes, States, Plain>),
            selective_step_rows<V, States, Plain>};
}
template <typename X, typename V, int Lanes, int States>
SelectiveStepKernel kernel_of() {
    SelectiveStepKernel kernel{Lanes, States, instance_of<X, V, Lanes, States, false>(), {}};
    if constexpr (std::is_same_v<V, float> && States == 4) kernel.plain = instance_of<X, V, Lanes, States, true>();
    return kernel;
}

template <typename X, typename V>
SelectiveStepKernel kernel_for(int64_t states) {
    if constexpr (std::is_same_v<V, typename Element<X>::Wide>) {
        if (states <= 16) return kernel_of<X, V, 4, 4>();
        if (states <= 64) return kernel_of<X, V, 16, 4>();
    } else {
        if (states <= 16) return kernel_of<X, V, 8, 2>();
    }
    return kernel_of<X, V, 32, 8>();
}

}  // namespace

SelectiveStepKernel selective_step_kernel(Dtype dtype, Dtype matrix_dtype, int64_t states) {
    return RealTypes::visit(dtype, [=]<typename X>() {
        using States = std::conditional_t<sizeof(X) == 2, TypesAmong<float>, TypesAmong<RealOf<X>, Complex<RealOf<X>>>>;
        return States::visit(matrix_dtype, [=]<typename V>() { return kernel_for<X, V>(states); });
    });
}

}  // namespace flashscan::cuda
