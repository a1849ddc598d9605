// SPDX-License-Identifier: Apache-2.0
// Compiles the kernels "rows" and "columns" of the linear recurrence for bf16 and f16 data with f32 gates.
#include "cuda/linear/instances/rows_columns_instance.cuh"

namespace flashscan::cuda {

LinearKernels with_rows_and_columns_bf16_f32(const LinearKernels& k) {
    return with_rows_and_columns<__nv_bfloat16, float>(k);
}
LinearKernels with_rows_and_columns_f16_f32(const LinearKernels& k) { return with_rows_and_columns<__half, float>(k); }

}  // namespace flashscan::cuda
