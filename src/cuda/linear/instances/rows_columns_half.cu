// SPDX-License-Identifier: Apache-2.0
// Compiles the kernels "rows" and "columns" of the linear recurrence for bf16 and f16 data and gates.
#include "cuda/linear/instances/rows_columns_instance.cuh"

namespace flashscan::cuda {

LinearKernels with_rows_and_columns_bf16(const LinearKernels& k) {
    return with_rows_and_columns<__nv_bfloat16, __nv_bfloat16>(k);
}
LinearKernels with_rows_and_columns_f16(const LinearKernels& k) { return with_rows_and_columns<__half, __half>(k); }

}  // namespace flashscan::cuda
