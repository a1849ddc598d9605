// SPDX-License-Identifier: Apache-2.0
// Compiles the chained scans of numbers for i32, i64 and u8 data.
#include "cuda/operators/instances/chained_instance.cuh"

namespace flashscan::cuda {

void add_chained_i32(std::vector<ChainedNumberKernels>& table) { add_chained_kernels<int32_t>(table, Dtype::i32); }
void add_chained_i64(std::vector<ChainedNumberKernels>& table) { add_chained_kernels<int64_t>(table, Dtype::i64); }
void add_chained_u8(std::vector<ChainedNumberKernels>& table) { add_chained_kernels<uint8_t>(table, Dtype::u8); }

}  // namespace flashscan::cuda
