// SPDX-License-Identifier: Apache-2.0
// The pairs of data and gate types of the linear recurrence, for files that compile a kernel for all of them.
#pragma once

#include "core/types.h"
#include "cuda/device/math/types.cuh"

namespace flashscan::cuda {

// Returns f<X, G>() of the types of a pair, which must be one that core accepts.
template <typename F>
auto of_type_pair(Dtype dtype, Dtype gate_dtype, F&& f) {
    const auto of = [&]<typename X, typename Wide>() {
        return dtype == gate_dtype ? f.template operator()<X, X>() : f.template operator()<X, Wide>();
    };
    if (dtype == Dtype::bf16) return of.template operator()<__nv_bfloat16, float>();
    if (dtype == Dtype::f16) return of.template operator()<__half, float>();
    if (dtype == Dtype::c64) return of.template operator()<Complex<float>, float>();
    if (dtype == Dtype::c128) return of.template operator()<Complex<double>, double>();
    if (dtype == Dtype::f64) return of.template operator()<double, double>();
    return of.template operator()<float, float>();
}

}  // namespace flashscan::cuda
