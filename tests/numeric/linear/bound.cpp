// SPDX-License-Identifier: Apache-2.0
// Tests of the tests: the oracle against loops written from the definition, and the error bound against arithmetic that
// it must accept and mistakes that it must not.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "support/check.h"

namespace numeric {
namespace {

using namespace support;

Problem plain(int32_t dtype, int32_t gate_dtype, int32_t form, int64_t time) {
    Problem p;
    p.dtype = dtype;
    p.gate_dtype = gate_dtype;
    p.form = form;
    p.batch = 1;
    p.time = time;
    p.channels = 3;
    p.state_in = p.state_out = true;
    p.seed = 77;
    return p;
}

// OUTPUT of `p` by a plain loop that keeps its state through `keep` and may be tampered with.
struct Loop {
    std::function<Value(Value)> keep = [](Value h) { return h; };
    int64_t dropped_step = -1;
    int64_t gate_delay = 0;
    bool initial_state = true;

    Values run(const Problem& p, const Data& data) const {
        Values output(data.input.size());
        for (int64_t c = 0; c < p.channels; ++c) {
            Value h = initial_state ? data.state_in[static_cast<size_t>(c)] : 0.0;
            for (int64_t t = 0; t < p.time; ++t) {
                const Value g = data.gate[p.gate_index(0, std::max<int64_t>(t - gate_delay, 0), c)];
                if (t != dropped_step) h = keep(gate_of(p.form, g).value * h + data.input[p.index(0, t, c)]);
                output[p.index(0, t, c)] = rounded(p.dtype, h);
            }
        }
        return output;
    }
};

bool accepted(const Problem& p, const Values& output, const Reference& reference) {
    return compare("OUTPUT", p.extents(), p.time, output, reference.output).ok();
}

TEST(Bound, AcceptsTheSequentialLoopAndRejectsMistakes) {
    for (const int32_t dtype :
         {FLASHSCAN_DTYPE_F32, FLASHSCAN_DTYPE_BF16, FLASHSCAN_DTYPE_F16, FLASHSCAN_DTYPE_F64, FLASHSCAN_DTYPE_C64})
        for (const int32_t form : {FLASHSCAN_GATE_VALUE, FLASHSCAN_GATE_LOG, FLASHSCAN_GATE_LOGIT}) {
            const Problem p = plain(dtype, dtype, form, 1000);
            SCOPED_TRACE(text_of(p));
            Data data = make_data(p);
            const Reference reference = reference_of(p, data);
            Loop exact, rounding, dropped, late, stateless, half;
            rounding.keep = [&](Value h) { return rounded(state_dtype(dtype), h); };
            dropped.dropped_step = 500;
            late.gate_delay = 1;
            stateless.initial_state = false;
            half.keep = [](Value h) {
                return Value(rounded(FLASHSCAN_DTYPE_BF16, h.real()).real(),
                             rounded(FLASHSCAN_DTYPE_BF16, h.imag()).real());
            };
            EXPECT_TRUE(accepted(p, exact.run(p, data), reference));
            EXPECT_TRUE(accepted(p, rounding.run(p, data), reference));
            EXPECT_FALSE(accepted(p, dropped.run(p, data), reference)) << "a dropped step";
            EXPECT_FALSE(accepted(p, late.run(p, data), reference)) << "gates one step late";
            EXPECT_FALSE(accepted(p, stateless.run(p, data), reference)) << "no initial state";
            EXPECT_FALSE(accepted(p, half.run(p, data), reference)) << "a state kept in bf16";
        }
}

// h[t] in f32 with steps combined in the order of a Hillis-Steele scan.
Values tree_scan(const Problem& p, const Data& data) {
    Values output(data.input.size());
    for (int64_t c = 0; c < p.channels; ++c) {
        std::vector<float> a, x;
        for (int64_t t = 0; t < p.time; ++t) {
            a.push_back(static_cast<float>(data.gate[p.gate_index(0, t, c)].real()));
            x.push_back(static_cast<float>(data.input[p.index(0, t, c)].real()));
        }
        for (size_t step = 1; step < a.size(); step *= 2)
            for (size_t t = a.size(); t-- > step;) {
                x[t] = a[t] * x[t - step] + x[t];
                a[t] = a[t] * a[t - step];
            }
        const auto h0 = static_cast<float>(data.state_in[static_cast<size_t>(c)].real());
        for (size_t t = 0; t < a.size(); ++t)
            output[p.index(0, static_cast<int64_t>(t), c)] = rounded(p.dtype, a[t] * h0 + x[t]);
    }
    return output;
}

TEST(Bound, AcceptsAnotherAssociationAndIsNotMuchWider) {
    for (const Gates gates : {Gates::mixed, Gates::ones}) {
        Problem p = plain(FLASHSCAN_DTYPE_F32, FLASHSCAN_DTYPE_F32, FLASHSCAN_GATE_VALUE, 4099);
        p.gates = gates;
        Data data = make_data(p);
        const Reference reference = reference_of(p, data);
        const Comparison tree = compare("OUTPUT", p.extents(), p.time, tree_scan(p, data), reference.output);
        EXPECT_TRUE(tree.ok()) << tree.sentence;
        if (gates == Gates::mixed) {
            EXPECT_GT(tree.worst, 0.02);
        }
    }
}

TEST(Bound, RejectsAWrongGradient) {
    Problem p = plain(FLASHSCAN_DTYPE_BF16, FLASHSCAN_DTYPE_BF16, FLASHSCAN_GATE_LOGIT, 300);
    Data data = make_data(p);
    const Reference reference = reference_of(p, data);
    Values gradient = reference.grad_gate.value;
    for (Value& value : gradient) value = rounded(p.gate_dtype, value);
    const auto ok = [&] { return compare("GRAD|GATE", p.extents(), p.time, gradient, reference.grad_gate).ok(); };
    EXPECT_TRUE(ok());
    const size_t place = p.index(0, 150, 1);
    gradient[place] += 2 * ulp(FLASHSCAN_DTYPE_BF16, std::abs(gradient[place]));
    EXPECT_FALSE(ok()) << "two units in the last place";
}

// Halves for 140 steps, into the denormal numbers, and doubles for as many.
TEST(Bound, KnowsWhatStatesLoseBelowTheNormalNumbers) {
    const Problem p = plain(FLASHSCAN_DTYPE_F32, FLASHSCAN_DTYPE_F32, FLASHSCAN_GATE_VALUE, 280);
    Data data = make_data(p);
    std::fill(data.input.begin(), data.input.end(), 0);
    std::fill(data.state_in.begin(), data.state_in.end(), 1 + 0x1p-12);
    for (size_t i = 0; i < data.gate.size(); ++i) data.gate[i] = i < data.gate.size() / 2 ? 0.5 : 2;
    const Reference reference = reference_of(p, data);
    Loop denormal, flushing;
    denormal.keep = [](Value h) { return rounded(FLASHSCAN_DTYPE_F32, h); };
    flushing.keep = [](Value h) { return std::abs(h) < 0x1p-126 ? 0 : h; };
    EXPECT_TRUE(accepted(p, denormal.run(p, data), reference));
    EXPECT_FALSE(accepted(p, flushing.run(p, data), reference)) << "at the end";
    Values output = denormal.run(p, data);
    const auto lowest = output.begin() + static_cast<std::ptrdiff_t>(output.size() / 2) - 1;
    EXPECT_LT(std::abs(*lowest), 0x1p-139);
    *lowest = 0;
    EXPECT_FALSE(accepted(p, output, reference)) << "zero instead of 2^-140";
}

// h da/dg is less than half of the least number, and the loop in f32 gives 0.
TEST(Bound, KnowsWhatGradientsOfGatesLoseBelowTheNormalNumbers) {
    Problem p = plain(FLASHSCAN_DTYPE_F32, FLASHSCAN_DTYPE_F32, FLASHSCAN_GATE_LOGIT, 1);
    p.state_out = false;
    constexpr double gradient = 0x1p40, least = 0x1p-149;
    Data data = make_data(p);
    std::fill(data.input.begin(), data.input.end(), 0);
    std::fill(data.state_in.begin(), data.state_in.end(), 100 * least);
    std::fill(data.gate.begin(), data.gate.end(), -5.541);
    std::fill(data.grad_output.begin(), data.grad_output.end(), gradient);
    const Reference reference = reference_of(p, data);
    const auto accepts = [&](double value) {
        return compare("GRAD|GATE", p.extents(), 1, Values(data.gate.size(), value), reference.grad_gate).ok();
    };
    EXPECT_GT(reference.grad_gate.value[0].real(), 0.3 * least * gradient);
    EXPECT_TRUE(accepts(0));
    EXPECT_FALSE(accepts(2 * least * gradient));
}

using Long = std::complex<long double>;

// The definition in the header as sums over pairs of steps, in long double, without a recurrence.
TEST(Oracle, EqualsTheDefinition) {
    for (const int32_t dtype : {FLASHSCAN_DTYPE_F64, FLASHSCAN_DTYPE_C128})
        for (const int32_t form : {FLASHSCAN_GATE_VALUE, FLASHSCAN_GATE_LOG, FLASHSCAN_GATE_LOGIT}) {
            const Problem p = plain(dtype, dtype, form, 60);
            SCOPED_TRACE(text_of(p));
            Data data = make_data(p);
            const Reference reference = reference_of(p, data);
            for (int64_t c = 0; c < p.channels; ++c)
                for (int64_t t = 0; t < p.time; ++t) {
                    Long h = 0, product = 1;
                    for (int64_t s = t; s >= 0; --s) {
                        h += product * Long(data.input[p.index(0, s, c)]);
                        product *= Long(gate_of(form, data.gate[p.index(0, s, c)]).value);
                    }
                    h += product * Long(data.state_in[static_cast<size_t>(c)]);
                    EXPECT_LT(std::abs(Value(h) - reference.output.value[p.index(0, t, c)]), 1e-13);
                    Long g = 0;
                    product = 1;
                    for (int64_t s = t; s < p.time; ++s) {
                        if (s > t) product *= std::conj(Long(gate_of(form, data.gate[p.index(0, s, c)]).value));
                        g += product * Long(data.grad_output[p.index(0, s, c)]);
                    }
                    g += product * Long(data.grad_state_out[static_cast<size_t>(c)]);
                    EXPECT_LT(std::abs(Value(g) - reference.grad_input.value[p.index(0, t, c)]), 1e-13);
                }
        }
}

TEST(Oracle, GateFormsEqualTheirDefinition) {
    for (const double g : {-700.0, -40.0, -3.0, -1e-9, 0.0, 0.5, 12.0, 700.0}) {
        const long double wide = g, sigmoid = 1 / (1 + std::exp(-wide));
        EXPECT_NEAR(gate_of(FLASHSCAN_GATE_LOG, std::min(g, 12.0)).value.real(), std::exp(std::min(g, 12.0)), 1e-10);
        EXPECT_NEAR(gate_of(FLASHSCAN_GATE_LOGIT, g).value.real(), static_cast<double>(sigmoid), 1e-16);
        EXPECT_NEAR(gate_of(FLASHSCAN_GATE_LOGIT, g).derivative.real(),
                    static_cast<double>(sigmoid / (1 + std::exp(wide))), 1e-16);
    }
}

}  // namespace
}  // namespace numeric
