// SPDX-License-Identifier: Apache-2.0
// Gated layers over several ranks, each a thread, against the oracle on the whole, on the CPU and on a GPU.
#include <gtest/gtest.h>

#include <algorithm>

#include "support/gated_check.h"
#include "support/ranks.h"

namespace numeric {
namespace {

using namespace support;

constexpr int32_t grad = FLASHSCAN_GRAD;
constexpr Target device{FLASHSCAN_BACKEND_CUDA, ""};

struct GatedRankCase {
    GatedProblem problem;
    std::vector<int64_t> lengths;
};
std::ostream& operator<<(std::ostream& stream, const GatedRankCase& c) {
    for (const int64_t length : c.lengths) stream << length << " ";
    return stream << text_of(c.problem);
}

size_t first_rank(const GatedProblem& p, const std::vector<int64_t>& lengths) {
    return p.reverse ? lengths.size() - 1 : 0;
}

// Layers by their names and by their parts; the cut follows from the position.
std::vector<GatedRankCase> rank_cases() {
    constexpr int32_t rank_counts[] = {2, 3, 5, 8, 1};
    std::vector<std::string> lines;
    for (const char* layer : {"mingru", "minlstm", "hgrn", "rglru", "qrnn", "gilr"})
        for (const char* rest :
             {"f32 b2 t300 c70 state-in state-out", "bf16 b3 t65 c64 BCT state-out", "f16 b2 t200 c16 reset saturated",
              "bf16 gate-f32 param-f32 b1 t90 c24 reverse state-in state-out", "f64 b2 t40 c17 reverse reset",
              "f32 b0 t3 c4", "f32 b2 t0 c4 state-in state-out", "f32 b2 t5 c0", "f32 BCT b1 t3000 c3 reverse reset",
              "f32 b2 t500 c31 invariant reset", "f32 b1 t60 c2049"})
            lines.push_back(std::string(layer) + " " + rest);
    for (const char* line :
         {"decay-value f32 b1 t900 c1 epilogue-silu state-in", "decay-exp scale-one-minus f32 BCT b2 t97 c1",
          "decay-exp scale-one-minus epilogue-silu f16 b1 t129 c64 input-gate state-in state-out",
          "decay-value scale-sqrt f32 BCT b1 t248 c4 activation-silu epilogue-tanh-sigmoid state-in limit1000",
          "decay-value f32 b2 t300 c32 growing no-bias state-in state-out",
          "rglru bf16 place-fused b2 t130 c128 limit1000", "mingru f32 b1 t200 c30 sequences9 state-in state-out",
          "minlstm bf16 b1 t700 c4 sequences3 reverse state-out", "rglru f32 b1 t150 c33 sequences7 state-in state-out",
          "hgrn f32 BCT b1 t96 c20 sequences5 reset",
          "decay-exp scale-one-minus epilogue-silu f16 b1 t129 c64 sequences11 input-gate state-in state-out",
          "qrnn f64 b1 t90 c17 sequences40 offsets-i32 state-out", "gilr f32 b1 t5 c6 sequences12 state-in state-out",
          "mingru f32 b1 t300 c5 sequences4 invariant state-out",
          "mingru f32 place-mixed in-place b2 t50 c6 state-in state-out caller-scratch"})
        lines.push_back(line);
    std::vector<GatedRankCase> cases;
    for (const std::string& line : lines) {
        const GatedProblem p = gated_problem_of("gated " + line);
        std::vector<int64_t> lengths = cut_of(p.time, rank_counts[cases.size() % std::size(rank_counts)], cases.size());
        // The sequence has to start on the first rank where its first step is special.
        if (p.first_step && !p.state_in)
            std::iter_swap(lengths.begin() + static_cast<int64_t>(first_rank(p, lengths)),
                           std::max_element(lengths.begin(), lengths.end()));
        cases.push_back({p, lengths});
    }
    return cases;
}

bool along_time(int32_t id) {
    switch (id & ~grad) {
    case FLASHSCAN_ARG_PARAM:
    case FLASHSCAN_ARG_BIAS:
    case FLASHSCAN_ARG_STATE_IN:
    case FLASHSCAN_ARG_STATE_OUT: return false;
    default: return true;
    }
}

struct Part {
    GatedProblem problem;
    GatedData data;
    Values output;
    RankSteps steps;
    Run run;
    std::map<int32_t, Values> values;
};

Part part_of(const GatedProblem& p, const GatedData& data, const Values& output, const std::vector<int64_t>& lengths,
             size_t rank) {
    Part part;
    part.steps = steps_of_rank(lengths, rank);
    part.problem = problem_of_rank(p, lengths, rank);
    for (const auto& [id, values] : data.values)
        part.data.values[id] =
            along_time(id) ? steps_of(values, p.extents(), part.steps.begin, part.steps.end) : values;
    part.output = steps_of(output, p.extents(), part.steps.begin, part.steps.end);
    part.data.offsets = offsets_of(data.offsets, part.steps.begin, part.steps.end);
    part.data.reset = resets_of_rank(p, data.reset, part.steps);
    return part;
}

void run_part(Part& part, Meeting& meeting, int32_t rank) {
    const GatedProblem& p = part.problem;
    const int32_t backend = meeting.backend();
    const flashscan_comm comm = meeting.comm(rank);
    flashscan_options options = options_of(p, backend, "");
    options.communicator = &comm;
    const Plan plan(desc_of(p), options);
    if (failed(plan, part.run)) return;
    Call forward = forward_call(p, plan, backend, part.data, Guard::end);
    if (!run_repeatedly(forward, plan, 2, part.run)) return;
    Call backward = backward_call(p, plan, backend, part.data, forward, part.output, Guard::start);
    if (!run_repeatedly(backward, plan, 2, part.run)) return;
    for (const Call* call : {&forward, &backward})
        for (const auto& [id, bytes] : call->output_bytes())
            if (id != FLASHSCAN_ARG_RESERVE) part.values[id] = call->values(id);
}

class RankGated : public testing::TestWithParam<GatedRankCase> {};

void expect_near_reference(const GatedProblem& p, const std::vector<int64_t>& lengths, Meeting& meeting) {
    const bool sum_gradients = meeting.sums_gradients();
    const GatedData data = make_data(p);
    GatedReference reference = reference_of(p, data);
    std::vector<Part> parts;
    for (size_t rank = 0; rank < lengths.size(); ++rank)
        parts.push_back(part_of(p, data, reference.output, lengths, rank));
    const auto part_of_rank = [&](int32_t rank) -> Part& { return parts[static_cast<size_t>(rank)]; };
    on_ranks(
        meeting, [&](int32_t rank) { run_part(part_of_rank(rank), meeting, rank); },
        [&](int32_t rank) -> std::string& { return part_of_rank(rank).run.damage; });
    EXPECT_EQ(meeting.trouble(), "");
    std::map<int32_t, Values> whole;
    for (const Part& part : parts) {
        EXPECT_EQ(part.run.status, FLASHSCAN_STATUS_OK) << part.run.message;
        EXPECT_EQ(part.run.damage, "");
        for (const auto& [id, values] : part.values) {
            Values& all = whole[id];
            const int32_t argument = id & ~grad;
            if (along_time(id)) {
                put_steps(all, values, p.extents(), part.steps.begin, part.steps.end);
            } else if (!sum_gradients && (argument == FLASHSCAN_ARG_PARAM || argument == FLASHSCAN_ARG_BIAS)) {
                // Sums that ranks have rounded are added here.
                all.resize(values.size());
                for (size_t i = 0; i < values.size(); ++i) {
                    all[i] += values[i];
                    reference.expected.at(id).tolerance[i] += std::abs(values[i]) * unit_roundoff(p.param_dtype);
                }
            } else {
                const bool is_sum = argument == FLASHSCAN_ARG_PARAM || argument == FLASHSCAN_ARG_BIAS;
                EXPECT_TRUE(!is_sum || all.empty() || all == values) << "ranks have different sums";
                all = values;
            }
        }
    }
    EXPECT_FALSE(whole.empty());
    for (const auto& [id, values] : whole) {
        const Comparison comparison = compare(p, data, id, values, reference);
        EXPECT_TRUE(comparison.ok()) << comparison.sentence;
    }
    for (const auto& [id, expected] : reference.expected)
        EXPECT_TRUE(whole.count(id) == 1 || !has_argument(p, id & ~grad)) << id;
}

int32_t ranks_of(const GatedRankCase& c) { return static_cast<int32_t>(c.lengths.size()); }

TEST_P(RankGated, MatchTheReference) {
    Meeting meeting(ranks_of(GetParam()));
    expect_near_reference(GetParam().problem, GetParam().lengths, meeting);
}

// Each rank's sums are rounded to the type of the parameters, of 32 bits and more here.
TEST(RankGatedSums, TheLibraryAddsThem) {
    for (const GatedRankCase& c : rank_cases())
        if (c.problem.param_dtype == FLASHSCAN_DTYPE_F32 || c.problem.param_dtype == FLASHSCAN_DTYPE_F64) {
            SCOPED_TRACE(testing::Message() << c);
            Meeting meeting(ranks_of(c));
            meeting.sum_gradients();
            expect_near_reference(c.problem, c.lengths, meeting);
        }
}

INSTANTIATE_TEST_SUITE_P(All, RankGated, testing::ValuesIn(rank_cases()));

// On a GPU that the ranks share, in a wavefront of as many groups as the plan chooses and of three.
TEST(RankGatedOnAGpu, MatchTheReference) {
    SKIP_UNLESS_AVAILABLE(device);
    for (const GatedRankCase& c : rank_cases())
        for (const int32_t groups : {0, 3}) {
            // Refused are a first step that packed sequences share, and one of a rank without steps.
            if (c.problem.first_step && (c.problem.sequences > 0 || c.lengths.front() == 0)) continue;
            SCOPED_TRACE(testing::Message() << c << " " << groups << " groups");
            Meeting meeting(ranks_of(c), FLASHSCAN_BACKEND_CUDA);
            meeting.carry(0, groups);
            if (groups > 0 && size_of(c.problem.param_dtype) >= 4) meeting.sum_gradients();
            expect_near_reference(c.problem, c.lengths, meeting);
        }
}

TEST(RankGatedOnAGpu, RefusesWhatHasNoWavefront) {
    SKIP_UNLESS_AVAILABLE(device);
    const auto refusal = [](const char* line, const std::vector<int64_t>& lengths, int32_t carries) {
        const GatedProblem p = gated_problem_of(line);
        const GatedData data = make_data(p);
        Meeting meeting(2, FLASHSCAN_BACKEND_CUDA);
        if (carries >= 0) meeting.carry(carries, 0);
        std::vector<Part> parts{part_of(p, data, {}, lengths, 0), part_of(p, data, {}, lengths, 1)};
        on_ranks(2, [&](int32_t rank) { run_part(parts[static_cast<size_t>(rank)], meeting, rank); });
        for (const Part& part : parts) EXPECT_EQ(part.run.status, FLASHSCAN_STATUS_UNSUPPORTED);
        return parts[1].run.message;
    };
    const auto has = [](const std::string& text, const char* words) {
        EXPECT_NE(text.find(words), std::string::npos) << text;
    };
    has(refusal("gated mingru f32 b2 t6 c3", {3, 3}, -1), "takes a communicator only with send and receive");
    has(refusal("gated mingru f32 b2 t6 c3", {3, 3}, FLASHSCAN_CARRIES_GATHERED), "has no CARRIES_GATHERED");
    has(refusal("gated rglru f32 b2 t6 c3", {0, 6}, 0), "rank 0 has no steps; with GATED_FLAG_FIRST_STEP");
    has(refusal("gated rglru f32 b1 t6 c3 sequences2", {3, 3}, 0), "their first steps are special");
}

TEST(RankGatedErrors, TheFirstStepHasToBeOnTheFirstRank) {
    const GatedProblem p = gated_problem_of("gated rglru f32 b2 t6 c3");
    const GatedData data = make_data(p);
    Meeting meeting(2);
    std::vector<Part> parts{part_of(p, data, {}, {0, 6}, 0), part_of(p, data, {}, {0, 6}, 1)};
    on_ranks(2, [&](int32_t rank) { run_part(parts[static_cast<size_t>(rank)], meeting, rank); });
    for (const Part& part : parts) {
        EXPECT_EQ(part.run.status, FLASHSCAN_STATUS_UNSUPPORTED);
        EXPECT_EQ(part.run.message.find("rank 0 has neither steps nor STATE_IN"), 0U) << part.run.message;
    }
}

TEST(RankGatedErrors, OfEverySequence) {
    const GatedProblem p = gated_problem_of("gated rglru f32 b1 t6 c3 sequences3");
    GatedData data = make_data(p);
    data.offsets = {0, 2, 5, 6};
    // Sequence 2 has its steps on rank 1; with all of them on rank 0 it is none of their business.
    for (const std::vector<int64_t>& lengths : {std::vector<int64_t>{4, 2}, std::vector<int64_t>{6, 0}}) {
        Meeting meeting(2);
        std::vector<Part> parts{part_of(p, data, Values(18), lengths, 0), part_of(p, data, Values(18), lengths, 1)};
        on_ranks(2, [&](int32_t rank) { run_part(parts[static_cast<size_t>(rank)], meeting, rank); });
        for (const Part& part : parts) {
            if (lengths[1] == 0) {
                EXPECT_EQ(part.run.status, FLASHSCAN_STATUS_OK) << part.run.message;
                continue;
            }
            EXPECT_EQ(part.run.status, FLASHSCAN_STATUS_UNSUPPORTED);
            EXPECT_EQ(part.run.message.find("rank 0 has neither steps of sequence 2 nor STATE_IN, and rank 1"), 0U)
                << part.run.message;
        }
    }
}

}  // namespace
}  // namespace numeric
