// SPDX-License-Identifier: Apache-2.0
// The kernels of associative operators that a file is compiled with.
#pragma once

#include "cpu/kernels/operator_affine.h"
#include "cpu/kernels/operator_matrix.h"
#include "cpu/kernels/operator_numbers.h"

namespace flashscan::cpu::FLASHSCAN_ISA {

NumbersKernels numbers_kernels(int32_t kind, bool wide, bool complex) {
    return wide ? numbers_of_kind<double>(kind, complex) : numbers_of_kind<float>(kind, complex);
}

template <typename T>
MatrixKernels matrix_of() {
    return {vector_bytes,   Matrix<T>::buffer_numbers, matrix_forward<T>, matrix_backward<T>,
            matrix_join<T>, matrix_gradient<T>,        affine_forward<T>, affine_backward<T>};
}

MatrixKernels matrix_kernels(bool wide) { return wide ? matrix_of<double>() : matrix_of<float>(); }

}  // namespace flashscan::cpu::FLASHSCAN_ISA
