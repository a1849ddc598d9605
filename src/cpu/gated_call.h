// SPDX-License-Identifier: Apache-2.0
// A pass of a gated layer as its kernels take it.
#pragma once

#include "cpu/isa.h"
#include "cpu/kernels/gated.h"
#include "cpu/linear_partition.h"

namespace flashscan::cpu {

// Sums of a channel: of PARAM and of BIAS.
inline constexpr int32_t sums_of_channel = 2;

LinearKernels gated_kernels_for(Isa isa, const LinearVariant& variant);

LinearPartition gated_partition(const GatedProblem& problem, Pass pass, bool chunked, const Options& options,
                                int threads);

// Rows, chunks and sums are those of the partition.
GatedCall gated_call(const GatedProblem& problem, const LinearPartition& partition, const GatedBuffers& buffers,
                     Pass pass);

}  // namespace flashscan::cpu
