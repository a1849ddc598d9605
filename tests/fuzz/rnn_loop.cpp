// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "fuzz/loops.h"
#include "fuzz/rnn_step.h"

namespace fuzz {
namespace {

using namespace support;

using Vector = std::vector<Real>;

constexpr int32_t grad = FLASHSCAN_GRAD;

class RnnLoop {
  public:
    RnnLoop(const RnnProblem& problem, const RnnData& data)
        : p_(problem), data_(data), D_(p_.dim), gates_(p_.gates()), states_(p_.states()) {
        const auto size = [](const std::array<int64_t, 3>& e) { return static_cast<size_t>(e[0] * e[1] * e[2]); };
        output_.resize(size(p_.output_extents()));
        state_out_.resize(size(p_.state_extents()));
        d_input_.resize(size(p_.input_extents()));
        d_weight_.resize(size(p_.weight_extents()));
        d_bias_.resize(size(p_.bias_extents()));
        d_state_.resize(size(p_.state_extents()));
    }

    Results run() {
        for (const Sequence& s : sequences_of(p_.batch, p_.time, data_.offsets))
            for (int64_t head = 0; head < p_.heads; ++head) walk(s, head);
        Results all;
        all[FLASHSCAN_ARG_OUTPUT] = values(output_);
        if (p_.state_out) all[FLASHSCAN_ARG_STATE_OUT] = values(state_out_);
        if (!p_.backward) return all;
        if ((p_.gradients & rnn_gradient_input) != 0) all[grad | FLASHSCAN_ARG_INPUT] = values(d_input_);
        if ((p_.gradients & rnn_gradient_weight) != 0) all[grad | FLASHSCAN_ARG_WEIGHT] = values(d_weight_);
        if ((p_.gradients & rnn_gradient_bias) != 0) all[grad | FLASHSCAN_ARG_BIAS] = values(d_bias_);
        if ((p_.gradients & rnn_gradient_state) != 0 && p_.state_in)
            all[grad | FLASHSCAN_ARG_STATE_IN] = values(d_state_);
        return all;
    }

  private:
    static Values values(const Vector& from) {
        Values to;
        for (const Real x : from) to.emplace_back(static_cast<double>(x));
        return to;
    }
    bool gru() const { return p_.cell == FLASHSCAN_CELL_GRU; }
    bool before() const { return cell_row(p_.cell).resets_before; }
    size_t row(int64_t gate, int64_t w) const { return static_cast<size_t>((gate * p_.width() + w) * D_); }
    Real bias(int64_t j, int64_t w) const {
        return p_.bias ? static_cast<Real>(data_.bias[static_cast<size_t>(j * p_.width() + w)].real()) : 0;
    }
    // R_gate times a vector over the head.
    Real product(int64_t gate, int64_t w, const Vector& h) const {
        Real sum = 0;
        for (size_t k = 0; k < h.size(); ++k) sum += static_cast<Real>(data_.weight[row(gate, w) + k].real()) * h[k];
        return sum;
    }

    // The pre-activations of step t, given the states before it, [element][state].
    std::vector<Step> steps(const Sequence& s, int64_t t, int64_t head, const std::vector<Vector>& states) const {
        std::vector<Step> list;
        Vector h;
        for (const Vector& element : states) h.push_back(element[0]);
        for (int64_t j = 0; j < D_; ++j) {
            const int64_t w = head * D_ + j;
            Step step{p_.cell, {}, {}};
            std::copy(states[static_cast<size_t>(j)].begin(), states[static_cast<size_t>(j)].end(), step.before);
            for (int64_t g = 0; g < gates_; ++g) {
                step.raw[g] = static_cast<Real>(data_.input[p_.input_index(s.batch, t, g, w)].real()) + bias(g, w);
                if (!(gru() || before()) || g < gates_ - 1) step.raw[g] += product(g, w, h);
            }
            if (gru()) step.raw[3] = product(2, w, h) + bias(3, w);
            list.push_back(step);
        }
        if (!before()) return list;
        const Vector gated = reset_h(list);
        for (int64_t j = 0; j < D_; ++j)
            list[static_cast<size_t>(j)].raw[3] = product(gates_ - 1, head * D_ + j, gated);
        return list;
    }
    static Vector reset_h(const std::vector<Step>& list) {
        Vector gated;
        for (const Step& step : list) gated.push_back(sigmoid(step.raw[0]) * step.before[0]);
        return gated;
    }

    void walk(const Sequence& s, int64_t head) {
        std::vector<Vector> states(static_cast<size_t>(D_), Vector(static_cast<size_t>(states_)));
        const auto each = [&](auto visit) {  // element of the head, state, place in arrays of states
            for (int64_t j = 0; j < D_; ++j)
                for (int64_t k = 0; k < states_; ++k)
                    visit(static_cast<size_t>(j), static_cast<size_t>(k), p_.state_index(k, s.state, head * D_ + j));
        };
        if (p_.state_in) each([&](size_t j, size_t k, size_t at) { states[j][k] = data_.state_in[at].real(); });
        std::vector<std::vector<Step>> past;
        for (int64_t i = 0; i < s.length(); ++i) {
            const int64_t t = s.step(p_.reverse, i);
            if (resets(s, t)) std::fill(states.begin(), states.end(), Vector(static_cast<size_t>(states_)));
            past.push_back(steps(s, t, head, states));
            for (int64_t j = 0; j < D_; ++j) {
                Vector& element = states[static_cast<size_t>(j)];
                past.back()[static_cast<size_t>(j)].forward(element.data());
                for (int64_t k = 0; k < p_.output_states(); ++k)
                    output_[p_.output_index(k, s.batch, t, head * D_ + j)] = element[static_cast<size_t>(k)];
            }
        }
        each([&](size_t j, size_t k, size_t at) { state_out_[at] = states[j][k]; });
        if (p_.backward) walk_back(s, head, past);
    }

    void walk_back(const Sequence& s, int64_t head, const std::vector<std::vector<Step>>& past) {
        const auto D = static_cast<size_t>(D_);
        std::vector<std::array<Real, 4>> d(D);
        for (size_t j = 0; p_.state_out && j < D; ++j)
            for (int64_t k = 0; k < states_; ++k)
                d[j][static_cast<size_t>(k)] =
                    data_.grad_state_out[p_.state_index(k, s.state, head * D_ + static_cast<int64_t>(j))].real();
        for (int64_t i = s.length() - 1; i >= 0; --i) {
            const int64_t t = s.step(p_.reverse, i);
            for (size_t j = 0; j < D; ++j)
                for (int64_t k = 0; k < p_.output_states(); ++k)
                    d[j][static_cast<size_t>(k)] +=
                        data_.grad_output[p_.output_index(k, s.batch, t, head * D_ + static_cast<int64_t>(j))].real();
            step_back(s, t, head, past[static_cast<size_t>(i)], d);
            if (resets(s, t)) std::fill(d.begin(), d.end(), std::array<Real, 4>{});
        }
        for (size_t j = 0; j < D; ++j)
            for (int64_t k = 0; k < states_; ++k) {
                const size_t at = p_.state_index(k, s.state, head * D_ + static_cast<int64_t>(j));
                d_state_[at] = d[j][static_cast<size_t>(k)];
            }
    }

    void step_back(const Sequence& s, int64_t t, int64_t head, const std::vector<Step>& list,
                   std::vector<std::array<Real, 4>>& d) {
        const auto D = static_cast<size_t>(D_);
        std::vector<std::array<Real, 4>> dr(D);  // of raw
        for (size_t j = 0; j < D; ++j) list[j].backward(d[j].data(), dr[j].data());
        const Vector gated = before() ? reset_h(list) : Vector{};
        Vector reaching(D);
        if (before()) {  // through R_n (s(r) h)
            const Vector through = transposed(head, gates_ - 1, dr, 3);
            for (size_t j = 0; j < D; ++j) {
                const Real r = list[j].raw[0];
                dr[j][0] += through[j] * list[j].before[0] * sigmoid(r) * sigmoid(-r);
                reaching[j] = through[j] * sigmoid(r);
            }
        }
        for (int64_t g = 0; g < (before() ? gates_ - 1 : gates_); ++g) {
            const Vector through = transposed(head, g, dr, gru() && g == 2 ? 3 : static_cast<size_t>(g));
            for (size_t j = 0; j < D; ++j) reaching[j] += through[j];
        }
        for (size_t j = 0; j < D; ++j) d[j][0] += clipped(reaching[j]);
        sums(s, t, head, list, dr, gated);
    }

    void sums(const Sequence& s, int64_t t, int64_t head, const std::vector<Step>& list,
              const std::vector<std::array<Real, 4>>& dr, const Vector& gated) {
        for (int64_t g = 0; g < p_.biases(); ++g)
            for (size_t j = 0; j < list.size(); ++j) {
                const int64_t w = head * D_ + static_cast<int64_t>(j);
                const Real gradient = dr[j][static_cast<size_t>(g)];
                d_bias_[static_cast<size_t>(g * p_.width() + w)] += gradient;
                if (g >= gates_) continue;
                d_input_[p_.input_index(s.batch, t, g, w)] = gradient;
                const Real outer = gru() && g == 2 ? dr[j][3] : gradient;
                for (size_t k = 0; k < list.size(); ++k)
                    d_weight_[row(g, w) + k] += outer * (before() && g == gates_ - 1 ? gated[k] : list[k].before[0]);
            }
    }

    // R_gate^T times the gradients of raw[which].
    Vector transposed(int64_t head, int64_t gate, const std::vector<std::array<Real, 4>>& dr, size_t which) const {
        Vector sum(dr.size());
        for (size_t j = 0; j < dr.size(); ++j)
            for (size_t k = 0; k < dr.size(); ++k)
                sum[k] += static_cast<Real>(data_.weight[row(gate, head * D_ + static_cast<int64_t>(j)) + k].real()) *
                          dr[j][which];
        return sum;
    }
    Real clipped(Real gradient) const {
        const auto limit = static_cast<Real>(p_.clip);
        return p_.clip > 0 && !std::isnan(gradient) ? std::clamp(gradient, -limit, limit) : gradient;
    }
    bool resets(const Sequence& s, int64_t t) const {
        return p_.reset && data_.reset[static_cast<size_t>(s.batch * p_.time + t)] != 0;
    }

    const RnnProblem& p_;
    const RnnData& data_;
    int64_t D_, gates_, states_;
    Vector output_, state_out_, d_input_, d_weight_, d_bias_, d_state_;
};

}  // namespace

Results rnn_loop(const RnnProblem& problem, const RnnData& data) { return RnnLoop(problem, data).run(); }

}  // namespace fuzz
