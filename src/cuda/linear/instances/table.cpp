// SPDX-License-Identifier: Apache-2.0
// The table of table.h. Each entry is compiled in a file of its own, but for bf16 and f16, which share one.
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

const LinearKernels& linear_kernels(Dtype dtype, Dtype gate_dtype) {
    static const LinearKernels table[] = {linear_f32(),     linear_bf16(),    linear_bf16_f32(), linear_f16(),
                                          linear_f16_f32(), linear_f64(),     linear_c64(),      linear_c64_f32(),
                                          linear_c128(),    linear_c128_f64()};
    for (const LinearKernels& entry : table)
        if (entry.dtype == dtype && entry.gate_dtype == gate_dtype) return entry;
    fail(Code::internal_error, "no CUDA kernels for dtype {} with gate_dtype {}", name_of(dtype), name_of(gate_dtype));
}

}  // namespace flashscan::cuda
