// SPDX-License-Identifier: Apache-2.0
// Compiles the kernels of gated layers for few steps, of all types.
#include <utility>

#include "cuda/gated/decode.cuh"
#include "cuda/gated/instances/table.h"
#include "cuda/launch/by_dtype.cuh"

namespace flashscan::cuda {
namespace {

template <typename X, typename G, int... layers>
GatedStepKernels kernels_of(std::integer_sequence<int, layers...>) {
    using R = typename Element<X>::Wide;
    GatedStepKernels kernels;
    // Layers with a name have kernels of their own only in f32 and 16 bits: in f64 these would not be faster, and GATE
    // rarely has a type of its own. Kernels for many steps are instantiated by the same rule.
    if constexpr (sizeof(R) == 4 && std::is_same_v<X, G>)
        ((kernels.named[layers] = reinterpret_cast<const void*>(&gated_decode<X, G, NamedParts<layers>>)), ...);
    kernels.any = reinterpret_cast<const void*>(&gated_decode<X, G, AnyParts>);
    kernels.channels = step_channels<R>;
    return kernels;
}

}  // namespace

GatedStepKernels gated_step_kernels(Dtype dtype, Dtype gate_dtype) {
    return RealTypes::visit_pair(dtype, gate_dtype, [&]<typename X, typename G>() {
        return kernels_of<X, G>(std::make_integer_sequence<int, gated_layer_count>());
    });
}

}  // namespace flashscan::cuda
