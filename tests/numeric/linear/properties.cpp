// SPDX-License-Identifier: Apache-2.0
// What must hold between runs of a target, whatever the reference says.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "numeric/linear/property.h"

namespace numeric {
namespace {

constexpr double nan_value = std::numeric_limits<double>::quiet_NaN();
constexpr double infinity = std::numeric_limits<double>::infinity();

// Two results that are each within the tolerances of `expected` of the same exact values.
void expect_agreement(const std::string& name, const Problem& p, const Values& got, Expected expected,
                      const Values& other) {
    for (double& tolerance : expected.tolerance) tolerance *= 2;
    expected.value = other;
    const Comparison comparison = compare(name, p.extents(), p.time, got, expected);
    EXPECT_TRUE(comparison.ok()) << comparison.sentence;
}

// Steps [begin, end) of values in [B, T, C] order.
Values steps(const Problem& p, const Values& values, int64_t begin, int64_t end) {
    Values part;
    for (int64_t b = 0; b < p.batch; ++b)
        for (int64_t t = begin; t < end; ++t)
            for (int64_t c = 0; c < p.channels; ++c) part.push_back(values[p.index(b, t, c)]);
    return part;
}

Values flipped(const Problem& p, const Values& values) {
    Values result(values.size());
    for (int64_t b = 0; b < p.batch; ++b)
        for (int64_t t = 0; t < p.time; ++t)
            for (int64_t c = 0; c < p.channels; ++c) result[p.index(b, t, c)] = values[p.index(b, p.time - 1 - t, c)];
    return result;
}

Data flipped(const Problem& p, Data data) {
    data.input = flipped(p, data.input);
    data.gate = flipped(p, data.gate);
    data.output = flipped(p, data.output);
    data.grad_output = flipped(p, data.grad_output);
    if (p.reset) std::reverse(data.reset.begin(), data.reset.end());  // with B = 1
    return data;
}

class Narrow : public Property {};

TEST_P(Narrow, AnswersAnImpulseWithProductsOfGates) {
    const Problem& p = GetParam().problem;
    Data data = make_data(p);
    std::fill(data.input.begin(), data.input.end(), 0.0);
    const int64_t at = p.time / 3;
    data.input[p.index(0, at, 0)] = 1;
    data.state_in.assign(data.state_in.size(), 0.0);
    const Values output = forward(p, data).output;
    for (int64_t b = 0; b < p.batch; ++b)
        for (int64_t c = 0; c < p.channels; ++c) {
            Value product = 0;
            for (int64_t t = 0; t < p.time; ++t) {
                product *= gate_of(p.form, data.gate[p.index(b, t, c)]).value;
                if (b == 0 && c == 0 && t == at) product = 1;
                const Value got = output[p.index(b, t, c)];
                if (product == 0.0)
                    EXPECT_EQ(std::abs(got), 0) << b << " " << t << " " << c;
                else
                    EXPECT_LE(std::abs(got - product), 2 * unit_roundoff(p.dtype) * std::abs(product) + 1e-5);
            }
        }
}

TEST_P(Narrow, CarriesItsStateAcrossASplit) {
    const Problem& p = GetParam().problem;
    Data data = make_data(p);
    const Reference reference = reference_of(p, data);
    const Values whole = forward(p, data).output;
    Problem first = p, second = p;
    first.time = p.time / 2 - 1;
    second.time = p.time - first.time;
    const auto part = [&](const Problem& q, int64_t begin) {
        Data d = data;
        d.input = steps(p, data.input, begin, begin + q.time);
        d.gate = steps(p, data.gate, begin, begin + q.time);
        return d;
    };
    Data early = part(first, 0), late = part(second, first.time);
    const Outcome head = forward(first, early);
    late.state_in = head.state_out;
    const Outcome tail = forward(second, late);
    Values joined(whole.size());
    for (int64_t b = 0; b < p.batch; ++b)
        for (int64_t t = 0; t < p.time; ++t)
            for (int64_t c = 0; c < p.channels; ++c)
                joined[p.index(b, t, c)] = t < first.time ? head.output[first.index(b, t, c)]
                                                          : tail.output[second.index(b, t - first.time, c)];
    expect_agreement("OUTPUT", p, joined, reference.output, whole);
}

TEST_P(Narrow, ReversesAsTheFlippedSequence) {
    Problem p = GetParam().problem;
    p.batch = 1;
    p.reset = true;
    if (refuses(p)) GTEST_SKIP() << "kernel refuses RESET";
    Data data = make_data(p);
    const Reference reference = reference_of(p, data);
    Problem reverse = p;
    reverse.reverse = true;
    const Data mirrored = flipped(p, data);
    expect_agreement("OUTPUT", p, flipped(p, forward(reverse, mirrored).output), reference.output,
                     forward(p, data).output);
    const Outcome there = backward(p, data), back = backward(reverse, mirrored);
    expect_agreement("GRAD|INPUT", p, flipped(p, back.grad_input), reference.grad_input, there.grad_input);
    expect_agreement("GRAD|GATE", p, flipped(p, back.grad_gate), reference.grad_gate, there.grad_gate);
}

TEST_P(Narrow, RunsPackedSequencesAsSeparateOnes) {
    Problem p = GetParam().problem;
    p.batch = 1;
    p.sequences = 6;
    p.seed = 40;  // even: the sequences fill the row
    if (refuses(p)) GTEST_SKIP() << "kernel refuses packed sequences";
    Data data = make_data(p);
    const Reference reference = reference_of(p, data);
    const Outcome packed = forward(p, data), gradients = backward(p, data);
    Values output(packed.output.size()), grad_gate(packed.output.size());
    for (const Sequence& s : sequences_of(p, data)) {
        Problem one = p;
        one.sequences = 0;
        one.time = s.length();
        if (refuses(one)) GTEST_SKIP() << "kernel refuses a sequence of " << s.length() << " steps";
        Data d;
        d.input = steps(p, data.input, s.begin, s.end);
        d.gate = steps(p, data.gate, s.begin, s.end);
        d.output = steps(p, data.output, s.begin, s.end);
        d.grad_output = steps(p, data.grad_output, s.begin, s.end);
        const auto state = static_cast<std::ptrdiff_t>(s.state * p.channels);
        d.state_in.assign(data.state_in.begin() + state, data.state_in.begin() + state + p.channels);
        d.grad_state_out.assign(data.grad_state_out.begin() + state, data.grad_state_out.begin() + state + p.channels);
        const Outcome alone = forward(one, d), alone_gradients = backward(one, d);
        for (int64_t i = 0; i < s.length() * p.channels; ++i) {
            const auto from = static_cast<size_t>(i), to = static_cast<size_t>(s.begin * p.channels + i);
            output[to] = alone.output[from];
            grad_gate[to] = alone_gradients.grad_gate[from];
        }
        if (s.length() == 0) {
            EXPECT_EQ(alone.state_out, d.state_in);
            EXPECT_EQ(alone_gradients.grad_state_in, d.grad_state_out);
        }
    }
    expect_agreement("OUTPUT", p, packed.output, reference.output, output);
    expect_agreement("GRAD|GATE", p, gradients.grad_gate, reference.grad_gate, grad_gate);
}

TEST_P(Narrow, LetsNanAndInfinityFlowUpToAReset) {
    for (const double special : {nan_value, infinity, -infinity}) {
        Problem p = GetParam().problem;
        if (is_complex(p.dtype)) GTEST_SKIP() << "complex products spread NaN over both parts in their own ways";
        p.batch = 1;
        p.reset = true;
        if (refuses(p)) GTEST_SKIP() << "kernel refuses RESET";
        p.gradients = gradient_input | gradient_gate;
        Data data = make_data(p);
        std::fill(data.reset.begin(), data.reset.end(), static_cast<unsigned char>(0));
        // Gates away from 0 and, for the sake of products over many steps, close to 1.
        for (Value& g : data.gate)
            g = p.form == FLASHSCAN_GATE_VALUE ? 0.96875 : p.form == FLASHSCAN_GATE_LOG ? -0.03125 : 4.0;
        const int64_t start = p.time / 4, stop = p.time / 2 + 3;
        data.reset[static_cast<size_t>(stop)] = 1;
        data.input[p.index(0, start, 0)] = special;
        data.grad_output[p.index(0, stop + 20, 0)] = special;
        const Reference reference = reference_of(p, data);
        const Outcome f = forward(p, data);
        for (int64_t t = 0; t < p.time; ++t) {
            const bool poisoned = t >= start && t < stop;
            EXPECT_EQ(std::isfinite(f.output[p.index(0, t, 0)].real()), !poisoned) << "OUTPUT at " << t;
            EXPECT_TRUE(std::isfinite(f.output[p.index(0, t, 1)].real())) << "OUTPUT of channel 1 at " << t;
        }
        Data finite = data;
        for (Value& value : finite.output) value = std::isfinite(value.real()) ? value : 0.5;
        const Outcome g = backward(p, finite);
        for (int64_t t = 0; t < p.time; ++t) {
            const bool poisoned = t >= stop && t <= stop + 20;
            EXPECT_EQ(std::isfinite(g.grad_input[p.index(0, t, 0)].real()), !poisoned) << "GRAD|INPUT at " << t;
            EXPECT_EQ(std::isfinite(g.grad_gate[p.index(0, t, 0)].real()), !poisoned || t == stop)
                << "GRAD|GATE at " << t;
        }
        EXPECT_EQ(g.grad_gate[p.index(0, stop, 0)], 0.0);
    }
}

TEST_P(Narrow, GivesARowTheSameBitsInAnyBatch) {
    Problem p = GetParam().problem;
    p.batch = 5;
    p.batch_invariant = true;
    p.placement = Placement::dense;
    if (refuses(p)) GTEST_SKIP() << "kernel refuses BATCH_INVARIANT";
    Data data = make_data(p);
    (void)reference_of(p, data);
    const Outcome all = forward(p, data), all_gradients = backward(p, data);
    Problem one = p;
    one.batch = 1;
    const auto row = [&](const Values& values) {
        const auto size = static_cast<std::ptrdiff_t>(values.size() / 5);
        return Values(values.begin() + 3 * size, values.begin() + 4 * size);
    };
    Data d;
    d.input = row(data.input);
    d.gate = row(data.gate);
    d.output = row(data.output);
    d.grad_output = row(data.grad_output);
    d.state_in = row(data.state_in);
    d.grad_state_out = row(data.grad_state_out);
    d.reset.assign(data.reset.begin(), data.reset.begin() + (p.reset ? p.time : 0));
    const Outcome alone = forward(one, d), alone_gradients = backward(one, d);
    EXPECT_EQ(alone.output, row(all.output));
    EXPECT_EQ(alone.state_out, row(all.state_out));
    EXPECT_EQ(alone_gradients.grad_input, row(all_gradients.grad_input));
    EXPECT_EQ(alone_gradients.grad_gate, row(all_gradients.grad_gate));
    EXPECT_EQ(alone_gradients.grad_state_in, row(all_gradients.grad_state_in));
}

TEST_P(Narrow, PassesStatesThroughZeroExtents) {
    for (const auto& [batch, time, channels] : {std::tuple{0, 9, 4}, {2, 0, 4}, {2, 9, 0}, {0, 0, 0}})
        for (uint32_t broadcast = 0; broadcast < 8; ++broadcast) {
            Problem p = GetParam().problem;
            p.batch = batch;
            p.time = time;
            p.channels = channels;
            p.broadcast = broadcast;
            p.reset = false;
            if (refuses(p)) continue;
            Data data = make_data(p);
            const Outcome f = forward(p, data), g = backward(p, data);
            EXPECT_EQ(f.state_out, data.state_in) << text_of(p);
            EXPECT_EQ(g.grad_state_in, data.grad_state_out) << text_of(p);
            EXPECT_EQ(g.grad_gate, Values(data.gate.size())) << text_of(p);
        }
}

// GRAD|INPUT and GRAD|GATE as the two halves of the gradient of a fused projection [B, T, 2C].
TEST_P(Narrow, WritesBothHalvesOfAFusedGradient) {
    Problem p = GetParam().problem;
    if (p.gate_dtype != p.dtype) GTEST_SKIP() << "the halves of one tensor have one dtype";
    p.placement = Placement::fused;
    p.in_place = false;
    const int32_t backend = GetParam().target.backend;
    Data data = make_data(p);
    const Reference reference = reference_of(p, data);
    const Plan plan(p, GetParam().target);
    ASSERT_EQ(plan.status(), FLASHSCAN_STATUS_OK) << plan.message();
    Call call = backward_call(p, plan, backend, data, Guard::end);
    const Tensor tensor = tensor_of(p, FLASHSCAN_GRAD | FLASHSCAN_ARG_INPUT);
    const int64_t half = p.layout == FLASHSCAN_LAYOUT_BTC ? p.channels : p.channels * p.time;
    const size_t size = size_of(p.dtype), offset = static_cast<size_t>(half) * size;
    const auto both = make_buffer(backend, static_cast<size_t>(tensor.span()) * size + offset, Guard::end, size, 0);
    call.argument(FLASHSCAN_GRAD | FLASHSCAN_ARG_INPUT).data = both->data();
    call.argument(FLASHSCAN_GRAD | FLASHSCAN_ARG_GATE).data = static_cast<unsigned char*>(both->data()) + offset;
    call.prepare();
    both->write(Bytes(both->bytes(), 0xff));
    ASSERT_EQ(call.execute(plan.get()), FLASHSCAN_STATUS_OK) << flashscan_last_error();
    ASSERT_EQ(synchronize(backend), nullptr);
    const Bytes bytes = both->read();
    Values input, gate;
    for (int64_t b = 0; b < p.batch; ++b)
        for (int64_t t = 0; t < p.time; ++t)
            for (int64_t c = 0; c < p.channels; ++c) {
                const size_t at = static_cast<size_t>(tensor.at(b, t, c)) * size;
                input.push_back(load(bytes.data() + at, p.dtype));
                gate.push_back(load(bytes.data() + at + offset, p.dtype));
            }
    const Comparison first = compare("GRAD|INPUT", p.extents(), p.time, input, reference.grad_input);
    const Comparison second = compare("GRAD|GATE", p.extents(), p.time, gate, reference.grad_gate);
    EXPECT_TRUE(first.ok()) << first.sentence;
    EXPECT_TRUE(second.ok()) << second.sentence;
}

std::vector<Problem> narrow_problems() {
    std::vector<Problem> problems;
    for (const auto& [dtype, gate] : {std::pair<int32_t, int32_t>{FLASHSCAN_DTYPE_F32, FLASHSCAN_DTYPE_F32},
                                      {FLASHSCAN_DTYPE_BF16, FLASHSCAN_DTYPE_BF16},
                                      {FLASHSCAN_DTYPE_F16, FLASHSCAN_DTYPE_F32},
                                      {FLASHSCAN_DTYPE_C64, FLASHSCAN_DTYPE_C64}})
        for (const int32_t layout : {FLASHSCAN_LAYOUT_BTC, FLASHSCAN_LAYOUT_BCT})
            for (const int64_t time : {95, 1030}) {
                Problem p;
                p.dtype = dtype;
                p.gate_dtype = gate;
                p.layout = layout;
                p.form = FLASHSCAN_GATE_VALUE + static_cast<int32_t>(problems.size() % 3);
                p.batch = 2;
                p.time = time;
                p.channels = time == 95 ? 5 : 2;
                p.state_in = p.state_out = true;
                p.seed = 700 + problems.size();
                problems.push_back(p);
            }
    return problems;
}

INSTANTIATE_TEST_SUITE_P(Properties, Narrow, testing::ValuesIn(cases_on(all_targets(), narrow_problems())),
                         name_of_case);

class Decaying : public Property {};

// The product of the gates of a chunk falls below the normal numbers, what it leaves of a large state does not.
TEST_P(Decaying, LargeStatesOutliveTheProductsOfTheirGates) {
    const Problem& p = GetParam().problem;
    const int64_t chunk = 2048;  // the CPU's
    const double gate = static_cast<float>(std::exp2(-130.0 / static_cast<double>(chunk))), state = 0x1p100;
    Data data = make_data(p);
    std::fill(data.input.begin(), data.input.end(), 0.0);
    std::fill(data.gate.begin(), data.gate.end(), gate);
    data.state_in[0] = state;
    const Values output = forward(p, data).output;
    for (const int64_t t : {int64_t{1000}, chunk - 1, chunk, chunk + 33, chunk + chunk / 4}) {
        const double expected = state * std::pow(gate, static_cast<double>(t + 1));
        EXPECT_NEAR(output[p.index(0, t, 0)].real() / expected, 1, 0.01) << t;
    }
}

INSTANTIATE_TEST_SUITE_P(Properties, Decaying,
                         testing::ValuesIn(cases_on(all_targets(),
                                                    {problem_of("linear f32 BTC b1 t4200 c16 state-in"),
                                                     problem_of("linear c64 BTC b1 t4200 c8 state-in")})),
                         name_of_case);

// The bits of no output depend on the CPU's threads.
TEST(LinearBits, AreThoseOfOneThread) {
    for (const char* line :
         {"f32 b3 t5000 c7 state-in state-out", "f32 BCT b1 t9000 c3 reverse", "bf16 b1 t3000 c70 reset strided",
          "f64 b2 t700 c33 form-log broadcast-t", "f32 b5 t600 c40 broadcast-bt", "c64 BCT b2 t2500 c5 broadcast-c",
          "f16 b1 t4100 c1030 form-logit", "f32 b1 t6000 c9 sequences11 state-out broadcast-btc"}) {
        Problem p = problem_of(std::string("linear threads1 ") + line);
        Data data = make_data(p);
        data.output = reference_of(p, data).output.value;
        const auto run = [&] {
            std::array<Outcome, 2> both = {run_forward(p, {}, data, Guard::end), run_backward(p, {}, data, Guard::end)};
            for (const Outcome& outcome : both) require(outcome);
            return both;
        };
        const auto one = run();
        for (const int threads : {2, 3, 7}) {
            p.threads = threads;
            const auto several = run();
            for (size_t pass = 0; pass < 2; ++pass)
                EXPECT_EQ(several[pass].bits, one[pass].bits) << line << " threads " << threads << " pass " << pass;
        }
    }
}

// Nor do they on addresses, in outputs so large that they are written past the caches: whole vectors of them.
TEST(LinearBits, AreThoseOfOtherAddresses) {
    for (const char* line :
         {"f32 b2 t1500 c1024", "f32 BCT b1 t3000 c1000 reverse", "bf16 b3 t1000 c2048 gate-f32",
          "f32 b1 t3000 c1000 grads-g", "f16 BCT b1 t65536 c96", "f64 b1 t3001 c500 sequences7",
          "f32 BCT b1 t44000 c70 sequences9 reverse", "c64 b1 t1000 c1500", "f32 BCT b2 t2048 c800 form-log"}) {
        Problem p = problem_of(std::string("linear ") + line);
        Data data = make_data(p);
        data.output = data.input;  // any numbers
        const auto run = [&] {
            std::array<Outcome, 2> both = {run_forward(p, {}, data, Guard::end), run_backward(p, {}, data, Guard::end)};
            for (const Outcome& outcome : both) require(outcome);
            return both;
        };
        const auto dense = run();
        p.placement = Placement::misaligned;
        const auto shifted = run();
        for (size_t pass = 0; pass < 2; ++pass)
            EXPECT_TRUE(shifted[pass].bits == dense[pass].bits) << line << " pass " << pass;
    }
}

}  // namespace
}  // namespace numeric
