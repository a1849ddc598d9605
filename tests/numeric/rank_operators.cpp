// SPDX-License-Identifier: Apache-2.0
// Scans of numbers over several ranks, each a thread, against the oracle on the whole.
#include <gtest/gtest.h>

#include <numeric>

#include "support/operator_check.h"
#include "support/operators.h"
#include "support/ranks.h"

namespace numeric {
namespace {

using namespace support;

constexpr int32_t grad = FLASHSCAN_GRAD;

struct OperatorRankCase {
    OperatorProblem problem;
    std::vector<int64_t> lengths;
};
std::ostream& operator<<(std::ostream& stream, const OperatorRankCase& c) {
    for (const int64_t length : c.lengths) stream << length << " ";
    return stream << text_of(c.problem);
}

// Every operator on numbers with every dtype in both modes; the cut follows from the position.
std::vector<OperatorRankCase> rank_cases() {
    constexpr int32_t rank_counts[] = {2, 3, 5, 8, 1};
    std::vector<OperatorRankCase> cases;
    for (const int32_t kind : named_operators()) {
        if (kind == FLASHSCAN_OPERATOR_MATMUL || kind == FLASHSCAN_OPERATOR_AFFINE) continue;
        for (int32_t dtype = FLASHSCAN_DTYPE_F32; dtype <= FLASHSCAN_DTYPE_U8; ++dtype) {
            if (!takes(kind, dtype)) continue;
            for (const char* mode : {"inclusive", "exclusive"})
                for (const char* rest : {"b2 t37 c5 state-out", "b3 t20 c1 state-in reverse",
                                         "b1 t9 c17 state-in values-sign", "b2 t50 c4 BCT state-in state-out invariant",
                                         "b1 t6 c3 reverse caller-scratch", "b1 t1300 c2 state-out threads2"}) {
                    const std::string text = std::string("operator ") + (is_integer(dtype) ? "fwd " : "bwd ") +
                                             operator_row(kind).word + " " + mode + " " + name_of(dtype) + " " + rest;
                    const size_t i = cases.size() + 1;
                    const OperatorProblem p = operator_problem_of(text + " seed" + std::to_string(i));
                    cases.push_back({p, cut_of(p.time, rank_counts[i % std::size(rank_counts)], i)});
                }
        }
    }
    return cases;
}

OperatorProblem part_of(const OperatorProblem& p, const std::vector<int64_t>& lengths, size_t rank) {
    const size_t first = p.reverse ? lengths.size() - 1 : 0;
    OperatorProblem part = p;
    part.time = lengths[rank];
    part.state_in = p.state_in && rank == first;
    part.state_out = p.state_out && rank == lengths.size() - 1 - first;
    part.threads = std::max(p.threads, 1);
    return part;
}

struct Part {
    Run run;
    std::map<int32_t, Values> values;
};
Part run_part(const OperatorProblem& p, const OperatorData& data, const flashscan_comm& comm) {
    Part part;
    flashscan_options options = options_of(p, FLASHSCAN_BACKEND_CPU, "");
    options.communicator = &comm;
    const Plan plan(desc_of(p), options);
    if (failed(plan, part.run)) return part;
    for (const bool backward : {false, true}) {
        if (backward && !p.backward) break;
        Call call = backward ? backward_call(p, plan, FLASHSCAN_BACKEND_CPU, data, {}, Guard::end)
                             : forward_call(p, plan, FLASHSCAN_BACKEND_CPU, data, Guard::end);
        if (!run_repeatedly(call, plan, 2, part.run)) return part;
        for (const auto& [id, bytes] : call.output_bytes()) part.values[id] = call.values(id);
    }
    return part;
}

class RankOperators : public testing::TestWithParam<OperatorRankCase> {};

TEST_P(RankOperators, MatchTheReference) {
    const auto& [p, lengths] = GetParam();
    OperatorData data = make_data(p);
    const std::map<int32_t, Expected> reference = reference_of(p, data);
    Meeting meeting(static_cast<int32_t>(lengths.size()));
    std::vector<Part> parts(lengths.size());
    std::vector<int64_t> ends(lengths.size());
    std::partial_sum(lengths.begin(), lengths.end(), ends.begin());
    const std::array<int64_t, 3> extents = p.extents(1);
    on_ranks(meeting.size(), [&](int32_t number) {
        const auto rank = static_cast<size_t>(number);
        const OperatorProblem mine = part_of(p, lengths, rank);
        OperatorData own = data;
        own.input = steps_of(data.input, extents, ends[rank] - lengths[rank], ends[rank]);
        own.grad_output = steps_of(data.grad_output, extents, ends[rank] - lengths[rank], ends[rank]);
        try {
            parts[rank] = run_part(mine, own, meeting.comm(number));
        } catch (const std::exception& error) {
            parts[rank].run.damage = error.what();
        }
    });
    EXPECT_EQ(meeting.trouble(), "");
    std::map<int32_t, Values> whole;
    for (size_t rank = 0; rank < parts.size(); ++rank) {
        EXPECT_EQ(parts[rank].run.status, FLASHSCAN_STATUS_OK) << parts[rank].run.message;
        EXPECT_EQ(parts[rank].run.damage, "");
        for (const auto& [id, values] : parts[rank].values) {
            const int32_t argument = id & ~grad;
            if (argument == FLASHSCAN_ARG_STATE_IN || argument == FLASHSCAN_ARG_STATE_OUT)
                whole[id] = values;
            else
                put_steps(whole[id], values, extents, ends[rank] - lengths[rank], ends[rank]);
        }
    }
    ASSERT_EQ(whole.size(), reference.size());
    for (const auto& [id, values] : whole) {
        const Comparison comparison =
            compare("output " + std::to_string(id), extents_of(p, id), p.time, values, reference.at(id));
        EXPECT_TRUE(comparison.ok()) << comparison.sentence;
    }
}

INSTANTIATE_TEST_SUITE_P(All, RankOperators, testing::ValuesIn(rank_cases()));

}  // namespace
}  // namespace numeric
