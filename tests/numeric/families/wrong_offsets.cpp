// SPDX-License-Identifier: Apache-2.0
// SEQ_OFFSETS that are wrong on the device, where the host does not see them: no kernel reads or writes outside of its
// arrays, and every call ends. What is computed then may be anything. Reads are seen under compute-sanitizer with
// FLASHSCAN_TEST_EXACT=1, writes always. Built with CUDA only.
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <optional>

#include "support/custom_scene.h"
#include "support/gated_check.h"
#include "support/operator_check.h"
#include "support/rnn_check.h"
#include "support/selective_check.h"

namespace numeric {
namespace {

using namespace support;

constexpr int32_t grad = FLASHSCAN_GRAD;

std::vector<Target> on_cuda(std::vector<Target> targets) {
    return on_backend(FLASHSCAN_BACKEND_CUDA, std::move(targets));
}
std::string name_of_target(const testing::TestParamInfo<Target>& info) { return text_of(info.param); }

std::vector<int64_t> even_offsets(int64_t time, int64_t sequences) {
    std::vector<int64_t> offsets;
    for (int64_t n = 0; n <= sequences; ++n) offsets.push_back(time * n / sequences);
    return offsets;
}

using Wrong = std::function<int64_t(int64_t n, int64_t sequences, int64_t time)>;
int64_t random_of(int64_t n, int64_t from, int64_t to) {
    return from + static_cast<int64_t>(uniform(77, 1, static_cast<uint64_t>(n)) * static_cast<double>(to - from));
}
const std::vector<Wrong>& wrong_offsets() {
    constexpr int64_t huge = std::numeric_limits<int64_t>::max(), low = std::numeric_limits<int64_t>::min();
    static const std::vector<Wrong> all{
        [](int64_t n, int64_t s, int64_t t) { return t * (s - n) / s; },                  // decreasing
        [](int64_t n, int64_t s, int64_t t) { return t * n / s + 1; },                    // one past the end
        [](int64_t n, int64_t s, int64_t t) { return t * n / s - 1; },                    // from -1
        [](int64_t n, int64_t s, int64_t t) { return n == s ? t + 100000 : t * n / s; },  // the last far past the end
        [](int64_t n, int64_t, int64_t t) { return n % 2 == 0 ? 0 : t; },                 // back and forth
        [](int64_t n, int64_t, int64_t t) { return n % 2 == 0 ? t : 0; },
        [](int64_t n, int64_t, int64_t) { return n % 2 == 0 ? low : huge; },
        [](int64_t n, int64_t, int64_t) { return n % 2 == 0 ? huge : low; },
        [](int64_t n, int64_t, int64_t t) { return (n * 7919) % (t + 1); },             // a sawtooth
        [](int64_t n, int64_t s, int64_t t) { return n == s / 2 ? huge : t * n / s; },  // one that is wrong
        [](int64_t n, int64_t s, int64_t t) { return n == s / 2 ? low : t * n / s; },
        [](int64_t n, int64_t, int64_t t) { return random_of(n, 0, t + 1); },
        [](int64_t n, int64_t, int64_t t) { return random_of(n, -t, 2 * t); },
        [](int64_t n, int64_t, int64_t) { return random_of(n, low / 2, huge / 2); },
        [](int64_t, int64_t, int64_t) { return -1; },
        [](int64_t, int64_t, int64_t) { return huge; },
        [](int64_t, int64_t, int64_t t) { return t; },
        [](int64_t, int64_t, int64_t t) { return t / 2; },
    };
    return all;
}
// As they lie in memory: of 32-bit offsets the lower half.
Bytes bytes_of(const Wrong& wrong, int64_t sequences, int64_t time, int32_t dtype) {
    Bytes bytes;
    for (int64_t n = 0; n <= sequences; ++n) {
        const int64_t offset = wrong(n, sequences, time);
        const auto* raw = reinterpret_cast<const unsigned char*>(&offset);
        bytes.insert(bytes.end(), raw, raw + size_of(dtype));
    }
    return bytes;
}

// A call that was made with offsets that are right. With FLASHSCAN_CHECK=1 it may be refused.
void run_wrong(Call& call, const Plan& plan, int64_t sequences, int64_t time, int32_t dtype) {
    for (size_t i = 0; i < wrong_offsets().size(); ++i) {
        SCOPED_TRACE(i);
        call.set_bytes(FLASHSCAN_ARG_SEQ_OFFSETS, bytes_of(wrong_offsets()[i], sequences, time, dtype));
        const flashscan_status status = call.run(plan.get());
        ASSERT_TRUE(status == FLASHSCAN_STATUS_OK || status == FLASHSCAN_STATUS_INVALID_ARGUMENT)
            << flashscan_last_error();
        ASSERT_EQ(call.damage(), "");
    }
}

class WrongOffsets : public testing::TestWithParam<Target> {};

TEST_P(WrongOffsets, StayInsideInLinearRecurrences) {
    SKIP_UNLESS_AVAILABLE(GetParam());
    for (const char* rest :
         {"f32 BTC t100 c33 sequences5", "f32 BCT t1000 c3 sequences40 reverse", "bf16 BTC t700 c64 sequences9",
          "bf16 BCT t333 c17 sequences3 offsets-i32", "f16 BTC t5000 c2 sequences70 reverse",
          "f64 BTC t257 c5 sequences8", "c64 BCT t300 c4 sequences2", "c128 BTC t129 c3 sequences6",
          "f32 BCT t40000 c1 sequences100", "f32 BTC t9000 c128 sequences11 offsets-i32",
          "f32 BTC t300 c7 sequences4 form-log", "bf16 BCT t2048 c512 sequences16", "f32 BTC t50 c9 sequences300"})
        for (const uint32_t broadcast : {0U, 2U, 4U, 6U})
            for (const bool invariant : {false, true}) {
                Problem p = problem_of("linear " + std::string(rest) + " state-in state-out caller-scratch");
                p.broadcast = broadcast;
                p.batch_invariant = invariant;
                SCOPED_TRACE(text_of(p));
                const Plan plan(p, GetParam());
                if (!GetParam().kernel.empty() && plan.status() == FLASHSCAN_STATUS_UNSUPPORTED) continue;
                ASSERT_EQ(plan.status(), FLASHSCAN_STATUS_OK) << plan.message();
                Data data = make_data(p);
                data.offsets = even_offsets(p.time, p.sequences);
                data.output.assign(data.input.size(), 0.5);
                Call forward = forward_call(p, plan, FLASHSCAN_BACKEND_CUDA, data, Guard::end);
                run_wrong(forward, plan, p.sequences, p.time, p.offsets_dtype);
                Call backward = backward_call(p, plan, FLASHSCAN_BACKEND_CUDA, data, Guard::end);
                run_wrong(backward, plan, p.sequences, p.time, p.offsets_dtype);
                if (HasFatalFailure()) return;
            }
}

class WrongOffsetsRnn : public testing::TestWithParam<Target> {};

TEST_P(WrongOffsetsRnn, StayInsideInRecurrentNetworks) {
    SKIP_UNLESS_AVAILABLE(GetParam());
    for (const std::string& cell : cell_words())
        for (const char* rest :
             {"bf16 t40 h1 d16 sequences3", "bf16 t60 h2 d64 sequences20 reverse",
              "f32 t30 h1 d130 sequences5 offsets-i32", "f32 t33 h1 d48 sequences9 reverse",
              "f16 t25 h1 d512 sequences4", "bf16 t20 h1 d768 sequences6", "f64 t20 h2 d9 sequences4"}) {
            const RnnProblem p = fitted(rnn_problem_of("rnn bwd b1 " + std::string(cell) + " " + rest +
                                                       " state-in state-out all-states caller-scratch"),
                                        GetParam());
            SCOPED_TRACE(text_of(p));
            const Plan plan(desc_of(p), options_of(p, GetParam().backend, GetParam().kernel));
            if (!GetParam().kernel.empty() && plan.status() == FLASHSCAN_STATUS_UNSUPPORTED) continue;
            ASSERT_EQ(plan.status(), FLASHSCAN_STATUS_OK) << plan.message();
            RnnData data = make_data(p);
            data.offsets = even_offsets(p.time, p.sequences);
            Call forward = forward_call(p, plan, FLASHSCAN_BACKEND_CUDA, data, Guard::end);
            ASSERT_EQ(forward.run(plan.get()), FLASHSCAN_STATUS_OK) << flashscan_last_error();
            Call backward = backward_call(p, plan, FLASHSCAN_BACKEND_CUDA, data, forward, Guard::end);
            run_wrong(backward, plan, p.sequences, p.time, p.offsets_dtype);
            run_wrong(forward, plan, p.sequences, p.time, p.offsets_dtype);
            if (HasFatalFailure()) return;
        }
}

class WrongOffsetsOperator : public testing::TestWithParam<Target> {};

TEST_P(WrongOffsetsOperator, StayInsideInOperators) {
    SKIP_UNLESS_AVAILABLE(GetParam());
    for (const char* kind : {"add", "mul", "max", "logaddexp", "matmul d2", "matmul d4", "matmul d13", "matmul d64",
                             "affine d2", "affine d33"})
        for (const char* mode : {"inclusive", "exclusive", "reduction"})
            for (const char* rest : {"f32 t100 c5 sequences7", "f32 t999 c1 sequences40 reverse BCT",
                                     "bf16 t77 c8 sequences3 offsets-i32", "f64 t60 c3 sequences9 reverse"}) {
                const OperatorProblem p = operator_problem_of("operator bwd b1 " + std::string(kind) + " " + mode +
                                                              " " + rest + " state-in state-out caller-scratch");
                SCOPED_TRACE(text_of(p));
                const Plan plan(desc_of(p), options_of(p, GetParam().backend, GetParam().kernel));
                ASSERT_EQ(plan.status(), FLASHSCAN_STATUS_OK) << plan.message();
                OperatorData data = make_data(p);
                data.offsets = even_offsets(p.time, p.sequences);
                Call forward = forward_call(p, plan, FLASHSCAN_BACKEND_CUDA, data, Guard::end);
                ASSERT_EQ(forward.run(plan.get()), FLASHSCAN_STATUS_OK) << flashscan_last_error();
                Call backward = backward_call(p, plan, FLASHSCAN_BACKEND_CUDA, data,
                                              forward.values(FLASHSCAN_ARG_OUTPUT), Guard::end);
                run_wrong(forward, plan, p.sequences, p.time, p.offsets_dtype);
                run_wrong(backward, plan, p.sequences, p.time, p.offsets_dtype);
                if (HasFatalFailure()) return;
            }
}

// Gated layers and selective scans have one kernel for a sequence and one for few steps. `backward_of` makes the backward
// call of a forward one that has run.
template <typename P, typename BackwardOf>
void expect_to_stay_inside(const P& p, const BackwardOf& backward_of) {
    SCOPED_TRACE(text_of(p));
    const Plan plan(desc_of(p), options_of(p, FLASHSCAN_BACKEND_CUDA, ""));
    ASSERT_EQ(plan.status(), FLASHSCAN_STATUS_OK) << plan.message();
    auto data = make_data(p);
    data.offsets = even_offsets(p.time, p.sequences);
    Call forward = forward_call(p, plan, FLASHSCAN_BACKEND_CUDA, data, Guard::end);
    ASSERT_EQ(forward.run(plan.get()), FLASHSCAN_STATUS_OK) << flashscan_last_error();
    Call backward = backward_of(plan, data, forward);
    run_wrong(backward, plan, p.sequences, p.time, p.offsets_dtype);
    run_wrong(forward, plan, p.sequences, p.time, p.offsets_dtype);
}

TEST(WrongOffsetsLayers, StayInsideInGatedLayers) {
    SKIP_UNLESS_AVAILABLE((Target{FLASHSCAN_BACKEND_CUDA, ""}));
    for (const char* layer : {"mingru", "minlstm", "hgrn", "rglru", "qrnn"})
        for (const char* rest :
             {"bf16 BTC t100 c33 sequences5", "f32 BCT t1000 c3 sequences40 reverse", "f32 BTC t700 c64 sequences9",
              "f16 BCT t333 c17 sequences3 offsets-i32 reset", "f64 BTC t257 c5 sequences8 reverse",
              "bf16 BTC t12 c64 sequences11", "f32 BTC t6 c5 sequences7 offsets-i32",
              "f32 BTC t700 c40 sequences9 invariant reset", "bf16 BCT t9000 c3 sequences40 invariant reset reverse",
              "f32 BTC t6 c5 sequences7 invariant"}) {
            const GatedProblem p = gated_problem_of("gated bwd b1 " + std::string(layer) + " " + rest +
                                                    " state-in state-out caller-scratch");
            expect_to_stay_inside(p, [&](const Plan& plan, const GatedData& data, const Call& forward) {
                return backward_call(p, plan, FLASHSCAN_BACKEND_CUDA, data, forward,
                                     forward.values(FLASHSCAN_ARG_OUTPUT), Guard::end);
            });
            if (testing::Test::HasFatalFailure()) return;
        }
}
TEST(WrongOffsetsLayers, StayInsideInSelectiveScans) {
    SKIP_UNLESS_AVAILABLE((Target{FLASHSCAN_BACKEND_CUDA, ""}));
    for (const char* parts :
         {"b-per-step c-per-step softplus gate skip bias", "c-per-step", "b-per-step c-per-step g2"})
        for (const char* rest : {"bf16 BTC t100 c34 n16 sequences5", "f32 BCT t1000 c4 n3 sequences40 reverse",
                                 "f32 BTC t700 c32 n64 sequences9", "f16 BCT t333 c6 n16 sequences3 offsets-i32 reset",
                                 "f64 BTC t257 c4 n5 sequences8 reverse", "f32 complex BTC t100 c6 n8 sequences6",
                                 "bf16 BTC t20000 c32 n16 sequences3", "bf16 BTC t12 c64 n16 sequences11",
                                 "f32 BTC t6 c4 n7 sequences7 offsets-i32"}) {
            const SelectiveProblem p = selective_problem_of("selective bwd b1 " + std::string(parts) + " " + rest +
                                                            " state-in state-out caller-scratch");
            expect_to_stay_inside(p, [&](const Plan& plan, const SelectiveData& data, const Call&) {
                return backward_call(p, plan, FLASHSCAN_BACKEND_CUDA, data, Guard::end);
            });
            if (testing::Test::HasFatalFailure()) return;
        }
}

// Sums of N numbers: elements that registers hold, and larger ones, which a tree combines.
constexpr const char* sums_code = R"(
extern "C" __device__ void add_all(const void* l, const void* r, void* out) {
    for (int i = 0; i < N; ++i) ((double*)out)[i] = ((const double*)l)[i] + ((const double*)r)[i];
}
extern "C" __device__ void add_all_adjoint(const void*, const void*, const void* g, void* gl, void* gr) {
    for (int i = 0; i < N; ++i) ((double*)gl)[i] = ((double*)gr)[i] = ((const double*)g)[i];
}
)";

class CustomOffsets {
  public:
    CustomOffsets(int64_t numbers, int32_t mode, bool reverse) : numbers_(numbers) {
        const std::string code = "#define N " + std::to_string(numbers) + sums_code;
        flashscan_custom_operator custom = custom::custom_of(8 * numbers);
        custom.code_kind = FLASHSCAN_CODE_CUDA_SOURCE;
        custom.code = code.data();
        custom.code_bytes = code.size();
        custom.name = "add_all";
        custom.adjoint_name = "add_all_adjoint";
        const custom::Shape shape{1, time_, channels_, sequences_, 0, mode, reverse, true};
        flashscan_operator_desc desc = custom::desc_of(shape, custom);
        desc.dtype = FLASHSCAN_DTYPE_F64;
        reduction_ = mode == FLASHSCAN_MODE_REDUCTION;
        plan_.emplace(desc, make_options(FLASHSCAN_BACKEND_CUDA, none_, 0, false, true));
    }
    const Plan& plan() const { return *plan_; }

    void check(int32_t pass) const {
        const bool backward = pass == FLASHSCAN_PASS_BACKWARD;
        const Tensor steps = tensor(time_), states = tensor(sequences_), outputs = reduction_ ? states : steps;
        Call call(FLASHSCAN_BACKEND_CUDA, pass, Guard::end);
        call.input(FLASHSCAN_ARG_INPUT, FLASHSCAN_DTYPE_F64, steps, ones(steps));
        call.input(FLASHSCAN_ARG_STATE_IN, FLASHSCAN_DTYPE_F64, states, ones(states));
        if (backward) {
            call.input(grad | FLASHSCAN_ARG_OUTPUT, FLASHSCAN_DTYPE_F64, outputs, ones(outputs));
            call.input(grad | FLASHSCAN_ARG_STATE_OUT, FLASHSCAN_DTYPE_F64, states, ones(states));
        }
        const int32_t of = backward ? grad : 0;
        const int32_t first = backward ? FLASHSCAN_ARG_INPUT : FLASHSCAN_ARG_OUTPUT;
        const int32_t second = backward ? FLASHSCAN_ARG_STATE_IN : FLASHSCAN_ARG_STATE_OUT;
        const Tensor& written = backward ? steps : outputs;
        call.output(of | first, FLASHSCAN_DTYPE_F64, written, written.extents[1]);
        call.output(of | second, FLASHSCAN_DTYPE_F64, states, sequences_);
        add_masks(call, {}, even_offsets(time_, sequences_), FLASHSCAN_DTYPE_I64);
        add_scratch(call, plan(), pass);
        run_wrong(call, plan(), sequences_, time_, FLASHSCAN_DTYPE_I64);
    }

  private:
    Tensor tensor(int64_t count) const {
        Tensor t;
        t.extents = {1, count, channels_ * numbers_};
        t.strides = {count * channels_ * numbers_, channels_ * numbers_, 1};
        return t;
    }
    static Values ones(const Tensor& t) { return Values(static_cast<size_t>(t.extents[1] * t.extents[2]), 1.0); }

    static constexpr int64_t time_ = 333, channels_ = 2, sequences_ = 17;
    int64_t numbers_;
    bool reduction_ = false;
    std::string none_;
    std::optional<Plan> plan_;
};

TEST(WrongOffsetsCustom, StayInsideInCustomOperators) {
    SKIP_UNLESS_AVAILABLE((Target{FLASHSCAN_BACKEND_CUDA, ""}));
    for (const int64_t numbers : {2, 40})
        for (const int32_t mode : {FLASHSCAN_MODE_INCLUSIVE, FLASHSCAN_MODE_EXCLUSIVE, FLASHSCAN_MODE_REDUCTION})
            for (const bool reverse : {false, true}) {
                SCOPED_TRACE(testing::Message() << numbers << " " << mode << " " << reverse);
                const CustomOffsets custom(numbers, mode, reverse);
                ASSERT_EQ(custom.plan().status(), FLASHSCAN_STATUS_OK) << custom.plan().message();
                custom.check(FLASHSCAN_PASS_FORWARD);
                custom.check(FLASHSCAN_PASS_BACKWARD);
                if (testing::Test::HasFatalFailure()) return;
            }
}

// Batches of 2^32, whose gate is summed over: a plan, or a reason why there is none.
TEST(LargeBatch, OfABroadcastGateIsPlannedOrRefused) {
    SKIP_UNLESS_AVAILABLE((Target{FLASHSCAN_BACKEND_CUDA, ""}));
    for (const int64_t batch : {int64_t{1} << 32, int64_t{1} << 33, (int64_t{1} << 32) + 1})
        for (uint32_t broadcast = 1; broadcast < 8; ++broadcast) {
            Problem p;
            p.dtype = p.gate_dtype = FLASHSCAN_DTYPE_BF16;
            p.batch = batch;
            p.broadcast = broadcast;
            const Plan plan(p, {FLASHSCAN_BACKEND_CUDA, ""});
            EXPECT_TRUE(plan.status() == FLASHSCAN_STATUS_OK || plan.status() == FLASHSCAN_STATUS_UNSUPPORTED)
                << text_of(p) << " " << plan.message();
        }
}

INSTANTIATE_TEST_SUITE_P(Device, WrongOffsets, testing::ValuesIn(on_cuda(all_targets())), name_of_target);
INSTANTIATE_TEST_SUITE_P(Device, WrongOffsetsRnn, testing::ValuesIn(on_cuda(rnn_targets())), name_of_target);
INSTANTIATE_TEST_SUITE_P(Device, WrongOffsetsOperator, testing::ValuesIn(on_cuda(operator_targets())), name_of_target);

}  // namespace
}  // namespace numeric
