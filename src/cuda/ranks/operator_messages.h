// SPDX-License-Identifier: Apache-2.0
// The messages of the ranks of an operator in a pass: their places in scratch, their order, and which of them count. An
// all-gather leaves one message of each rank side by side, in the order of ranks, which is that of computation or its
// reverse.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/operator_arguments.h"
#include "cuda/launch/rank_link.h"
#include "cuda/ranks/operator_told.h"

namespace flashscan::cuda {

// The places of a pass in scratch, as its plan lays them out. `sent` holds the rank's message before each all-gather;
// `totals` to `edges` receive one message of each rank. `bytes` is the size of the scratch memory, `told_bytes` what a
// rank sends in the pass.
struct OperatorPlaces {
    size_t sent = 0;
    size_t totals = 0, products = 0, slopes = 0, locals = 0, outputs = 0, edges = 0;
    size_t carry = 0, gradient = 0, other = 0, totals_joined = 0, locals_joined = 0, unread_output = 0, inner = 0;
    size_t bytes = 0, told_bytes = 0;
};

// A pass that is being enqueued.
struct OperatorCall {
    const OperatorPlaces& places;
    const OperatorBuffers& b;
    void* stream;
    char* at(size_t place) const { return static_cast<char*>(b.scratch) + place; }
};

// Runs forward of `kernel` for its STATE_OUT, of which packed sequences have one each.
void reduce(const OperatorCall& call, const OperatorKernel& kernel, const void* input, const void* gate,
            const void* state_in, void* state_out, const void* seq_offsets = nullptr);
void copy(const OperatorCall& call, void* to, const void* from, int64_t bytes, const char* doing);

class OperatorMessages {
  public:
    OperatorMessages(const OperatorProblem& problem, const Communicator& ranks)
        : p_(problem), told_(problem, ranks.size), ranks_(ranks) {}

    // Finds out whose totals count, from the numbers of steps of all ranks. Throws Error where the first rank has no
    // steps and its total is needed.
    void settle(std::span<const int64_t> steps);

    const OperatorTold& told() const { return told_; }
    const Communicator& ranks() const { return ranks_; }
    // Returns whether nothing comes from another rank.
    bool alone() const { return ranks_.size == 1 || p_.chains() == 0; }
    // This rank's place in the order of computation, and how many come behind it.
    int32_t place() const { return ranks_.place(ranks_.rank, p_.direction); }
    int32_t after() const { return ranks_.size - 1 - place(); }
    bool is_last() const { return after() == 0; }
    // Returns how many of the first k ranks have totals that count, and how many between this rank and the last one.
    int32_t tellers_before(int32_t k) const;
    int32_t tellers_between() const {
        return is_last() ? 0 : tellers_before(ranks_.size - 1) - tellers_before(place() + 1);
    }
    bool all_tell() const { return std::ssize(tellers_) == ranks_.size; }

    // All-gathers the messages in `sent`.
    void tell(const OperatorCall& call, size_t to, int64_t bytes) const {
        gather(ranks_, call.at(call.places.sent), call.at(to), static_cast<size_t>(bytes), call.stream);
    }
    // The message, in a gathered array, of the rank that is k-th in the order of computation.
    const char* told_by(const char* all, int32_t k, int64_t bytes) const {
        return all + ranks_.place(k, p_.direction) * bytes;
    }
    // The messages, side by side, of the ranks from the k-th to the one before the end-th.
    const char* told_from(const char* all, int32_t k, int32_t end, int64_t bytes) const {
        return told_by(all, p_.direction == Direction::forward ? k : end - 1, bytes);
    }
    // The same without ranks whose totals do not count, copied to `joined` where there are such.
    const char* told_by_tellers(const OperatorCall& call, size_t from, int32_t k, int32_t end, size_t joined) const;

  private:
    OperatorProblem p_;
    OperatorTold told_;
    Communicator ranks_;
    std::vector<int32_t> tellers_;  // the places of the ranks whose totals count, in the order of computation
};

}  // namespace flashscan::cuda
