// SPDX-License-Identifier: Apache-2.0
// Compiles the chained scans of numbers for bf16 and f16 data.
#include "cuda/operators/instances/chained_instance.cuh"

namespace flashscan::cuda {

void add_chained_bf16(std::vector<ChainedNumberKernels>& table) {
    add_chained_kernels<__nv_bfloat16>(table, Dtype::bf16);
}
void add_chained_f16(std::vector<ChainedNumberKernels>& table) { add_chained_kernels<__half>(table, Dtype::f16); }

}  // namespace flashscan::cuda
