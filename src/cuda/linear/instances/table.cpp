// SPDX-License-Identifier: Apache-2.0
// The table of table.h. Each entry is compiled in a file of its own, but for bf16 and f16, which share one, as they do
// with gates of f32; the kernels "rows" and "columns" are added from files of theirs.
#include "cuda/linear/instances/table.h"

#include "core/error.h"

namespace flashscan::cuda {

LinearKernels linear_f32();
LinearKernels linear_bf16();
LinearKernels linear_bf16_f32();
LinearKernels linear_f16();
LinearKernels linear_f16_f32();
LinearKernels linear_f64();
LinearKernels linear_c64();
LinearKernels linear_c64_f32();
LinearKernels linear_c128();
LinearKernels linear_c128_f64();

LinearKernels with_rows_and_columns_f32(const LinearKernels& kernels);
LinearKernels with_rows_and_columns_bf16(const LinearKernels& kernels);
LinearKernels with_rows_and_columns_bf16_f32(const LinearKernels& kernels);
LinearKernels with_rows_and_columns_f16(const LinearKernels& kernels);
LinearKernels with_rows_and_columns_f16_f32(const LinearKernels& kernels);
LinearKernels with_rows_and_columns_f64(const LinearKernels& kernels);
LinearKernels with_rows_and_columns_c64(const LinearKernels& kernels);
LinearKernels with_rows_and_columns_c64_f32(const LinearKernels& kernels);
LinearKernels with_rows_and_columns_c128(const LinearKernels& kernels);
LinearKernels with_rows_and_columns_c128_f64(const LinearKernels& kernels);

const LinearKernels& linear_kernels(Dtype dtype, Dtype gate_dtype) {
    static const LinearKernels table[] = {
        with_rows_and_columns_f32(linear_f32()),           with_rows_and_columns_bf16(linear_bf16()),
        with_rows_and_columns_bf16_f32(linear_bf16_f32()), with_rows_and_columns_f16(linear_f16()),
        with_rows_and_columns_f16_f32(linear_f16_f32()),   with_rows_and_columns_f64(linear_f64()),
        with_rows_and_columns_c64(linear_c64()),           with_rows_and_columns_c64_f32(linear_c64_f32()),
        with_rows_and_columns_c128(linear_c128()),         with_rows_and_columns_c128_f64(linear_c128_f64())};
    for (const LinearKernels& entry : table)
        if (entry.dtype == dtype && entry.gate_dtype == gate_dtype) return entry;
    fail(Code::internal_error, "no CUDA kernels for dtype {} with gate_dtype {}", name_of(dtype), name_of(gate_dtype));
}

}  // namespace flashscan::cuda
