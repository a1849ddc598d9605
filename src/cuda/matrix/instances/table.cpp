// SPDX-License-Identifier: Apache-2.0
// The table of table.h. Each entry is compiled in a file of its own.
#include "cuda/matrix/instances/table.h"

#include "cuda/launch/by_dtype.h"

namespace flashscan::cuda {

const MatrixKernels& matrix_f32();
const MatrixKernels& matrix_f64();
const MatrixKernels& matrix_c64();
const MatrixKernels& matrix_c128();

const MatrixKernels& matrix_kernels(Dtype numbers) {
    return of_dtype<const MatrixKernels& (*)()>(
        numbers,
        {{Dtype::f32, matrix_f32}, {Dtype::f64, matrix_f64}, {Dtype::c64, matrix_c64}, {Dtype::c128, matrix_c128}})();
}

}  // namespace flashscan::cuda
