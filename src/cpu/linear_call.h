// SPDX-License-Identifier: Apache-2.0
// A pass of the linear recurrence as its kernels take it.
#pragma once

#include "cpu/isa.h"
#include "cpu/linear_partition.h"

namespace flashscan::cpu {

LinearKernels kernels_for(Isa isa, const LinearVariant& variant);

// Rows, chunks and sums are those of the partition.
LinearCall linear_call(const LinearProblem& problem, const LinearPartition& partition, const LinearBuffers& buffers,
                       Pass pass);

}  // namespace flashscan::cpu
