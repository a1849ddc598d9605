// SPDX-License-Identifier: Apache-2.0
// Numbers with the absolute error that they may have, and the formulas of gated layers on them (gated_bound.cpp).
#pragma once

#include <algorithm>
#include <cmath>
#include <utility>

#include "support/gated_problem.h"

namespace support::approx {

struct Approx {
    double value = 0, error = 0;
};

// u and what may be lost below the normal numbers.
struct Arithmetic {
    double u, tiny;

    Approx times(Approx a, Approx b) const {
        const double v = a.value * b.value;
        return {v,
                std::abs(a.value) * b.error + std::abs(b.value) * a.error + a.error * b.error + u * std::abs(v) + tiny};
    }
    Approx plus(Approx a, Approx b) const {
        const double v = a.value + b.value;
        return {v, a.error + b.error + u * std::abs(v)};
    }
    // A function of `x` that has these value and slope there.
    Approx function(Approx x, double value, double slope, double units) const {
        return {value, 1.1 * std::abs(slope) * x.error + units * u * std::abs(value) + tiny};
    }
    Approx sigmoid(Approx x) const {
        const double s = 1 / (1 + std::exp(-x.value)), n = 1 / (1 + std::exp(x.value));
        return function(x, s, s * n, 12 + 2 * std::abs(x.value));
    }
    Approx exp(Approx x) const { return function(x, std::exp(x.value), std::exp(x.value), 6 + 2 * std::abs(x.value)); }
    // 1 - exp(x)
    Approx rest(Approx x) const { return function(x, -std::expm1(x.value), std::exp(x.value), 16); }
    Approx tanh(Approx x) const {
        const double t = std::tanh(x.value);
        return function(x, t, 1 - t * t, 12);
    }
    Approx sqrt(Approx x) const {
        const double root = std::sqrt(x.value), lowest = std::sqrt(std::max(0.0, x.value - 1.1 * x.error));
        if (root == 0) return {0, std::sqrt(x.error)};
        return {root, root - lowest + 2 * u * root + tiny};  // the side on which it is steeper
    }
};

inline Approx minus(Approx x) { return {-x.value, x.error}; }
inline constexpr Approx one{1, 0};

struct Slopes {
    Approx a, rest, gate, second, param;
};

inline Slopes decay_of(const Arithmetic& m, const GatedProblem& p, Approx g, Approx second, Approx param) {
    const Approx s = m.sigmoid(g), n = m.sigmoid(minus(g));
    switch (p.decay) {
    case FLASHSCAN_GATED_DECAY_VALUE: return {g, m.plus(one, minus(g)), one, {}, {}};
    case FLASHSCAN_GATED_DECAY_EXP: return {m.exp(g), m.rest(g), m.exp(g), {}, {}};
    case FLASHSCAN_GATED_DECAY_SIGMOID: return {s, n, m.times(s, n), {}, {}};
    case FLASHSCAN_GATED_DECAY_ONE_MINUS_SIGMOID: return {n, s, m.times(s, n), {}, {}};
    case FLASHSCAN_GATED_DECAY_LOWER_BOUND: {
        const Approx above = m.plus(one, minus(param));
        return {m.plus(param, m.times(above, s)), m.times(above, n), m.times(above, m.times(s, n)), {}, n};
    }
    case FLASHSCAN_GATED_DECAY_SOFTPLUS: {
        const double x = param.value, softplus = (x > 0 ? x : 0) + std::log1p(std::exp(-std::abs(x)));
        const Approx rate = m.function(param, -p.rate() * softplus, 0, 20 + 2 * std::abs(x));
        const Approx rate_slope = m.times({-p.rate(), 0}, m.sigmoid(param));
        const Approx l = m.times(rate, s), a = m.exp(l);
        return {a, m.rest(l), m.times(m.times(a, rate), m.times(s, n)), {}, m.times(m.times(a, s), rate_slope)};
    }
    default: {
        const Approx s2 = m.sigmoid(second), n2 = m.sigmoid(minus(second));
        const double sum = s.value + s2.value, a = s.value / sum, b = s2.value / sum;
        const double units = 40 + 4 * (std::abs(g.value) + std::abs(second.value));
        const Approx both = {a * b, units * m.u * a * b + m.tiny};
        // Each is a quotient of two exponentials added and three: two may lie below the normal numbers.
        const auto share = [&](double value) {
            return m.plus(m.function(g, value, a * b * n.value, units), {0, m.tiny});
        };
        return {share(a), share(b), m.times(both, n), m.times(both, n2), {}};
    }
    }
}

inline std::pair<Approx, Approx> activation_of(const Arithmetic& m, const GatedProblem& p, Approx x) {
    const Approx s = m.sigmoid(x), n = m.sigmoid(minus(x)), t = m.tanh(x);
    switch (p.activation) {
    case FLASHSCAN_GATED_ACTIVATION_TANH: return {t, m.times(m.plus(one, minus(t)), m.plus(one, t))};
    case FLASHSCAN_GATED_ACTIVATION_SILU: return {m.times(x, s), m.times(s, m.plus(one, m.times(x, n)))};
    case FLASHSCAN_GATED_ACTIVATION_POSITIVE:
        if (x.value < 0) return {s, m.times(s, n)};
        return {m.plus(x, {0.5, 0}), one};
    default: return {x, one};
    }
}

struct EpilogueOf {
    Approx y, state_slope, gate_slope;
};
inline EpilogueOf epilogue_of(const Arithmetic& m, const GatedProblem& p, Approx h, Approx o) {
    if (!p.has_output_gate()) return {h, one, {}};
    const Approx s = m.sigmoid(o), n = m.sigmoid(minus(o)), slope = m.times(s, n), t = m.tanh(h);
    switch (p.epilogue) {
    case FLASHSCAN_GATED_EPILOGUE_SIGMOID: return {m.times(h, s), s, m.times(h, slope)};
    case FLASHSCAN_GATED_EPILOGUE_SILU: {
        const Approx gate = m.times(o, s), of_gate = m.times(s, m.plus(one, m.times(o, n)));
        return {m.times(h, gate), gate, m.times(h, of_gate)};
    }
    default: {
        const Approx of_state = m.times(m.plus(one, minus(t)), m.plus(one, t));
        return {m.times(t, s), m.times(s, of_state), m.times(t, slope)};
    }
    }
}

}  // namespace support::approx
