// SPDX-License-Identifier: Apache-2.0
// A pass of a recurrent network as its kernels take it.
#pragma once

#include <vector>

#include "core/rnn_arguments.h"
#include "cpu/isa.h"
#include "cpu/kernels/rnn.h"

namespace flashscan::cpu {

RnnKernels rnn_kernels_for(Isa isa, const RnnProblem& problem);

// The bytes of RESERVE: what the cell keeps, less h where OUTPUT has it unrounded.
size_t rnn_reserve_bytes(const RnnProblem& problem, const RnnKernels& kernels);

// The part of a call that its plan already knows: extents and types.
RnnCall rnn_extents(const RnnProblem& problem, const RnnKernels& kernels);

// The sequences of a call, the longest first.
std::vector<RnnSequence> rnn_sequences(const RnnProblem& problem, const void* seq_offsets);

// A call with all that is the user's. Scratch memory is left to the kernel.
RnnCall rnn_call(const RnnProblem& problem, const RnnKernels& kernels, const RnnBuffers& buffers,
                 const std::vector<RnnSequence>& sequences, Pass pass);

}  // namespace flashscan::cpu
