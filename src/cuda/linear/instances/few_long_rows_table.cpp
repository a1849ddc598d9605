// SPDX-License-Identifier: Apache-2.0
// The table of few_long_rows_table.h. Each entry is compiled in a file of its own, but for bf16 and f16, which share
// one.
#include "cuda/linear/instances/few_long_rows_table.h"

namespace flashscan::cuda {

WaveKernels waves_f32();
WaveKernels waves_bf16();
WaveKernels waves_f16();

const WaveKernels* wave_kernels(Dtype dtype, Dtype gate_dtype) {
    static const WaveKernels table[] = {waves_f32(), waves_bf16(), waves_f16()};
    for (const WaveKernels& entry : table)
        if (entry.dtype == dtype && dtype == gate_dtype) return &entry;
    return nullptr;
}

}  // namespace flashscan::cuda
