// SPDX-License-Identifier: Apache-2.0
// Compiles the kernels "rows" and "columns" of the linear recurrence for f32 and f64 data and gates.
#include "cuda/linear/instances/rows_columns_instance.cuh"

namespace flashscan::cuda {

LinearKernels with_rows_and_columns_f32(const LinearKernels& k) { return with_rows_and_columns<float, float>(k); }
LinearKernels with_rows_and_columns_f64(const LinearKernels& k) { return with_rows_and_columns<double, double>(k); }

}  // namespace flashscan::cuda
