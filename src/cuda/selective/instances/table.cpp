// SPDX-License-Identifier: Apache-2.0
// The table of table.h.
#include "cuda/selective/instances/table.h"

#include "cuda/launch/by_dtype.h"

namespace flashscan::cuda {

const SelectiveKernels& selective_kernels(Dtype dtype, Dtype matrix_dtype) {
    static const std::pair<Dtype, SelectiveKernels> table[] = {
        {Dtype::f32, selective_f32()}, {Dtype::bf16, selective_bf16()}, {Dtype::f16, selective_f16()},
        {Dtype::f64, selective_f64()}, {Dtype::c64, selective_c64()},   {Dtype::c128, selective_c128()}};
    return of_dtype(is_complex(matrix_dtype) ? matrix_dtype : dtype, table);
}

}  // namespace flashscan::cuda
