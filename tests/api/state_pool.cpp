// SPDX-License-Identifier: Apache-2.0
// States that STATE_INDICES picks from a pool: the bits of a call that is given them as rows, padding, and what is
// refused.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "api/fixture.h"
#include "support/gated_check.h"
#include "support/rnn_call.h"
#include "support/selective_check.h"

namespace api {
namespace {

using namespace support;

constexpr int64_t pool_rows = 9;

struct Argument {
    flashscan_arg_info info = {};
    size_t size() const {
        switch (info.dtype) {
        case FLASHSCAN_DTYPE_BF16:
        case FLASHSCAN_DTYPE_F16: return 2;
        case FLASHSCAN_DTYPE_F64:
        case FLASHSCAN_DTYPE_C64: return 8;
        case FLASHSCAN_DTYPE_C128: return 16;
        default: return 4;
        }
    }
    // Returns the axis of rows of an argument that is states. Networks have it after the axis of h, c, n and m.
    size_t row_axis() const { return info.num_axes == 4 ? 1 : 0; }
};

Argument argument_of(const Plan& plan, int32_t id) {
    flashscan_arg_info infos[24] = {};
    infos[0].struct_size = sizeof(flashscan_arg_info);
    int32_t count = 0;
    EXPECT_EQ(flashscan_plan_args(plan.get(), FLASHSCAN_PASS_FORWARD, infos, 24, &count), FLASHSCAN_STATUS_OK);
    for (int32_t i = 0; i < count; ++i)
        if (infos[i].id == id) return {infos[i]};
    ADD_FAILURE() << "no argument " << id;
    return {};
}

// Calls visit(place along each axis, byte offset).
template <typename Visit>
void for_each(const Argument& argument, const Visit& visit) {
    std::vector<int64_t> at(static_cast<size_t>(argument.info.num_axes), 0);
    for (;;) {
        int64_t element = 0;
        for (size_t i = 0; i < at.size(); ++i) element += at[i] * argument.info.strides[i];
        visit(at, static_cast<size_t>(element) * argument.size());
        size_t axis = at.size();
        while (axis > 0 && ++at[axis - 1] == argument.info.extents[axis - 1]) at[--axis] = 0;
        if (axis == 0) return;
    }
}

// Axes of OUTPUT along which rows of the batch and steps are counted.
struct OutputAxes {
    size_t batch, time;
};

template <typename Problem, typename Values>
void expect_rows_of_a_pool_on(int32_t backend, const Problem& problem, const Values& data, const OutputAxes& axes,
                              int64_t gap, const std::string& kernel = "") {
    SCOPED_TRACE(text_of(problem) + (backend == FLASHSCAN_BACKEND_CPU ? " on the CPU" : " on CUDA"));
    const flashscan_options options = options_of(problem, backend, kernel);
    const Plan dense(desc_of(problem), options);
    auto desc = desc_of(problem);
    desc.state_pool = pool_rows;
    const Argument rows = argument_of(dense, FLASHSCAN_ARG_STATE_IN);
    const size_t row_axis = rows.row_axis();
    int64_t width = 1;
    for (auto i = static_cast<int32_t>(row_axis) + 1; i < rows.info.num_axes; ++i) width *= rows.info.extents[i];
    desc.state_in.row = desc.state_out.row = width + gap;
    const Plan plan(desc, options);
    ASSERT_TRUE(plan) << plan.message();
    const Argument pool = argument_of(plan, FLASHSCAN_ARG_STATE_IN), output = argument_of(plan, FLASHSCAN_ARG_OUTPUT);
    ASSERT_EQ(pool.info.extents[row_axis], pool_rows);

    Call call = forward_call(problem, dense, backend, data, Guard::end);
    ASSERT_EQ(call.run(dense.get()), FLASHSCAN_STATUS_OK) << flashscan_last_error();
    Call host = forward_call(problem, dense, FLASHSCAN_BACKEND_CPU, data, Guard::end);
    host.prepare();
    const auto expected = call.output_bytes();

    // Row 1 is padding, the others stand in the pool from its end backwards.
    std::vector<int32_t> indices;
    for (int32_t i = 0; i < rows.info.extents[row_axis]; ++i)
        indices.push_back(i == 1 ? -1 : static_cast<int32_t>(pool_rows) - 1 - i);
    Bytes states(pool.info.bytes, static_cast<Bytes::value_type>(0x5a));
    const auto place = [&](std::vector<int64_t> at) {
        at[row_axis] = indices[static_cast<size_t>(at[row_axis])];
        int64_t element = 0;
        for (size_t i = 0; i < at.size(); ++i) element += at[i] * pool.info.strides[i];
        return static_cast<size_t>(element) * pool.size();
    };
    const auto* given = static_cast<const unsigned char*>(host.argument(FLASHSCAN_ARG_STATE_IN).data);
    for_each(rows, [&](const std::vector<int64_t>& at, size_t from) {
        if (indices[static_cast<size_t>(at[row_axis])] >= 0)
            std::memcpy(states.data() + place(at), given + from, rows.size());
    });
    Bytes wanted = states;
    for_each(rows, [&](const std::vector<int64_t>& at, size_t from) {
        if (indices[static_cast<size_t>(at[row_axis])] >= 0)
            std::memcpy(wanted.data() + place(at), expected.at(FLASHSCAN_ARG_STATE_OUT).data() + from, rows.size());
    });

    const auto memory = make_buffer(backend, states.size(), Guard::end, 16, 0);
    const auto places = make_buffer(backend, indices.size() * sizeof(int32_t), Guard::end, 16, 0);
    const auto* first_index = reinterpret_cast<const Bytes::value_type*>(indices.data());
    memory->write(states);
    places->write(Bytes(first_index, first_index + places->bytes()));
    call.prepare();
    for (const int32_t id : {FLASHSCAN_ARG_STATE_IN, FLASHSCAN_ARG_STATE_OUT}) {
        call.argument(id).data = memory->data();
        call.argument(id).bytes = states.size();
    }
    call.arguments().push_back(flashscan_in(FLASHSCAN_ARG_STATE_INDICES, places->data(), places->bytes()));
    ASSERT_EQ(call.execute(plan.get()), FLASHSCAN_STATUS_OK) << flashscan_last_error();
    call.collect();
    EXPECT_EQ(memory->read(), wanted);
    EXPECT_TRUE(memory->surroundings_intact());

    const Bytes outputs = call.output_bytes().at(FLASHSCAN_ARG_OUTPUT);
    const Bytes::value_type* const found = outputs.data();
    for_each(output, [&](const std::vector<int64_t>& at, size_t from) {
        bool padding = at[axes.batch] == 1;
        if constexpr (requires { data.offsets; })
            if (!data.offsets.empty()) padding = at[axes.time] >= data.offsets[1] && at[axes.time] < data.offsets[2];
        const std::vector<unsigned char> zeros(output.size(), 0);
        const auto* want = padding ? zeros.data() : expected.at(FLASHSCAN_ARG_OUTPUT).data() + from;
        ASSERT_EQ(std::memcmp(found + from, want, output.size()), 0) << "byte " << from;
    });
}

template <typename Problem, typename Values>
void expect_rows_of_a_pool(const Problem& problem, const Values& data, const OutputAxes& axes, int64_t gap) {
    for (const int32_t backend : {FLASHSCAN_BACKEND_CPU, FLASHSCAN_BACKEND_CUDA})
        if (unavailable(backend) == nullptr) expect_rows_of_a_pool_on(backend, problem, data, axes, gap);
}

TEST(StatePool, LinearRowsHaveTheBitsOfDenseOnes) {
    for (const char* line :
         {"linear f32 BTC b4 t1 c33 state-in state-out", "linear bf16 BTC b3 t40 c5 state-in state-out",
          "linear f64 BTC b1 t60 c7 sequences5 state-in state-out reverse"}) {
        const Problem problem = problem_of(line);
        expect_rows_of_a_pool(problem, make_data(problem), {0, 1}, 0);
    }
    const Problem problem = problem_of("linear f32 BCT b3 t9 c5 state-in state-out reset");
    expect_rows_of_a_pool(problem, make_data(problem), {0, 2}, 3);
}

// On a GPU, kernels of few steps take the states where they lie; rows with a gap between them are not aligned.
TEST(StatePool, FewStepsHaveTheBitsOfDenseStates) {
    const auto check = [](const auto& problem, const OutputAxes& axes) {
        const auto data = make_data(problem);
        for (const int64_t gap : {0, 3, 8}) expect_rows_of_a_pool(problem, data, axes, gap);
    };
    for (const char* line :
         {"linear f32 BTC b8 t1 c64 state-in state-out", "linear bf16 BTC b4 t4 c36 state-in state-out reset logit",
          "linear f16 gate-f32 BTC b7 t1 c33 state-in state-out log", "linear c64 BTC b3 t2 c6 state-in state-out",
          "linear f64 BTC b5 t3 c10 state-in state-out reverse",
          "linear bf16 BTC b1 t6 c40 sequences7 state-in state-out"})
        check(problem_of(line), {0, 1});
    check(problem_of("linear bf16 BCT b8 t1 c64 state-in state-out"), {0, 2});
    for (const char* line :
         {"gated f32 b8 t1 c64 rglru state-in state-out", "gated bf16 b6 t1 c128 mingru no-bias state-in state-out",
          "gated f16 b3 t4 c36 qrnn reset state-in state-out", "gated f64 b5 t2 c9 minlstm reverse state-in state-out",
          "gated bf16 gate-f32 b4 t2 c24 hgrn state-in state-out",
          "gated bf16 b1 t6 c16 gilr sequences7 no-bias state-in state-out"})
        check(gated_problem_of(line), {0, 1});
    for (const char* line :
         {"selective bf16 b8 t1 c24 n16 b-per-step c-per-step softplus gate skip bias state-in state-out",
          "selective f32 b5 t4 c6 n64 b-per-step c-per-step state-in state-out",
          "selective f64 b3 t2 c5 n7 b-per-step g5 reset state-in state-out",
          "selective f32 complex b4 t1 c6 n16 b-per-step c-per-step state-in state-out",
          "selective f16 b7 t1 c9 n128 c-per-step reverse state-in state-out",
          "selective bf16 b1 t5 c8 n16 b-per-step c-per-step sequences6 state-in state-out"})
        check(selective_problem_of(line), {0, 1});
    for (const char* line : {"rnn lstm fwd f32 b7 t1 h2 d40 state-in state-out",
                             "rnn gru fwd bf16 b4 t1 h1 d33 weight-f32 reset state-in state-out"})
        check(rnn_problem_of(line), {0, 1});
}

TEST(StatePool, ManyStepsOfTheKernelOfFewHaveTheBitsOfDenseStates) {
    if (const char* reason = unavailable(FLASHSCAN_BACKEND_CUDA)) GTEST_SKIP() << reason;
    for (const char* line : {"linear bf16 BTC b4 t20 c36 state-in state-out",
                             "linear f32 BTC b1 t60 c7 sequences5 state-in state-out reverse"}) {
        const Problem problem = problem_of(line);
        for (const int64_t gap : {0, 4, 5})
            expect_rows_of_a_pool_on(FLASHSCAN_BACKEND_CUDA, problem, make_data(problem), {0, 1}, gap, "decode");
    }
}

TEST(StatePool, RnnRowsHaveTheBitsOfDenseOnes) {
    const RnnProblem rows = rnn_problem_of("rnn lstm fwd f32 b3 t4 h2 d5 state-in state-out");
    expect_rows_of_a_pool(rows, make_data(rows), {0, 1}, 0);
    const RnnProblem time_first = rnn_problem_of("rnn gru fwd bf16 b4 t2 h1 d6 TBGHD state-in state-out");
    expect_rows_of_a_pool(time_first, make_data(time_first), {1, 0}, 5);
    const RnnProblem packed = rnn_problem_of("rnn slstm fwd f64 b1 t30 h1 d3 sequences4 state-in state-out all-states");
    expect_rows_of_a_pool(packed, make_data(packed), {1, 2}, 1);
}

TEST(StatePool, GatedRowsHaveTheBitsOfDenseOnes) {
    const GatedProblem rows = gated_problem_of("gated f32 b5 t3 c6 rglru state-in state-out");
    expect_rows_of_a_pool(rows, make_data(rows), {0, 1}, 2);
    const GatedProblem packed = gated_problem_of("gated bf16 b1 t40 c3 qrnn sequences3 state-in state-out");
    expect_rows_of_a_pool(packed, make_data(packed), {0, 1}, 0);
}

TEST(StatePool, SelectiveRowsHaveTheBitsOfDenseOnes) {
    const SelectiveProblem p =
        selective_problem_of("selective f32 b4 t1 c6 n4 b-per-step c-per-step softplus gate skip state-in state-out");
    expect_rows_of_a_pool(p, make_data(p), {0, 1}, 3);
}

// A linear plan of two rows with a pool of three, and its arguments.
struct Scene {
    Scene() {
        desc = desc_of(problem_of("linear f32 BTC b2 t3 c2 state-in state-out"));
        desc.state_pool = 3;
    }
    flashscan_status run(std::vector<int32_t> indices, bool with_state_out = true) {
        const Plan plan(desc, make_options(FLASHSCAN_BACKEND_CPU, "", 1, false, false));
        EXPECT_TRUE(plan) << plan.message();
        const size_t bytes = sizeof x;
        std::vector<flashscan_arg> args = {
            flashscan_in(FLASHSCAN_ARG_INPUT, x, bytes), flashscan_in(FLASHSCAN_ARG_GATE, gate, bytes),
            flashscan_out(FLASHSCAN_ARG_OUTPUT, out, bytes), flashscan_in(FLASHSCAN_ARG_STATE_IN, pool, sizeof pool),
            flashscan_in(FLASHSCAN_ARG_STATE_INDICES, indices.data(), indices.size() * sizeof(int32_t))};
        if (with_state_out) args.push_back(flashscan_out(FLASHSCAN_ARG_STATE_OUT, pool, sizeof pool));
        return flashscan_execute(plan.get(), FLASHSCAN_PASS_FORWARD, args.data(), static_cast<int32_t>(args.size()),
                                 nullptr);
    }
    bool untouched() const {
        return std::all_of(out, out + 12, [](float v) { return v == 5; }) &&
               std::all_of(pool, pool + 6, [](float v) { return v == 1; });
    }
    flashscan_linear_desc desc;
    float x[12] = {}, gate[12] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    float out[12] = {5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5}, pool[6] = {1, 1, 1, 1, 1, 1};
};

TEST(StatePool, BadIndicesAreRefusedAndNothingIsWritten) {
    Scene scene;
    expect_failure(scene.run({0, 3}), FLASHSCAN_STATUS_INVALID_ARGUMENT,
                   {"STATE_INDICES[1] is 3", "-1 (no state)", "0 to 2"});
    expect_failure(scene.run({-2, 0}), FLASHSCAN_STATUS_INVALID_ARGUMENT, {"STATE_INDICES[0] is -2"});
    expect_failure(scene.run({2, 2}), FLASHSCAN_STATUS_INVALID_ARGUMENT,
                   {"STATE_INDICES[0] and STATE_INDICES[1] are both 2", "STATE_OUT"});
    expect_failure(scene.run({0}), FLASHSCAN_STATUS_BUFFER_TOO_SMALL, {"STATE_INDICES has 4 bytes", "needs 8"});
    EXPECT_TRUE(scene.untouched());
    EXPECT_EQ(scene.run({-1, -1}), FLASHSCAN_STATUS_OK) << flashscan_last_error();
}

TEST(StatePool, SequencesThatStartFromOneStateMayShareIt) {
    Scene scene;
    scene.pool[4] = 3;
    ASSERT_EQ(scene.run({2, 2}, false), FLASHSCAN_STATUS_OK) << flashscan_last_error();
    for (int i = 0; i < 12; ++i) EXPECT_EQ(scene.out[i], i % 2 == 0 ? 3 : 1) << i;
}

TEST(StatePool, StatesPassThroughNoSteps) {
    Scene scene;
    scene.desc.time = 0;
    scene.pool[4] = 3;
    ASSERT_EQ(scene.run({2, -1}), FLASHSCAN_STATUS_OK) << flashscan_last_error();
    EXPECT_EQ(scene.pool[4], 3);
    EXPECT_EQ(scene.pool[0], 1);
}

TEST(StatePool, PlansSayWhatTheyDoNotDo) {
    const flashscan_options cpu = make_options(FLASHSCAN_BACKEND_CPU, "", 1, false, false);
    Scene scene;
    const Plan plan(scene.desc, cpu);
    EXPECT_NE(plan.describe().find("pool3"), std::string::npos) << plan.describe();
    size_t bytes = 0;
    expect_failure(
        flashscan_plan_arg_bytes(plan.get(), FLASHSCAN_PASS_BACKWARD, FLASHSCAN_GRAD | FLASHSCAN_ARG_OUTPUT, &bytes),
        FLASHSCAN_STATUS_INVALID_ARGUMENT, {"no backward pass", "state_pool is 3"});
    const auto refused = [&](auto desc, flashscan_status status, const std::vector<std::string>& words) {
        const Plan none(desc, cpu);
        EXPECT_EQ(none.status(), status);
        for (const std::string& word : words)
            EXPECT_NE(none.message().find(word), std::string::npos) << word << " in: " << none.message();
    };
    scene.desc.state_pool = -1;
    refused(scene.desc, FLASHSCAN_STATUS_INVALID_ARGUMENT, {"state_pool is -1"});
    scene.desc.state_pool = int64_t{1} << 62;
    refused(scene.desc, FLASHSCAN_STATUS_SIZE_OVERFLOW, {"STATE_IN"});
    flashscan_rnn_desc training = desc_of(rnn_problem_of("rnn lstm bwd f32 b3 t2 h1 d4 state-in state-out"));
    training.state_pool = 3;
    refused(training, FLASHSCAN_STATUS_INVALID_ARGUMENT, {"RNN_FLAG_TRAINING", "state_pool 3"});
}

// Indices that name no row are padding where only the device can read them: nothing outside the pool is touched.
void expect_bad_indices_to_be_padding(const auto& problem) {
    SCOPED_TRACE(text_of(problem));
    auto desc = desc_of(problem);
    desc.state_pool = 2;
    const Plan plan(desc, options_of(problem, FLASHSCAN_BACKEND_CUDA, ""));
    ASSERT_TRUE(plan) << plan.message();
    Call call = forward_call(problem, plan, FLASHSCAN_BACKEND_CUDA, make_data(problem), Guard::end);
    call.prepare();
    const std::vector<int32_t> indices = {2, 1, -7};
    const auto* first_index = reinterpret_cast<const Bytes::value_type*>(indices.data());
    const Argument pool = argument_of(plan, FLASHSCAN_ARG_STATE_IN);
    const auto memory = make_buffer(FLASHSCAN_BACKEND_CUDA, pool.info.bytes, Guard::end, 16, 0);
    const auto places = make_buffer(FLASHSCAN_BACKEND_CUDA, indices.size() * sizeof(int32_t), Guard::end, 16, 0);
    memory->write(Bytes(memory->bytes(), static_cast<Bytes::value_type>(0)));
    places->write(Bytes(first_index, first_index + places->bytes()));
    for (const int32_t id : {FLASHSCAN_ARG_STATE_IN, FLASHSCAN_ARG_STATE_OUT}) {
        call.argument(id).data = memory->data();
        call.argument(id).bytes = memory->bytes();
    }
    call.arguments().push_back(flashscan_in(FLASHSCAN_ARG_STATE_INDICES, places->data(), places->bytes()));
    ASSERT_EQ(call.execute(plan.get()), FLASHSCAN_STATUS_OK) << flashscan_last_error();
    call.collect();
    EXPECT_TRUE(memory->surroundings_intact());
    const Bytes states = memory->read(), outputs = call.output_bytes().at(FLASHSCAN_ARG_OUTPUT);
    // Whether a row of the outputs is all zeros.
    const auto none = [&](std::ptrdiff_t row) {
        const auto width = static_cast<std::ptrdiff_t>(outputs.size() / indices.size());
        return std::all_of(outputs.begin() + row * width, outputs.begin() + (row + 1) * width,
                           [](auto byte) { return byte == 0; });
    };
    bool written[2] = {};
    for_each(pool, [&](const std::vector<int64_t>& at, size_t first) {
        for (size_t i = first; i < first + pool.size(); ++i) written[at[pool.row_axis()]] |= states[i] != 0;
    });
    EXPECT_FALSE(written[0]);
    EXPECT_TRUE(written[1]);
    EXPECT_TRUE(none(0));
    EXPECT_FALSE(none(1));
    EXPECT_TRUE(none(2));
}

TEST(StatePool, BadIndicesOnADeviceArePadding) {
    if (const char* reason = unavailable(FLASHSCAN_BACKEND_CUDA)) GTEST_SKIP() << reason;
    if (const char* wanted = std::getenv("FLASHSCAN_CHECK"); wanted != nullptr && std::string(wanted) == "1")
        GTEST_SKIP() << "FLASHSCAN_CHECK=1 reads the indices";
    for (const char* line :
         {"linear f32 BTC b3 t2 c4 state-in state-out", "linear f32 BTC b3 t40 c5 state-in state-out"})
        expect_bad_indices_to_be_padding(problem_of(line));
    for (const char* line :
         {"gated f32 b3 t1 c8 mingru state-in state-out", "gated bf16 b3 t40 c5 hgrn state-in state-out"})
        expect_bad_indices_to_be_padding(gated_problem_of(line));
    for (const char* line : {"selective f32 b3 t1 c4 n16 b-per-step c-per-step state-in state-out",
                             "selective f32 b3 t30 c4 n3 state-in state-out"})
        expect_bad_indices_to_be_padding(selective_problem_of(line));
    for (const char* line :
         {"rnn lstm fwd f32 b3 t1 h2 d40 state-in state-out", "rnn gru fwd bf16 b3 t20 h1 d64 state-in state-out"})
        expect_bad_indices_to_be_padding(rnn_problem_of(line));
}

}  // namespace
}  // namespace api
