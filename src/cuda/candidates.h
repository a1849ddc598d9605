// SPDX-License-Identifier: Apache-2.0
// The kernels that may run a family, in order of preference: the planner takes the first that takes the problem. Where
// the options have a communicator, they run on each of its ranks, or refuse to; core refuses networks there.
#pragma once

#include <span>

#include "core/backend.h"

namespace flashscan::cuda {

std::span<const LinearCandidate> linear_candidates_over_ranks();
std::span<const RnnCandidate> rnn_candidates();
std::span<const GatedCandidate> gated_candidates_over_ranks();
std::span<const SelectiveCandidate> selective_candidates_over_ranks();
std::span<const OperatorCandidate> operator_candidates_over_ranks();

}  // namespace flashscan::cuda
