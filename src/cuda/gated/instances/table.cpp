// SPDX-License-Identifier: Apache-2.0
// The table of table.h. Each entry is compiled in a file of its own, but for bf16 and f16, which share one; kernels of
// few rows are added from files of theirs.
#include "cuda/gated/instances/table.h"

#include "cuda/launch/by_dtype.h"

namespace flashscan::cuda {

const GatedKernels& gated_kernels(Dtype dtype) {
    static const std::pair<Dtype, GatedKernels> table[] = {{Dtype::f32, with_gated_few_rows_f32(gated_f32())},
                                                           {Dtype::bf16, with_gated_few_rows_bf16(gated_bf16())},
                                                           {Dtype::f16, with_gated_few_rows_f16(gated_f16())},
                                                           {Dtype::f64, gated_f64()}};
    return of_dtype(dtype, table);
}

}  // namespace flashscan::cuda
