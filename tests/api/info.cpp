// SPDX-License-Identifier: Apache-2.0
// These tests ask the library about itself and its plans, and give it an allocator, a log and RESERVE of other plans.
#include <cstdlib>
#include <cstring>
#include <vector>

#include "api/fixture.h"
#include "support/call.h"
#include "support/rnn_problem.h"

namespace api {
namespace {

using namespace support;

TEST(BuildInfo, SaysWhatCanBeUsed) {
    flashscan_build build{};
    build.struct_size = sizeof build;
    ASSERT_EQ(flashscan_build_info(&build), FLASHSCAN_STATUS_OK);
    EXPECT_EQ(build.version, FLASHSCAN_VERSION);
    EXPECT_NE(std::string(build.cpu_instruction_sets).find("baseline"), std::string::npos);
    EXPECT_NE(std::string(build.cpu_instruction_sets).find(build.cpu_instruction_set), std::string::npos);
    int32_t count = -1;
    ASSERT_EQ(flashscan_device_count(FLASHSCAN_BACKEND_CUDA, &count), FLASHSCAN_STATUS_OK);
    EXPECT_EQ(std::string(build.cuda_unusable).empty(), count > 0) << build.cuda_unusable;
    EXPECT_EQ(build.cuda_toolkit == 0, std::string(build.cuda_architectures).empty());
    build.struct_size = 8;
    expect_failure(flashscan_build_info(&build), FLASHSCAN_STATUS_INVALID_STRUCT, {"flashscan_build", "is 8", "48"});
    expect_failure(flashscan_build_info(nullptr), FLASHSCAN_STATUS_INVALID_ARGUMENT, {"build is NULL"});
}

TEST(BuildInfo, FillsStructsOfLaterVersions) {
    struct {
        flashscan_build known;
        int64_t later;
    } both{};
    both.known.struct_size = sizeof both;
    both.later = 7;
    ASSERT_EQ(flashscan_build_info(&both.known), FLASHSCAN_STATUS_OK);
    EXPECT_EQ(both.known.struct_size, sizeof both);
    EXPECT_EQ(both.later, 0);
}

std::vector<flashscan_arg_info> arguments_of(const flashscan_plan* plan, int32_t pass) {
    int32_t count = 0;
    EXPECT_EQ(flashscan_plan_args(plan, pass, nullptr, 0, &count), FLASHSCAN_STATUS_OK);
    std::vector<flashscan_arg_info> infos(static_cast<size_t>(count));
    infos[0].struct_size = sizeof(flashscan_arg_info);
    EXPECT_EQ(flashscan_plan_args(plan, pass, infos.data(), count, &count), FLASHSCAN_STATUS_OK);
    return infos;
}
flashscan_arg_info argument_of(const flashscan_plan* plan, int32_t pass, int32_t id) {
    for (const flashscan_arg_info& info : arguments_of(plan, pass))
        if (info.id == id) return info;
    ADD_FAILURE() << "no argument " << id;
    return {};
}

Plan rnn_plan(const char* text) {
    const RnnProblem problem = rnn_problem_of(text);
    return Plan(desc_of(problem), options_of(problem, FLASHSCAN_BACKEND_CPU, ""));
}

TEST(PlanArgs, AgreeWithTheirBytes) {
    for (const char* text :
         {"linear bf16 BCT b2 t5 c3 reset broadcast-t state-in", "linear f32 BTC b1 t9 c2 sequences3"}) {
        const Plan plan(problem_of(text), {});
        ASSERT_TRUE(plan) << plan.message();
        for (const int32_t pass : {FLASHSCAN_PASS_FORWARD, FLASHSCAN_PASS_BACKWARD})
            for (const flashscan_arg_info& info : arguments_of(plan.get(), pass)) {
                SCOPED_TRACE(info.name);
                EXPECT_EQ(info.struct_size, sizeof info);
                EXPECT_EQ(info.bytes, plan.bytes(pass, info.id));
                int64_t elements = 1;
                for (int32_t i = 0; i < info.num_axes; ++i) elements *= info.extents[i];
                const auto size = static_cast<int64_t>(info.dtype == 0 ? 1 : size_of(info.dtype));
                EXPECT_EQ(static_cast<int64_t>(info.bytes), elements * size);
                EXPECT_GE(info.alignment, 1U);
            }
    }
}

TEST(PlanArgs, HaveExtentsStridesAndTypes) {
    const Plan plan(problem_of("linear bf16 BCT b2 t5 c3 gate-f32 broadcast-t state-in place-padded"), {});
    ASSERT_TRUE(plan) << plan.message();
    const auto input = argument_of(plan.get(), FLASHSCAN_PASS_FORWARD, FLASHSCAN_ARG_INPUT);
    EXPECT_EQ(input.access, FLASHSCAN_ACCESS_READ);
    EXPECT_EQ(input.dtype, FLASHSCAN_DTYPE_BF16);
    EXPECT_EQ(input.num_axes, 3);
    EXPECT_EQ(std::vector(input.extents, input.extents + 3), (std::vector<int64_t>{2, 3, 5}));
    const flashscan_linear_desc desc =
        desc_of(problem_of("linear bf16 BCT b2 t5 c3 gate-f32 broadcast-t place-padded"));
    EXPECT_EQ(std::vector(input.strides, input.strides + 3),
              (std::vector<int64_t>{desc.input.batch, desc.input.channels, desc.input.time}));
    const auto gate = argument_of(plan.get(), FLASHSCAN_PASS_BACKWARD, FLASHSCAN_GRAD | FLASHSCAN_ARG_GATE);
    EXPECT_EQ(gate.access, FLASHSCAN_ACCESS_WRITE);
    EXPECT_EQ(gate.optional, 1);
    EXPECT_EQ(gate.dtype, FLASHSCAN_DTYPE_F32);
    EXPECT_STREQ(gate.name, "GRAD|GATE");
    EXPECT_EQ(std::vector(gate.extents, gate.extents + 3), (std::vector<int64_t>{2, 3, 1}));
    const auto state = argument_of(plan.get(), FLASHSCAN_PASS_FORWARD, FLASHSCAN_ARG_STATE_IN);
    EXPECT_EQ(std::vector(state.strides, state.strides + 2), (std::vector<int64_t>{3, 1}));
}

TEST(PlanArgs, BadCallsAreNamed) {
    const Plan plan(problem_of("linear f32 BTC b2 t5 c3"), {});
    flashscan_arg_info info{};
    int32_t count = 9;
    expect_failure(flashscan_plan_args(plan.get(), FLASHSCAN_PASS_FORWARD, &info, 1, &count),
                   FLASHSCAN_STATUS_INVALID_STRUCT, {"flashscan_arg_info", "is 0"});
    expect_failure(flashscan_plan_args(plan.get(), FLASHSCAN_PASS_FORWARD, nullptr, 1, &count),
                   FLASHSCAN_STATUS_INVALID_ARGUMENT, {"infos is NULL"});
    expect_failure(flashscan_plan_args(plan.get(), FLASHSCAN_PASS_FORWARD, nullptr, -1, &count),
                   FLASHSCAN_STATUS_INVALID_ARGUMENT, {"capacity is -1"});
    expect_failure(flashscan_plan_args(plan.get(), FLASHSCAN_PASS_TANGENT, nullptr, 0, &count),
                   FLASHSCAN_STATUS_UNSUPPORTED, {"PASS_TANGENT"});
    EXPECT_EQ(count, 9);
}

TEST(PlanInfo, NamesKernelAndMemory) {
    const Plan plan = rnn_plan("rnn gru bwd bf16 b2 t5 h2 d3");
    ASSERT_TRUE(plan) << plan.message();
    flashscan_pass_info info{};
    info.struct_size = sizeof info;
    for (const int32_t pass : {FLASHSCAN_PASS_FORWARD, FLASHSCAN_PASS_BACKWARD}) {
        ASSERT_EQ(flashscan_plan_info(plan.get(), pass, &info), FLASHSCAN_STATUS_OK);
        EXPECT_EQ(info.backend, FLASHSCAN_BACKEND_CPU);
        EXPECT_EQ(info.launches, 0);
        EXPECT_EQ(info.reserve_bytes, plan.bytes(pass, FLASHSCAN_ARG_RESERVE));
        EXPECT_EQ(info.scratch_bytes, plan.bytes(pass, FLASHSCAN_ARG_SCRATCH));
        EXPECT_EQ(static_cast<size_t>(info.num_args), arguments_of(plan.get(), pass).size());
        EXPECT_NE(plan.describe().find(std::string("kernel ") + info.kernel + ": " + info.detail), std::string::npos);
    }
    const Plan inference = rnn_plan("rnn gru fwd bf16 b2 t5 h2 d3");
    expect_failure(flashscan_plan_info(inference.get(), FLASHSCAN_PASS_BACKWARD, &info),
                   FLASHSCAN_STATUS_INVALID_ARGUMENT, {"no backward pass"});
}

// Runs the passes of a plan on memory of their own and one RESERVE, with or without STATE_IN.
class Runner {
  public:
    explicit Runner(const flashscan_plan* plan) : plan_(plan) {}
    flashscan_status run(int32_t pass, bool state) {
        std::vector<flashscan_arg> args;
        std::vector<std::vector<double>> memory;
        for (const flashscan_arg_info& info : arguments_of(plan_, pass)) {
            if (info.id == FLASHSCAN_ARG_SCRATCH || (info.id == FLASHSCAN_ARG_STATE_IN && !state)) continue;
            if (info.id == (FLASHSCAN_GRAD | FLASHSCAN_ARG_STATE_IN)) continue;
            memory.emplace_back(info.bytes / sizeof(double) + 1, 0.25);
            void* data = memory.back().data();
            if (info.id == FLASHSCAN_ARG_RESERVE) {
                reserve_.resize(info.bytes + 64);
                data = reserve();
            }
            args.push_back({info.id, 0, data, info.bytes});
        }
        return flashscan_execute(plan_, pass, args.data(), static_cast<int32_t>(args.size()), nullptr);
    }
    std::byte* reserve() { return reserve_.data() + (64 - reinterpret_cast<uintptr_t>(reserve_.data()) % 64) % 64; }

  private:
    const flashscan_plan* plan_;
    std::vector<std::byte> reserve_;
};

// An allocator that counts, and fails or hands out askew memory on request.
struct Counting {
    int taken = 0, given_back = 0;
    bool fail = false, askew = false;
    static void* allocate(void* user, size_t bytes, void*) {
        auto& self = *static_cast<Counting*>(user);
        if (self.fail) return nullptr;
        ++self.taken;
        auto* memory = static_cast<std::byte*>(std::aligned_alloc(256, (bytes + 511) / 256 * 256));
        return self.askew ? memory + 8 : memory;
    }
    static void release(void* user, void* memory, size_t, void*) {
        auto& self = *static_cast<Counting*>(user);
        ++self.given_back;
        std::free(static_cast<std::byte*>(memory) - (self.askew ? 8 : 0));
    }
};

TEST(Allocator, GivesScratchAndTakesItBack) {
    const RnnProblem problem = rnn_problem_of("rnn lstm fwd bf16 b3 t4 h2 d40");
    const flashscan_rnn_desc desc = desc_of(problem);
    Counting counting;
    flashscan_allocator allocator{sizeof(flashscan_allocator), 0, &counting, Counting::allocate, Counting::release};
    flashscan_options options = options_of(problem, FLASHSCAN_BACKEND_CPU, "");
    options.allocator = &allocator;
    flashscan_plan* made = nullptr;
    ASSERT_EQ(flashscan_plan_rnn(&made, &desc, &options), FLASHSCAN_STATUS_OK) << flashscan_last_error();
    allocator = {};  // the plan has a copy
    Runner runner(made);
    EXPECT_EQ(runner.run(FLASHSCAN_PASS_FORWARD, true), FLASHSCAN_STATUS_OK) << flashscan_last_error();
    EXPECT_EQ(counting.taken, 1);
    EXPECT_EQ(counting.given_back, 1);
    counting.fail = true;
    expect_failure(runner.run(FLASHSCAN_PASS_FORWARD, true), FLASHSCAN_STATUS_OUT_OF_MEMORY,
                   {"allocator.allocate returned NULL"});
    counting.fail = false;
    counting.askew = true;
    expect_failure(runner.run(FLASHSCAN_PASS_FORWARD, true), FLASHSCAN_STATUS_INVALID_POINTER,
                   {"allocator.allocate", "256"});
    EXPECT_EQ(counting.taken, counting.given_back);
    flashscan_plan_destroy(made);
}

TEST(Allocator, BadOnesAreNamed) {
    const flashscan_linear_desc desc = desc_of(problem_of("linear f32 BTC b2 t5 c3"));
    flashscan_allocator allocator{sizeof(flashscan_allocator), 0, nullptr, Counting::allocate, nullptr};
    flashscan_options options = make_options(FLASHSCAN_BACKEND_CPU, "", 0, false, false);
    options.allocator = &allocator;
    flashscan_plan* plan = nullptr;
    expect_failure(flashscan_plan_linear(&plan, &desc, &options), FLASHSCAN_STATUS_INVALID_ARGUMENT,
                   {"allocator.release is NULL"});
    allocator.struct_size = 4;
    expect_failure(flashscan_plan_linear(&plan, &desc, &options), FLASHSCAN_STATUS_INVALID_STRUCT,
                   {"allocator.struct_size is 4"});
    options.allocator = nullptr;
    flashscan_comm comm{};
    comm.struct_size = 4;
    options.communicator = &comm;
    expect_failure(flashscan_plan_linear(&plan, &desc, &options), FLASHSCAN_STATUS_INVALID_STRUCT,
                   {"communicator.struct_size is 4"});
}

TEST(Log, HearsChoicesAndFailures) {
    std::vector<std::pair<int32_t, std::string>> heard;
    flashscan_linear_desc desc = desc_of(problem_of("linear f32 BTC b2 t5 c3"));
    flashscan_options options = make_options(FLASHSCAN_BACKEND_CPU, "", 0, false, false);
    options.log_user = &heard;
    options.log = [](void* user, int32_t level, const char* message) {
        static_cast<decltype(heard)*>(user)->emplace_back(level, message);
    };
    flashscan_plan* plan = nullptr;
    ASSERT_EQ(flashscan_plan_linear(&plan, &desc, &options), FLASHSCAN_STATUS_OK);
    ASSERT_EQ(heard.size(), 1U);
    EXPECT_EQ(heard[0].first, FLASHSCAN_LOG_INFO);
    EXPECT_NE(heard[0].second.find("kernel "), std::string::npos);
    EXPECT_EQ(flashscan_execute(plan, FLASHSCAN_PASS_FORWARD, nullptr, 0, nullptr), FLASHSCAN_STATUS_MISSING_ARGUMENT);
    ASSERT_EQ(heard.size(), 2U);
    EXPECT_EQ(heard[1], std::pair(int32_t{FLASHSCAN_LOG_ERROR}, std::string(flashscan_last_error())));
    flashscan_plan_destroy(plan);
    desc.time = -1;
    EXPECT_EQ(flashscan_plan_linear(&plan, &desc, &options), FLASHSCAN_STATUS_INVALID_ARGUMENT);
    EXPECT_EQ(heard.size(), 3U);
}

TEST(Reserve, OfAnotherCallIsRefused) {
    constexpr int32_t forward = FLASHSCAN_PASS_FORWARD, backward = FLASHSCAN_PASS_BACKWARD;
    const Plan lstm = rnn_plan("rnn lstm bwd f32 b2 t3 h1 d4"), gru = rnn_plan("rnn gru bwd f32 b2 t3 h1 d4");
    Runner one(lstm.get()), other(gru.get());
    expect_failure(one.run(backward, true), FLASHSCAN_STATUS_INVALID_ARGUMENT, {"RESERVE was not filled"});
    for (const bool state : {true, false}) {
        ASSERT_EQ(one.run(forward, state), FLASHSCAN_STATUS_OK) << flashscan_last_error();
        EXPECT_EQ(one.run(backward, state), FLASHSCAN_STATUS_OK) << flashscan_last_error();
        expect_failure(one.run(backward, !state), FLASHSCAN_STATUS_INVALID_ARGUMENT,
                       {state ? "STATE_IN is not given" : "STATE_IN is given", state ? "had one" : "had none"});
    }
    ASSERT_EQ(other.run(forward, true), FLASHSCAN_STATUS_OK);
    std::memcpy(one.reserve(), other.reserve(), 64);
    expect_failure(one.run(backward, true), FLASHSCAN_STATUS_INVALID_ARGUMENT, {"filled by another plan"});
}

}  // namespace
}  // namespace api
