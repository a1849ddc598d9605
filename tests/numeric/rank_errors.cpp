// SPDX-License-Identifier: Apache-2.0
// One rank of several fails: the others hear of it, all have an error, nothing was written, and nobody waits.
#include <gtest/gtest.h>

#include "support/check.h"
#include "support/operator_check.h"
#include "support/ranks.h"

namespace numeric {
namespace {

using namespace support;

constexpr int32_t size = 3;

struct Result {
    flashscan_status status = FLASHSCAN_STATUS_OK;
    std::string sentence;
    bool untouched = true;
};
using Results = std::array<Result, size>;

void expect_all(const Results& results, flashscan_status status, const std::vector<std::string>& words) {
    for (const Result& result : results) {
        EXPECT_EQ(result.status, status) << flashscan_status_name(result.status) << ": " << result.sentence;
        EXPECT_TRUE(result.untouched);
        for (const std::string& word : words)
            EXPECT_NE(result.sentence.find(word), std::string::npos) << result.sentence;
    }
}
void expect_same_sentence(const Results& results) {
    for (const Result& result : results) EXPECT_EQ(result.sentence, results[0].sentence);
}

Problem problem_of_rank(int32_t rank) {
    Problem p;
    p.batch = 2;
    p.time = 3 + 2 * rank;
    p.channels = 5;
    p.state_in = rank == 0;
    p.state_out = rank == size - 1;
    p.threads = 1;
    return p;
}

// Each rank makes its plan of what `change` leaves of its descriptor and its options.
using Change = std::function<void(int32_t rank, flashscan_linear_desc&, flashscan_options&)>;
Results plan_on_ranks(Meeting& meeting, const Change& change) {
    Results results;
    on_ranks(size, [&](int32_t rank) {
        const Problem p = problem_of_rank(rank);
        flashscan_linear_desc desc = desc_of(p);
        flashscan_options options = options_of(p, FLASHSCAN_BACKEND_CPU, "");
        const flashscan_comm comm = meeting.comm(rank);
        options.communicator = &comm;
        change(rank, desc, options);
        const Plan plan(desc, options);
        results[static_cast<size_t>(rank)] = {plan.status(), plan.message()};
        EXPECT_EQ(static_cast<bool>(plan), plan.status() == FLASHSCAN_STATUS_OK);
    });
    EXPECT_EQ(meeting.trouble(), "");
    return results;
}

// Each rank makes its plan, whose description must have the words `described`, and calls it with what `change` leaves
// of its arguments.
using CallChange = std::function<void(int32_t rank, Call&)>;
Results call_on_ranks(Meeting& meeting, bool backward, const CallChange& change,
                      const std::function<Problem(int32_t rank)>& problem = problem_of_rank,
                      const std::string& described = "") {
    Results results;
    on_ranks(size, [&](int32_t rank) {
        const Problem p = problem(rank);
        Data data = make_data(p);
        data.output = data.input;
        flashscan_options options = options_of(p, FLASHSCAN_BACKEND_CPU, "");
        const flashscan_comm comm = meeting.comm(rank);
        options.communicator = &comm;
        const Plan plan(desc_of(p), options);
        ASSERT_EQ(plan.status(), FLASHSCAN_STATUS_OK) << plan.message();
        EXPECT_NE(plan.describe().find(described), std::string::npos) << plan.describe();
        Call call = backward ? backward_call(p, plan, FLASHSCAN_BACKEND_CPU, data, Guard::end)
                             : forward_call(p, plan, FLASHSCAN_BACKEND_CPU, data, Guard::end);
        change(rank, call);
        Result& result = results[static_cast<size_t>(rank)];
        result.status = call.run(plan.get());
        if (result.status != FLASHSCAN_STATUS_OK) result.sentence = flashscan_last_error();
        result.untouched = call.outputs_untouched();
    });
    EXPECT_EQ(meeting.trouble(), "");
    return results;
}

TEST(RankErrors, DisagreementsAreFoundWhenThePlanIsMade) {
    const std::pair<const char*, Change> changes[] = {
        {"f64", [](int32_t rank, auto& desc, auto&) { desc.dtype = rank == 1 ? FLASHSCAN_DTYPE_F64 : desc.dtype; }},
        {"c6", [](int32_t rank, auto& desc, auto&) { desc.channels += rank == 1; }},
        {"b3", [](int32_t rank, auto& desc, auto&) { desc.batch += rank == 1; }},
        {"reverse",
         [](int32_t rank, auto& desc, auto&) { desc.direction = rank == 1 ? FLASHSCAN_DIRECTION_REVERSE : 0; }},
        {"reset", [](int32_t rank, auto& desc, auto&) { desc.flags = rank == 1 ? FLASHSCAN_LINEAR_FLAG_RESET : 0; }},
        {"sequences2",
         [](int32_t rank, auto& desc, auto&) {
             if (rank == 1) desc.batch = 1, desc.num_sequences = 2;
         }},
        {"logit", [](int32_t rank, auto& desc, auto&) { desc.gate_form = rank == 1 ? FLASHSCAN_GATE_LOGIT : 0; }},
        {"BCT", [](int32_t rank, auto& desc, auto&) { desc.layout = rank == 1 ? FLASHSCAN_LAYOUT_BCT : 0; }},
        {"broadcast-b",
         [](int32_t rank, auto& desc, auto&) { desc.gate_broadcast = rank == 1 ? FLASHSCAN_BROADCAST_BATCH : 0; }},
        {"batch-invariant",
         [](int32_t rank, auto&, auto& options) {
             options.determinism = rank == 1 ? FLASHSCAN_DETERMINISM_BATCH_INVARIANT : 0;
         }},
    };
    for (const auto& [word, change] : changes) {
        Meeting meeting(size);
        const Results results = plan_on_ranks(meeting, change);
        expect_all(results, FLASHSCAN_STATUS_INVALID_ARGUMENT,
                   {"rank 0 \"linear f32 BTC b2 c5", "rank 1 \"linear", word});
        expect_same_sentence(results);
        EXPECT_EQ(meeting.calls(), 1);
    }
}

TEST(RankErrors, StridesAndTimeAreARanksOwn) {
    Meeting meeting(size);
    expect_all(plan_on_ranks(meeting,
                             [](int32_t rank, auto& desc, auto&) {
                                 if (rank == 1) desc.input = {1000, 10, 1};
                                 if (rank == 2) desc.time = 0;
                             }),
               FLASHSCAN_STATUS_OK, {});
}

TEST(RankErrors, ARankThatMakesNoPlanTellsTheOthers) {
    Meeting meeting(size);
    const Results results = plan_on_ranks(meeting, [](int32_t rank, auto& desc, auto&) {
        if (rank == 2) desc.channels = -4;
    });
    expect_all(results, FLASHSCAN_STATUS_INVALID_ARGUMENT, {"rank 2 of 3", "channels is -4"});
    expect_same_sentence(results);
    // Not even its descriptor can be read.
    expect_all(plan_on_ranks(meeting, [](int32_t rank, auto& desc, auto&) { desc.struct_size -= rank == 1 ? 272 : 0; }),
               FLASHSCAN_STATUS_INVALID_STRUCT, {"rank 1 of 3", "struct_size"});
    expect_all(
        plan_on_ranks(meeting, [](int32_t rank, auto& desc, auto&) { desc.dtype = rank == 0 ? 999 : desc.dtype; }),
        FLASHSCAN_STATUS_INVALID_ARGUMENT, {"rank 0 of 3", "dtype is 999"});
    expect_all(plan_on_ranks(meeting,
                             [](int32_t rank, auto&, auto& options) { options.kernel = rank == 1 ? "none" : nullptr; }),
               FLASHSCAN_STATUS_INVALID_ARGUMENT, {"rank 1 of 3", "kernel is \"none\""});
}

TEST(RankErrors, RanksThatTakeTheSamePlace) {
    Meeting meeting(size);
    std::array<flashscan_comm, size> comms;
    expect_all(plan_on_ranks(meeting,
                             [&](int32_t rank, auto&, auto& options) {
                                 flashscan_comm& comm = comms[static_cast<size_t>(rank)];
                                 comm = meeting.comm(rank);
                                 comm.rank = rank == 2 ? 1 : rank;
                                 options.communicator = &comm;
                             }),
               FLASHSCAN_STATUS_INVALID_ARGUMENT, {"as from rank 2 of 3", "a rank 1 of 3 has sent"});
}

TEST(RankErrors, AnAllGatherThatFails) {
    Meeting meeting(size);
    meeting.fail_after(0, 13);
    expect_all(plan_on_ranks(meeting, [](int32_t, auto&, auto&) {}), FLASHSCAN_STATUS_CALLBACK_FAILED,
               {"communicator.all_gather returned 13 to rank"});
    for (const bool backward : {false, true}) {
        Meeting calls(size);
        calls.fail_after(1, -7);
        expect_all(call_on_ranks(calls, backward, [](int32_t, Call&) {}), FLASHSCAN_STATUS_CALLBACK_FAILED,
                   {"communicator.all_gather returned -7 to rank"});
        EXPECT_EQ(calls.calls(), 2);
    }
}

// The second all-gather of a call, in which a rank tells where its steps lead.
TEST(RankErrors, ALaterAllGatherThatFails) {
    Meeting meeting(size);
    meeting.fail_after(2, 5);
    expect_all(call_on_ranks(meeting, false,
                             [](int32_t rank, Call& call) {
                                 const Problem p = problem_of_rank(rank);
                                 call.set_input(FLASHSCAN_ARG_INPUT,
                                                Values(static_cast<size_t>(p.elements()), Value(NAN)));
                             }),
               FLASHSCAN_STATUS_CALLBACK_FAILED, {"returned 5 to rank"});
    EXPECT_EQ(meeting.calls(), 3);
}

TEST(RankErrors, AnArgumentThatOneRankRefuses) {
    for (const bool backward : {false, true}) {
        Meeting meeting(size);
        expect_all(call_on_ranks(meeting, backward,
                                 [](int32_t rank, Call& call) {
                                     if (rank == 1) call.argument(FLASHSCAN_ARG_GATE).data = nullptr;
                                 }),
                   FLASHSCAN_STATUS_MISSING_ARGUMENT, {"GATE"});
        EXPECT_EQ(meeting.calls(), 2);
    }
    Meeting meeting(size);
    const Results results = call_on_ranks(meeting, true, [](int32_t rank, Call& call) {
        if (rank == 2) call.argument(FLASHSCAN_GRAD | FLASHSCAN_ARG_OUTPUT).bytes -= 4;
    });
    expect_all(results, FLASHSCAN_STATUS_BUFFER_TOO_SMALL, {"GRAD|OUTPUT has"});
    EXPECT_NE(results[0].sentence.find("rank 2 of 3 has failed"), std::string::npos) << results[0].sentence;
    EXPECT_EQ(results[0].sentence, results[1].sentence);
}

TEST(RankErrors, StatesBelongToTheFirstAndTheLastRank) {
    for (const int32_t id : {FLASHSCAN_ARG_STATE_IN, FLASHSCAN_ARG_STATE_OUT}) {
        const bool in = id == FLASHSCAN_ARG_STATE_IN;
        Meeting meeting(size);
        expect_all(call_on_ranks(meeting, false,
                                 [&](int32_t rank, Call& call) {
                                     if (rank == 1) call.input(id, FLASHSCAN_DTYPE_F32, dense_tensor(2, 5), Values(10));
                                 }),
                   FLASHSCAN_STATUS_UNKNOWN_ARGUMENT,
                   {in ? "STATE_IN is given to rank 1; it belongs to rank 0 alone, the first of 3"
                       : "STATE_OUT is given to rank 1; it belongs to rank 2 alone, the last of 3"});
    }
}

TEST(RankErrors, AGateGradientNeedsOutputOnEveryRank) {
    Meeting meeting(size);
    const Results results = call_on_ranks(meeting, true, [](int32_t rank, Call& call) {
        if (rank == 0) {
            call.argument(FLASHSCAN_ARG_OUTPUT).data = nullptr;
            call.argument(FLASHSCAN_GRAD | FLASHSCAN_ARG_GATE).data = nullptr;
        }
    });
    expect_all(results, FLASHSCAN_STATUS_MISSING_ARGUMENT,
               {"OUTPUT is not given on rank 0; GRAD|GATE of rank 1 needs it there"});
    expect_same_sentence(results);
}

TEST(RankErrors, SumsAreAskedForOnAllRanksOrOnNone) {
    Meeting meeting(size);
    meeting.sum_gradients();
    const Results results = call_on_ranks(
        meeting, true,
        [](int32_t rank, Call& call) {
            if (rank == 1) call.argument(FLASHSCAN_GRAD | FLASHSCAN_ARG_GATE).data = nullptr;
        },
        [](int32_t) { return problem_of("linear f32 BTC b2 t4 c3 broadcast-t"); }, "added up over ranks: GRAD|GATE");
    expect_all(results, FLASHSCAN_STATUS_MISSING_ARGUMENT, {"GRAD|GATE is given on rank 0 and not on rank 1"});
    expect_same_sentence(results);
}

TEST(RankErrors, SumsOfGradientsThatAreNone) {
    Meeting meeting(size);
    meeting.sum_gradients();
    expect_all(plan_on_ranks(meeting, [](int32_t, auto&, auto&) {}), FLASHSCAN_STATUS_UNSUPPORTED,
               {"COMM_FLAG_SUM_GRADIENTS, but no gradient of linear f32 BTC b2"});
    Meeting apart(size);
    expect_all(plan_on_ranks(apart,
                             [](int32_t rank, auto& desc, auto& options) {
                                 desc.gate_broadcast = FLASHSCAN_BROADCAST_TIME;
                                 thread_local flashscan_comm comm;
                                 comm = *options.communicator;
                                 if (rank == 2) comm.flags = FLASHSCAN_COMM_FLAG_SUM_GRADIENTS;
                                 options.communicator = &comm;
                             }),
               FLASHSCAN_STATUS_INVALID_ARGUMENT, {"make different plans", "sums"});
}

// Plans of other families meet in the same place.
TEST(RankErrors, ScansOfNumbersTellEachOtherTheSame) {
    const auto run = [](const std::array<const char*, size>& lines, const std::function<void(int32_t, Call&)>& change) {
        Meeting meeting(size);
        Results results;
        on_ranks(size, [&](int32_t rank) {
            const OperatorProblem p = operator_problem_of(lines[static_cast<size_t>(rank)]);
            flashscan_options options = options_of(p, FLASHSCAN_BACKEND_CPU, "");
            const flashscan_comm comm = meeting.comm(rank);
            options.communicator = &comm;
            const Plan plan(desc_of(p), options);
            Result& result = results[static_cast<size_t>(rank)];
            result = {plan.status(), plan.message()};
            if (!plan) return;
            Call call = forward_call(p, plan, FLASHSCAN_BACKEND_CPU, make_data(p), Guard::end);
            change(rank, call);
            result.status = call.run(plan.get());
            if (result.status != FLASHSCAN_STATUS_OK) result.sentence = flashscan_last_error();
            result.untouched = call.outputs_untouched();
        });
        EXPECT_EQ(meeting.trouble(), "");
        return results;
    };
    constexpr const char *add = "operator add inclusive fwd f32 b1 t4 c2",
                         *mul = "operator mul inclusive fwd f32 b1 t4 c2";
    const Results different = run({add, add, mul}, [](int32_t, Call&) {});
    expect_all(different, FLASHSCAN_STATUS_INVALID_ARGUMENT,
               {"rank 0 \"operator add f32 BTC inclusive b1 c2", "rank 2 \"operator mul f32 BTC inclusive b1 c2"});
    expect_same_sentence(different);
    expect_all(run({add, add, add},
                   [](int32_t rank, Call& call) {
                       if (rank == 1) call.argument(FLASHSCAN_ARG_INPUT).data = nullptr;
                   }),
               FLASHSCAN_STATUS_MISSING_ARGUMENT, {"INPUT is NULL"});
}

TEST(RankErrors, RanksThatCallDifferentPasses) {
    Meeting meeting(size);
    // Operators send as much forward as backward, so that they see it.
    Results results;
    on_ranks(size, [&](int32_t rank) {
        const OperatorProblem p = operator_problem_of("operator mul inclusive bwd f32 b1 t4 c2");
        flashscan_options options = options_of(p, FLASHSCAN_BACKEND_CPU, "");
        const flashscan_comm comm = meeting.comm(rank);
        options.communicator = &comm;
        const Plan plan(desc_of(p), options);
        ASSERT_TRUE(plan) << plan.message();
        const OperatorData data = make_data(p);
        Call call = rank == 1 ? backward_call(p, plan, FLASHSCAN_BACKEND_CPU, data, {}, Guard::end)
                              : forward_call(p, plan, FLASHSCAN_BACKEND_CPU, data, Guard::end);
        Result& result = results[static_cast<size_t>(rank)];
        result.status = call.run(plan.get());
        result.sentence = flashscan_last_error();
        result.untouched = call.outputs_untouched();
    });
    expect_all(results, FLASHSCAN_STATUS_INVALID_ARGUMENT, {"rank 0 calls the forward pass, rank 1 the backward pass"});
}

}  // namespace
}  // namespace numeric
