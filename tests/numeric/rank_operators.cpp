// SPDX-License-Identifier: Apache-2.0
// Operators that are built in over several ranks, each a thread, against the oracle on the whole.
#include <gtest/gtest.h>

#include <array>

#include "support/operator_check.h"
#include "support/operators.h"
#include "support/ranks.h"

namespace numeric {
namespace {

using namespace support;

constexpr int32_t grad = FLASHSCAN_GRAD;
constexpr Target device{FLASHSCAN_BACKEND_CUDA, ""};

struct OperatorRankCase {
    OperatorProblem problem;
    std::string kernel;
    std::vector<int64_t> lengths;
};
std::ostream& operator<<(std::ostream& stream, const OperatorRankCase& c) {
    for (const int64_t length : c.lengths) stream << length << " ";
    return stream << c.kernel << " " << text_of(c.problem);
}

// Every operator on numbers with every dtype in all modes, matrix products and affine maps; the cut follows from the
// position.
void add_case(std::vector<OperatorRankCase>& cases, const std::string& text, const char* kernel) {
    constexpr int32_t rank_counts[] = {2, 3, 5, 8, 1};
    const size_t i = cases.size() + 1;
    const OperatorProblem p = operator_problem_of(text + " seed" + std::to_string(i));
    cases.push_back({p, kernel, cut_of(p.time, rank_counts[i % std::size(rank_counts)], i)});
}

std::vector<OperatorRankCase> number_cases() {
    std::vector<OperatorRankCase> cases;
    for (const int32_t kind : named_operators()) {
        if (kind == FLASHSCAN_OPERATOR_MATMUL || kind == FLASHSCAN_OPERATOR_AFFINE) continue;
        for (int32_t dtype = FLASHSCAN_DTYPE_F32; dtype <= FLASHSCAN_DTYPE_U8; ++dtype) {
            if (!takes(kind, dtype)) continue;
            for (const char* mode : {"inclusive", "exclusive", "reduction"})
                for (const char* rest :
                     {"b2 t37 c5 state-out", "b3 t20 c1 state-in reverse", "b1 t9 c17 state-in values-sign",
                      "b2 t50 c4 BCT state-in state-out invariant", "b1 t6 c3 reverse caller-scratch",
                      "b1 t1300 c2 state-out threads2", "b1 t40 c3 sequences7 state-in state-out",
                      "b1 t33 c2 BCT sequences5 offsets-i32 reverse state-out"})
                    add_case(cases,
                             std::string("operator ") + operator_row(kind).word + " " + mode +
                                 (is_integer(dtype) ? " fwd " : " bwd ") + name_of(dtype) + " " + rest,
                             "");
        }
    }
    return cases;
}

std::vector<OperatorRankCase> matrix_cases() {
    std::vector<OperatorRankCase> cases;
    for (const char* kernel : {"", "reference"})
        for (const char* kind : {"matmul", "affine"})
            for (const char* mode : {"inclusive", "exclusive", "reduction"})
                for (const char* rest :
                     {"f32 b2 t30 c2 d3 state-in state-out", "bf16 b1 t20 c3 d2 BCT state-out reverse",
                      "f16 b2 t12 c1 d5 state-in", "f64 b1 t40 c2 d4 sequences6 state-in state-out",
                      "c64 b1 t25 c1 d2 state-in state-out", "c128 b2 t9 c2 d3 reverse",
                      "f32 b1 t60 c1 d17 state-out caller-scratch", "f64 b1 t300 c1 d2 state-in invariant",
                      "f32 b1 t21 c2 d3 BCT sequences9 offsets-i32 reverse state-in",
                      "f32 b2 t0 c2 d2 state-in state-out", "f32 b0 t4 c2 d2", "f64 b3 t5 c2 d1 state-in state-out"})
                    add_case(cases, std::string("operator ") + kind + " " + mode + " bwd " + rest, kernel);
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
Part run_part(const OperatorProblem& p, const std::string& kernel, const OperatorData& data, Meeting& meeting,
              int32_t rank) {
    Part part;
    const int32_t backend = meeting.backend();
    const flashscan_comm comm = meeting.comm(rank);
    flashscan_options options = options_of(p, backend, kernel);
    options.communicator = &comm;
    const Plan plan(desc_of(p), options);
    if (failed(plan, part.run)) return part;
    for (const bool backward : {false, true}) {
        if (backward && !p.backward) break;
        Call call = backward ? backward_call(p, plan, backend, data, data.output, Guard::end)
                             : forward_call(p, plan, backend, data, Guard::end);
        if (!run_repeatedly(call, plan, 2, part.run)) return part;
        for (const auto& [id, bytes] : call.output_bytes()) part.values[id] = call.values(id);
    }
    return part;
}

// The gradients of a reduction, which are added: twice that of the first rank, and minus that of the second.
Values share_of(const Values& gradient, size_t rank, size_t ranks) {
    const double share = ranks == 1 ? 1 : rank == 0 ? 2 : rank == 1 ? -1 : 0;
    Values shared = gradient;
    for (Value& one : shared) one *= share;
    return shared;
}

OperatorData data_of(const OperatorProblem& p, const OperatorData& data, const std::vector<int64_t>& lengths,
                     size_t rank) {
    const auto [begin, end] = steps_of_rank(lengths, rank);
    OperatorData own = data;
    own.input = steps_of(data.input, p.extents(p.element()), begin, end);
    own.gate = steps_of(data.gate, p.extents(p.gate_element()), begin, end);
    own.offsets = offsets_of(data.offsets, begin, end);
    if (p.reduction()) {
        own.grad_output = share_of(data.grad_output, rank, lengths.size());
    } else {
        own.output = steps_of(data.output, p.output_extents(), begin, end);
        own.grad_output = steps_of(data.grad_output, p.output_extents(), begin, end);
    }
    return own;
}

class RankOperators : public testing::TestWithParam<OperatorRankCase> {};

void expect_near_reference(const OperatorRankCase& c, Meeting& meeting) {
    const auto& [p, kernel, lengths] = c;
    OperatorData data = make_data(p);
    const std::map<int32_t, Expected> reference = reference_of(p, data);
    std::vector<Part> parts(lengths.size());
    on_ranks(
        meeting,
        [&, &p = p, &kernel = kernel, &lengths = lengths](int32_t number) {
            const auto rank = static_cast<size_t>(number);
            parts[rank] = run_part(part_of(p, lengths, rank), kernel, data_of(p, data, lengths, rank), meeting, number);
        },
        [&](int32_t rank) -> std::string& { return parts[static_cast<size_t>(rank)].run.damage; });
    EXPECT_EQ(meeting.trouble(), "");
    std::map<int32_t, Values> whole;
    for (size_t rank = 0; rank < parts.size(); ++rank) {
        EXPECT_EQ(parts[rank].run.status, FLASHSCAN_STATUS_OK) << parts[rank].run.message;
        EXPECT_EQ(parts[rank].run.damage, "");
        for (const auto& [id, values] : parts[rank].values) {
            const int32_t argument = id & ~grad;
            const bool reduced = argument == FLASHSCAN_ARG_OUTPUT && p.reduction();
            EXPECT_TRUE(!reduced || rank == 0 || whole[id] == values) << "OUTPUT of rank " << rank << " is another";
            if (argument == FLASHSCAN_ARG_STATE_IN || argument == FLASHSCAN_ARG_STATE_OUT || reduced)
                whole[id] = values;
            else
                put_steps(whole[id], values, extents_of(p, id), steps_of_rank(lengths, rank).begin,
                          steps_of_rank(lengths, rank).end);
        }
    }
    ASSERT_EQ(whole.size(), reference.size());
    for (const auto& [id, values] : whole) {
        const Comparison comparison = compare("output " + std::to_string(id), extents_of(p, id),
                                              written_time(p, data, id), values, reference.at(id));
        EXPECT_TRUE(comparison.ok()) << comparison.sentence;
    }
}

TEST_P(RankOperators, MatchTheReference) {
    Meeting meeting(static_cast<int32_t>(GetParam().lengths.size()));
    expect_near_reference(GetParam(), meeting);
}

INSTANTIATE_TEST_SUITE_P(Numbers, RankOperators, testing::ValuesIn(number_cases()));
INSTANTIATE_TEST_SUITE_P(Matrices, RankOperators, testing::ValuesIn(matrix_cases()));

// On a GPU that the ranks share, gathered as ranks cannot send, and in a wavefront, which reductions have not.
void expect_both_ways(const OperatorRankCase& c) {
    for (const bool waves : {false, true}) {
        if (waves && c.problem.reduction()) continue;
        SCOPED_TRACE(testing::Message() << c << (waves ? " in a wavefront" : " gathered"));
        Meeting meeting(static_cast<int32_t>(c.lengths.size()), FLASHSCAN_BACKEND_CUDA);
        if (waves) meeting.carry(FLASHSCAN_CARRIES_WAVEFRONT, 3);
        expect_near_reference(c, meeting);
    }
}

// Of numbers a part of the cases, which differs from operator to operator.
TEST(RankOperatorsOnAGpu, NumbersMatchTheReference) {
    SKIP_UNLESS_AVAILABLE(device);
    const std::vector<OperatorRankCase> cases = number_cases();
    for (size_t i = 0; i < cases.size(); i += 5) expect_both_ways(cases[i]);
}

TEST(RankOperatorsOnAGpu, MatricesMatchTheReference) {
    SKIP_UNLESS_AVAILABLE(device);
    for (const OperatorRankCase& c : matrix_cases())
        if (c.kernel.empty()) expect_both_ways(c);
}

// Channels that groups cut, of every kernel, and entries of the batch.
TEST(RankOperatorsOnAGpu, GroupsOfBatchEntriesAndOfChannels) {
    SKIP_UNLESS_AVAILABLE(device);
    std::vector<OperatorRankCase> cases;
    for (const char* text :
         {"matmul inclusive bwd f32 b1 t700 c6 d4 state-in state-out", "matmul exclusive bwd bf16 b1 t90 c9 d3 reverse",
          "matmul inclusive bwd f32 b1 t120 c5 d8 state-in state-out", "matmul exclusive bwd f64 BCT b1 t60 c3 d5",
          "matmul inclusive bwd c64 b1 t80 c7 d2 sequences5 state-in state-out",
          "matmul inclusive bwd f32 BCT b4 t99 c2 d3", "affine inclusive bwd f32 b1 t300 c40 d2 state-in state-out",
          "affine exclusive bwd f16 b1 t70 c19 d6 reverse",
          "affine inclusive bwd f64 BCT b1 t50 c9 d3 sequences4 state-out", "affine inclusive bwd bf16 b5 t64 c3 d17",
          "add inclusive bwd f32 b1 t900 c256 state-in state-out", "add exclusive bwd bf16 b1 t600 c130 reverse",
          "mul inclusive bwd f32 b1 t200 c70 state-in state-out values-sign", "logaddexp inclusive bwd f64 b1 t64 c33",
          "max exclusive bwd bf16 BCT b1 t130 c67 state-out", "min inclusive bwd f16 b1 t150 c200 sequences6",
          "add inclusive fwd u8 b1 t300 c300 state-in state-out", "max inclusive fwd i64 b6 t77 c20 reverse"})
        add_case(cases, std::string("operator ") + text, "");
    for (const OperatorRankCase& c : cases)
        for (const int32_t groups : {0, 2, 5}) {
            SCOPED_TRACE(testing::Message() << c << " " << groups << " groups");
            Meeting meeting(static_cast<int32_t>(c.lengths.size()), FLASHSCAN_BACKEND_CUDA);
            meeting.carry(FLASHSCAN_CARRIES_WAVEFRONT, groups);
            expect_near_reference(c, meeting);
        }
}

TEST(RankOperatorsOnAGpu, ReductionsHaveNoWavefront) {
    SKIP_UNLESS_AVAILABLE(device);
    const OperatorProblem p = operator_problem_of("operator matmul reduction fwd f32 b2 t6 c2 d2");
    const OperatorData data = make_data(p);
    Meeting meeting(2, FLASHSCAN_BACKEND_CUDA);
    meeting.carry(FLASHSCAN_CARRIES_WAVEFRONT, 0);
    std::array<Part, 2> parts;
    on_ranks(2, [&](int32_t number) {
        const auto rank = static_cast<size_t>(number);
        parts[rank] = run_part(part_of(p, {3, 3}, rank), "", data_of(p, data, {3, 3}, rank), meeting, number);
    });
    for (const Part& part : parts) {
        EXPECT_EQ(part.run.status, FLASHSCAN_STATUS_UNSUPPORTED);
        EXPECT_NE(part.run.message.find("all ranks have the result of a reduction"), std::string::npos)
            << part.run.message;
    }
}

// The products of a rank's matrices overflow where the states that they are meant for are 0.
TEST(RankOperatorsOnTheWay, ProductsOverflowWhereStatesDoNot) {
    const OperatorProblem p = operator_problem_of("operator affine inclusive bwd f32 b1 t9 c1 d2");
    OperatorData data = make_data(p);
    for (size_t t = 0; t < 9; ++t) {
        const double gate[] = {1e20, 0, 0, 0.5}, input[] = {0, 1}, gradient[] = {0, 0.25};
        for (size_t i = 0; i < 4; ++i) data.gate[4 * t + i] = rounded(p.dtype, gate[i]);
        for (size_t i = 0; i < 2; ++i) data.input[2 * t + i] = input[i], data.grad_output[2 * t + i] = gradient[i];
    }
    const std::map<int32_t, Expected> reference = reference_of(p, data);
    Meeting meeting(3);
    std::vector<Part> parts(3);
    const std::vector<int64_t> lengths{3, 3, 3};
    on_ranks(3, [&](int32_t number) {
        const auto rank = static_cast<size_t>(number);
        parts[rank] = run_part(part_of(p, lengths, rank), "", data_of(p, data, lengths, rank), meeting, number);
    });
    std::map<int32_t, Values> whole;
    for (size_t rank = 0; rank < 3; ++rank) {
        EXPECT_EQ(parts[rank].run.status, FLASHSCAN_STATUS_OK) << parts[rank].run.message;
        for (const auto& [id, values] : parts[rank].values)
            put_steps(whole[id], values, extents_of(p, id), static_cast<int64_t>(3 * rank),
                      static_cast<int64_t>(3 * rank + 3));
    }
    for (const auto& [id, values] : whole) {
        const Comparison comparison =
            compare("output " + std::to_string(id), extents_of(p, id), p.time, values, reference.at(id));
        EXPECT_TRUE(comparison.ok()) << comparison.sentence;
    }
    // The plan; twice forward with one walk, twice backward with one and the second meeting of its own.
    EXPECT_EQ(meeting.calls(), 1 + 2 * 2 + 2 * 3);
}

TEST(RankOperatorsOnTheWay, AGateGradientNeedsOutputOnEveryRank) {
    const OperatorProblem p = operator_problem_of("operator affine inclusive bwd f32 b1 t4 c1 d2");
    OperatorData data = make_data(p);
    reference_of(p, data);
    Meeting meeting(2);
    std::array<std::string, 2> sentences;
    on_ranks(2, [&](int32_t number) {
        const auto rank = static_cast<size_t>(number);
        const OperatorProblem mine = part_of(p, {2, 2}, rank);
        const OperatorData own = data_of(p, data, {2, 2}, rank);
        flashscan_options options = options_of(mine, FLASHSCAN_BACKEND_CPU, "");
        const flashscan_comm comm = meeting.comm(number);
        options.communicator = &comm;
        const Plan plan(desc_of(mine), options);
        ASSERT_TRUE(plan) << plan.message();
        Call call = backward_call(mine, plan, FLASHSCAN_BACKEND_CPU, own, own.output, Guard::end);
        if (number == 0)
            for (const int32_t id : {int32_t{FLASHSCAN_ARG_OUTPUT}, grad | FLASHSCAN_ARG_GATE})
                call.argument(id).data = nullptr;
        EXPECT_EQ(call.run(plan.get()), FLASHSCAN_STATUS_MISSING_ARGUMENT);
        sentences[rank] = flashscan_last_error();
        EXPECT_TRUE(call.outputs_untouched());
    });
    EXPECT_EQ(sentences[0], "OUTPUT is not given on rank 0; GRAD|GATE of rank 1 needs it there");
    EXPECT_EQ(sentences[1], sentences[0]);
}

}  // namespace
}  // namespace numeric
