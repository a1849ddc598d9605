// SPDX-License-Identifier: Apache-2.0
//
// The error bound of selective scans: a running error analysis, as that of gated layers (gated_bound.cpp), on numbers
// that may be complex. Every number is carried with the absolute error that its modulus may have, to first order. A
// state is bounded by its terms: with M[t] the sum of their moduli and E[t] their error,
//
//     M[t] = |a[t]| M[t-1] + |x[t]|
//     E[t] = |a[t]| E[t-1] + (e(a[t]) + 2 u |a[t]|) M[t-1] + e(x[t]) + u M[t]
//
// since products may be complex, and D u M[t] besides, in whatever order steps are combined, D growing with the
// logarithm of the number of steps. Sums over n elements add (32 + 8 sqrt n) u of the sum of moduli.
#include "support/selective_bound.h"

#include <algorithm>
#include <cmath>

namespace support {
namespace {

struct Approx {
    Value value = 0;
    double error = 0;
};

struct Arithmetic {
    double u, tiny;

    Approx times(Approx a, Approx b) const {
        const Value v = a.value * b.value;
        return {v, std::abs(a.value) * b.error + std::abs(b.value) * a.error + a.error * b.error +
                       2 * u * std::abs(a.value) * std::abs(b.value) + tiny};
    }
    Approx plus(Approx a, Approx b) const {
        const Value v = a.value + b.value;
        return {v, a.error + b.error + u * std::abs(v)};
    }
    // A function of `x` that has these value and slope there.
    Approx function(Approx x, Value value, double slope, double units) const {
        return {value, 1.1 * slope * x.error + units * u * std::abs(value) + tiny};
    }
    Approx sigmoid(Approx x) const {
        const double s = 1 / (1 + std::exp(-x.value.real())), rest = 1 / (1 + std::exp(x.value.real()));
        return function(x, s, s * rest, 12 + 2 * std::abs(x.value));
    }
    Approx exp(Approx x) const {
        const Value e = std::exp(x.value);
        return function(x, e, std::abs(e), 6 + 2 * std::abs(x.value));
    }
};

Approx conj(Approx x) { return {std::conj(x.value), x.error}; }
Approx real(Approx x) { return {x.value.real(), x.error}; }

// A sum over elements whose order is not known.
struct Sum {
    Value value = 0;
    double moduli = 0, error = 0;
    int64_t count = 0;

    void add(Approx x) {
        value += x.value;
        moduli += std::abs(x.value);
        error += x.error;
        ++count;
    }
    Approx result(const Arithmetic& m) const {
        return {value, error + additions_of(static_cast<double>(count)) * m.u * moduli};
    }
};

// A state or its gradient, M and E of the comment above.
struct Terms {
    Value value = 0;
    double sum = 0, error = 0;

    void start(Value x) { value = x, sum = std::abs(x), error = 0; }
    void multiply(const Arithmetic& m, Approx a) {
        error = std::abs(a.value) * error + (a.error + 2 * m.u * std::abs(a.value)) * sum + m.tiny;
        sum *= std::abs(a.value);
        value *= a.value;
    }
    void add(const Arithmetic& m, Approx x) {
        value += x.value;
        sum += std::abs(x.value);
        error += x.error + m.u * sum;
    }
    Approx result(const Arithmetic& m, double depth) const {
        return {value, 1.05 * (error + depth * m.u * sum) + depth * m.tiny};
    }
};

class Bounds {
  public:
    Bounds(const SelectiveProblem& p, const SelectiveData& data, std::map<int32_t, Expected>& expected)
        : p_(p),
          data_(data),
          expected_(expected),
          m_{unit_roundoff(p.real_dtype()) + 0x1p-53, p.real_dtype() == FLASHSCAN_DTYPE_F32 ? 0x1p-126 : 0x1p-1020},
          depth_(depth_of(p.time)),
          factor_(p.complex ? 2 : 1) {
        for (auto& [id, one] : expected_) one.tolerance.resize(one.value.size());
    }

    void run() {
        for (const Sequence& s : sequences_of(p_.batch, p_.time, data_.offsets))
            for (int64_t c = 0; c < p_.channels; ++c) {
                forward_row(s, c);
                backward_row(s, c);
            }
        for (const auto& [id, sums] : sums_)
            for (size_t i = 0; i < sums.size(); ++i) allow(id, i, sums[i].result(m_));
    }

  private:
    struct Step {
        Approx u, raw, delta, z, gate;
        size_t at;
        bool reset;
    };

    // Allows the error of x and a rounding of both components, 0.71 ulp of the modulus, at the farthest value that is
    // allowed.
    void allow(int32_t id, size_t place, Approx x) {
        const auto found = expected_.find(id);
        if (found == expected_.end()) return;
        const double value = std::abs(found->second.value[place]), error = 1.05 * x.error;
        found->second.tolerance[place] = error + 0.71 * ulp(dtype_of(p_, id), value + error);
    }
    Approx read(int32_t id, size_t place) const {
        const auto found = data_.values.find(id);
        return found == data_.values.end() ? Approx{} : Approx{found->second[place], 0};
    }
    Approx matrix(int32_t id, bool per_step, int64_t b, int64_t t, int64_t c, int64_t n) const {
        return read(id, p_.matrix_at(per_step, b, t, c, n));
    }
    Approx b_of(const Sequence& s, int64_t t, int64_t c, int64_t n) const {
        return matrix(FLASHSCAN_ARG_B, p_.b_per_step, s.batch, t, c, n);
    }
    Approx c_of(const Sequence& s, int64_t t, int64_t c, int64_t n) const {
        return matrix(FLASHSCAN_ARG_C, p_.c_per_step, s.batch, t, c, n);
    }
    Approx a_of(const Step& step, int64_t c, int64_t n) const {
        return m_.exp(m_.times(step.delta, matrix(FLASHSCAN_ARG_A, false, 0, 0, c, n)));
    }

    Step step_of(const Sequence& s, int64_t t, int64_t c) const {
        Step step{};
        step.at = p_.at(s.batch, t, c);
        step.u = read(FLASHSCAN_ARG_INPUT, step.at);
        step.raw = m_.plus(read(FLASHSCAN_ARG_DELTA, step.at), read(FLASHSCAN_ARG_BIAS, static_cast<size_t>(c)));
        step.delta = step.raw;
        if (p_.softplus) {
            const double x = step.raw.value.real(), value = std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x)));
            step.delta = m_.function(step.raw, value, m_.sigmoid(step.raw).value.real(), 20 + 2 * std::abs(x));
        }
        step.z = read(FLASHSCAN_ARG_OUTPUT_GATE, step.at);
        step.gate = p_.gate ? m_.times(step.z, m_.sigmoid(step.z)) : Approx{1, 0};
        step.reset = p_.reset && data_.reset[static_cast<size_t>(s.batch * p_.time + t)] != 0;
        return step;
    }

    void forward_row(const Sequence& s, int64_t c) {
        std::vector<Terms> h(static_cast<size_t>(p_.states));
        const auto first = [&](int64_t n) { return read(FLASHSCAN_ARG_STATE_IN, p_.state_at(s.state, c, n)).value; };
        before_.clear();
        y_.clear();
        for (int64_t n = 0; n < p_.states && p_.state_in; ++n) h[static_cast<size_t>(n)].start(first(n));
        for (const Terms& one : h) before_.push_back({one.value, 0});
        for (int64_t i = 0; i < s.length(); ++i) {
            const int64_t t = s.step(p_.reverse, i);
            const Step step = step_of(s, t, c);
            Sum y;
            for (int64_t n = 0; n < p_.states; ++n) {
                Terms& one = h[static_cast<size_t>(n)];
                if (step.reset)
                    one = {};
                else
                    one.multiply(m_, a_of(step, c, n));
                one.add(m_, m_.times(m_.times(step.delta, b_of(s, t, c, n)), step.u));
                before_.push_back(one.result(m_, depth_));
                y.add(m_.times(Approx{factor_, 0}, m_.times(c_of(s, t, c, n), before_.back())));
            }
            Approx sum = real(y.result(m_));
            sum = m_.plus(sum, m_.times(read(FLASHSCAN_ARG_D, static_cast<size_t>(c)), step.u));
            y_.push_back(sum);
            allow(FLASHSCAN_ARG_OUTPUT, step.at, m_.times(sum, step.gate));
        }
        for (int64_t n = 0; n < p_.states; ++n)
            allow(FLASHSCAN_ARG_STATE_OUT, p_.state_at(s.state, c, n), h[static_cast<size_t>(n)].result(m_, depth_));
    }

    void backward_row(const Sequence& s, int64_t c) {
        const auto grad = [](int32_t id) { return FLASHSCAN_GRAD | id; };
        const auto channel = static_cast<size_t>(c);
        std::vector<Terms> g(static_cast<size_t>(p_.states));
        for (int64_t n = 0; n < p_.states && p_.state_out; ++n)
            g[static_cast<size_t>(n)].start(read(grad(FLASHSCAN_ARG_STATE_OUT), p_.state_at(s.state, c, n)).value);
        for (int64_t i = s.length() - 1; i >= 0; --i) {
            const int64_t t = s.step(p_.reverse, i);
            const Step step = step_of(s, t, c);
            const Approx d_out = read(grad(FLASHSCAN_ARG_OUTPUT), step.at), dy = m_.times(d_out, step.gate);
            const Approx twice = m_.times(Approx{factor_, 0}, dy);
            Sum du, d_delta;
            du.add(m_.times(read(FLASHSCAN_ARG_D, channel), dy));
            for (int64_t n = 0; n < p_.states; ++n) {
                Terms& one = g[static_cast<size_t>(n)];
                const auto place = static_cast<size_t>(i * p_.states + n);
                const Approx b = b_of(s, t, c, n), rate = matrix(FLASHSCAN_ARG_A, false, 0, 0, c, n);
                one.add(m_, m_.times(twice, conj(c_of(s, t, c, n))));
                const Approx now = one.result(m_, depth_);
                add(FLASHSCAN_ARG_C, p_.matrix_at(p_.c_per_step, s.batch, t, c, n),
                    m_.times(twice, conj(before_[place + static_cast<size_t>(p_.states)])));
                add(FLASHSCAN_ARG_B, p_.matrix_at(p_.b_per_step, s.batch, t, c, n),
                    m_.times(m_.times(step.delta, step.u), now));
                const Approx through = m_.times(now, conj(b));
                du.add(m_.times(step.delta, real(through)));
                d_delta.add(m_.times(step.u, real(through)));
                if (step.reset) {
                    one = {};
                    continue;
                }
                const Approx a = a_of(step, c, n), exponent = m_.times(now, conj(m_.times(before_[place], a)));
                add(FLASHSCAN_ARG_A, p_.matrix_at(false, 0, 0, c, n), m_.times(step.delta, exponent));
                d_delta.add(real(m_.times(exponent, conj(rate))));
                one.multiply(m_, conj(a));
            }
            Approx d_raw = d_delta.result(m_);
            if (p_.softplus) d_raw = m_.times(d_raw, m_.sigmoid(step.raw));
            allow(grad(FLASHSCAN_ARG_INPUT), step.at, du.result(m_));
            allow(grad(FLASHSCAN_ARG_DELTA), step.at, d_raw);
            add(FLASHSCAN_ARG_BIAS, channel, d_raw);
            add(FLASHSCAN_ARG_D, channel, m_.times(dy, step.u));
            const Approx sigmoid = m_.sigmoid(step.z), rest = m_.sigmoid({-step.z.value, 0});
            const Approx slope = m_.times(sigmoid, m_.plus({1, 0}, m_.times(step.z, rest)));
            allow(grad(FLASHSCAN_ARG_OUTPUT_GATE), step.at,
                  m_.times(m_.times(d_out, y_[static_cast<size_t>(i)]), slope));
        }
        for (int64_t n = 0; n < p_.states; ++n)
            allow(grad(FLASHSCAN_ARG_STATE_IN), p_.state_at(s.state, c, n),
                  g[static_cast<size_t>(n)].result(m_, depth_));
    }

    // To the gradient of an argument that more than one element has a part in.
    void add(int32_t id, size_t place, Approx x) {
        const auto found = expected_.find(FLASHSCAN_GRAD | id);
        if (found == expected_.end()) return;
        std::vector<Sum>& sums = sums_[FLASHSCAN_GRAD | id];
        sums.resize(found->second.value.size());
        sums[place].add(x);
    }

    const SelectiveProblem& p_;
    const SelectiveData& data_;
    std::map<int32_t, Expected>& expected_;
    Arithmetic m_;
    double depth_, factor_;
    std::vector<Approx> before_;  // the states of a row before its first step, and after each
    std::vector<Approx> y_;       // of a row, before the gate
    std::map<int32_t, std::vector<Sum>> sums_;
};

}  // namespace

void set_tolerances(const SelectiveProblem& p, const SelectiveData& data, std::map<int32_t, Expected>& expected) {
    Bounds(p, data, expected).run();
}

std::map<int32_t, Expected> reference_of(const SelectiveProblem& p, const SelectiveData& data,
                                         const SelectiveOracle& oracle) {
    // A number that no d leaves anything of stands for -inf, which has no slope.
    SelectiveData finite = data;
    for (Value& a : finite.values.at(FLASHSCAN_ARG_A))
        if (a.real() == -INFINITY) a = -1e30;
    std::map<int32_t, Expected> expected;
    for (const auto& [id, values] : oracle(p.widened(), finite)) expected[id].value = values;
    set_tolerances(p, finite, expected);
    return expected;
}

}  // namespace support
