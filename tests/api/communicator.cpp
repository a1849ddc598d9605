// SPDX-License-Identifier: Apache-2.0
// Communicators that are not one, plans that take none, and a communicator of one rank.
#include <cstring>

#include "api/fixture.h"
#include "support/operator_problem.h"
#include "support/rnn_problem.h"

namespace api {
namespace {

using namespace support;

int32_t gather_of_one(void* user, const void* send, void* receive, size_t bytes, void*) {
    ++*static_cast<int*>(user);
    std::memcpy(receive, send, bytes);
    return 0;
}

flashscan_comm comm_of_one(int* calls) {
    flashscan_comm comm{};
    comm.struct_size = sizeof comm;
    comm.kind = FLASHSCAN_COMM_CALLBACKS;
    comm.size = 1;
    comm.user = calls;
    comm.all_gather = gather_of_one;
    return comm;
}

struct BadComm {
    const char* name;
    std::function<void(flashscan_comm&)> change;
    flashscan_status status;
    std::vector<std::string> words;
};
class BadComms : public testing::TestWithParam<BadComm> {};

TEST_P(BadComms, AreRefusedByName) {
    int calls = 0;
    flashscan_comm comm = comm_of_one(&calls);
    GetParam().change(comm);
    const flashscan_linear_desc desc = desc_of(small_problem());
    flashscan_options options = options_of(small_problem(), FLASHSCAN_BACKEND_CPU, "");
    options.communicator = &comm;
    flashscan_plan* plan = reinterpret_cast<flashscan_plan*>(0x10);
    expect_failure(flashscan_plan_linear(&plan, &desc, &options), GetParam().status, GetParam().words);
    EXPECT_EQ(plan, nullptr);
    EXPECT_EQ(calls, 0);
}

const BadComm bad_comms[] = {
    {"StructSizeZero",
     [](auto& c) { c.struct_size = 0; },
     FLASHSCAN_STATUS_INVALID_STRUCT,
     {"communicator.struct_size is 0", "32"}},
    {"StructSizeShort",
     [](auto& c) { c.struct_size = 31; },
     FLASHSCAN_STATUS_INVALID_STRUCT,
     {"communicator.struct_size is 31", "32"}},
    {"KindMissing",
     [](auto& c) { c.kind = 0; },
     FLASHSCAN_STATUS_INVALID_ARGUMENT,
     {"communicator.kind is 0", "COMM_CALLBACKS (2201)"}},
    {"KindOfAnotherEnumeration",
     [](auto& c) { c.kind = FLASHSCAN_BACKEND_CPU; },
     FLASHSCAN_STATUS_INVALID_ARGUMENT,
     {"communicator.kind is 101", "COMM_CALLBACKS (2201)"}},
    {"NcclOnTheCpu",
     [](auto& c) { c.kind = FLASHSCAN_COMM_NCCL, c.all_gather = nullptr; },
     FLASHSCAN_STATUS_UNSUPPORTED,
     {"communicator.kind is COMM_NCCL", "BACKEND_CPU"}},
    {"NcclWithoutAComm",
     [](auto& c) { c.kind = FLASHSCAN_COMM_NCCL, c.all_gather = nullptr, c.user = nullptr; },
     FLASHSCAN_STATUS_INVALID_ARGUMENT,
     {"communicator.user is NULL"}},
    {"NcclWithCallbacks",
     [](auto& c) { c.kind = FLASHSCAN_COMM_NCCL; },
     FLASHSCAN_STATUS_INVALID_ARGUMENT,
     {"functions of the caller", "COMM_NCCL"}},
    {"SendAlone",
     [](auto& c) { c.send = [](void*, const void*, size_t, int32_t, void*) { return int32_t{0}; }; },
     FLASHSCAN_STATUS_INVALID_ARGUMENT,
     {"communicator.receive is NULL"}},
    {"CarriesOfAnotherEnumeration",
     [](auto& c) { c.carries = FLASHSCAN_COMM_NCCL; },
     FLASHSCAN_STATUS_INVALID_ARGUMENT,
     {"communicator.carries is 2202", "CARRIES_GATHERED (2301)"}},
    {"WavefrontWithoutSend",
     [](auto& c) { c.carries = FLASHSCAN_CARRIES_WAVEFRONT; },
     FLASHSCAN_STATUS_INVALID_ARGUMENT,
     {"CARRIES_WAVEFRONT, which needs send"}},
    {"WavefrontOnTheCpu",
     [](auto& c) {
         c.carries = FLASHSCAN_CARRIES_WAVEFRONT;
         c.send = [](void*, const void*, size_t, int32_t, void*) { return int32_t{0}; };
         c.receive = [](void*, void*, size_t, int32_t, void*) { return int32_t{0}; };
     },
     FLASHSCAN_STATUS_UNSUPPORTED,
     {"CARRIES_WAVEFRONT", "BACKEND_CPU"}},
    {"GroupsTooMany",
     [](auto& c) { c.groups = 1025; },
     FLASHSCAN_STATUS_INVALID_ARGUMENT,
     {"communicator.groups is 1025", "1024"}},
    {"SizeZero", [](auto& c) { c.size = 0; }, FLASHSCAN_STATUS_INVALID_ARGUMENT, {"communicator.size is 0", "65536"}},
    {"SizeHuge",
     [](auto& c) { c.size = 65537; },
     FLASHSCAN_STATUS_INVALID_ARGUMENT,
     {"communicator.size is 65537", "65536"}},
    {"RankNegative",
     [](auto& c) { c.rank = -1; },
     FLASHSCAN_STATUS_INVALID_ARGUMENT,
     {"communicator.rank is -1 of 1", "0 to 0"}},
    {"RankTooHigh",
     [](auto& c) { c.rank = 4, c.size = 4; },
     FLASHSCAN_STATUS_INVALID_ARGUMENT,
     {"communicator.rank is 4 of 4", "0 to 3"}},
    {"FlagsUnknown",
     [](auto& c) { c.flags = 1; },
     FLASHSCAN_STATUS_INVALID_ARGUMENT,
     {"communicator.flags is 1", "COMM_FLAG_SUM_GRADIENTS (268435456)"}},
    {"Reserved", [](auto& c) { c.reserved = 7; }, FLASHSCAN_STATUS_INVALID_ARGUMENT, {"communicator.reserved is 7"}},
    {"AllGatherMissing",
     [](auto& c) { c.all_gather = nullptr; },
     FLASHSCAN_STATUS_INVALID_ARGUMENT,
     {"communicator.all_gather is NULL"}},
};
INSTANTIATE_TEST_SUITE_P(Api, BadComms, testing::ValuesIn(bad_comms), [](const auto& one) { return one.param.name; });

class Communicator : public testing::Test {
  protected:
    Communicator() { options.communicator = &comm; }
    int calls = 0;
    flashscan_comm comm = comm_of_one(&calls);
    flashscan_options options = make_options(FLASHSCAN_BACKEND_CPU, "", 0, false, false);
    flashscan_plan* plan = nullptr;
};

TEST_F(Communicator, OfANewerLibraryIsRefused) {
    struct {
        flashscan_comm comm;
        int64_t added;
    } newer{comm, 0};
    newer.comm.struct_size = sizeof newer;
    options.communicator = &newer.comm;
    const flashscan_linear_desc desc = desc_of(small_problem());
    ASSERT_EQ(flashscan_plan_linear(&plan, &desc, &options), FLASHSCAN_STATUS_OK) << flashscan_last_error();
    flashscan_plan_destroy(plan);
    newer.added = 1;
    expect_failure(flashscan_plan_linear(&plan, &desc, &options), FLASHSCAN_STATUS_STRUCT_TOO_NEW,
                   {"communicator.struct_size is 80"});
}

TEST_F(Communicator, IsRefusedWhereNoPlanTakesIt) {
    const flashscan_linear_desc linear = desc_of(small_problem());
    flashscan_linear_desc pooled = linear;
    pooled.state_pool = 7;
    expect_failure(flashscan_plan_linear(&plan, &pooled, &options), FLASHSCAN_STATUS_UNSUPPORTED,
                   {"state_pool is 7", "communicator"});
    const flashscan_rnn_desc rnn = desc_of(rnn_problem_of("rnn lstm fwd f32 b3 t4 h2 d40"));
    expect_failure(flashscan_plan_rnn(&plan, &rnn, &options), FLASHSCAN_STATUS_UNSUPPORTED,
                   {"communicator", "rnn lstm", "cannot be summarised"});
    flashscan_selective_desc selective{};
    selective.struct_size = sizeof selective;
    selective.dtype = FLASHSCAN_DTYPE_F32;
    selective.batch = selective.time = selective.channels = selective.states = 1;
    selective.state_pool = 2;
    expect_failure(flashscan_plan_selective(&plan, &selective, &options), FLASHSCAN_STATUS_UNSUPPORTED,
                   {"state_pool is 2", "communicator"});
    EXPECT_EQ(plan, nullptr);
}

TEST_F(Communicator, OfOneRankChangesNoBits) {
    const Problem p = problem_of("linear bf16 BTC b2 t300 c9 form-logit state-in state-out seed5");
    Data data = make_data(p);
    data.output = data.input;
    const Plan alone(desc_of(p), options_of(p, FLASHSCAN_BACKEND_CPU, "stream"));
    options.kernel = "stream";
    Plan ranked(desc_of(p), options);
    comm = {};  // the plan has a copy
    ASSERT_TRUE(ranked) << ranked.message();
    EXPECT_NE(ranked.describe().find("rank 0 of 1"), std::string::npos) << ranked.describe();
    EXPECT_EQ(calls, 1);
    for (const bool backward : {false, true}) {
        const auto bits = [&](const Plan& made) {
            Call call = backward ? backward_call(p, made, FLASHSCAN_BACKEND_CPU, data, Guard::end)
                                 : forward_call(p, made, FLASHSCAN_BACKEND_CPU, data, Guard::end);
            EXPECT_EQ(call.run(made.get()), FLASHSCAN_STATUS_OK) << flashscan_last_error();
            return call.output_bytes();
        };
        EXPECT_TRUE(bits(alone) == bits(ranked));
    }
    EXPECT_EQ(calls, 3);
}

// A plan of an inner rank lists the arguments that it takes before any call is made.
TEST_F(Communicator, PlansListWhatTheirRankTakes) {
    comm.size = 3, comm.rank = 1;
    comm.all_gather = [](void*, const void* send, void* receive, size_t bytes, void*) -> int32_t {
        // The callback answers as if all ranks had sent the same, each under its number.
        for (int32_t rank = 0; rank < 3; ++rank) {
            auto* to = static_cast<char*>(receive) + static_cast<size_t>(rank) * bytes;
            std::memcpy(to, send, bytes);
            std::memcpy(to, &rank, sizeof rank);
        }
        return 0;
    };
    const flashscan_linear_desc desc = desc_of(small_problem());
    ASSERT_EQ(flashscan_plan_linear(&plan, &desc, &options), FLASHSCAN_STATUS_OK) << flashscan_last_error();
    for (const int32_t pass : {FLASHSCAN_PASS_FORWARD, FLASHSCAN_PASS_BACKWARD})
        for (const int32_t id : {FLASHSCAN_ARG_STATE_IN, FLASHSCAN_ARG_STATE_OUT}) {
            size_t bytes = 0;
            const int32_t wanted = pass == FLASHSCAN_PASS_BACKWARD ? FLASHSCAN_GRAD | id : id;
            EXPECT_EQ(flashscan_plan_arg_bytes(plan, pass, wanted, &bytes), FLASHSCAN_STATUS_UNKNOWN_ARGUMENT);
        }
    flashscan_plan_destroy(plan);
}

// INDEX counts the steps of one rank.
TEST_F(Communicator, PlansTakeNoIndex) {
    const flashscan_operator_desc desc = desc_of(operator_problem_of("operator max f32 b1 t4 c1"));
    ASSERT_EQ(flashscan_plan_operator(&plan, &desc, &options), FLASHSCAN_STATUS_OK) << flashscan_last_error();
    const float input[4] = {1, 3, 2, 5};
    float output[4] = {};
    int64_t index[4] = {};
    const flashscan_arg args[] = {flashscan_in(FLASHSCAN_ARG_INPUT, input, sizeof input),
                                  flashscan_out(FLASHSCAN_ARG_OUTPUT, output, sizeof output),
                                  flashscan_out(FLASHSCAN_ARG_INDEX, index, sizeof index)};
    expect_failure(flashscan_execute(plan, FLASHSCAN_PASS_FORWARD, args, 3, nullptr), FLASHSCAN_STATUS_UNKNOWN_ARGUMENT,
                   {"INDEX is given to rank 0 of 1", "communicator"});
    flashscan_plan_destroy(plan);
}

}  // namespace
}  // namespace api
