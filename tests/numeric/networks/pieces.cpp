// SPDX-License-Identifier: Apache-2.0
// Pieces of a recurrent network, each run by itself, give within its error bound what the whole gives: steps that carry
// on from each other's states, and packed sequences.
#include <gtest/gtest.h>

#include "support/rnn_check.h"
#include "support/rnn_pieces.h"

namespace numeric {
namespace {

using namespace support;

constexpr int32_t grad = FLASHSCAN_GRAD;

class RnnPieces : public testing::TestWithParam<RnnCase> {
  protected:
    void SetUp() override {
        SKIP_UNLESS_AVAILABLE(GetParam().target);
        const Target& target = GetParam().target;
        const Plan plan(desc_of(p_), options_of(p_, target.backend, target.kernel));
        if (!target.kernel.empty() && plan.status() == FLASHSCAN_STATUS_UNSUPPORTED)
            GTEST_SKIP() << "kernel refuses: " << plan.message().substr(0, 300);
    }
    static RnnOutcome run(const RnnPiece& piece) {
        RnnOutcome outcome = run_rnn(piece.problem, GetParam().target, piece.data, Guard::end, 1);
        require(outcome);
        return outcome;
    }
    // Adds a piece's sums over time and batch.
    void add_sums(const RnnOutcome& piece) {
        for (const int32_t id : {grad | FLASHSCAN_ARG_WEIGHT, grad | FLASHSCAN_ARG_BIAS})
            joined_[id] = sum(joined_[id], piece[id]);
    }
    void expect_the_whole() const {
        const RnnReference reference = reference_of(p_, data_);
        for (const auto& [id, values] : joined_) {
            const Comparison comparison = compare(p_, data_, id, values, reference);
            EXPECT_TRUE(comparison.ok()) << comparison.sentence;
        }
    }

    const RnnProblem& p_ = GetParam().problem;
    const RnnData data_ = make_data(p_);
    std::map<int32_t, Values> joined_ = [this] {
        std::map<int32_t, Values> empty;
        const auto size = [](const std::array<int64_t, 3>& e) { return static_cast<size_t>(e[0] * e[1] * e[2]); };
        for (const int32_t id : {FLASHSCAN_ARG_OUTPUT + 0, FLASHSCAN_ARG_STATE_OUT + 0, grad | FLASHSCAN_ARG_INPUT,
                                 grad | FLASHSCAN_ARG_WEIGHT, grad | FLASHSCAN_ARG_BIAS, grad | FLASHSCAN_ARG_STATE_IN})
            empty[id].resize(size(extents_of(p_, id)));
        return empty;
    }();
};

TEST_P(RnnPieces, GiveTheWhole) {
    if (p_.sequences > 0) {
        for (int64_t n = 0; n < p_.sequences; ++n) {
            RnnPiece piece(p_, data_, 0, data_.offsets[static_cast<size_t>(n)],
                           data_.offsets[static_cast<size_t>(n) + 1]);
            piece.data.state_in = state_row(p_, data_.state_in, n);
            piece.data.grad_state_out = state_row(p_, data_.grad_state_out, n);
            const RnnOutcome apart = run(piece);
            piece.paste(apart, joined_);
            paste_state_row(p_, apart[FLASHSCAN_ARG_STATE_OUT], n, joined_[FLASHSCAN_ARG_STATE_OUT]);
            paste_state_row(p_, apart[grad | FLASHSCAN_ARG_STATE_IN], n, joined_[grad | FLASHSCAN_ARG_STATE_IN]);
            add_sums(apart);
        }
    } else {
        const int64_t middle = p_.time * 2 / 5;
        RnnPiece early(p_, data_, -1, 0, middle), late(p_, data_, -1, middle, p_.time);
        RnnPiece &first = p_.reverse ? late : early, &last = p_.reverse ? early : late;
        last.data.state_in = run(first)[FLASHSCAN_ARG_STATE_OUT];
        const RnnOutcome end = run(last);
        first.data.grad_state_out = end[grad | FLASHSCAN_ARG_STATE_IN];
        const RnnOutcome begin = run(first);
        first.paste(begin, joined_);
        last.paste(end, joined_);
        joined_[FLASHSCAN_ARG_STATE_OUT] = end[FLASHSCAN_ARG_STATE_OUT];
        joined_[grad | FLASHSCAN_ARG_STATE_IN] = begin[grad | FLASHSCAN_ARG_STATE_IN];
        add_sums(begin);
        add_sums(end);
    }
    expect_the_whole();
}

std::vector<RnnProblem> problems() {
    std::vector<RnnProblem> list;
    for (const std::string& cell : cell_words())
        for (const char* rest :
             {"f64 b2 t11 h2 d3", "f64 b1 t23 h2 d3 sequences4 all-states", "bf16 b3 t25 h1 d40 seed2",
              "bf16 b17 t10 h2 d16 TBGHD reset seed3", "f16 b1 t60 h1 d64 sequences5 reverse reset seed4",
              "f32 b9 t13 h1 d33 reverse all-states seed5", "bf16 b1 t40 h3 d24 weight-f32 sequences9 seed6"})
            list.push_back(rnn_problem_of(std::string("rnn bwd state-in state-out ") + cell + " " + rest));
    list.push_back(rnn_problem_of("rnn lstm bwd bf16 b4 t6 h1 d256 state-in state-out"));
    list.push_back(rnn_problem_of("rnn lstm bwd f16 b1 t30 h1 d200 sequences6 state-in state-out"));
    return list;
}

INSTANTIATE_TEST_SUITE_P(Rnn, RnnPieces, testing::ValuesIn(cases_on(rnn_targets(), problems())), name_of_rnn_case);

}  // namespace
}  // namespace numeric
