// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "fuzz/loops.h"

namespace fuzz {
namespace {

using namespace support;
using Real = long double;

constexpr int32_t grad = FLASHSCAN_GRAD;

Real sigmoid(Real x) { return 1 / (1 + std::exp(-x)); }

// A function of one number by a formula, and its derivative.
struct Slope {
    Real value, slope;
};

struct Decay {
    Real a, rest, gate, second, param;
};

Decay decay_of(const GatedProblem& p, Real g, Real second, Real param) {
    const Real s = sigmoid(g), n = sigmoid(-g);
    switch (p.decay) {
    case FLASHSCAN_GATED_DECAY_VALUE: return {g, 1 - g, 1, 0, 0};
    case FLASHSCAN_GATED_DECAY_EXP: return {std::exp(g), -std::expm1(g), std::exp(g), 0, 0};
    case FLASHSCAN_GATED_DECAY_SIGMOID: return {s, n, s * n, 0, 0};
    case FLASHSCAN_GATED_DECAY_ONE_MINUS_SIGMOID: return {n, s, -s * n, 0, 0};
    case FLASHSCAN_GATED_DECAY_LOWER_BOUND:
        return {param + (1 - param) * s, (1 - param) * n, (1 - param) * s * n, 0, n};
    case FLASHSCAN_GATED_DECAY_SOFTPLUS: {
        const Real rate = -static_cast<Real>(p.rate()), l = rate * std::log1p(std::exp(param)) * s, a = std::exp(l);
        return {a, -std::expm1(l), a * l * n, 0, a * rate * sigmoid(param) * s};
    }
    default: {
        const Real other = sigmoid(second), a = s / (s + other), b = other / (s + other);
        return {a, b, a * b * n, -a * b * sigmoid(-second), 0};
    }
    }
}

Slope activation_of(const GatedProblem& p, Real x) {
    const Real s = sigmoid(x), t = std::tanh(x), cosh = std::cosh(x);
    switch (p.activation) {
    case FLASHSCAN_GATED_ACTIVATION_TANH: return {t, 1 / (cosh * cosh)};
    case FLASHSCAN_GATED_ACTIVATION_SILU: return {x * s, s + x * s * sigmoid(-x)};
    case FLASHSCAN_GATED_ACTIVATION_POSITIVE: return x < 0 ? Slope{s, s * sigmoid(-x)} : Slope{x + Real(0.5), 1};
    default: return {x, 1};
    }
}

// y of h and o, and its derivatives by both.
struct Epilogue {
    Real y, state, gate;
};
Epilogue epilogue_of(const GatedProblem& p, Real h, Real o) {
    const Real s = sigmoid(o), d = s * sigmoid(-o), t = std::tanh(h), cosh = std::cosh(h);
    switch (p.epilogue) {
    case FLASHSCAN_GATED_EPILOGUE_SIGMOID: return {h * s, s, h * d};
    case FLASHSCAN_GATED_EPILOGUE_SILU: return {h * o * s, o * s, h * (s + o * d)};
    case FLASHSCAN_GATED_EPILOGUE_TANH_SIGMOID: return {t * s, s / (cosh * cosh), t * d};
    default: return {h, 1, 0};
    }
}

class Loop {
  public:
    Loop(const GatedProblem& p, const GatedData& data, const Values& output) : p_(p), data_(data), given_(output) {}

    Results run() {
        out(FLASHSCAN_ARG_OUTPUT, p_.elements());
        if (p_.state_out) out(FLASHSCAN_ARG_STATE_OUT, p_.state_rows() * p_.channels);
        for (const int32_t id : gradient_ids)
            if (has_argument(p_, id)) out(grad | id, static_cast<int64_t>(data_.values.at(id).size()));
        for (const Sequence& s : sequences_of(p_.batch, p_.time, data_.offsets))
            for (int64_t c = 0; c < p_.channels; ++c) row(s, c);
        return results_;
    }

  private:
    void out(int32_t id, int64_t count) { results_[id].resize(static_cast<size_t>(count)); }
    Real read(int32_t id, size_t at) const {
        const auto found = data_.values.find(id);
        return found == data_.values.end() ? 0 : static_cast<Real>(found->second[at].real());
    }
    void add(int32_t id, size_t at, Real value) {
        const auto found = results_.find(id);
        if (found != results_.end()) found->second[at] += static_cast<double>(value);
    }

    struct Step {
        size_t at;
        Decay decay;
        Real m, slope;  // slope: dm / da
        Slope input, gate;
        bool reset;
    };
    Step step_of(const Sequence& s, int64_t i, int64_t c) const {
        const int64_t t = s.step(p_.reverse, i);
        Step step{};
        step.at = p_.index(s.batch, t, c);
        const auto channel = static_cast<size_t>(c);
        step.decay = decay_of(p_, read(FLASHSCAN_ARG_GATE, step.at) + read(FLASHSCAN_ARG_BIAS, channel),
                              read(FLASHSCAN_ARG_SECOND_GATE, step.at), read(FLASHSCAN_ARG_PARAM, channel));
        step.reset = p_.reset && data_.reset[static_cast<size_t>(s.batch * p_.time + t)] != 0;
        const bool starts = p_.first_step && (step.reset || (i == 0 && !p_.state_in));
        step.m = 1;
        if (!starts && p_.scale == FLASHSCAN_GATED_SCALE_ONE_MINUS) step.m = step.decay.rest, step.slope = -1;
        if (!starts && p_.scale == FLASHSCAN_GATED_SCALE_SQRT) {
            step.m = std::sqrt(step.decay.rest * (1 + step.decay.a));
            Real inverse = 1 / (step.m + Real{0});  // of a rest of -0 the root is -0, too
            if (p_.slope_limit > 0) inverse = std::fmin(inverse, 2 * static_cast<Real>(p_.slope_limit));
            step.slope = -step.decay.a * inverse;
        }
        step.input = activation_of(p_, read(FLASHSCAN_ARG_INPUT, step.at));
        step.gate = {1, 0};
        if (p_.has_input_gate()) {
            const Real i_gate = read(FLASHSCAN_ARG_INPUT_GATE, step.at);
            step.gate = {sigmoid(i_gate), sigmoid(i_gate) * sigmoid(-i_gate)};
        }
        return step;
    }

    void row(const Sequence& s, int64_t c) {
        const auto state = static_cast<size_t>(s.state * p_.channels + c);
        const Real first = read(FLASHSCAN_ARG_STATE_IN, state);
        std::vector<Real> states;
        Real h = first;
        for (int64_t i = 0; i < s.length(); ++i) {
            const Step step = step_of(s, i, c);
            h = (step.reset ? 0 : step.decay.a * h) + step.m * step.input.value * step.gate.value;
            const bool reads = !p_.has_output_gate() && !given_.empty();
            states.push_back(reads ? static_cast<Real>(given_[step.at].real()) : h);
            add(FLASHSCAN_ARG_OUTPUT, step.at, epilogue_of(p_, h, read(FLASHSCAN_ARG_OUTPUT_GATE, step.at)).y);
        }
        add(FLASHSCAN_ARG_STATE_OUT, state, h);
        Real carry = read(grad | FLASHSCAN_ARG_STATE_OUT, state);
        for (int64_t i = s.length() - 1; i >= 0; --i) {
            const Step step = step_of(s, i, c);
            const Real dy = read(grad | FLASHSCAN_ARG_OUTPUT, step.at);
            const Epilogue y =
                epilogue_of(p_, states[static_cast<size_t>(i)], read(FLASHSCAN_ARG_OUTPUT_GATE, step.at));
            const Real g = dy * y.state + carry, v = step.input.value * step.gate.value;
            carry = step.reset ? 0 : step.decay.a * g;
            const Real before = i > 0 ? states[static_cast<size_t>(i - 1)] : first;
            const Real da = (step.reset ? 0 : g * before) + (step.slope != 0 ? g * v * step.slope : 0);
            add(grad | FLASHSCAN_ARG_INPUT, step.at, g * step.m * step.gate.value * step.input.slope);
            add(grad | FLASHSCAN_ARG_INPUT_GATE, step.at, g * step.m * step.input.value * step.gate.slope);
            add(grad | FLASHSCAN_ARG_GATE, step.at, da * step.decay.gate);
            add(grad | FLASHSCAN_ARG_SECOND_GATE, step.at, da * step.decay.second);
            add(grad | FLASHSCAN_ARG_OUTPUT_GATE, step.at, dy * y.gate);
            add(grad | FLASHSCAN_ARG_PARAM, static_cast<size_t>(c), da * step.decay.param);
            add(grad | FLASHSCAN_ARG_BIAS, static_cast<size_t>(c), da * step.decay.gate);
        }
        add(grad | FLASHSCAN_ARG_STATE_IN, state, carry);
    }

    const GatedProblem& p_;
    const GatedData& data_;
    const Values& given_;
    Results results_;
};

}  // namespace

Results gated_loop(const GatedProblem& problem, const GatedData& data, const Values& output) {
    return Loop(problem, data, output).run();
}

}  // namespace fuzz
