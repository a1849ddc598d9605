// SPDX-License-Identifier: Apache-2.0
// The kernels of recurrent networks, in order of preference; RnnCandidate::make functions.
#pragma once

#include "core/backend.h"

namespace flashscan::cuda {

// All steps in one launch, with the recurrent weights of a head on chip: heads that fit, any dtype but f64, GPUs of
// compute capability 9.0 and newer.
std::unique_ptr<RnnKernel> make_rnn_fused(const RnnProblem& problem, const Options& options, std::string& refusal);

// All steps in one launch, with products by the blocks of the grid and a barrier a step: every cell and dtype, heads
// whose rows of h fit shared memory. Packed sequences run one after another, as in the alternating kernel.
std::unique_ptr<RnnKernel> make_rnn_persistent(const RnnProblem& problem, const Options& options, std::string& refusal);

// One product of cuBLAS and one kernel for the cell at every step. Takes every problem that cuBLAS takes; packed
// sequences run one after another, T steps in all, because where they begin is known on the device alone.
std::unique_ptr<RnnKernel> make_rnn_alternating(const RnnProblem& problem, const Options& options,
                                                std::string& refusal);

}  // namespace flashscan::cuda
