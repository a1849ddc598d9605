// SPDX-License-Identifier: Apache-2.0
// Runs plans for recurrent networks on values, in watched and poisoned buffers.
#pragma once

#include "support/call.h"
#include "support/rnn_problem.h"

namespace support {

// The arguments that `problem` calls for, ready to run.
Call forward_call(const RnnProblem& problem, const Plan& plan, int32_t backend, const RnnData& data, Guard guard);
// `forward` is the forward call of the same plan, which has run: OUTPUT and RESERVE are its results.
Call backward_call(const RnnProblem& problem, const Plan& plan, int32_t backend, const RnnData& data,
                   const Call& forward, Guard guard);

// The outcome of planning and of running both passes, or forward alone where the problem has no backward, `times` in
// the same memory.
struct RnnOutcome : Run {
    std::map<int32_t, Values> values;  // of each output that is a tensor, by its id
    const Values& operator[](int32_t id) const { return values.at(id); }
};
RnnOutcome run_rnn(const RnnProblem& problem, const Target& target, const RnnData& data, Guard guard, int times = 2);

}  // namespace support
