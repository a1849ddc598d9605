// SPDX-License-Identifier: Apache-2.0
// The table of table.h. The entries of f32, bf16 and f16 are compiled in one file, those of f64 in another.
#include "cuda/rnn/instances/table.h"

#include "core/error.h"
#include "cuda/launch/by_dtype.h"

namespace flashscan::cuda {

RnnDataKernels rnn_f32();
RnnDataKernels rnn_bf16();
RnnDataKernels rnn_f16();
RnnDataKernels rnn_f64();
RnnWeightKernels rnn_f32_f32();
RnnWeightKernels rnn_bf16_bf16();
RnnWeightKernels rnn_bf16_f32();
RnnWeightKernels rnn_f16_f16();
RnnWeightKernels rnn_f16_f32();
RnnWeightKernels rnn_f64_f64();

const RnnDataKernels& rnn_data_kernels(Dtype dtype) {
    static const std::pair<Dtype, RnnDataKernels> table[] = {
        {Dtype::f32, rnn_f32()}, {Dtype::bf16, rnn_bf16()}, {Dtype::f16, rnn_f16()}, {Dtype::f64, rnn_f64()}};
    return of_dtype(dtype, table);
}

const RnnWeightKernels& rnn_weight_kernels(Dtype dtype, Dtype weight_dtype) {
    static const RnnWeightKernels table[] = {rnn_f32_f32(), rnn_bf16_bf16(), rnn_bf16_f32(),
                                             rnn_f16_f16(), rnn_f16_f32(),   rnn_f64_f64()};
    for (const RnnWeightKernels& entry : table)
        if (entry.dtype == dtype && entry.weight_dtype == weight_dtype) return entry;
    fail(Code::internal_error, "no CUDA kernels for {} weights of recurrent networks in {}", name_of(weight_dtype),
         name_of(dtype));
}

}  // namespace flashscan::cuda
