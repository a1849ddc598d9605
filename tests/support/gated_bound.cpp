// SPDX-License-Identifier: Apache-2.0
//
// The error bound of gated layers: a running error analysis. Every number of the formulas is carried with the absolute
// error that it may have, to first order: operations pass on the errors of their operands by their derivatives and add
// a rounding of u, the unit roundoff of the arithmetic and of the oracle's; a function adds some more, in units of u of
// its value, of which exponentials have 6 + 2 |x|, since they may be made by a multiplication with log2(e) and an exp2.
// What may lie below the normal numbers adds the least of them.
//
// The recurrence is bounded as in bound.cpp: with M[t] the sum of the terms' moduli and E[t] their error,
//
//     M[t] = |a[t]| M[t-1] + |x[t]|
//     E[t] = |a[t]| E[t-1] + (e(a[t]) + u |a[t]|) M[t-1] + e(x[t]) + u M[t]
//
// where e is the error of a number above, and h[t] may be off by E[t] + D u M[t] in whatever order steps are combined,
// D from there. Backward reads h as forward left it: OUTPUT is given to the oracle as to the kernel, RESERVE has the
// error of h and of its rounding. Sums over n elements add (32 + 8 sqrt n) u of the sum of moduli, as there.
#include "support/gated_bound.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "support/gated_approx.h"

namespace support {
namespace {

using namespace approx;

// h or g of one row, M and E of the comment above.
struct Terms {
    const Arithmetic& m;
    double depth, value = 0, sum = 0, error = 0;

    void multiply(Approx a) {
        error = std::abs(a.value) * error + (a.error + m.u * std::abs(a.value)) * sum + m.tiny;
        sum *= std::abs(a.value);
        value *= a.value;
    }
    void add(Approx x) {
        value += x.value;
        sum += std::abs(x.value);
        error += x.error + m.u * sum;
    }
    void clear() { value = sum = error = 0; }
    Approx result() const { return {value, 1.05 * (error + depth * m.u * sum) + depth * m.tiny}; }
};

class Bounds {
  public:
    Bounds(const GatedProblem& p, const GatedData& data, GatedReference& reference)
        : p_(p),
          data_(data),
          reference_(reference),
          m_{unit_roundoff(state_dtype(p.dtype)) + 0x1p-53,
             state_dtype(p.dtype) == FLASHSCAN_DTYPE_F32 ? 0x1p-126 : 0x1p-1020},
          depth_(depth_of(p.time)) {
        for (auto& [id, expected] : reference_.expected) expected.tolerance.resize(expected.value.size());
    }

    void run() {
        for (const Sequence& s : sequences_of(p_.batch, p_.time, data_.offsets))
            for (int64_t c = 0; c < p_.channels; ++c) {
                forward_row(s, c);
                backward_row(s, c);
            }
        for (const auto& [id, sums] : sums_) {
            for (size_t c = 0; c < sums.size(); ++c) {
                const double count = static_cast<double>(p_.batch * p_.time);
                allow(id, c, {0, sums[c].error + additions_of(count) * m_.u * sums[c].value});
            }
        }
    }

  private:
    struct Step {
        Slopes decay;
        Approx scale, scale_slope, input, input_slope, gate, gate_slope;
        bool reset;
    };

    // Half an ulp of the stored dtype wherever a value so far off may lie is added.
    void allow(int32_t id, size_t place, Approx x) {
        const auto found = reference_.expected.find(id);
        if (found == reference_.expected.end()) return;
        const double value = std::abs(found->second.value[place]), error = 1.05 * x.error;
        found->second.tolerance[place] = error + 0.5001 * ulp(dtype_of(p_, id), value + error);
    }
    Approx read(int32_t id, size_t place) const {
        const auto found = data_.values.find(id);
        return found == data_.values.end() ? Approx{} : Approx{found->second[place].real(), 0};
    }

    Step step_of(const Sequence& s, int64_t i, int64_t c) const {
        const int64_t t = s.step(p_.reverse, i);
        const size_t at = p_.index(s.batch, t, c), channel = static_cast<size_t>(c);
        Approx g = read(FLASHSCAN_ARG_GATE, at);
        if (p_.bias) g = m_.plus(g, read(FLASHSCAN_ARG_BIAS, channel));
        Step step{};
        step.decay = decay_of(m_, p_, g, read(FLASHSCAN_ARG_SECOND_GATE, at), read(FLASHSCAN_ARG_PARAM, channel));
        step.reset = p_.reset && data_.reset[static_cast<size_t>(s.batch * p_.time + t)] != 0;
        const bool starts = p_.first_step && (step.reset || (i == 0 && !p_.state_in));
        step.scale = one;
        if (!starts && p_.scale == FLASHSCAN_GATED_SCALE_ONE_MINUS)
            step.scale = step.decay.rest, step.scale_slope = {-1, 0};
        if (!starts && p_.scale == FLASHSCAN_GATED_SCALE_SQRT) {
            step.scale = m_.sqrt(m_.times(step.decay.rest, m_.plus(one, step.decay.a)));
            const double root = step.scale.value;
            Approx inverse = m_.function(step.scale, 1 / root, 1 / (root * root), 2);
            const double most = 2 * p_.slope_limit, least = 1 / (root + step.scale.error);
            if (most > 0 && inverse.value > most) inverse = {most, std::max(0.0, most - least) + 2 * m_.u * most};
            step.scale_slope = minus(m_.times(step.decay.a, inverse));
        }
        std::tie(step.input, step.input_slope) = activation_of(m_, p_, read(FLASHSCAN_ARG_INPUT, at));
        step.gate = one;
        if (p_.has_input_gate()) {
            const Approx i_gate = read(FLASHSCAN_ARG_INPUT_GATE, at);
            step.gate = m_.sigmoid(i_gate);
            step.gate_slope = m_.times(step.gate, m_.sigmoid(minus(i_gate)));
        }
        return step;
    }

    void forward_row(const Sequence& s, int64_t c) {
        const auto state = static_cast<size_t>(s.state * p_.channels + c);
        Terms h{m_, depth_};
        if (p_.state_in) h.value = read(FLASHSCAN_ARG_STATE_IN, state).value, h.sum = std::abs(h.value);
        kept_.clear();
        for (int64_t i = 0; i < s.length(); ++i) {
            const size_t at = p_.index(s.batch, s.step(p_.reverse, i), c);
            const Step step = step_of(s, i, c);
            if (step.reset)
                h.clear();
            else
                h.multiply(step.decay.a);
            h.add(m_.times(step.scale, m_.times(step.input, step.gate)));
            const Approx now = h.result();
            const Approx output_gate = read(FLASHSCAN_ARG_OUTPUT_GATE, at);
            allow(FLASHSCAN_ARG_OUTPUT, at, epilogue_of(m_, p_, now, output_gate).y);
            if (p_.has_output_gate())
                kept_.push_back({now.value, now.error + 0.5001 * ulp(p_.dtype, std::abs(now.value) + now.error)});
            else
                kept_.push_back({reference_.output[at].real(), 0});
        }
        allow(FLASHSCAN_ARG_STATE_OUT, state, h.result());
    }

    void backward_row(const Sequence& s, int64_t c) {
        const auto state = static_cast<size_t>(s.state * p_.channels + c);
        const auto channel = static_cast<size_t>(c);
        const auto grad = [](int32_t id) { return FLASHSCAN_GRAD | id; };
        Terms g{m_, depth_};
        if (p_.state_out) g.value = read(grad(FLASHSCAN_ARG_STATE_OUT), state).value, g.sum = std::abs(g.value);
        for (int64_t i = s.length() - 1; i >= 0; --i) {
            const size_t at = p_.index(s.batch, s.step(p_.reverse, i), c);
            const Step step = step_of(s, i, c);
            const Approx dy = read(grad(FLASHSCAN_ARG_OUTPUT), at);
            const EpilogueOf y =
                epilogue_of(m_, p_, kept_[static_cast<size_t>(i)], read(FLASHSCAN_ARG_OUTPUT_GATE, at));
            g.add(m_.times(dy, y.state_slope));
            const Approx now = g.result(), dv = m_.times(now, step.scale);
            const Approx before = i > 0 ? kept_[static_cast<size_t>(i - 1)] : read(FLASHSCAN_ARG_STATE_IN, state);
            Approx da = step.reset ? Approx{} : m_.times(now, before);
            da = m_.plus(da, m_.times(now, m_.times(m_.times(step.input, step.gate), step.scale_slope)));
            const Approx dg = m_.times(da, step.decay.gate);
            allow(grad(FLASHSCAN_ARG_INPUT), at, m_.times(m_.times(dv, step.gate), step.input_slope));
            allow(grad(FLASHSCAN_ARG_INPUT_GATE), at, m_.times(m_.times(dv, step.input), step.gate_slope));
            allow(grad(FLASHSCAN_ARG_GATE), at, dg);
            allow(grad(FLASHSCAN_ARG_SECOND_GATE), at, m_.times(da, step.decay.second));
            allow(grad(FLASHSCAN_ARG_OUTPUT_GATE), at, m_.times(dy, y.gate_slope));
            add_to(grad(FLASHSCAN_ARG_PARAM), channel, m_.times(da, step.decay.param));
            add_to(grad(FLASHSCAN_ARG_BIAS), channel, dg);
            if (step.reset)
                g.clear();
            else
                g.multiply(step.decay.a);
        }
        allow(grad(FLASHSCAN_ARG_STATE_IN), state, g.result());
    }

    // `value` becomes the sum of moduli.
    void add_to(int32_t id, size_t channel, Approx x) {
        std::vector<Approx>& sums = sums_[id];
        sums.resize(static_cast<size_t>(p_.channels));
        sums[channel].value += std::abs(x.value);
        sums[channel].error += x.error;
    }

    const GatedProblem& p_;
    const GatedData& data_;
    GatedReference& reference_;
    Arithmetic m_;
    double depth_;
    std::vector<Approx> kept_;  // h of a row as backward reads it
    std::map<int32_t, std::vector<Approx>> sums_;
};

}  // namespace

void set_tolerances(const GatedProblem& p, const GatedData& data, GatedReference& reference) {
    Bounds(p, data, reference).run();
}

GatedReference reference_of(const GatedProblem& p, const GatedData& data, const GatedOracle& oracle) {
    const GatedProblem wide = p.widened();
    GatedReference reference;
    std::map<int32_t, Values> exact = oracle(wide, data, {});
    reference.output = exact.at(FLASHSCAN_ARG_OUTPUT);
    for (Value& value : reference.output) value = rounded(p.dtype, value);
    if (!p.has_output_gate() && p.dtype != FLASHSCAN_DTYPE_F64) {
        Values forward = exact.at(FLASHSCAN_ARG_OUTPUT);
        exact = oracle(wide, data, reference.output);
        exact[FLASHSCAN_ARG_OUTPUT] = std::move(forward);
    }
    for (auto& [id, values] : exact) reference.expected[id].value = std::move(values);
    set_tolerances(p, data, reference);
    return reference;
}

}  // namespace support
