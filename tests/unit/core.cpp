// SPDX-License-Identifier: Apache-2.0
// Parts of the core by themselves: strides, problems, argument tables, overlaps, the planner.
#include <gtest/gtest.h>

#include <vector>

#include "core/arguments.h"
#include "core/error.h"
#include "core/linear_problem.h"
#include "core/planner.h"

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
        check_arguments(p, Pass::forward, specs, arguments);
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

class FakeBackend final : public Backend {
  public:
    explicit FakeBackend(std::vector<LinearCandidate> candidates) : candidates_(std::move(candidates)) {}
    const char* name() const override { return "fake"; }
    int32_t device_count() const override { return 1; }
    void check(const Options&) const override {}
    std::span<const LinearCandidate> linear_candidates() const override { return candidates_; }
    void* allocate(size_t, const Options&, void*) const override { return nullptr; }
    void release(void*, const Options&, void*) const noexcept override {}
    void check_memory(std::span<const ArgumentSpec>, std::span<const Argument>, const Options&) const override {}
    std::vector<int64_t> read_offsets(const void*, Dtype, int64_t, const Options&, void*) const override { return {}; }

  private:
    std::vector<LinearCandidate> candidates_;
};

std::string sentence_of(const Backend& backend, const std::string& kernel, Code code) {
    LinearProblem p = problem(2, 3, 4);
    validate(p);
    Options options;
    options.kernel = kernel;
    try {
        choose_linear(backend, p, options);
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), code);
        return error.what();
    }
    ADD_FAILURE() << "nothing was thrown";
    return "";
}

TEST(Planner, TakesTheFirstThatAcceptsAndKeepsTheReasons) {
    const FakeBackend backend({{"a", refuse}, {"b", accept}, {"c", accept}});
    LinearProblem p = problem(2, 3, 4);
    validate(p);
    const Choice choice = choose_linear(backend, p, {});
    EXPECT_EQ(choice.name, "b");
    EXPECT_EQ(choice.passed_over, "a: too small\n");
    Options forced;
    forced.kernel = "c";
    EXPECT_EQ(choose_linear(backend, p, forced).name, "c");
}

TEST(Planner, SaysWhyNothingFits) {
    const FakeBackend backend({{"a", refuse}, {"b", refuse}});
    EXPECT_NE(sentence_of(backend, "", Code::unsupported).find("a: too small\nb: too small"), std::string::npos);
    EXPECT_NE(sentence_of(backend, "b", Code::unsupported).find("b: too small"), std::string::npos);
    EXPECT_NE(sentence_of(backend, "z", Code::invalid_argument).find("accepts a, b"), std::string::npos);
}

}  // namespace
}  // namespace unit
