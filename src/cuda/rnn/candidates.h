// SPDX-License-Identifier: Apache-2.0
// The kernels of recurrent networks, in order of preference; RnnCandidate::make functions.
#pragma once

#include "core/backend.h"

namespace flashscan::cuda {

// All steps in one launch, segments of time side by side by Newton's iteration, for few long rows. It takes heads of
// one unit, every cell but sLSTM and every dtype but f64.
std::unique_ptr<RnnKernel> make_rnn_diagonal_newton(const RnnProblem& problem, const Options& options,
                                                    std::string& refusal);

// All steps in one launch, a unit of a row in each lane. It takes every cell and dtype, and heads of one unit.
std::unique_ptr<RnnKernel> make_rnn_diagonal(const RnnProblem& problem, const Options& options, std::string& refusal);

// One step of up to 16 rows in one launch, as in decoding, with states where they lie. It takes cells with one product
// a step, and networks whose R fits the shared memory of all blocks.
std::unique_ptr<RnnKernel> make_rnn_decode(const RnnProblem& problem, const Options& options, std::string& refusal);

// All steps in one launch, with the recurrent weights of a head in registers and shared memory. It takes heads that fit
// there, any dtype but f64, and devices of compute capability 9.0 and newer.
std::unique_ptr<RnnKernel> make_rnn_fused(const RnnProblem& problem, const Options& options, std::string& refusal);

// All steps in one launch, with a barrier between blocks in every step. It takes every cell and dtype, and heads of
// which 8 rows of h fit shared memory. Packed sequences run one after another, as in the alternating kernel.
std::unique_ptr<RnnKernel> make_rnn_persistent(const RnnProblem& problem, const Options& options, std::string& refusal);

// A matrix product by cuBLAS and a kernel for the cell in every step. It takes every problem that cuBLAS takes. Packed
// sequences run one after another, T steps in all, because only the device knows where they begin.
std::unique_ptr<RnnKernel> make_rnn_alternating(const RnnProblem& problem, const Options& options,
                                                std::string& refusal);

}  // namespace flashscan::cuda
