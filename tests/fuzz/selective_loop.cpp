// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "fuzz/loops.h"

namespace fuzz {
namespace {

using namespace support;
using Real = long double;
using Number = std::complex<Real>;

constexpr int32_t grad = FLASHSCAN_GRAD;

// Both passes of one state after another: nothing but sums over states joins them.
class Loop {
  public:
    Loop(const SelectiveProblem& p, const SelectiveData& data) : p_(p), data_(data), factor_(p.complex ? 2 : 1) {}

    Results run() {
        out(FLASHSCAN_ARG_OUTPUT, p_.elements());
        if (p_.state_out) out(FLASHSCAN_ARG_STATE_OUT, p_.state_rows() * p_.channels * p_.states);
        for (const int32_t id : selective_gradients)
            if (has_argument(p_, id)) out(grad | id, static_cast<int64_t>(data_.values.at(id).size()));
        for (const Sequence& s : sequences_of(p_.batch, p_.time, data_.offsets))
            for (int64_t c = 0; c < p_.channels; ++c) row(s, c);
        Results results;
        for (const auto& [id, sums] : sums_)
            for (const Number& sum : sums) results[id].emplace_back(sum);
        for (const auto& [id, sums] : sums_) results[id];  // also what has no numbers
        return results;
    }

  private:
    struct Step {
        int64_t t;
        size_t at;
        Real u, d, slope;  // slope: of d by DELTA + BIAS
        Real y, dy, du, dd;
        bool reset;
    };

    void out(int32_t id, int64_t count) { sums_[id].resize(static_cast<size_t>(count)); }
    Number read(int32_t id, size_t at) const {
        const auto found = data_.values.find(id);
        return found == data_.values.end() ? Number{} : Number(found->second[at]);
    }
    Real real(int32_t id, size_t at) const { return read(id, at).real(); }
    void add(int32_t id, size_t at, Number value) {
        const auto found = sums_.find(id);
        if (found != sums_.end()) found->second[at] += value;
    }
    static Real sigmoid(Real x) { return 1 / (1 + std::exp(-x)); }
    // The real part of a number times the conjugate of another.
    static Real inner(Number a, Number b) { return (a * std::conj(b)).real(); }

    Step step_of(const Sequence& s, int64_t i, int64_t c) const {
        Step step{};
        step.t = s.step(p_.reverse, i);
        step.at = p_.at(s.batch, step.t, c);
        step.u = real(FLASHSCAN_ARG_INPUT, step.at);
        step.d = real(FLASHSCAN_ARG_DELTA, step.at) + real(FLASHSCAN_ARG_BIAS, static_cast<size_t>(c));
        step.slope = 1;
        if (p_.softplus) step.slope = sigmoid(step.d), step.d = std::log1p(std::exp(step.d));
        step.dy = real(grad | FLASHSCAN_ARG_OUTPUT, step.at) * gate_of(step);
        step.y = real(FLASHSCAN_ARG_D, static_cast<size_t>(c)) * step.u;
        step.du = real(FLASHSCAN_ARG_D, static_cast<size_t>(c)) * step.dy;
        step.reset = p_.reset && data_.reset[static_cast<size_t>(s.batch * p_.time + step.t)] != 0;
        return step;
    }
    Real gate_of(const Step& step) const {
        if (!p_.gate) return 1;
        const Real z = real(FLASHSCAN_ARG_OUTPUT_GATE, step.at);
        return z * sigmoid(z);
    }

    void row(const Sequence& s, int64_t c) {
        std::vector<Step> steps;
        for (int64_t i = 0; i < s.length(); ++i) steps.push_back(step_of(s, i, c));
        for (int64_t n = 0; n < p_.states; ++n) state(s, c, n, steps);
        const auto channel = static_cast<size_t>(c);
        for (const Step& step : steps) {
            const Real z = real(FLASHSCAN_ARG_OUTPUT_GATE, step.at), sz = sigmoid(z);
            add(FLASHSCAN_ARG_OUTPUT, step.at, step.y * gate_of(step));
            add(grad | FLASHSCAN_ARG_OUTPUT_GATE, step.at,
                real(grad | FLASHSCAN_ARG_OUTPUT, step.at) * step.y * (sz + z * sz * sigmoid(-z)));
            add(grad | FLASHSCAN_ARG_INPUT, step.at, step.du);
            add(grad | FLASHSCAN_ARG_D, channel, step.dy * step.u);
            add(grad | FLASHSCAN_ARG_DELTA, step.at, step.dd * step.slope);
            add(grad | FLASHSCAN_ARG_BIAS, channel, step.dd * step.slope);
        }
    }

    // State n of a row, forward into y of the steps and backward into du and dd.
    void state(const Sequence& s, int64_t c, int64_t n, std::vector<Step>& steps) {
        const size_t place = p_.state_at(s.state, c, n), constant = p_.matrix_at(false, 0, 0, c, n);
        const auto b_at = [&](const Step& step) { return p_.matrix_at(p_.b_per_step, s.batch, step.t, c, n); };
        const auto c_at = [&](const Step& step) { return p_.matrix_at(p_.c_per_step, s.batch, step.t, c, n); };
        const Number rate = read(FLASHSCAN_ARG_A, constant);
        std::vector<Number> h = {read(FLASHSCAN_ARG_STATE_IN, place)};
        for (Step& step : steps) {
            const Number carried = step.reset ? Number{} : std::exp(step.d * rate) * h.back();
            h.push_back(carried + step.d * step.u * read(FLASHSCAN_ARG_B, b_at(step)));
            step.y += factor_ * (read(FLASHSCAN_ARG_C, c_at(step)) * h.back()).real();
        }
        add(FLASHSCAN_ARG_STATE_OUT, place, h.back());
        Number g = read(grad | FLASHSCAN_ARG_STATE_OUT, place);
        for (size_t i = steps.size(); i-- > 0;) {
            Step& step = steps[i];
            g += factor_ * step.dy * std::conj(read(FLASHSCAN_ARG_C, c_at(step)));
            add(grad | FLASHSCAN_ARG_C, c_at(step), factor_ * step.dy * std::conj(h[i + 1]));
            add(grad | FLASHSCAN_ARG_B, b_at(step), step.d * step.u * g);
            const Real entering = inner(g, read(FLASHSCAN_ARG_B, b_at(step)));
            step.du += step.d * entering;
            step.dd += step.u * entering;
            // Through a = exp(d A), whose derivative is a times those of d A.
            const Number a = step.reset ? Number{} : std::exp(step.d * rate);
            const Number exponent = step.reset ? Number{} : g * std::conj(a * h[i]);
            add(grad | FLASHSCAN_ARG_A, constant, step.d * exponent);
            step.dd += inner(exponent, rate);
            g *= std::conj(a);
        }
        add(grad | FLASHSCAN_ARG_STATE_IN, place, g);
    }

    const SelectiveProblem& p_;
    const SelectiveData& data_;
    Real factor_;  // y is twice the real part of the sum where numbers are complex
    std::map<int32_t, std::vector<Number>> sums_;
};

}  // namespace

Results selective_loop(const SelectiveProblem& problem, const SelectiveData& data) { return Loop(problem, data).run(); }

}  // namespace fuzz
