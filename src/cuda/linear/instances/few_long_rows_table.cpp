// SPDX-License-Identifier: Apache-2.0
// The table of few_long_rows_table.h. Each entry is compiled in a file of its own, but for bf16 and f16, which share
// one.
#include "cuda/linear/instances/few_long_rows_table.h"

namespace flashscan::cuda {

FewLongRowsKernels few_long_rows_f32();
FewLongRowsKernels few_long_rows_bf16();
FewLongRowsKernels few_long_rows_f16();

const FewLongRowsKernels* few_long_rows_kernels(Dtype dtype, Dtype gate_dtype) {
    static const FewLongRowsKernels table[] = {few_long_rows_f32(), few_long_rows_bf16(), few_long_rows_f16()};
    for (const FewLongRowsKernels& entry : table)
        if (entry.dtype == dtype && dtype == gate_dtype) return &entry;
    return nullptr;
}

}  // namespace flashscan::cuda
