// SPDX-License-Identifier: Apache-2.0
// Compiles the chained scans of numbers for f32, f64, c64 and c128 data.
#include "cuda/operators/instances/chained_instance.cuh"

namespace flashscan::cuda {

void add_chained_f32(std::vector<ChainedNumberKernels>& table) { add_chained_kernels<float>(table, Dtype::f32); }
void add_chained_f64(std::vector<ChainedNumberKernels>& table) { add_chained_kernels<double>(table, Dtype::f64); }
void add_chained_c64(std::vector<ChainedNumberKernels>& table) {
    add_chained_kernels<Complex<float>>(table, Dtype::c64);
}
void add_chained_c128(std::vector<ChainedNumberKernels>& table) {
    add_chained_kernels<Complex<double>>(table, Dtype::c128);
}

}  // namespace flashscan::cuda
