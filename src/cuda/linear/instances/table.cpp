// SPDX-License-Identifier: Apache-2.0
// The table of table.h. Each entry is compiled in a file of its own, but for bf16 and f16, which share one; the kernels
// "rows" and "columns" are added from files of theirs.
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

void add_linear_f32(LinearKernels& kernels);
void add_linear_bf16(LinearKernels& kernels);
void add_linear_bf16_f32(LinearKernels& kernels);
void add_linear_f16(LinearKernels& kernels);
void add_linear_f16_f32(LinearKernels& kernels);
void add_linear_f64(LinearKernels& kernels);
void add_linear_c64(LinearKernels& kernels);
void add_linear_c64_f32(LinearKernels& kernels);
void add_linear_c128(LinearKernels& kernels);
void add_linear_c128_f64(LinearKernels& kernels);

const LinearKernels& linear_kernels(Dtype dtype, Dtype gate_dtype) {
    const auto with = [](LinearKernels kernels, void (*add)(LinearKernels&)) {
        add(kernels);
        return kernels;
    };
    static const LinearKernels table[] = {
        with(linear_f32(), add_linear_f32),           with(linear_bf16(), add_linear_bf16),
        with(linear_bf16_f32(), add_linear_bf16_f32), with(linear_f16(), add_linear_f16),
        with(linear_f16_f32(), add_linear_f16_f32),   with(linear_f64(), add_linear_f64),
        with(linear_c64(), add_linear_c64),           with(linear_c64_f32(), add_linear_c64_f32),
        with(linear_c128(), add_linear_c128),         with(linear_c128_f64(), add_linear_c128_f64)};
    for (const LinearKernels& entry : table)
        if (entry.dtype == dtype && entry.gate_dtype == gate_dtype) return entry;
    fail(Code::internal_error, "no CUDA kernels for dtype {} with gate_dtype {}", name_of(dtype), name_of(gate_dtype));
}

}  // namespace flashscan::cuda
