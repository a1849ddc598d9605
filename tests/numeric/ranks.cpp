// SPDX-License-Identifier: Apache-2.0
// One sequence over several ranks, each a thread: the whole result is within the bound of one plan's.
#include "support/ranks.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "numeric/problems.h"
#include "numeric/rank_check.h"
#include "numeric/wandering.h"
#include "support/check.h"

namespace numeric {
namespace {

using namespace support;

// Returns the number of all-gathers, those of the plans included.
int64_t expect_near_reference(const Problem& p, const std::string& kernel, Data data,
                              const std::vector<int64_t>& lengths, bool sum_gradients = false) {
    Meeting meeting(static_cast<int32_t>(lengths.size()));
    if (sum_gradients) meeting.sum_gradients();
    numeric::expect_near_reference(p, kernel, std::move(data), lengths, meeting);
    return meeting.calls();
}

class Ranks : public testing::TestWithParam<RankCase> {};

TEST_P(Ranks, MatchReference) {
    const auto& [p, kernel, ranks] = GetParam();
    expect_near_reference(p, kernel, make_data(p), cut_of(p.time, ranks, p.seed));
}

INSTANTIATE_TEST_SUITE_P(Small, Ranks, testing::ValuesIn(rank_cases(pairs(Size::tiny), "")), name_of_ranks);
INSTANTIATE_TEST_SUITE_P(SmallReference, Ranks, testing::ValuesIn(rank_cases(pairs(Size::tiny), "reference")),
                         name_of_ranks);
INSTANTIATE_TEST_SUITE_P(Single, Ranks, testing::ValuesIn(rank_cases(singles(), "")), name_of_ranks);
INSTANTIATE_TEST_SUITE_P(Pairs, Ranks, testing::ValuesIn(rank_cases(pairs(Size::varied), "")), name_of_ranks);
INSTANTIATE_TEST_SUITE_P(Shapes, Ranks, testing::ValuesIn(rank_cases(shapes(), "")), name_of_ranks);
INSTANTIATE_TEST_SUITE_P(Chunks, Ranks, testing::ValuesIn(rank_cases(pairs(Size::chunks), "")), name_of_ranks);

// Products of gates over a rank's steps leave the numbers of the arithmetic, too.
class FarRanks : public testing::TestWithParam<RankCase> {};

TEST_P(FarRanks, WanderAndLeap) {
    const auto& [p, kernel, ranks] = GetParam();
    for (const bool steep : {false, true}) {
        const Data data = wandering_data(p, range_of(p.dtype, steep));
        Problem one_way = p;
        // States below the numbers of f16 have gradients above them.
        if (p.dtype == FLASHSCAN_DTYPE_F16) one_way.gradients = gradient_state, one_way.state_in = false;
        expect_near_reference(one_way, kernel, data, cut_of(p.time, ranks, p.seed));
    }
}

INSTANTIATE_TEST_SUITE_P(Far, FarRanks, testing::ValuesIn(rank_cases(far_problems(), "")), name_of_ranks);

// Sixteen rows, so that a rank's steps are one piece.
Problem plain_problem(int64_t time) {
    Problem p;
    p.batch = 16;
    p.time = time;
    p.channels = 3;
    p.threads = 2;
    p.gradients = gradient_input | gradient_gate;
    return p;
}

// All-gathers of two plans and of two calls with each.
constexpr int64_t gathers_at_least = 2 + 4;

// Gates are 1. Each rank's steps alone add up to more than the largest number, not with what comes from the one before.
TEST(RanksOnTheWay, SumsOfARanksStepsOverflowWhereTheWholeDoesNot) {
    for (const bool reverse : {false, true}) {
        Problem p = plain_problem(8);
        p.reverse = reverse;
        Data data = make_data(p);
        const double steps[] = {-2e38, -1e38, 3e38, 3e38, -3e38, -3e38, 2e38, 1e38};
        std::fill(data.gate.begin(), data.gate.end(), 1.0);
        for (int64_t b = 0; b < p.batch; ++b)
            for (int64_t t = 0; t < p.time; ++t)
                for (int64_t c = 0; c < p.channels; ++c) {
                    const Value x = rounded(p.dtype, (c == 1 ? 1e-38 : 1) * steps[t]);
                    data.input[p.index(b, t, c)] = data.grad_output[p.index(b, t, c)] = x;
                }
        p.gradients = gradient_input;
        const int64_t gathers = expect_near_reference(p, "", data, {2, 2, 0, 2, 2});
        // Two ranks in the middle walk their steps in each of the four calls.
        EXPECT_EQ(gathers, gathers_at_least + 8);
    }
}

TEST(RanksOnTheWay, NotFiniteUntilAReset) {
    for (const double bad : {double(INFINITY), double(NAN)}) {
        Problem p = plain_problem(40);
        p.reset = true;
        p.gradients = gradient_input;
        Data data = make_data(p);
        std::fill(data.reset.begin(), data.reset.end(), static_cast<unsigned char>(0));
        for (int64_t b = 0; b < p.batch; b += 2) data.reset[static_cast<size_t>(b * p.time + 27)] = 1;
        for (int64_t b = 0; b < p.batch; b += 3) data.input[p.index(b, 12, 1)] = bad;
        Data computed = data;
        const Reference reference = reference_of(p, computed);
        Meeting meeting(5);
        const RanksOutcome got = run_over_ranks(p, {}, data, {10, 5, 10, 0, 15}, meeting, false);
        require(got);
        expect_forward(p, data, got, reference);
        EXPECT_TRUE(std::isfinite(got.output[p.index(0, 39, 1)].real()));
        EXPECT_FALSE(std::isfinite(got.output[p.index(3, 39, 1)].real()));
        EXPECT_FALSE(std::isfinite(got.output[p.index(0, 26, 1)].real()));
        // Those that such a state enters or leaves, but for the last.
        EXPECT_EQ(meeting.calls(), 1 + 2 * 3);
    }
}

// States pass through all ranks if none of them has a step.
TEST(RanksOnTheWay, NothingButStates) {
    Problem p = plain_problem(0);
    p.state_in = p.state_out = true;
    p.gradients = gradient_state;
    for (const int64_t batch : {2, 0}) {
        p.batch = batch;
        const Data data = make_data(p);
        expect_near_reference(p, "", data, {0, 0, 0});
    }
}

// Each of two ranks has a half of each of two sequences.
TEST(RanksOnTheWay, PartsOfPackedSequencesNeedNotFollowOneAnother) {
    for (const bool reverse : {false, true}) {
        Problem p = problem_of("linear f64 BTC b1 t14 c3 sequences2 state-in state-out seed6");
        p.reverse = reverse;
        Data data = make_data(p);
        data.offsets = {0, 6, 14};
        const Reference reference = reference_of(p, data);
        // Steps in the order in which the two ranks hold them.
        const int64_t order[] = {0, 1, 2, 6, 7, 8, 9, 3, 4, 5, 10, 11, 12, 13};
        const auto in_order = [&](const Values& values) {
            Values moved;
            for (const int64_t t : order)
                moved.insert(moved.end(), &values[p.index(0, t, 0)], &values[p.index(0, t, 0)] + 3);
            return moved;
        };
        Data cut = data;
        for (Values* values : {&cut.input, &cut.gate, &cut.output, &cut.grad_output}) *values = in_order(*values);
        Meeting meeting(2);
        std::vector<RankPart> parts;
        for (size_t rank = 0; rank < 2; ++rank) {
            parts.push_back(part_of(p, cut, {7, 7}, rank));
            parts.back().data.offsets = {0, 3, 7};
        }
        std::array<RanksOutcome, 2> got;
        for (const bool backward : {false, true}) got[backward] = run_over_ranks(p, {}, parts, meeting, backward);
        for (const RanksOutcome& one : got) require(one);
        const auto expect = [&](const char* name, const Values& values, Expected expected) {
            expected.value = in_order(expected.value);
            std::vector<double> tolerance;
            for (const int64_t t : order)
                for (int64_t c = 0; c < 3; ++c) tolerance.push_back(expected.tolerance[p.index(0, t, c)]);
            expected.tolerance = tolerance;
            expect_close(compare(name, p.extents(), p.time, values, expected));
        };
        expect("OUTPUT", got[0].output, reference.output);
        expect("GRAD|INPUT", got[1].grad_input, reference.grad_input);
        expect("GRAD|GATE", got[1].grad_gate, reference.grad_gate);
        const std::array<int64_t, 3> states{2, 1, 3};
        expect_close(compare("STATE_OUT", states, 1, got[0].state_out, reference.state_out));
        expect_close(compare("GRAD|STATE_IN", states, 1, got[1].grad_state_in, reference.grad_state_in));
    }
}

TEST(RanksOnTheWay, MoreChannelsThanABlockHas) {
    for (const char* line :
         {"linear f32 BTC b2 t70 c5000 state-in state-out seed3", "linear c128 BTC b1 t30 c1100 seed4",
          "linear f64 BCT b1 t40 c3000 reverse state-in state-out seed5"}) {
        const Problem p = problem_of(line);
        expect_near_reference(p, "", make_data(p), cut_of(p.time, 3, p.seed));
    }
}

// Each rank rounds its sum to the gate's type, which has 32 bits or more here.
TEST(RankSums, TheLibraryAddsThem) {
    for (const char* line :
         {"linear f32 BTC b2 t300 c9 broadcast-t state-in state-out seed21",
          "linear f64 BCT b3 t90 c5 broadcast-tb seed22", "linear c64 BTC b2 t70 c3 broadcast-tc reverse seed23",
          "linear f32 BTC b2 t40 c6 broadcast-btc place-fused seed24",
          "linear bf16 gate-f32 BTC b1 t200 c8 broadcast-t sequences5 state-out seed25",
          "linear c128 gate-f64 BTC b2 t50 c4 broadcast-t caller-scratch seed26",
          "linear f32 BTC b2 t0 c3 broadcast-t state-in seed27"})
        for (const int32_t ranks : rank_counts) {
            SCOPED_TRACE(line);
            const Problem p = problem_of(line);
            expect_near_reference(p, "", make_data(p), cut_of(p.time, ranks, p.seed), true);
        }
}

TEST(RanksOnTheWay, TwoCommunicatorsAtOnce) {
    std::vector<Problem> problems{problem_of("linear f32 BTC b2 t900 c9 state-in state-out seed11"),
                                  problem_of("linear f64 BCT b3 t700 c5 reverse state-in state-out seed12")};
    std::vector<Data> data;
    std::vector<Reference> references;
    for (const Problem& p : problems) {
        data.push_back(make_data(p));
        references.push_back(reference_of(p, data.back()));
    }
    std::vector<RanksOutcome> outcomes(2);
    on_ranks(2, [&](int32_t which) {
        const auto i = static_cast<size_t>(which);
        Meeting meeting(3);
        outcomes[i] = run_over_ranks(problems[i], {}, data[i], cut_of(problems[i].time, 3, 5), meeting, true);
    });
    for (size_t i = 0; i < 2; ++i) {
        require(outcomes[i]);
        expect_backward(problems[i], data[i], outcomes[i], references[i]);
    }
}

}  // namespace
}  // namespace numeric
