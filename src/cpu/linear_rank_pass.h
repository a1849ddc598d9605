// SPDX-License-Identifier: Apache-2.0
// One pass of the linear recurrence over several ranks, up to the carry that enters a rank's own steps. A rank has a
// few pieces of each row, each summarised as in linear_chain.h; one all-gather gives all ranks all summaries, and each
// rank joins them in order. Rows are sequences, of which packed ones may have no step here. Every rank does the same
// arithmetic on the same numbers, so all know alike where a carry is not finite. The rank whose steps would make it so
// then walks them from their carry, and another all-gather gives the result to the others.
#pragma once

#include "core/rounding.h"
#include "cpu/linear_partition.h"

namespace flashscan::cpu {

// A pass of a family: its rows of states of `dtype`, and its kernels.
struct RankProblem {
    Extent rows, channels;
    Dtype dtype;  // of a state
    bool empty;   // no steps here
    LinearPartition partition;
    LinearKernels own, joining;  // of the own steps, and of the summaries of all ranks
};

// A plan settles this about a pass. Pieces and everything in messages are the same on all ranks.
struct RankPlan {
    RankPlan(const RankProblem& problem, const Options& options, Pass pass, int threads, size_t inner_bytes);

    LinearPartition partition;
    LinearKernels own, joining;
    int64_t pieces = 1;       // of a rank's steps
    int64_t rows, row_bytes;  // of a state
    int64_t channel_bytes;    // of a state
    int64_t blocks, tasks;    // of channels in a row; of all rows
    int threads;
    // Places in a message, behind its note: of each piece one mark for each row, and states; the last step's OUTPUT.
    size_t marks, product, power, local, edge, message_bytes;
    // Places in scratch.
    size_t sent, received, carry, mine, next, end, round, work, inner, scratch_bytes;

    size_t state_bytes() const { return static_cast<size_t>(rows * row_bytes); }
    size_t mark(int64_t piece, int64_t row) const { return marks + static_cast<size_t>(piece * rows + row); }
};

class RankPass {
  public:
    // `scratch` has plan.scratch_bytes. `call` may be that of another family than the linear recurrence.
    RankPass(const RankPlan& plan, const Communicator& ranks, const LinearCall& call, char* scratch, void* stream);

    // Fills in the own message; its note and its edge are the caller's.
    void summarise();
    RankNote& own_note() { return *reinterpret_cast<RankNote*>(scratch_ + plan_.sent); }
    char* own_edge() { return scratch_ + plan_.sent + plan_.edge; }
    // Throws Error where a rank has failed.
    void exchange();
    const RankNote& note(int32_t rank) const { return *reinterpret_cast<const RankNote*>(message(rank)); }
    const std::byte* notes() const { return reinterpret_cast<const std::byte*>(scratch_ + plan_.received); }
    const char* edge(int32_t rank) const { return message(rank) + plan_.edge; }
    bool has_steps(int32_t rank, int64_t row) const { return message(rank)[plan_.mark(0, row)] != 0; }
    // The state that enters the own steps.
    const char* find_carry();
    // Room for the states of all rows once the carry is known.
    char* spare() { return scratch_ + plan_.end; }

    char* inner_scratch() { return scratch_ + plan_.inner; }

  private:
    const char* message(int32_t rank) const {
        return scratch_ + plan_.received + static_cast<size_t>(rank) * plan_.message_bytes;
    }
    int32_t place(int32_t rank) const { return call_.ascending ? rank : ranks_.size - 1 - rank; }
    LinearSummary summary(const char* message, int64_t piece, const LinearChunk& chunk) const;
    // A piece of the own steps of a row, and the channels of a task.
    LinearChunk own_chunk(int64_t task, int64_t piece) const;
    void summarise_block(int64_t task, char* work);
    // Finds the state `end` after the own steps from `carry`: from their summaries, or by a walk where that result is
    // not finite.
    void walk_own(const char* carry, char* end);
    bool join_rank(int32_t rank, const char* carry, char* next) const;

    const RankPlan& plan_;
    const Communicator& ranks_;
    const LinearCall& call_;
    char* scratch_;
    void* stream_;
};

}  // namespace flashscan::cpu
