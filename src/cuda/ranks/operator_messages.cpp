// SPDX-License-Identifier: Apache-2.0
#include "cuda/ranks/operator_messages.h"

#include <algorithm>

#include "cuda/launch/launch.h"
#include "cuda/launch/launch_count.h"

namespace flashscan::cuda {
namespace {

// Returns whether the total of the rank at a place in the order of computation counts. It always does but with custom
// operators, whose identity is not known: there a rank without steps has no total and is left out. Only the first rank
// must have one. In MODE_EXCLUSIVE that is STATE_IN, which such a scan is always given; otherwise the rank needs a
// step.
bool tells(const OperatorProblem& p, const Communicator& ranks, int32_t place, int64_t steps) {
    if (!p.is_custom() || steps > 0) return true;
    if (place == 0 && p.mode != OperatorMode::exclusive)
        fail(Code::unsupported,
             "rank {} has no steps; a custom operator, whose identity is not known, needs one on the first rank to "
             "compute, but in MODE_EXCLUSIVE",
             ranks.place(0, p.direction));
    return place == 0;
}

}  // namespace

void reduce(const OperatorCall& call, const OperatorKernel& kernel, const void* input, const void* gate,
            const void* state_in, void* state_out, const void* seq_offsets) {
    OperatorBuffers own;
    own.input = input;
    own.gate = gate;
    own.seq_offsets = seq_offsets;
    own.output = call.at(call.places.unread_output);
    own.state_in = state_in;
    own.state_out = state_out;
    own.scratch = call.at(call.places.inner);
    kernel.forward(own, call.stream);
}

void copy(const OperatorCall& call, void* to, const void* from, int64_t bytes, const char* doing) {
    if (counts_launch()) return;
    check(cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), cudaMemcpyDeviceToDevice,
                          static_cast<cudaStream_t>(call.stream)),
          doing);
}

void OperatorMessages::settle(std::span<const int64_t> steps) {
    for (int32_t k = 0; k < ranks_.size; ++k)
        if (tells(p_, ranks_, k, steps[static_cast<size_t>(ranks_.place(k, p_.direction))])) tellers_.push_back(k);
}

int32_t OperatorMessages::tellers_before(int32_t k) const {
    return static_cast<int32_t>(std::lower_bound(tellers_.begin(), tellers_.end(), k) - tellers_.begin());
}

const char* OperatorMessages::told_by_tellers(const OperatorCall& call, size_t from, int32_t k, int32_t end,
                                              size_t joined) const {
    const int64_t bytes = told_.state_bytes();
    const char* const all = call.at(from);
    const int32_t first = tellers_before(k), count = tellers_before(end) - first;
    if (count == end - k) return told_from(all, k, end, bytes);
    char* const to = call.at(joined);
    for (int32_t i = 0; i < count; ++i) {
        const int32_t at = p_.direction == Direction::forward ? i : count - 1 - i;
        copy(call, to + at * bytes, told_by(all, tellers_[static_cast<size_t>(first + i)], bytes), bytes,
             "leaving out ranks without steps");
    }
    return to;
}

}  // namespace flashscan::cuda
