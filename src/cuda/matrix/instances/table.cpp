// SPDX-License-Identifier: Apache-2.0
// The table of table.h. Each entry is compiled in a file of its own.
#include "cuda/matrix/instances/table.h"

namespace flashscan::cuda {

const MatrixKernels& matrix_f32();
const MatrixKernels& matrix_f64();
const MatrixKernels& matrix_c64();
const MatrixKernels& matrix_c128();

const MatrixKernels& matrix_kernels(Dtype numbers) {
    switch (numbers) {
    case Dtype::f64: return matrix_f64();
    case Dtype::c64: return matrix_c64();
    case Dtype::c128: return matrix_c128();
    default: return matrix_f32();
    }
}

}  // namespace flashscan::cuda
