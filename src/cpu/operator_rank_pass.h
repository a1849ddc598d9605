// SPDX-License-Identifier: Apache-2.0
// One pass of an operator over several ranks, up to the state and the gradient that enter a rank's own steps. A row of
// states is a sequence, and of packed ones a rank may have no step. One all-gather gives all ranks what each one's
// steps do to any state, and each joins that in order. Every rank does the same arithmetic on the same numbers; where a
// join of matrices is not finite all know it, the rank in question walks its steps, and another all-gather gives the
// result to the others.
#pragma once

#include "cpu/operator_rank_joins.h"

namespace flashscan::cpu {

// What a plan settles for a pass.
struct OperatorRankPlan {
    OperatorRankPlan(const OperatorProblem& problem, const Communicator& ranks, const OperatorJoins& joins,
                     size_t inner_bytes, Pass pass);

    Pass pass;
    // Places in a message, behind its note: for each row whether the rank's steps, or STATE_IN, make a state; what they
    // make; the product of matrices; the last OUTPUT; GRAD|OUTPUT of a reduction.
    size_t marks, total, product, edge, gradient, message_bytes;
    // Places in scratch. `outcomes` are the notes of calls of custom operators. `told` has the own local gradient and
    // the slopes of numbers, `heard` those of all ranks after an all-gather. `entering` has the states that enter each
    // rank, which adjoints of custom operators need.
    size_t sent, received, outcomes, carry, next, mine, begun, my_rows, round, sum, told, heard, told_bytes, entering,
        zeros, joins;
    size_t inner;
    size_t scratch_bytes;
};

class OperatorRankPass {
  public:
    // `b` has scratch of plan.scratch_bytes.
    OperatorRankPass(const OperatorProblem& problem, const Communicator& ranks, const OperatorJoins& joins,
                     const OperatorRankPlan& plan, const OperatorBuffers& b, void* stream)
        : p_(problem),
          ranks_(ranks),
          joins_(joins),
          at_(plan),
          b_(b),
          scratch_(static_cast<char*>(b.scratch)),
          stream_(stream) {}

    // Whether backward reads the states before steps from OUTPUT.
    static bool reads_edges(const OperatorProblem& p) { return on_matrices(p) && !p.is_reduction(); }

    // Throws Error where a rank has failed, or lacks what another asks for.
    void exchange();
    // Runs `body`, which may fail on one rank alone where it calls custom operators: then throws the same Error on all
    // ranks if one of them has failed.
    template <typename Body>
    void attempt(Body&& body) {
        if (!p_.is_custom()) return body();
        settle(note_of(ranks_, at_.pass, [&] {
            body();
            return "";
        }));
    }

    // The states that enter the own steps, and of a reduction those after the steps of all ranks; null where there is
    // none.
    const char* find_carry();
    const char* final_states() { return usable(scratch_ + at_.carry, scratch_ + at_.begun); }
    // The states before the own steps as backward reads them, from OUTPUT.
    const char* states_before();
    // Whether a gradient is asked for, on any rank, that needs the states that enter.
    bool wants_states() const { return wanting_; }
    // The gradient of a reduction's result, which all ranks have: the sum of those that the ranks give.
    const char* gradient_of_all();
    // make_local computes the gradient that the own steps alone leave for the states before them, by `inner` with the
    // arguments `own`; gather_locals gathers those of all ranks.
    void make_local(const OperatorBuffers& own, const OperatorKernel& inner);
    void gather_locals();
    // Finds the gradient of the states after the own steps; the last rank has it already.
    const char* find_gradient(const OperatorBuffers& own, const OperatorKernel& inner);

    char* inner_scratch() { return scratch_ + at_.inner; }
    const void* zeros() const { return scratch_ + at_.zeros; }

  private:
    static bool on_matrices(const OperatorProblem& p) { return p.is_matmul() || p.is_affine(); }
    int32_t place() const { return ranks_.place(ranks_.rank, p_.direction); }
    bool is_last() const { return place() == ranks_.size - 1; }
    size_t rows() const { return static_cast<size_t>(p_.state_rows()); }
    // The message of the rank that is k-th in the order of computation.
    const char* message(int32_t k) const {
        return scratch_ + at_.received + static_cast<size_t>(ranks_.place(k, p_.direction)) * at_.message_bytes;
    }
    const RankNote& note(int32_t k) const { return *reinterpret_cast<const RankNote*>(message(k)); }
    const std::byte* notes() const { return reinterpret_cast<const std::byte*>(scratch_ + at_.received); }
    bool marked(int32_t k, size_t row) const { return message(k)[at_.marks + row] != 0; }
    bool has_own_steps(size_t row) const;

    void settle(const RankNote& mine);
    void fill_message();
    void fill_edge(char* edge) const;
    void load_step(size_t row, bool last, char* states) const;
    void copy_row(char* to, const char* from, size_t row) const;
    void add(const void* from, char* to) const;
    // Returns `states` after setting rows that have not begun to the identity; null where none has begun.
    const char* usable(char* states, const char* begun) const;
    bool is_finite(const char* states, const char* rows) const;
    // Advances the carry over the steps of the k-th rank.
    void join_rank(int32_t k);
    // Replaces `states` on all ranks by those of the k-th rank.
    void take_from(int32_t k, char* states);
    OperatorBuffers to_state_in(const OperatorBuffers& own, const char* grad_state_out, char* grad_state_in) const;
    void join_gradient(int32_t k, const OperatorBuffers& own, const OperatorKernel& inner);

    const OperatorProblem& p_;
    const Communicator& ranks_;
    const OperatorJoins& joins_;
    const OperatorRankPlan& at_;
    OperatorBuffers b_;
    char* scratch_;
    void* stream_;
    bool wanting_ = false;
    // The first place in the order of computation that a state enters; found in backward of custom operators.
    int32_t first_entered_ = 0;
};

}  // namespace flashscan::cpu
