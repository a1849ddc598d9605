// SPDX-License-Identifier: Apache-2.0
// Compiles the kernels "few_long_rows" of the linear recurrence for f32.
#include "cuda/linear/instances/few_long_rows_instance.cuh"

namespace flashscan::cuda {

FewLongRowsKernels few_long_rows_f32() { return make_few_long_rows_kernels<float>(Dtype::f32); }

}  // namespace flashscan::cuda
