// SPDX-License-Identifier: Apache-2.0
// Compiles the kernels "rows" and "columns" of the linear recurrence for complex data with complex and with real gates.
#include "cuda/linear/instances/rows_columns_instance.cuh"

namespace flashscan::cuda {

void add_linear_c64(LinearKernels& k) { add_rows_and_columns<Complex<float>, Complex<float>>(k); }
void add_linear_c64_f32(LinearKernels& k) { add_rows_and_columns<Complex<float>, float>(k); }
void add_linear_c128(LinearKernels& k) { add_rows_and_columns<Complex<double>, Complex<double>>(k); }
void add_linear_c128_f64(LinearKernels& k) { add_rows_and_columns<Complex<double>, double>(k); }

}  // namespace flashscan::cuda
