// SPDX-License-Identifier: Apache-2.0
// The tables of the kernels of associative operators, compiled once for each instruction set.
#pragma once

#include "cpu/kernels/operator_affine.h"
#include "cpu/kernels/operator_matrix.h"
#include "cpu/kernels/operator_numbers.h"

namespace flashscan::cpu::FLASHSCAN_ISA {

NumbersKernels numbers_kernels(int32_t kind, Number number, bool complex) {
    if (complex)
        return number == Number::f64 ? complex_numbers_of_kind<double>(kind) : complex_numbers_of_kind<float>(kind);
    switch (number) {
    case Number::f32: return numbers_of_kind<float>(kind);
    case Number::f64: return numbers_of_kind<double>(kind);
    case Number::i32: return numbers_of_kind<int32_t>(kind);
    case Number::i64: return numbers_of_kind<int64_t>(kind);
    case Number::u8: return numbers_of_kind<uint8_t>(kind);
    case Number::bf16:
    case Number::f16: break;  // no arithmetic has these types
    }
    return {};
}

template <typename T>
MatrixKernels matrix_of() {
    return {vector_bytes,   Matrix<T>::buffer_numbers, matrix_forward<T>, matrix_backward<T>,
            matrix_join<T>, matrix_gradient<T>,        affine_forward<T>, affine_backward<T>};
}

MatrixKernels matrix_kernels(bool wide) { return wide ? matrix_of<double>() : matrix_of<float>(); }

}  // namespace flashscan::cpu::FLASHSCAN_ISA
