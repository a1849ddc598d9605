// SPDX-License-Identifier: Apache-2.0
// Selective scans over several ranks, each a thread, against the oracle on the whole.
#include <gtest/gtest.h>

#include <cmath>

#include "support/ranks.h"
#include "support/selective_check.h"

namespace numeric {
namespace {

using namespace support;

constexpr Target device{FLASHSCAN_BACKEND_CUDA, ""};

struct SelectiveRankCase {
    SelectiveProblem problem;
    std::string kernel;
    std::vector<int64_t> lengths;
};
std::ostream& operator<<(std::ostream& stream, const SelectiveRankCase& c) {
    for (const int64_t length : c.lengths) stream << length << " ";
    return stream << c.kernel << " " << text_of(c.problem);
}

// The cut follows from the position.
std::vector<SelectiveRankCase> rank_cases() {
    constexpr int32_t rank_counts[] = {2, 3, 5, 8, 1};
    std::vector<SelectiveRankCase> cases;
    for (const char* kernel : {"", "reference"})
        for (const char* line :
             {"f32 b2 t130 c33 n16 b-per-step c-per-step softplus gate skip bias state-in state-out",
              "bf16 BCT b2 t260 c40 n16 b-per-step c-per-step softplus gate skip bias",
              "f64 b1 t115 c9 n5 b-per-step c-per-step reset state-in gate", "f32 complex b1 t69 c9 n8 b-per-step skip",
              "f16 b1 t300 c48 n4 g3 b-per-step c-per-step sequences7 state-in state-out softplus",
              "f32 BCT b5 t1 c64 n16 b-per-step c-per-step gate state-in state-out", "f32 b3 t57 c16 n17 threads3 gate",
              "f32 b1 t40 c21 n6 sequences30 offsets-i32 reverse b-per-step softplus state-out",
              "bf16 BCT b2 t150 c5 n5 b-per-step c-per-step reset reverse state-in state-out softplus gate",
              "f32 complex b1 t110 c3 n4 c-per-step reset state-in state-out gate invariant",
              "f64 BCT b1 t80 c3 n70 b-per-step c-per-step reverse state-in state-out",
              "f64 complex b1 t60 c3 n4 reverse sequences5 b-per-step state-in state-out caller-scratch",
              "f32 b40 t3 c5 n3 b-per-step reverse state-in state-out", "f32 b0 t4 c3 n2 b-per-step",
              "f32 b2 t0 c3 n2 state-in state-out c-per-step", "f32 b2 t5 c0 n2 b-per-step c-per-step gate",
              "f32 b1 t90 c6 n2 g3 b-per-step c-per-step softplus place-fused"}) {
            const size_t i = cases.size() + 1;
            const SelectiveProblem p =
                selective_problem_of("selective " + std::string(line) + " seed" + std::to_string(i));
            cases.push_back({p, kernel, cut_of(p.time, rank_counts[i % std::size(rank_counts)], i)});
        }
    // States that forget at every step, and stay on ranks without any.
    for (const char* kernel : {"", "reference"})
        for (const char* line : {"f32 b2 t60 c6 n4 c-per-step", "f64 complex b1 t60 c3 n4 reverse sequences30"})
            cases.push_back({selective_problem_of(std::string("selective ") + line +
                                                  " softplus state-in state-out forgets grads-uABCs"),
                             kernel,
                             {0, 31, 0, 29, 0}});
    return cases;
}

struct Part {
    SelectiveProblem problem;
    SelectiveData data;
    RankSteps steps;
    Run run;
    std::map<int32_t, Values> values;
};

Part part_of(const SelectiveProblem& p, const SelectiveData& data, const std::vector<int64_t>& lengths, size_t rank) {
    Part part;
    part.steps = steps_of_rank(lengths, rank);
    part.problem = problem_of_rank(p, lengths, rank);
    for (const auto& [id, values] : data.values)
        part.data.values[id] =
            has_steps(p, id) ? steps_of(values, tensor_of(p, id).extents, part.steps.begin, part.steps.end) : values;
    part.data.offsets = offsets_of(data.offsets, part.steps.begin, part.steps.end);
    part.data.reset = resets_of_rank(p, data.reset, part.steps);
    return part;
}

void run_part(Part& part, const std::string& kernel, Meeting& meeting, int32_t rank) {
    const SelectiveProblem& p = part.problem;
    const int32_t backend = meeting.backend();
    const flashscan_comm comm = meeting.comm(rank);
    flashscan_options options = options_of(p, backend, kernel);
    options.communicator = &comm;
    const Plan plan(desc_of(p), options);
    if (failed(plan, part.run)) return;
    Call forward = forward_call(p, plan, backend, part.data, Guard::end);
    if (!run_repeatedly(forward, plan, 2, part.run)) return;
    Call backward = backward_call(p, plan, backend, part.data, Guard::start);
    if (!run_repeatedly(backward, plan, 2, part.run)) return;
    for (const Call* call : {&forward, &backward})
        for (const auto& [id, bytes] : call->output_bytes()) part.values[id] = call->values(id);
}

// Sums over time that ranks have rounded are added here.
void add_sums(const SelectiveProblem& p, int32_t id, const Values& values, Values& all, Expected& expected) {
    all.resize(values.size());
    const double unit = unit_roundoff(dtype_of(p, id & ~FLASHSCAN_GRAD));
    for (size_t i = 0; i < values.size(); ++i) {
        all[i] += values[i];
        expected.tolerance[i] += std::abs(values[i]) * unit;
    }
}

void expect_near_reference(const SelectiveProblem& p, const std::string& kernel, const std::vector<int64_t>& lengths,
                           Meeting& meeting) {
    const bool sum_gradients = meeting.sums_gradients();
    const SelectiveData data = make_data(p);
    std::map<int32_t, Expected> reference = reference_of(p, data);
    std::vector<Part> parts;
    for (size_t rank = 0; rank < lengths.size(); ++rank) parts.push_back(part_of(p, data, lengths, rank));
    const auto part_of_rank = [&](int32_t rank) -> Part& { return parts[static_cast<size_t>(rank)]; };
    on_ranks(
        meeting, [&](int32_t rank) { run_part(part_of_rank(rank), kernel, meeting, rank); },
        [&](int32_t rank) -> std::string& { return part_of_rank(rank).run.damage; });
    EXPECT_EQ(meeting.trouble(), "");
    std::map<int32_t, Values> whole;
    for (const Part& part : parts) {
        EXPECT_EQ(part.run.status, FLASHSCAN_STATUS_OK) << part.run.message;
        EXPECT_EQ(part.run.damage, "");
        for (const auto& [id, values] : part.values) {
            const int32_t argument = id & ~FLASHSCAN_GRAD;
            if (has_steps(p, id))
                put_steps(whole[id], values, tensor_of(p, id).extents, part.steps.begin, part.steps.end);
            else if (argument == FLASHSCAN_ARG_STATE_IN || argument == FLASHSCAN_ARG_STATE_OUT)
                whole[id] = values;
            else if (sum_gradients)
                EXPECT_TRUE(whole.try_emplace(id, values).first->second == values) << "ranks have different sums";
            else
                add_sums(p, id, values, whole[id], reference.at(id));
        }
    }
    EXPECT_EQ(whole.size(), written_by(p, false).size() + written_by(p, true).size());
    for (const auto& [id, values] : whole) {
        const Comparison comparison = compare(p, data, id, values, reference.at(id));
        EXPECT_TRUE(comparison.ok()) << comparison.sentence;
    }
}

int32_t ranks_of(const SelectiveRankCase& c) { return static_cast<int32_t>(c.lengths.size()); }

class RankSelective : public testing::TestWithParam<SelectiveRankCase> {};

TEST_P(RankSelective, MatchTheReference) {
    const auto& [p, kernel, lengths] = GetParam();
    Meeting meeting(ranks_of(GetParam()));
    expect_near_reference(p, kernel, lengths, meeting);
}

TEST(RankSelectiveSums, TheLibraryAddsThem) {
    for (const SelectiveRankCase& c : rank_cases()) {
        SCOPED_TRACE(testing::Message() << c);
        Meeting meeting(ranks_of(c));
        meeting.sum_gradients();
        expect_near_reference(c.problem, c.kernel, c.lengths, meeting);
    }
}

INSTANTIATE_TEST_SUITE_P(All, RankSelective, testing::ValuesIn(rank_cases()));

// On a GPU that the ranks share, gathered as ranks cannot send, and forward in a wavefront. The last case has segments
// of the steps of a rank.
TEST(RankSelectiveOnAGpu, MatchTheReference) {
    SKIP_UNLESS_AVAILABLE(device);
    std::vector<SelectiveRankCase> cases = rank_cases();
    const SelectiveProblem p = selective_problem_of(
        "selective f32 b1 t2100 c20 n16 b-per-step c-per-step softplus gate skip bias reset state-in state-out seed9");
    cases.push_back({p, "", {1000, 1100}});
    for (const SelectiveRankCase& c : cases) {
        if (!c.kernel.empty()) continue;
        for (const bool waves : {false, true}) {
            SCOPED_TRACE(testing::Message() << c << (waves ? " in a wavefront, sums" : " gathered"));
            Meeting meeting(ranks_of(c), FLASHSCAN_BACKEND_CUDA);
            if (waves) meeting.sum_gradients();
            if (waves) meeting.carry(FLASHSCAN_CARRIES_WAVEFRONT, 3);
            expect_near_reference(c.problem, "", c.lengths, meeting);
        }
    }
}

// Channels that groups cut, whole groups of B and C too, and entries of the batch.
TEST(RankSelectiveOnAGpu, GroupsOfBatchEntriesAndOfChannels) {
    SKIP_UNLESS_AVAILABLE(device);
    for (const char* line :
         {"f32 b1 t90 c100 n4 b-per-step c-per-step softplus gate skip bias state-in state-out",
          "bf16 BCT b1 t150 c130 n16 b-per-step c-per-step softplus gate reverse state-in state-out",
          "f32 b1 t60 c40 n3 g5 b-per-step skip bias reset", "f64 complex b1 t40 c20 n2 c-per-step state-in state-out",
          "f16 b1 t80 c150 n8 b-per-step c-per-step sequences6 state-in state-out gate",
          "f32 BCT b6 t33 c5 n16 b-per-step c-per-step reset state-in", "bf16 b4 t3 c70 n16 b-per-step c-per-step"})
        for (const int32_t groups : {0, 2, 5}) {
            SCOPED_TRACE(testing::Message() << line << " " << groups << " groups");
            const SelectiveProblem p = selective_problem_of("selective " + std::string(line) + " seed4");
            Meeting meeting(3, FLASHSCAN_BACKEND_CUDA);
            meeting.carry(FLASHSCAN_CARRIES_WAVEFRONT, groups);
            expect_near_reference(p, "", cut_of(p.time, 3, 5), meeting);
        }
}

// Without a carry the rank in the middle would leave the numbers of f32 that it stays in with one.
TEST(RankSelectiveOnTheWay, SumsOfARanksStepsOverflowWhereTheWholeDoesNot) {
    SelectiveProblem p = selective_problem_of("selective f32 b1 t6 c2 n1");
    p.gradients = 0;
    SelectiveData data = make_data(p);
    const auto fill = [&](int32_t id, double value) {
        for (Value& one : data.values.at(id)) one = value;
    };
    fill(FLASHSCAN_ARG_A, 0);
    fill(FLASHSCAN_ARG_B, 1);
    fill(FLASHSCAN_ARG_C, 1);
    fill(FLASHSCAN_ARG_DELTA, 1);
    const double steps[] = {-2e38, -1e38, 3e38, 3e38, -3e38, -1e38};
    Values& input = data.values.at(FLASHSCAN_ARG_INPUT);
    for (size_t t = 0; t < 6; ++t) input[2 * t] = input[2 * t + 1] = rounded(p.dtype, steps[t]);
    // Each plan and each call meets once, and the rank whose sum is infinite tells twice where its steps lead.
    Meeting meeting(3);
    std::vector<Part> parts;
    for (size_t rank = 0; rank < 3; ++rank) parts.push_back(part_of(p, data, {2, 2, 2}, rank));
    std::array<Values, 3> output;
    on_ranks(3, [&](int32_t rank) {
        Part& part = parts[static_cast<size_t>(rank)];
        flashscan_options options = options_of(part.problem, FLASHSCAN_BACKEND_CPU, "");
        const flashscan_comm comm = meeting.comm(rank);
        options.communicator = &comm;
        const Plan plan(desc_of(part.problem), options);
        if (failed(plan, part.run)) return;
        Call forward = forward_call(part.problem, plan, FLASHSCAN_BACKEND_CPU, part.data, Guard::end);
        if (run_repeatedly(forward, plan, 2, part.run))
            output[static_cast<size_t>(rank)] = forward.values(FLASHSCAN_ARG_OUTPUT);
    });
    EXPECT_EQ(meeting.calls(), 1 + 2 * 2);
    double sum = 0;
    for (size_t t = 0; t < 6; ++t) {
        sum += input[2 * t].real();
        ASSERT_EQ(output[t / 2].size(), 4U) << parts[t / 2].run.message;
        EXPECT_NEAR(output[t / 2][t % 2 * 2].real(), sum, 1e32) << t;
    }
}

// A rank refuses an argument, or the all-gather of the call fails on all.
TEST(RankSelectiveErrors, AllHaveAnErrorAndNothingIsWritten) {
    const SelectiveProblem p = selective_problem_of("selective f32 b2 t9 c3 n2 b-per-step gate state-in state-out");
    const SelectiveData data = make_data(p);
    for (const bool backward : {false, true})
        for (const bool refuses : {false, true}) {
            Meeting meeting(3);
            if (!refuses) meeting.fail_after(1, 9);
            std::array<std::string, 3> sentences;
            on_ranks(3, [&](int32_t rank) {
                const Part part = part_of(p, data, {2, 4, 3}, static_cast<size_t>(rank));
                flashscan_options options = options_of(part.problem, FLASHSCAN_BACKEND_CPU, "");
                const flashscan_comm comm = meeting.comm(rank);
                options.communicator = &comm;
                const Plan plan(desc_of(part.problem), options);
                ASSERT_TRUE(plan) << plan.message();
                Call call = backward ? backward_call(part.problem, plan, FLASHSCAN_BACKEND_CPU, part.data, Guard::end)
                                     : forward_call(part.problem, plan, FLASHSCAN_BACKEND_CPU, part.data, Guard::end);
                if (refuses && rank == 1) call.argument(FLASHSCAN_ARG_DELTA).data = nullptr;
                EXPECT_EQ(call.run(plan.get()),
                          refuses ? FLASHSCAN_STATUS_MISSING_ARGUMENT : FLASHSCAN_STATUS_CALLBACK_FAILED);
                sentences[static_cast<size_t>(rank)] = flashscan_last_error();
                EXPECT_TRUE(call.outputs_untouched());
            });
            EXPECT_EQ(meeting.trouble(), "");
            for (const std::string& sentence : sentences)
                EXPECT_NE(sentence.find(refuses ? "DELTA is NULL" : "communicator.all_gather returned 9"),
                          std::string::npos)
                    << sentence;
            EXPECT_TRUE(!refuses || sentences[0] == sentences[2]);
        }
}

}  // namespace
}  // namespace numeric
