// SPDX-License-Identifier: Apache-2.0
// Parts of the core by themselves: strides, problems, argument tables, overlaps, the planner.
#include <gtest/gtest.h>

#include <limits>
#include <span>
#include <string>
#include <vector>

#include "core/arguments.h"
#include "core/error.h"
#include "core/linear_arguments.h"
#include "core/planner.h"
#include "core/rounding.h"

namespace unit {
namespace {

using namespace flashscan;

LinearProblem problem(int64_t batch, int64_t time, int64_t channels, Layout layout = Layout::btc) {
    LinearProblem p;
    p.dtype = Dtype::f32;
    p.layout = layout;
    p.batch = batch;
    p.time = time;
    p.channels = channels;
    return p;
}

bool nest(std::vector<int64_t> extents, std::vector<int64_t> strides) {
    return strides_nest(extents.data(), strides.data(), static_cast<int>(extents.size()));
}

TEST(Strides, NestWhenEachStepsOverTheSmaller) {
    EXPECT_TRUE(nest({2, 3, 4}, {12, 4, 1}));
    EXPECT_TRUE(nest({2, 3, 4}, {1, 2, 6}));
    EXPECT_TRUE(nest({2, 3, 4}, {100, 10, 2}));
    EXPECT_TRUE(nest({1, 3, 1}, {0, 1, 0}));
    EXPECT_FALSE(nest({2, 3, 4}, {12, 3, 1}));
    EXPECT_FALSE(nest({2, 3, 4}, {0, 4, 1}));
    EXPECT_FALSE(nest({2, 2}, {1, 1}));
}

TEST(Problem, FillsDenseStrides) {
    LinearProblem p = problem(2, 3, 4);
    validate(p);
    EXPECT_EQ(p.input, (Strides{12, 4, 1}));
    p = problem(2, 3, 4, Layout::bct);
    validate(p);
    EXPECT_EQ(p.output, (Strides{12, 1, 3}));
    EXPECT_EQ(p.gate_dtype, Dtype::f32);
}

TEST(Problem, ZeroesStridesOfUnusedAxes) {
    LinearProblem p = problem(1, 3, 4);
    p.input = {999, 8, 2};
    p.gate_broadcast = broadcast_time;
    validate(p);
    EXPECT_EQ(p.input, (Strides{0, 8, 2}));
    EXPECT_EQ(p.gate, (Strides{0, 0, 1}));
    EXPECT_EQ(p.gate_bytes(p.gate), 16);
    EXPECT_EQ(p.tensor_bytes(p.input), (2 * 8 + 3 * 2 + 1) * 4);
}

TEST(Problem, DescribesItsFeatures) {
    LinearProblem p = problem(1, 3, 4);
    p.gate_form = GateForm::logit;
    p.gate_broadcast = broadcast_batch | broadcast_channels;
    p.direction = Direction::reverse;
    p.has_reset = true;
    p.num_sequences = 7;
    validate(p);
    EXPECT_EQ(p.describe(), "linear f32 BTC b1 t3 c4 logit broadcast-bc reverse reset sequences7");
}

TEST(Arguments, ScratchIsLast) {
    LinearProblem p = problem(2, 3, 4);
    validate(p);
    for (const Pass pass : {Pass::forward, Pass::backward}) {
        const auto specs = linear_arguments(p, pass, 512, true);
        EXPECT_EQ(specs.back().id, static_cast<int32_t>(ArgId::scratch));
        EXPECT_EQ(specs.back().bytes, 512U);
        EXPECT_EQ(specs.back().presence, Presence::required);
    }
}

// INPUT and OUTPUT at `apart` bytes from each other in one block, both with these strides.
Code overlap(Strides strides, int64_t apart) {
    LinearProblem p = problem(2, 3, 4);
    p.input = p.output = strides;
    validate(p);
    static std::vector<float> block(1000), gate(24);
    const auto specs = linear_arguments(p, Pass::forward, 0, false);
    const Argument arguments[] = {
        {static_cast<int32_t>(ArgId::input), block.data(), 2000},
        {static_cast<int32_t>(ArgId::output), reinterpret_cast<char*>(block.data()) + apart, 2000},
        {static_cast<int32_t>(ArgId::gate), gate.data(), 96}};
    try {
        check_arguments(Pass::forward, specs, arguments);
        return Code::ok;
    } catch (const Error& error) {
        return error.code();
    }
}

TEST(Arguments, TensorsMayInterleaveButNotOverlap) {
    EXPECT_EQ(overlap({24, 8, 1}, 16), Code::ok);        // the halves of a fused tensor
    EXPECT_EQ(overlap({24, 8, 1}, 12), Code::aliasing);  // halves that share a channel
    EXPECT_EQ(overlap({24, 8, 2}, 4), Code::ok);         // every second element
    EXPECT_EQ(overlap({12, 4, 1}, 0), Code::ok);         // in place
    EXPECT_EQ(overlap({12, 4, 1}, 4), Code::aliasing);
    EXPECT_EQ(overlap({12, 4, 1}, 96), Code::ok);  // one after the other
    EXPECT_EQ(overlap({12, 4, 1}, 92), Code::aliasing);
}

// INPUT and OUTPUT of 2^60 bytes at these addresses, of which nothing is read.
Code overlap_of_large(uint64_t input, uint64_t output) {
    LinearProblem p = problem(1, int64_t{1} << 58, 1);
    p.gate_broadcast = broadcast_time;
    validate(p);
    static float gate = 0;
    constexpr size_t bytes = size_t{1} << 60;
    const Argument arguments[] = {{id_of(ArgId::input), reinterpret_cast<void*>(input), bytes},
                                  {id_of(ArgId::output), reinterpret_cast<void*>(output), bytes},
                                  {id_of(ArgId::gate), &gate, 4}};
    try {
        check_arguments(Pass::forward, linear_arguments(p, Pass::forward, 0, false), arguments);
        return Code::ok;
    } catch (const Error& error) {
        return error.code();
    }
}

TEST(Arguments, EndWithTheAddresses) {
    constexpr uint64_t last = 0xF000000000000000;  // from where on there are 2^60 bytes
    EXPECT_EQ(overlap_of_large(last - (uint64_t{1} << 60), last), Code::ok);
    EXPECT_EQ(overlap_of_large(last, last - (uint64_t{1} << 60)), Code::ok);
    EXPECT_EQ(overlap_of_large(last - 64, last), Code::aliasing);
    EXPECT_EQ(overlap_of_large(last, last - 64), Code::aliasing);
    EXPECT_EQ(overlap_of_large(last, last), Code::ok);
    EXPECT_EQ(overlap_of_large(last + 64, last), Code::invalid_pointer);
}

TEST(Extents, ThrowWhereTheyDoNotFit) {
    constexpr int64_t most = std::numeric_limits<int64_t>::max();
    const auto sentence = [](const auto& form) -> std::string {
        try {
            return std::to_string(int64_t{form()});
        } catch (const Error& error) {
            EXPECT_EQ(error.code(), Code::size_overflow);
            return error.what();
        }
    };
    const Extent large(int64_t{1} << 62), named = large.named("bytes of WEIGHT");
    EXPECT_EQ(sentence([&] { return large + (large - 1); }), std::to_string(most));
    EXPECT_NE(sentence([&] { return named * 2; }).find("bytes of WEIGHT: 4611686018427387904 * 2"), std::string::npos);
    EXPECT_NE(sentence([&] { return 2 * named; }).find("bytes of WEIGHT"), std::string::npos);
    EXPECT_NE(sentence([&] { return large + large; }).find("extents: 4611686018427387904 +"), std::string::npos);
    EXPECT_NE(sentence([&] { return Extent(std::numeric_limits<int64_t>::min()) - 1; }).find("2^63 - 1"),
              std::string::npos);
    EXPECT_NE(sentence([&] { return round_up(Extent(most), 64); }).find("2^63 - 1"), std::string::npos);
    EXPECT_EQ(ceil_div(Extent(most), 2), (int64_t{1} << 62));
    EXPECT_EQ(ceil_div(most, 1), most);
}

TEST(Strides, OfAnySizeAreCompared) {
    constexpr int64_t most = std::numeric_limits<int64_t>::max();
    EXPECT_TRUE(nest({2, 2}, {most, 1}));
    EXPECT_TRUE(nest({most, 1}, {1, most}));
    EXPECT_FALSE(nest({most, 2}, {2, most}));
    EXPECT_FALSE(nest({most, most}, {most, most}));
}

class NoKernel final : public LinearKernel {
  public:
    std::string describe() const override { return "does nothing"; }
    size_t scratch_bytes(Pass) const override { return 0; }
    void forward(const LinearBuffers&, void*) const override {}
    void backward(const LinearBuffers&, void*) const override {}
};

std::unique_ptr<LinearKernel> refuse(const LinearProblem&, const Options&, std::string& refusal) {
    refusal = "too small";
    return nullptr;
}
std::unique_ptr<LinearKernel> accept(const LinearProblem&, const Options&, std::string&) {
    return std::make_unique<NoKernel>();
}

using Candidates = std::vector<LinearCandidate>;

Choice<LinearKernel> choose_from(const Candidates& candidates, const Options& options) {
    LinearProblem p = problem(2, 3, 4);
    validate(p);
    return choose("fake", std::span<const LinearCandidate>(candidates), p, options);
}

std::string sentence_of(const Candidates& candidates, const std::string& kernel, Code code) {
    Options options;
    options.kernel = kernel;
    try {
        choose_from(candidates, options);
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), code);
        return error.what();
    }
    ADD_FAILURE() << "nothing was thrown";
    return "";
}

TEST(Planner, TakesTheFirstThatAcceptsAndKeepsTheReasons) {
    const Candidates candidates{{"a", refuse}, {"b", accept}, {"c", accept}};
    const auto choice = choose_from(candidates, {});
    EXPECT_EQ(choice.name, "b");
    EXPECT_EQ(choice.passed_over, "a: too small\n");
    Options forced;
    forced.kernel = "c";
    EXPECT_EQ(choose_from(candidates, forced).name, "c");
}

TEST(Planner, SaysWhyNothingFits) {
    const Candidates candidates{{"a", refuse}, {"b", refuse}};
    EXPECT_NE(sentence_of(candidates, "", Code::unsupported).find("a: too small\nb: too small"), std::string::npos);
    EXPECT_NE(sentence_of(candidates, "b", Code::unsupported).find("b: too small"), std::string::npos);
    EXPECT_NE(sentence_of(candidates, "z", Code::invalid_argument).find("accepts a, b"), std::string::npos);
    EXPECT_NE(sentence_of({}, "", Code::unsupported).find("fake backend has no kernels of this family"),
              std::string::npos);
}

RnnProblem rnn_problem(Cell cell) {
    RnnProblem p;
    p.dtype = Dtype::bf16;
    p.cell = cell;
    p.batch = 2;
    p.time = 3;
    p.heads = 4;
    p.head_dim = 5;
    return p;
}

TEST(RnnProblem, LaysOutItsTensors) {
    RnnProblem p = rnn_problem(Cell::gru);
    validate(p);
    EXPECT_EQ(p.input_strides().batch, 3 * 3 * 20);
    EXPECT_EQ(p.input_strides().time, 3 * 20);
    EXPECT_EQ(p.output_strides().time, 20);
    EXPECT_EQ(p.weight_count(), 3 * 4 * 25);
    EXPECT_EQ(p.bias_count(), 4 * 20);
    p = rnn_problem(Cell::slstm);
    p.layout = RnnLayout::tbghd;
    p.all_states = true;
    validate(p);
    EXPECT_EQ(p.input_strides().time, 2 * 4 * 20);
    EXPECT_EQ(p.input_strides().batch, 4 * 20);
    EXPECT_EQ(p.output_strides().state, 2 * 3 * 20);
    EXPECT_EQ(p.output_count(), 4 * 2 * 3 * 20);
    EXPECT_EQ(p.state_count(), 4 * 2 * 20);
}

TEST(RnnProblem, DescribesItsFeatures) {
    RnnProblem p = rnn_problem(Cell::gru_reset_before);
    p.batch = 1;
    p.weight_dtype = Dtype::f32;
    p.all_states = p.training = p.has_reset = true;
    p.direction = Direction::reverse;
    p.recurrent_clip = 0.5;
    p.num_sequences = 7;
    validate(p);
    EXPECT_EQ(p.describe(),
              "rnn gru-reset-before bf16 BTGHD b1 t3 h4 d5 weight-f32 training all-states clip0.5 reverse reset "
              "sequences7");
}

TEST(RnnArguments, ReserveIsThereForTraining) {
    RnnProblem p = rnn_problem(Cell::lstm);
    validate(p);
    const auto has_reserve = [&](Pass pass) {
        const auto specs = rnn_arguments(p, pass, 640, 512, true);
        EXPECT_EQ(specs.back().id, id_of(ArgId::scratch));
        for (const ArgumentSpec& spec : specs)
            if (spec.id == id_of(ArgId::reserve)) return spec.bytes == 640 && spec.written == (pass == Pass::forward);
        return false;
    };
    EXPECT_FALSE(has_reserve(Pass::forward));
    p.training = true;
    EXPECT_TRUE(has_reserve(Pass::forward));
    EXPECT_TRUE(has_reserve(Pass::backward));
}

}  // namespace
}  // namespace unit
