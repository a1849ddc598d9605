// SPDX-License-Identifier: Apache-2.0
// Compiles the kernels "few_long_rows" of the linear recurrence for bf16 and f16. Their code is alike, and what is
// alike within a file is packed once.
#include "cuda/linear/instances/few_long_rows_instance.cuh"

namespace flashscan::cuda {

FewLongRowsKernels few_long_rows_bf16() { return make_few_long_rows_kernels<__nv_bfloat16>(Dtype::bf16); }
FewLongRowsKernels few_long_rows_f16() { return make_few_long_rows_kernels<__half>(Dtype::f16); }

}  // namespace flashscan::cuda
