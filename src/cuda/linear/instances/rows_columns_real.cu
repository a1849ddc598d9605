// SPDX-License-Identifier: Apache-2.0
// Compiles the kernels "rows" and "columns" of the linear recurrence for f32 and f64 data and gates.
#include "cuda/linear/instances/rows_columns_instance.cuh"

namespace flashscan::cuda {

void add_linear_f32(LinearKernels& k) { add_rows_and_columns<float, float>(k); }
void add_linear_f64(LinearKernels& k) { add_rows_and_columns<double, double>(k); }

}  // namespace flashscan::cuda
