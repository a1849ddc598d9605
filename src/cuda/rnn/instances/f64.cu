// SPDX-License-Identifier: Apache-2.0
// Compiles the kernels of recurrent networks for f64 data.
#include "cuda/rnn/instances/instance.cuh"

namespace flashscan::cuda {

RnnDataKernels rnn_f64() { return make_rnn_data_kernels<double>(); }
RnnWeightKernels rnn_f64_f64() { return make_rnn_weight_kernels<double, double>(Dtype::f64, Dtype::f64); }

}  // namespace flashscan::cuda
