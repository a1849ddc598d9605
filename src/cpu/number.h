// SPDX-License-Identifier: Apache-2.0
// The kernels' name of a dtype's numbers, tensors of them, and their store.
#pragma once

#include "core/extents.h"
#include "core/types.h"
#include "cpu/kernels/linear.h"
#include "math/number.h"

namespace flashscan::cpu {

inline Number number_of(Dtype dtype) {
    switch (dtype) {
    case Dtype::bf16: return Number::bf16;
    case Dtype::f16: return Number::f16;
    case Dtype::f64:
    case Dtype::c128: return Number::f64;
    case Dtype::i32: return Number::i32;
    case Dtype::i64: return Number::i64;
    case Dtype::u8: return Number::u8;
    case Dtype::f32:
    case Dtype::c64: break;
    }
    return Number::f32;
}

// A tensor as kernels take it; `strides` are in elements. Kernels write only to those of a call's outputs.
inline Tensor tensor_of(const void* data, Dtype dtype, const Strides& strides) {
    const int32_t parts = is_complex(dtype) ? 2 : 1;
    return {static_cast<char*>(const_cast<void*>(data)),
            number_of(dtype),
            parts,
            strides.batch * parts,
            strides.time * parts,
            strides.channels * parts};
}

inline void store_number(const Tensor& t, int64_t i, double value) {
    const auto single = static_cast<float>(value);
    switch (t.number) {
    case Number::f32: reinterpret_cast<float*>(t.data)[i] = single; return;
    case Number::bf16: reinterpret_cast<Bf16*>(t.data)[i] = to_bf16(single); return;
    case Number::f16: reinterpret_cast<F16*>(t.data)[i] = to_f16(single); return;
    case Number::f64: reinterpret_cast<double*>(t.data)[i] = value; return;
    case Number::i32:
    case Number::i64:
    case Number::u8: return;  // no gate is one
    }
}

}  // namespace flashscan::cpu
