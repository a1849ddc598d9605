// SPDX-License-Identifier: Apache-2.0
// The kernels' name of a dtype's numbers.
#pragma once

#include "core/types.h"
#include "cpu/kernels/linear.h"

namespace flashscan::cpu {

inline Number number_of(Dtype dtype) {
    switch (dtype) {
    case Dtype::bf16: return Number::bf16;
    case Dtype::f16: return Number::f16;
    case Dtype::f64:
    case Dtype::c128: return Number::f64;
    default: return Number::f32;
    }
}

}  // namespace flashscan::cpu
