// SPDX-License-Identifier: Apache-2.0
// SEQ_OFFSETS of a call as kernels take it.
#pragma once

#include "core/sequences.h"
#include "cuda/device/tile/sequences.h"

namespace flashscan::cuda {

// Its data is null where `problem` is not packed.
inline SequenceOffsets offsets_of(const Sequences& problem, const void* seq_offsets) {
    if (!problem.packed()) return {};
    return {seq_offsets, problem.num_sequences, problem.time, problem.offsets_dtype == Dtype::i64, 0};
}

}  // namespace flashscan::cuda
