// SPDX-License-Identifier: Apache-2.0
// The CPU kernel of recurrent networks; a RnnCandidate::make function.
#pragma once

#include <memory>
#include <string>

#include "core/backend.h"

namespace flashscan::cpu {

// Parallel over heads and sequences: each thread walks some sequences of one head.
std::unique_ptr<RnnKernel> make_rnn_blocked(const RnnProblem& problem, const Options& options, std::string& refusal);

}  // namespace flashscan::cpu
