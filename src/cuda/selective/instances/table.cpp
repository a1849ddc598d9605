// SPDX-License-Identifier: Apache-2.0
// The table of table.h.
#include "cuda/selective/instances/table.h"

#include "core/error.h"

namespace flashscan::cuda {

const SelectiveKernels& selective_kernels(Dtype dtype, Dtype matrix_dtype) {
    static const SelectiveKernels f32 = selective_f32(), bf16 = selective_bf16(), f16 = selective_f16(),
                                  f64 = selective_f64(), c64 = selective_c64(), c128 = selective_c128();
    if (matrix_dtype == Dtype::c64) return c64;
    if (matrix_dtype == Dtype::c128) return c128;
    if (dtype == Dtype::bf16) return bf16;
    if (dtype == Dtype::f16) return f16;
    return dtype == Dtype::f64 ? f64 : f32;
}

}  // namespace flashscan::cuda
