// SPDX-License-Identifier: Apache-2.0
// Compiles the kernels "rows" and "columns" of the linear recurrence for complex data with complex and with real gates.
#include "cuda/linear/instances/rows_columns_instance.cuh"

namespace flashscan::cuda {

LinearKernels with_rows_and_columns_c64(const LinearKernels& k) {
    return with_rows_and_columns<Complex<float>, Complex<float>>(k);
}
LinearKernels with_rows_and_columns_c64_f32(const LinearKernels& k) {
    return with_rows_and_columns<Complex<float>, float>(k);
}
LinearKernels with_rows_and_columns_c128(const LinearKernels& k) {
    return with_rows_and_columns<Complex<double>, Complex<double>>(k);
}
LinearKernels with_rows_and_columns_c128_f64(const LinearKernels& k) {
    return with_rows_and_columns<Complex<double>, double>(k);
}

}  // namespace flashscan::cuda
