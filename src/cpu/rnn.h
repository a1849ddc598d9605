// SPDX-License-Identifier: Apache-2.0
// The CPU kernels of recurrent networks; RnnCandidate::make functions.
#pragma once

#include <memory>
#include <string>

#include "core/backend.h"

namespace flashscan::cpu {

// Parallel over sequences and units, which are the lanes of vectors. Takes heads of one unit.
std::unique_ptr<RnnKernel> make_rnn_diagonal(const RnnProblem& problem, const Options& options, std::string& refusal);

// Parallel over heads and sequences: each thread walks some sequences of one head.
std::unique_ptr<RnnKernel> make_rnn_blocked(const RnnProblem& problem, const Options& options, std::string& refusal);

}  // namespace flashscan::cpu
