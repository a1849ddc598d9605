// SPDX-License-Identifier: Apache-2.0
// One sequence over ranks on GPUs: threads that share one GPU and meet by callbacks, and two GPUs over NCCL. Built with
// CUDA only.
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "numeric/problems.h"
#include "numeric/rank_check.h"

namespace numeric {
namespace {

using namespace support;

constexpr Target device{FLASHSCAN_BACKEND_CUDA, ""};

// How the ranks of a case meet.
struct Way {
    const char* name;
    int32_t carries, groups;  // -1: ranks cannot send
    bool nccl;
};
constexpr Way ways[] = {{"gathered", -1, 0, false},
                        {"wave_of_3", FLASHSCAN_CARRIES_WAVEFRONT, 3, false},
                        {"gathered_by_nccl", FLASHSCAN_CARRIES_GATHERED, 0, true},
                        {"wave", FLASHSCAN_CARRIES_WAVEFRONT, 0, true},
                        {"chosen", 0, 0, false}};

void prepare(Meeting& meeting, const Way& way) {
    if (way.carries >= 0) meeting.carry(way.carries, way.groups);
    if (way.nccl) meeting.pose_as_nccl();
}

// A gradient that is a sum over all axes of the rows has no groups.
bool takes_waves(const Problem& p) {
    const uint32_t rows = FLASHSCAN_BROADCAST_BATCH | FLASHSCAN_BROADCAST_CHANNELS;
    const uint32_t cut = p.sequences > 0 ? uint32_t{FLASHSCAN_BROADCAST_CHANNELS} : rows;
    return (p.broadcast & cut) != cut;
}

class DeviceRanks : public testing::TestWithParam<RankCase> {};

TEST_P(DeviceRanks, MatchReference) {
    SKIP_UNLESS_AVAILABLE(device);
    const auto& [p, kernel, ranks] = GetParam();
    for (const Way& way : ways) {
        if (way.carries == FLASHSCAN_CARRIES_WAVEFRONT && !takes_waves(p)) continue;
        SCOPED_TRACE(way.name);
        Meeting meeting(ranks, FLASHSCAN_BACKEND_CUDA);
        prepare(meeting, way);
        expect_near_reference(p, kernel, make_data(p), cut_of(p.time, ranks, p.seed), meeting);
    }
}

INSTANTIATE_TEST_SUITE_P(Small, DeviceRanks, testing::ValuesIn(rank_cases(pairs(Size::tiny), "")), name_of_ranks);
INSTANTIATE_TEST_SUITE_P(Single, DeviceRanks, testing::ValuesIn(rank_cases(singles(), "")), name_of_ranks);
INSTANTIATE_TEST_SUITE_P(Pairs, DeviceRanks, testing::ValuesIn(rank_cases(pairs(Size::varied), "")), name_of_ranks);
INSTANTIATE_TEST_SUITE_P(Shapes, DeviceRanks, testing::ValuesIn(rank_cases(shapes(), "")), name_of_ranks);
INSTANTIATE_TEST_SUITE_P(Chunks, DeviceRanks, testing::ValuesIn(rank_cases(pairs(Size::chunks), "")), name_of_ranks);

// Many rows, of more channels than a group has, and long ones.
TEST(DeviceRanksShapes, GroupsOfBatchEntriesAndOfChannels) {
    SKIP_UNLESS_AVAILABLE(device);
    for (const char* line :
         {"linear f32 BTC b8 t700 c96 state-in state-out", "linear bf16 BTC b1 t900 c512 state-in state-out",
          "linear f32 BTC b2 t300 c100 reverse state-in state-out", "linear bf16 BCT b3 t640 c70 state-in state-out",
          "linear f32 BCT b1 t20000 c3 state-in state-out", "linear f64 BTC b2 t90 c40 broadcast-b state-in state-out",
          "linear c64 BTC b5 t200 c17 broadcast-c reset", "linear f32 BTC b1 t800 c200 sequences9 state-in state-out",
          "linear f16 gate-f32 BTC b1 t64 c64 reset reverse state-in state-out"})
        for (const int32_t ranks : {2, 3})
            for (const int32_t groups : {1, 2, 4}) {
                const Problem p = problem_of(line);
                SCOPED_TRACE(fmt::format("{} {} ranks {} groups", line, ranks, groups));
                Meeting meeting(ranks, FLASHSCAN_BACKEND_CUDA);
                meeting.carry(FLASHSCAN_CARRIES_WAVEFRONT, groups);
                expect_near_reference(p, "", make_data(p), cut_of(p.time, ranks, p.seed + 3), meeting);
            }
}

TEST(DeviceRanksSums, TheLibraryAddsThem) {
    SKIP_UNLESS_AVAILABLE(device);
    for (const char* line : {"linear f32 BTC b2 t300 c9 broadcast-t state-in state-out",
                             "linear f64 BCT b3 t90 c5 broadcast-bt", "linear c64 BTC b2 t70 c3 broadcast-tc reverse",
                             "linear bf16 gate-f32 BTC b1 t200 c8 broadcast-t sequences5"})
        for (const Way& way : ways) {
            const Problem p = problem_of(line);
            SCOPED_TRACE(fmt::format("{} {}", line, way.name));
            Meeting meeting(3, FLASHSCAN_BACKEND_CUDA);
            prepare(meeting, way);
            meeting.sum_gradients();
            expect_near_reference(p, "", make_data(p), cut_of(p.time, 3, p.seed), meeting);
        }
}

// NaN and infinity stop at a reset, on whatever rank.
TEST(DeviceRanksResets, StopWhatIsNotFinite) {
    SKIP_UNLESS_AVAILABLE(device);
    for (const char* line : {"linear f32 BTC b4 t40 c3 reset", "linear f32 BCT b4 t40 c3 reset"})
        for (const Way& way : ways) {
            SCOPED_TRACE(fmt::format("{} {}", line, way.name));
            Problem p = problem_of(line);
            p.gradients = gradient_input;
            Data data = make_data(p);
            std::fill(data.reset.begin(), data.reset.end(), static_cast<unsigned char>(0));
            for (int64_t b = 0; b < p.batch; ++b) data.reset[static_cast<size_t>(b * p.time + 27)] = 1;
            data.input[p.index(1, 12, 1)] = NAN;
            Meeting meeting(4, FLASHSCAN_BACKEND_CUDA);
            prepare(meeting, way);
            const Reference reference = reference_of(p, data);
            const RanksOutcome got = run_over_ranks(p, device, data, {10, 10, 20, 0}, meeting, false);
            require(got);
            expect_forward(p, data, got, reference);
            EXPECT_TRUE(std::isfinite(got.output[p.index(1, 39, 1)].real()));
            EXPECT_FALSE(std::isfinite(got.output[p.index(1, 26, 1)].real()));
        }
}

TEST(DeviceRanksOfOne, AreThePlanWithout) {
    SKIP_UNLESS_AVAILABLE(device);
    const Problem p = problem_of("linear bf16 BTC b2 t300 c64 state-in state-out seed5");
    Data data = make_data(p);
    data.output = data.input;
    Meeting meeting(1, FLASHSCAN_BACKEND_CUDA);
    const flashscan_comm comm = meeting.comm(0);
    flashscan_options options = options_of(p, FLASHSCAN_BACKEND_CUDA, "");
    const Plan alone(desc_of(p), options);
    options.communicator = &comm;
    const Plan ranked(desc_of(p), options);
    ASSERT_TRUE(ranked) << ranked.message();
    for (const bool backward : {false, true}) {
        const auto bits = [&](const Plan& plan) {
            Call call = backward ? backward_call(p, plan, FLASHSCAN_BACKEND_CUDA, data, Guard::end)
                                 : forward_call(p, plan, FLASHSCAN_BACKEND_CUDA, data, Guard::end);
            EXPECT_EQ(call.run(plan.get()), FLASHSCAN_STATUS_OK) << flashscan_last_error();
            return call.output_bytes();
        };
        EXPECT_TRUE(bits(alone) == bits(ranked));
    }
    EXPECT_EQ(meeting.calls(), 2);  // of the plan
}

TEST(DeviceRanksErrors, BatchedCallbacksAreRefused) {
    SKIP_UNLESS_AVAILABLE(device);
    Meeting meeting(1, FLASHSCAN_BACKEND_CUDA);
    flashscan_comm comm = meeting.comm(0);
    flashscan_options options = options_of(Problem(), FLASHSCAN_BACKEND_CUDA, "");
    options.communicator = &comm;
    flashscan_custom_operator custom{};
    custom.struct_size = sizeof custom;
    custom.element_bytes = 4;
    custom.batched = [](void*, const void*, int64_t, const void*, int64_t, void*, int64_t, int64_t, void*) {
        return 0;
    };
    flashscan_operator_desc desc{};
    desc.struct_size = sizeof desc;
    desc.kind = FLASHSCAN_OPERATOR_CUSTOM;
    desc.batch = desc.time = desc.channels = 3;
    desc.custom = &custom;
    flashscan_plan* plan = nullptr;
    EXPECT_EQ(flashscan_plan_operator(&plan, &desc, &options), FLASHSCAN_STATUS_UNSUPPORTED);
    EXPECT_NE(std::string(flashscan_last_error()).find("a callback that fails on one rank would leave the others"),
              std::string::npos)
        << flashscan_last_error();
}

// ---- two GPUs over NCCL

using NcclInit = int (*)(void** comms, int count, const int* devices);
using NcclDestroy = int (*)(void* comm);

class NcclRanks : public testing::Test {
  protected:
    void SetUp() override {
        SKIP_UNLESS_AVAILABLE(device);
        if (cuda::device_count() < 2) GTEST_SKIP() << "skipped: there are not two GPUs";
        // It stays loaded; the library finds it as it does in a program that uses NCCL.
        void* library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
        if (library == nullptr) GTEST_SKIP() << "skipped: " << dlerror();
        const auto init = reinterpret_cast<NcclInit>(dlsym(library, "ncclCommInitAll"));
        destroy_ = reinterpret_cast<NcclDestroy>(dlsym(library, "ncclCommDestroy"));
        ASSERT_NE(init, nullptr);
        comms_.resize(2);
        ASSERT_EQ(init(comms_.data(), 2, nullptr), 0);
    }
    void TearDown() override {
        for (void* comm : comms_)
            if (comm != nullptr) destroy_(comm);
    }
    std::vector<void*> comms_;
    NcclDestroy destroy_ = nullptr;
};

TEST_F(NcclRanks, MatchReference) {
    for (const char* line :
         {"linear f32 BTC b4 t700 c96 state-in state-out", "linear bf16 BTC b1 t900 c512 state-in state-out",
          "linear f32 BCT b2 t3000 c5 reverse state-in state-out", "linear c128 BTC b2 t70 c9 reset",
          "linear f32 BTC b1 t800 c64 sequences9 state-in state-out", "linear f32 BTC b2 t0 c8 state-in state-out"})
        for (const Way& way : ways) {
            if (way.nccl) continue;
            SCOPED_TRACE(fmt::format("{} {}", line, way.name));
            const Problem p = problem_of(line);
            Meeting meeting(2, FLASHSCAN_BACKEND_CUDA);
            prepare(meeting, way);
            meeting.meet_elsewhere(comms_);
            expect_near_reference(p, "", make_data(p), cut_of(p.time, 2, p.seed), meeting);
        }
}

TEST_F(NcclRanks, SumGradients) {
    const Problem p = problem_of("linear f32 BTC b2 t300 c9 broadcast-t state-in state-out");
    Meeting meeting(2, FLASHSCAN_BACKEND_CUDA);
    meeting.meet_elsewhere(comms_);
    meeting.sum_gradients();
    expect_near_reference(p, "", make_data(p), {170, 130}, meeting);
}

// Calls in a graph give the bits of calls.
TEST_F(NcclRanks, ReplayGraphs) {
    const Problem p = problem_of("linear f32 BTC b4 t900 c64 state-in state-out");
    Data data = make_data(p);
    (void)reference_of(p, data);
    for (const int32_t carries : {FLASHSCAN_CARRIES_GATHERED, FLASHSCAN_CARRIES_WAVEFRONT}) {
        Meeting meeting(2, FLASHSCAN_BACKEND_CUDA);
        meeting.carry(carries, 3);
        meeting.meet_elsewhere(comms_);
        std::array<std::string, 2> damage;
        on_ranks(
            meeting,
            [&](int32_t rank) {
                cuda::select_device(rank);
                const RankPart part = part_of(p, data, {500, 400}, static_cast<size_t>(rank));
                const flashscan_comm comm = meeting.comm(rank);
                flashscan_options options = options_of(part.problem, FLASHSCAN_BACKEND_CUDA, "");
                options.communicator = &comm;
                options.device = rank;
                const Plan plan(desc_of(part.problem), options);
                if (!plan) throw std::runtime_error(plan.message());
                for (const bool backward : {false, true}) {
                    Call call = backward
                                    ? backward_call(part.problem, plan, FLASHSCAN_BACKEND_CUDA, part.data, Guard::end)
                                    : forward_call(part.problem, plan, FLASHSCAN_BACKEND_CUDA, part.data, Guard::end);
                    EXPECT_EQ(call.run(plan.get()), FLASHSCAN_STATUS_OK) << flashscan_last_error();
                    const auto bits = call.output_bytes();
                    const auto stream = static_cast<cudaStream_t>(test_stream(FLASHSCAN_BACKEND_CUDA));
                    cudaGraph_t graph = nullptr;
                    cudaGraphExec_t executable = nullptr;
                    EXPECT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
                    EXPECT_EQ(call.execute(plan.get()), FLASHSCAN_STATUS_OK) << flashscan_last_error();
                    EXPECT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
                    EXPECT_EQ(cudaGraphInstantiate(&executable, graph, cudaGraphInstantiateFlagUseNodePriority),
                              cudaSuccess);
                    for (int replay = 0; replay < 3; ++replay) {
                        call.prepare();
                        EXPECT_EQ(cudaGraphLaunch(executable, stream), cudaSuccess);
                        call.collect();
                        EXPECT_TRUE(call.outputs_are(bits));
                    }
                    cudaGraphExecDestroy(executable);
                    cudaGraphDestroy(graph);
                }
            },
            [&](int32_t rank) -> std::string& { return damage[static_cast<size_t>(rank)]; });
        for (const std::string& one : damage) EXPECT_EQ(one, "");
    }
}

TEST_F(NcclRanks, OfAnotherDeviceAreRefused) {
    flashscan_comm comm{};
    comm.struct_size = sizeof comm;
    comm.kind = FLASHSCAN_COMM_NCCL;
    comm.user = comms_[1];
    flashscan_options options = options_of(Problem(), FLASHSCAN_BACKEND_CUDA, "");
    options.communicator = &comm;
    const Plan plan(desc_of(Problem()), options);
    EXPECT_EQ(plan.status(), FLASHSCAN_STATUS_INVALID_ARGUMENT);
    EXPECT_NE(plan.message().find("device is 0, and that of the ncclComm_t is 1"), std::string::npos) << plan.message();
}

}  // namespace
}  // namespace numeric
