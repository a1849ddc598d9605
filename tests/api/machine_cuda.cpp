// SPDX-License-Identifier: Apache-2.0
// What the library leaves behind on a machine: contexts, captures, memory, graphs. On the fake machine, which keeps
// account of them.
#include <cstdlib>
#include <thread>

#include "api/cuda_scenes.h"
#include "fake/machine.h"
#include "support/failing_memory.h"
#include "support/gated_problem.h"
#include "support/operator_problem.h"
#include "support/ranks.h"
#include "support/rnn_problem.h"
#include "support/selective_problem.h"

namespace api {
namespace {

using namespace support;

class MachineCuda : public testing::TestWithParam<CudaScene> {
  protected:
    void TearDown() override { machine.global_captures = 0; }
    void run(const flashscan_plan* plan, int32_t device) const {
        const int before = fake::current_device();
        fake::set_current_device(device);  // where the thread's stream and the arrays are
        const CudaArguments args(plan);
        fake::set_current_device(before);
        for (const int pass : both_passes)
            for (int repeat = 0; args.has(pass) && repeat < 3; ++repeat)
                EXPECT_EQ(args.execute(plan, pass), FLASHSCAN_STATUS_OK) << flashscan_last_error();
        fake::set_current_device(device);
    }
    fake::Machine& machine = fake::machine();
};

// In a thread that has none, for the plan's device alone; the thread has none afterwards.
TEST_P(MachineCuda, MakesNoContextOfAnotherDevice) {
    std::thread([&] {
        machine.contexts[0] = false;
        machine.stray.clear();
        OwnedPlan plan = make_plan(GetParam(), 1);
        EXPECT_EQ(fake::current_device(), -1) << "a context is left in the thread";
        EXPECT_FALSE(machine.contexts[0]);
        run(plan.get(), 1);
        fake::set_current_device(-1);
        plan.reset();
        EXPECT_EQ(fake::current_device(), -1);
        EXPECT_FALSE(machine.contexts[0]);
        EXPECT_EQ(testing::PrintToString(machine.stray), "{}");
    }).join();
}

TEST_P(MachineCuda, LeavesTheCurrentDevice) {
    std::thread([&] {
        fake::set_current_device(0);
        OwnedPlan plan = make_plan(GetParam(), 1);
        EXPECT_EQ(fake::current_device(), 0);
        const CudaArguments args(plan.get());
        fake::set_current_device(0);
        for (const int pass : both_passes) {
            if (args.has(pass)) args.execute(plan.get(), pass);
            EXPECT_EQ(fake::current_device(), 0);
        }
        plan.reset();
        EXPECT_EQ(fake::current_device(), 0);
        EXPECT_EQ(fake::capture_mode(), cudaStreamCaptureModeGlobal);
    }).join();
}

// A capture of another thread forbids what a capture cannot hold to all threads that do not say otherwise.
TEST_P(MachineCuda, WorksWhileAnotherThreadCaptures) {
    std::thread([&] {
        fake::set_current_device(1);
        machine.broken_captures.clear();
        machine.global_captures = 1;
        OwnedPlan plan = make_plan(GetParam(), 1);
        plan.reset();
        EXPECT_EQ(testing::PrintToString(machine.broken_captures), "{}");
        EXPECT_EQ(fake::capture_mode(), cudaStreamCaptureModeGlobal);
    }).join();
}

// Memory that calls have released stays with the pool while their plan lives, and no longer. On the device that no test
// of failures uses, since what fails to be released stays in use.
TEST_P(MachineCuda, GivesScratchBackWithThePlan) {
    std::thread([&] {
        fake::set_current_device(1);
        const auto kept = [&] {
            EXPECT_EQ(synchronize(FLASHSCAN_BACKEND_CUDA), nullptr);
            uint64_t bytes = 0;
            for (const fake::Pool* pool : machine.pools) bytes += pool->device == 1 ? pool->kept : 0;
            return bytes;
        };
        EXPECT_EQ(kept(), 0U);
        OwnedPlan plan = make_plan(GetParam(), 1);
        const CudaArguments args(plan.get());
        size_t most = 0;
        for (const int pass : both_passes) {
            if (!args.has(pass)) continue;
            size_t bytes = 0;
            EXPECT_EQ(flashscan_plan_arg_bytes(plan.get(), pass, FLASHSCAN_ARG_SCRATCH, &bytes), FLASHSCAN_STATUS_OK)
                << flashscan_last_error();
            most = std::max(most, bytes);
        }
        run(plan.get(), 1);
        EXPECT_EQ(kept(), most);
        OwnedPlan other = make_plan(GetParam(), 1);
        plan.reset();
        EXPECT_EQ(kept(), most);
        other.reset();
        EXPECT_EQ(kept(), 0U);
    }).join();
}

// Plans that are destroyed when the process ends, the runtime before them.
TEST_P(MachineCuda, CallsNoDriverAfterTheEnd) {
    OwnedPlan plan = make_plan(GetParam());
    run(plan.get(), 0);
    machine.driver_after_end.clear();
    machine.gone = true;
    plan.reset();
    machine.gone = false;
    EXPECT_EQ(testing::PrintToString(machine.driver_after_end), "{}");
}

// What plan_info tells without a call is what a call then enqueues.
TEST_P(MachineCuda, EnqueuesAsOftenAsPlanInfoTells) {
    const OwnedPlan plan = make_plan(GetParam());
    const CudaArguments args(plan.get());
    for (const int pass : both_passes) {
        if (!args.has(pass)) continue;
        flashscan_pass_info info{};
        info.struct_size = sizeof info;
        machine.launches.clear();
        ASSERT_EQ(flashscan_plan_info(plan.get(), pass, &info), FLASHSCAN_STATUS_OK) << flashscan_last_error();
        EXPECT_EQ(machine.launches, "");
        ASSERT_EQ(args.execute(plan.get(), pass), FLASHSCAN_STATUS_OK) << flashscan_last_error();
        EXPECT_EQ(info.launches, std::count(machine.launches.begin(), machine.launches.end(), '\n'))
            << machine.launches;
    }
}

// The n-th allocation on the host fails, in plans and in calls; a call may have enqueued what came before.
TEST_P(MachineCuda, SurvivesFailingAllocations) {
    make_room_for_sentences();
    const OwnedPlan plan = make_plan(GetParam());
    const CudaArguments args(plan.get());
    for (const bool all_after : {false, true}) {
        const int64_t needed = exhaust(all_after, [&] {
            flashscan_plan* made = nullptr;
            flashscan_status status = GetParam().make(&made, 0);
            for (const int pass : both_passes)
                for (int repeat = 0; repeat < 3; ++repeat)
                    if (status == FLASHSCAN_STATUS_OK && args.has(pass)) status = args.execute(made, pass);
            flashscan_plan_destroy(made);
            return status;
        });
        EXPECT_GT(needed, 0) << "the library's allocations do not arrive here";
    }
    EXPECT_EQ(args.execute(plan.get(), FLASHSCAN_PASS_FORWARD), FLASHSCAN_STATUS_OK) << flashscan_last_error();
}

// Makes a plan of `problem` with states in a pool, whose rows have gaps between them, and tells its kernel, launches,
// SCRATCH and whether it copies states.
template <typename Problem>
std::string steps_in_a_pool(const Problem& problem, int64_t width) {
    auto desc = desc_of(problem);
    desc.state_pool = 1000;
    desc.state_in.row = desc.state_out.row = width + 5;
    const Plan plan(desc, options_of(problem, FLASHSCAN_BACKEND_CUDA, ""));
    EXPECT_TRUE(plan) << plan.message();
    flashscan_pass_info info{};
    info.struct_size = sizeof info;
    EXPECT_EQ(flashscan_plan_info(plan.get(), FLASHSCAN_PASS_FORWARD, &info), FLASHSCAN_STATUS_OK)
        << flashscan_last_error();
    size_t scratch = 0;
    EXPECT_EQ(flashscan_plan_arg_bytes(plan.get(), FLASHSCAN_PASS_FORWARD, FLASHSCAN_ARG_SCRATCH, &scratch),
              FLASHSCAN_STATUS_OK);
    const bool copied = plan.describe().find("copied through scratch") != std::string::npos;
    return std::string(info.kernel) + ": " + std::to_string(info.launches) + " launches, " + std::to_string(scratch) +
           " bytes" + (copied ? ", states are copied" : "");
}

TEST(MachineCudaSteps, TakeOneLaunchInAPool) {
    constexpr const char* one = "decode: 1 launches, 0 bytes";
    for (const char* line :
         {"linear f32 BTC b64 t1 c512 state-in state-out", "linear bf16 BTC b64 t4 c512 state-in state-out",
          "linear c64 BCT b64 t1 c512 state-in state-out", "linear f32 BTC b1 t64 c512 sequences64 state-in state-out"})
        EXPECT_EQ(steps_in_a_pool(problem_of(line), 512), one) << line;
    for (const char* line :
         {"gated bf16 b64 t1 c512 mingru state-in state-out", "gated f32 b256 t16 c512 rglru state-in state-out",
          "gated f64 b3 t4 c512 qrnn BCT state-in state-out"})
        EXPECT_EQ(steps_in_a_pool(gated_problem_of(line), 512), one) << line;
    for (const char* line : {"selective bf16 b64 t1 c32 n16 b-per-step c-per-step softplus gate state-in state-out",
                             "selective f32 complex b3 t4 c32 n16 state-in state-out"})
        EXPECT_EQ(steps_in_a_pool(selective_problem_of(line), 512), one) << line;
    for (const char* line :
         {"rnn lstm fwd bf16 b16 t1 h1 d512 state-in state-out", "rnn gru fwd f32 b1 t1 h8 d64 state-in state-out"})
        EXPECT_EQ(steps_in_a_pool(rnn_problem_of(line), 512), one) << line;
    EXPECT_NE(steps_in_a_pool(problem_of("linear f32 BTC b64 t100 c512 state-in state-out"), 512), one);
}

// Kernels of the linear recurrence that do not take a problem, forced or not, tell the condition that fails.
TEST(MachineCudaLinear, RefusalsNameOneCondition) {
    const auto refusal = [](const std::string& kernel, const char* line,
                            const std::function<void(flashscan_linear_desc&)>& change = nullptr) {
        const Problem p = problem_of(line);
        flashscan_linear_desc desc = desc_of(p);
        if (change) change(desc);
        const Plan forced(desc, options_of(p, FLASHSCAN_BACKEND_CUDA, kernel));
        EXPECT_EQ(forced.status(), FLASHSCAN_STATUS_UNSUPPORTED) << line;
        const std::string start = "\n" + kernel + ": ", text = forced.message();
        const size_t at = text.find(start);
        return at == std::string::npos ? text : text.substr(at + start.size(), text.size() - at - start.size() - 1);
    };
    EXPECT_EQ(refusal("short_rows", "linear f32 BTC b2 t512 c64"), "channels are innermost; takes time innermost");
    EXPECT_EQ(refusal("short_rows", "linear f32 BCT b2 t516 c64"), "time is 516; takes up to 512");
    EXPECT_EQ(refusal("short_rows", "linear bf16 BCT b2 t512 c64 reset"), "flags is LINEAR_FLAG_RESET; takes 0");
    EXPECT_EQ(refusal("short_rows", "linear c64 BCT b2 t64 c64"),
              "dtype is c64 and gate_dtype c64; takes f32, bf16, f16 or f64 for both");
    EXPECT_EQ(refusal("rows", "linear f32 BTC b2 t512 c64"), "channels are innermost; takes time innermost");
    EXPECT_EQ(refusal("rows", "linear bf16 BCT b2 t512 c64 form-log reset"),
              "gate_form is log; takes bf16 gates by value alone where steps are reset");
    EXPECT_EQ(refusal("rows", "linear bf16 BCT b2 t512 c64 gate-f32"),
              "gate_dtype is f32 and dtype bf16; takes gates as wide as the data");
    EXPECT_EQ(
        refusal("rows", "linear f32 BCT b1 t512 c64",
                [](auto& d) {
                    d.input = d.grad_output = {0, 1, 513};
                    d.output = d.grad_input = {0, 1, 514};
                }),
        "forward: strides input.channels and output.channels are 513 and 514; takes those that differ by multiples "
        "of 4; backward: strides grad_output.channels and output.channels are 513 and 514; takes those that differ "
        "by multiples of 4");
    EXPECT_EQ(refusal("columns", "linear f32 BCT b2 t512 c64"), "time is innermost; takes channels innermost");
    EXPECT_EQ(refusal("columns", "linear f32 BTC b2 t0 c64"), "time is 0; takes problems with elements");
    EXPECT_EQ(refusal("columns", "linear bf16 BTC b1 t512 c64",
                      [](auto& d) {
                          d.output = {0, 128, 2};
                      }),
              "stride output.channels is 2; takes 1");
    EXPECT_EQ(refusal("few_long_rows", "linear f32 BCT b1 t65536 c4 form-logit"), "gate_form is logit; takes value");
    EXPECT_EQ(refusal("few_long_rows", "linear f32 BCT b1 t65536 c4 broadcast-bc"),
              "gate_broadcast is batch|channels; takes a gate for each element");
    EXPECT_EQ(refusal("few_long_rows", "linear f64 BCT b1 t65536 c4"),
              "dtype is f64 and gate_dtype f64; takes f32, bf16 or f16 for both");
    EXPECT_EQ(refusal("few_long_rows", "linear bf16 BCT b1 t65538 c4"),
              "forward: stride input.channels is 65538; takes multiples of 8; backward: stride grad_output.channels is "
              "65538; takes multiples of 8");

    const Plan chosen(problem_of("linear f32 BTC b1 t5000 c48"), {FLASHSCAN_BACKEND_CUDA, ""});
    ASSERT_TRUE(chosen) << chosen.message();
    EXPECT_NE(chosen.describe().find("passed over\n"
                                     "decode: time is 5000; takes up to 4\n"
                                     "short_rows: channels are innermost; takes time innermost\n"
                                     "rows: channels are innermost; takes time innermost\n"
                                     "columns: forward: rows make 2 strips of 32; takes more where time is cut into "),
              std::string::npos)
        << chosen.describe();
}

// Descriptions tell which variants a call's arguments choose.
TEST(MachineCudaLinear, DescriptionsTellWhatArgumentsChoose) {
    const auto described = [](const char* line) {
        const Plan plan(problem_of(line), {FLASHSCAN_BACKEND_CUDA, ""});
        return plan ? plan.describe() : plan.message();
    };
    const auto has = [](const std::string& text, const char* words) {
        EXPECT_NE(text.find(words), std::string::npos) << words << " is not in: " << text;
    };
    has(described("linear f32 BCT b8 t4096 c256"),
        "time innermost, aligned; where pointers are not multiples of 16 bytes: skewed; where pointers do not lie "
        "alike within 16 bytes: chunked; backward ");
    has(described("linear f32 BCT b8 t256 c256"),
        "2048 warps of 1 rows x 2 tiles of 128 steps, time innermost, aligned; where pointers are not multiples of 16 "
        "bytes: skewed; where pointers do not lie alike within 16 bytes: chunked\n");
    has(described("linear bf16 BTC b8 t4096 c256"),
        "channel innermost, aligned; where pointers are not multiples of 4 bytes: skewed; backward ");
    has(described("linear f32 BTC b1 t4096 c256 sequences1000"),
        "; where pointers are not multiples of 8 bytes, or there are states: chunked, aligned; where pointers are not "
        "multiples of 32 bytes: chunked, element by element");
    has(described("linear bf16 BTC b1 t4096 c256 sequences1000"),
        ", aligned; where pointers are not multiples of 4 bytes: skewed; where there are states: chunked");
    has(described("linear bf16 BCT b8 t4096 c256 broadcast-b"),
        "time innermost, aligned, gradients of gates summed by blocks over 8 batch entries; "
        "where pointers are not multiples of 16 bytes: chunked");
    has(described("linear bf16 BCT b4 t4096 c64 broadcast-b"),
        "; backward by chunked (gate_broadcast is batch; takes bf16 gates backward of each element, or shared by all "
        "steps or by many rows): ");
    has(described("linear f32 BCT b8 t4096 c250 broadcast-bc"), "summed by blocks over 8 rows, then afterwards");
    has(described("linear f32 BTC b11 t4096 c1024 broadcast-b"),
        "summed by blocks over 4 batch entries, then afterwards");
    has(described("linear f32 BCT b1 t16777216 c1"),
        "; where pointers are not multiples of 16 bytes: chunked; backward ");
}

// Kernels of few gated rows have no PTX. On a newer GPU the general one looks back where a chain would be slow, and plain
// ones have a chain.
TEST(MachineCudaGated, NewerGpusDoWithoutKernelsOfFewRows) {
    const auto described = [](int capability, const char* line) {
        fake::machine().capability = capability;
        const GatedProblem p = gated_problem_of(line);
        const Plan plan(desc_of(p), options_of(p, FLASHSCAN_BACKEND_CUDA, ""));
        fake::machine().capability = 9;
        return plan ? plan.describe() : plan.message();
    };
    const auto count = [](const std::string& text, const std::string& word) {
        int found = 0;
        for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++found;
        return found;
    };
    const char* const few = "gated f32 b1 t32768 c128 rglru no-bias";
    const char* const more = "gated f32 b1 t32768 c384 rglru no-bias";
    for (const char* line : {few, more}) {
        EXPECT_EQ(count(described(9, line), "look-back"), 2) << described(9, line);
        EXPECT_EQ(count(described(9, line), "not plain"), 0);
    }
    EXPECT_EQ(count(described(12, few), ", not plain: the library has this kernel for "), 2) << described(12, few);
    EXPECT_EQ(count(described(12, few), "plain where"), 0);
    EXPECT_EQ(count(described(12, more), "look-back"), 0) << described(12, more);
    EXPECT_EQ(count(described(12, more), "plain where pointers are aligned"), 1);
}

// Plans of numbers name their kernels, what calls take which of them, and the condition that keeps a plan from others.
TEST(MachineCudaNumbers, DescriptionsNameKernelsAndConditions) {
    const auto has = [](const char* line, const std::vector<const char*>& words) {
        const OperatorProblem p = operator_problem_of(line);
        const Plan plan(desc_of(p), options_of(p, FLASHSCAN_BACKEND_CUDA, ""));
        const std::string text = plan ? plan.describe() : plan.message();
        for (const char* word : words) EXPECT_NE(text.find(word), std::string::npos) << word << " is not in: " << text;
    };
    has("operator add f32 BCT b64 t256 c1024",
        {"forward number_short_rows, 65536 rows, 1 of a warp, x 2 tiles of 32 vectors; where pointers are not "
         "multiples of 16 bytes: element_scan, ",
         "(not number_rows: time is 256; with 65536 rows takes more than 509 steps); backward number_short_rows, ",
         "where pointers are not multiples of 16 bytes, or there is no GRAD|OUTPUT: numbers_backward, "});
    has("operator max bf16 BCT b8 t8192 c1024",
        {"forward number_rows, ", "; where pointers do not lie alike within 16 bytes: element_scan, ",
         "(not number_short_rows: a row has 1024 vectors of 16 bytes; takes up to 128, or 256); with INDEX "
         "number_rows_index, ",
         "; where pointers do not lie alike within 16 bytes, or INDEX is no multiple of 16 bytes: indexed_scan, ",
         "; backward number_rows_marks and number_rows_backward, ",
         "(not number_short_rows: gradients of max depend on INPUT; takes those of sums)"});
    has("operator mul bf16 b8 t1024 c1024",
        {"forward number_columns, ", "; where pointers are not multiples of 4 bytes: element_scan, ",
         "(not number_short_rows: channels are innermost; takes time innermost); backward number_columns_marks and "
         "number_columns_backward, "});
    has("operator mul f16 b2 t9000 c6",
        {"forward element_scan of 2 channels, ", "; where pointers are not multiples of 4 bytes: element_scan, ",
         "; backward element_scan and numbers_backward of 2 channels, "});
    has("operator add f16 b2 t9000 c3", {"not number_columns: channels are 3; takes multiples of 2"});
    has("operator add f32 b1 t100 c4 sequences3",
        {"forward element_scan, ",
         "(not number_short_rows, number_rows and number_columns: num_sequences is 3; takes 0); backward"});
    has("operator add f32 b1 t100 c4 invariant", {"dtype is f32; takes integers alone under BATCH_INVARIANT"});
    has("operator add f32 b1 t100 c4 reduction", {"mode is reduction; takes scans for gradients of add"});
}

// The kernel that runs is the first one of the description that takes the arrays of a call.
TEST(MachineCudaNumbers, ArraysChooseTheKernel) {
    fake::Machine& machine = fake::machine();
    const auto launches = [&](const char* line, size_t input_offset, size_t output_offset) {
        const OperatorProblem p = operator_problem_of(line);
        const Plan plan(desc_of(p), options_of(p, FLASHSCAN_BACKEND_CUDA, ""));
        EXPECT_TRUE(plan) << plan.message();
        std::vector<std::unique_ptr<Buffer>> buffers;
        std::vector<flashscan_arg> args;
        for (const auto& [id, offset] :
             {std::pair{FLASHSCAN_ARG_INPUT, input_offset}, std::pair{FLASHSCAN_ARG_OUTPUT, output_offset}}) {
            const size_t bytes = plan.bytes(FLASHSCAN_PASS_FORWARD, id);
            buffers.push_back(make_buffer(FLASHSCAN_BACKEND_CUDA, bytes, Guard::end, 256, offset));
            args.push_back({id, 0, buffers.back()->data(), bytes});
        }
        machine.launches.clear();
        EXPECT_EQ(
            flashscan_execute(plan.get(), FLASHSCAN_PASS_FORWARD, args.data(), 2, test_stream(FLASHSCAN_BACKEND_CUDA)),
            FLASHSCAN_STATUS_OK)
            << flashscan_last_error();
        return machine.launches;
    };
    const auto is_by = [&](const std::string& launched, const char* kernel) {
        EXPECT_NE(launched.find(kernel), std::string::npos) << kernel << " is not in: " << launched;
    };
    is_by(launches("operator add f32 BCT b64 t256 c64", 0, 0), "number_short_rows");
    is_by(launches("operator add f32 BCT b64 t256 c64", 4, 0), "element_scan");
    is_by(launches("operator add f32 BCT b4 t8192 c128", 4, 4), "number_rows");
    is_by(launches("operator add f32 BCT b4 t8192 c128", 4, 0), "element_scan");
    is_by(launches("operator add bf16 b4 t1024 c1024", 4, 4), "number_columns");
    is_by(launches("operator add bf16 b4 t1024 c1024", 2, 2), "element_scan");
}

// FLASHSCAN_CHECK is of the environment in which the plan was made, whatever becomes of it before a call.
TEST(MachineCudaChecks, AreSettledWithThePlan) {
    const Problem p = problem_of("linear f32 BTC b1 t8 c4");
    std::vector<float> memory(3 * 32);  // of the host
    const auto argument = [&](int32_t id, size_t place) {
        return flashscan_arg{id, 0, memory.data() + 32 * place, 32 * sizeof(float)};
    };
    const flashscan_arg args[] = {argument(FLASHSCAN_ARG_INPUT, 0), argument(FLASHSCAN_ARG_GATE, 1),
                                  argument(FLASHSCAN_ARG_OUTPUT, 2)};
    const char* const usual = std::getenv("FLASHSCAN_CHECK");
    const std::string before = usual == nullptr ? "" : usual;
    for (const bool checks : {true, false}) {
        setenv("FLASHSCAN_CHECK", checks ? "1" : "0", 1);
        const Plan plan(desc_of(p), options_of(p, FLASHSCAN_BACKEND_CUDA, ""));
        ASSERT_TRUE(plan) << plan.message();
        setenv("FLASHSCAN_CHECK", checks ? "0" : "1", 1);
        EXPECT_EQ(flashscan_execute(plan.get(), FLASHSCAN_PASS_FORWARD, args, 3, test_stream(FLASHSCAN_BACKEND_CUDA)),
                  checks ? FLASHSCAN_STATUS_INVALID_POINTER : FLASHSCAN_STATUS_OK);
    }
    setenv("FLASHSCAN_CHECK", before.c_str(), 1);
}

// What plans of ranks on two GPUs in turns say, where those GPUs reach each other's memory and kernels on the ranks
// that `proves` names find that the messages of all neighbours have arrived, on others those of all but one. The fake
// GPUs write nothing.
std::vector<std::string> described_over_two_gpus(bool reach, const std::vector<bool>& proves) {
    static thread_local uint32_t arrived = 0;
    fake::Machine& machine = fake::machine();
    machine.reaches_peers = reach;
    machine.compute = [](const std::string& kernel, void** arguments) {
        if (kernel.find("prove") != std::string::npos) **static_cast<uint32_t**>(arguments[1]) = arrived;
    };
    const Problem p = problem_of("linear f32 BTC b4 t300 c64");
    Meeting meeting(static_cast<int32_t>(proves.size()), FLASHSCAN_BACKEND_CUDA);
    meeting.carry(FLASHSCAN_CARRIES_WAVEFRONT, 2);
    meeting.pose_as_nccl(fake::device_count);
    std::vector<std::string> texts(proves.size());
    on_ranks(meeting.size(), [&](int32_t rank) {
        const uint32_t neighbours = rank == 0 || rank == meeting.size() - 1 ? 1 : 2;
        arrived = proves[static_cast<size_t>(rank)] ? neighbours : neighbours - 1;
        const flashscan_comm comm = meeting.comm(rank);
        flashscan_options options = options_of(p, FLASHSCAN_BACKEND_CUDA, "");
        options.device = meeting.device(rank);
        options.communicator = &comm;
        const Plan plan(desc_of(p), options);
        texts[static_cast<size_t>(rank)] = plan ? plan.describe() : plan.message();
    });
    EXPECT_EQ(meeting.trouble(), "");
    machine.reaches_peers = false;
    machine.compute = nullptr;
    return texts;
}

TEST(MachineCudaMail, IsUsedWhereMessagesArriveOnAllRanks) {
    const auto expect = [](bool reach, const std::vector<bool>& proves) {
        const bool all = std::count(proves.begin(), proves.end(), false) == 0;
        for (const std::string& text : described_over_two_gpus(reach, proves)) {
            EXPECT_NE(text.find("forward in a wavefront of 2 groups"), std::string::npos) << text;
            EXPECT_EQ(text.find("through the memory of the GPUs") != std::string::npos, reach && all) << text;
        }
    };
    for (const bool reach : {true, false})
        for (const bool first : {true, false})
            for (const bool second : {true, false}) expect(reach, {first, second});
    expect(true, {true, true, true});
    for (size_t without = 0; without < 3; ++without) {
        std::vector<bool> proves(3, true);
        proves[without] = false;
        expect(true, proves);
    }
}

INSTANTIATE_TEST_SUITE_P(Api, MachineCuda, testing::ValuesIn(cuda_scenes()), name_of_scene);

// A failure that passes does not turn graphs off.
TEST(MachineCudaReplay, ComesBackAfterAFailure) {
    fake::Machine& machine = fake::machine();
    for (const CudaScene& scene : cuda_scenes()) {
        if (scene.name.find("alternating") == std::string::npos) continue;
        const OwnedPlan plan = make_plan(scene);
        const CudaArguments args(plan.get());
        const auto call = [&] { return args.execute(plan.get(), FLASHSCAN_PASS_FORWARD); };
        const auto graphs = [&] { return machine.executables.size(); };
        for (int repeat = 0; repeat < 2; ++repeat) EXPECT_EQ(call(), FLASHSCAN_STATUS_OK);
        EXPECT_EQ(graphs(), 1U);
        for (int64_t n = 1; graphs() == 1; ++n) {
            ASSERT_LT(n, 100) << "no call of a replay failed";
            machine.failure = {n, cudaErrorUnknown, false};
            machine.calls = 0;
            call();
            machine.failure = {};
        }
        for (int repeat = 0; repeat < 2; ++repeat) EXPECT_EQ(call(), FLASHSCAN_STATUS_OK) << flashscan_last_error();
        EXPECT_EQ(graphs(), 1U);
    }
}

}  // namespace
}  // namespace api
