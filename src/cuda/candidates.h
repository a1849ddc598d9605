// SPDX-License-Identifier: Apache-2.0
// The kernels that may run a family, in order of preference: the planner takes the first that takes the problem. Where
// the options have a communicator, they run on each of its ranks.
#pragma once

#include <span>

#include "core/backend.h"

namespace flashscan::cuda {

std::span<const LinearCandidate> candidates_of_linear();
std::span<const RnnCandidate> candidates_of_rnn();
std::span<const GatedCandidate> candidates_of_gated();
std::span<const SelectiveCandidate> candidates_of_selective();
std::span<const OperatorCandidate> candidates_of_operators();

}  // namespace flashscan::cuda
