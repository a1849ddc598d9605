// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <complex>
#include <stdexcept>

#include "fuzz/loops.h"

namespace fuzz {
namespace {

using namespace support;

using Number = std::complex<long double>;
using Element = std::vector<Number>;  // a number, a d x d matrix or d numbers

constexpr int32_t grad = FLASHSCAN_GRAD;

class OperatorLoop {
  public:
    OperatorLoop(const OperatorProblem& problem, const OperatorData& data)
        : p_(problem), data_(data), real_(!is_complex(problem.dtype)), d_(static_cast<size_t>(problem.dim)) {
        const auto size = [](const std::array<int64_t, 3>& e) { return static_cast<size_t>(e[0] * e[1] * e[2]); };
        results_[FLASHSCAN_ARG_OUTPUT].resize(size(p_.output_extents()));
        results_[FLASHSCAN_ARG_INDEX].resize(size(p_.output_extents()));
        results_[FLASHSCAN_ARG_STATE_OUT].resize(size(p_.state_extents()));
        results_[grad | FLASHSCAN_ARG_INPUT].resize(size(p_.extents(p_.element())));
        results_[grad | FLASHSCAN_ARG_GATE].resize(size(p_.extents(p_.gate_element())));
        results_[grad | FLASHSCAN_ARG_STATE_IN].resize(size(p_.state_extents()));
    }

    Results run() {
        for (const Sequence& s : sequences_of(p_.batch, p_.time, data_.offsets))
            for (int64_t c = 0; c < p_.channels; ++c) chain(s, c);
        if (!p_.index) results_.erase(FLASHSCAN_ARG_INDEX);
        if (!p_.state_out) results_.erase(FLASHSCAN_ARG_STATE_OUT);
        if (!p_.backward) results_.erase(grad | FLASHSCAN_ARG_INPUT);
        if (!p_.backward || !p_.affine()) results_.erase(grad | FLASHSCAN_ARG_GATE);
        if (!p_.backward || !p_.state_in) results_.erase(grad | FLASHSCAN_ARG_STATE_IN);
        return std::move(results_);
    }

  private:
    static Number read(Value v) { return {v.real(), v.imag()}; }
    static Element read(const Values& from, size_t at, size_t size) {
        Element element;
        for (size_t i = 0; i < size; ++i) element.push_back(read(from[at + i]));
        return element;
    }
    void write(int32_t id, size_t at, const Element& element) {
        for (size_t i = 0; i < element.size(); ++i)
            results_[id][at + i] = {static_cast<double>(element[i].real()),
                                    real_ ? 0.0 : static_cast<double>(element[i].imag())};
    }
    size_t size() const { return static_cast<size_t>(p_.element()); }

    Element identity() const {
        Element unit(size());
        for (size_t i = 0; p_.matmul() && i < d_; ++i) unit[i * d_ + i] = 1;
        switch (p_.kind) {
        case FLASHSCAN_OPERATOR_ADD:
        case FLASHSCAN_OPERATOR_MATMUL:
        case FLASHSCAN_OPERATOR_AFFINE: return unit;
        case FLASHSCAN_OPERATOR_MUL: return {1};
        case FLASHSCAN_OPERATOR_MIN: return {HUGE_VALL};
        case FLASHSCAN_OPERATOR_MAX:
        case FLASHSCAN_OPERATOR_LOGADDEXP: return {-HUGE_VALL};
        }
        throw std::invalid_argument("no operator on real numbers");
    }

    // y o x, W with affine maps.
    Element combine(const Element& y, const Element& x, const Element& w) const {
        if (p_.matmul() || p_.affine()) {
            Element product = p_.affine() ? x : Element(x.size());
            for (size_t i = 0; i < d_; ++i)
                for (size_t k = 0; k < d_; ++k) {
                    if (p_.affine()) product[i] += w[i * d_ + k] * y[k];
                    for (size_t j = 0; p_.matmul() && j < d_; ++j) product[i * d_ + j] += y[i * d_ + k] * x[k * d_ + j];
                }
            return product;
        }
        const long double l = y[0].real(), r = x[0].real();
        switch (p_.kind) {
        case FLASHSCAN_OPERATOR_ADD: return {y[0] + x[0]};
        case FLASHSCAN_OPERATOR_MUL: return {y[0] * x[0]};
        case FLASHSCAN_OPERATOR_MIN: return {r < l ? r : l};
        case FLASHSCAN_OPERATOR_MAX: return {r > l ? r : l};
        case FLASHSCAN_OPERATOR_LOGADDEXP:
            return {l == r && std::isinf(l) ? l : std::fmax(l, r) + std::log1p(std::exp(-std::fabs(l - r)))};
        }
        throw std::invalid_argument("no operator on real numbers");
    }

    // Gives the gradients of y, x and W for the gradient g of y o x, which is `both`.
    void pull(const Element& y, const Element& x, const Element& w, const Element& both, const Element& g, Element& gy,
              Element& gx, Element& gw) const {
        gy.assign(y.size(), {});
        gx.assign(x.size(), {});
        gw.assign(w.size(), {});
        if (p_.affine()) gx = g;
        for (size_t i = 0; i < d_; ++i)
            for (size_t k = 0; k < d_; ++k) {
                if (p_.affine()) {
                    gy[k] += std::conj(w[i * d_ + k]) * g[i];
                    gw[i * d_ + k] = g[i] * std::conj(y[k]);
                }
                for (size_t j = 0; p_.matmul() && j < d_; ++j) {
                    gy[i * d_ + k] += g[i * d_ + j] * std::conj(x[k * d_ + j]);
                    gx[k * d_ + j] += std::conj(y[i * d_ + k]) * g[i * d_ + j];
                }
            }
        if (d_ > 0) return;
        const auto give = [&](Number left, Number right) {
            gy[0] = g[0] * std::conj(left);
            gx[0] = g[0] * std::conj(right);
        };
        const long double l = y[0].real(), r = x[0].real(), lr = both[0].real();
        switch (p_.kind) {
        case FLASHSCAN_OPERATOR_ADD: return give(1, 1);
        case FLASHSCAN_OPERATOR_MUL: return give(x[0], y[0]);
        case FLASHSCAN_OPERATOR_MIN: return r < l ? give(0, 1) : give(1, 0);
        case FLASHSCAN_OPERATOR_MAX: return r > l ? give(0, 1) : give(1, 0);
        case FLASHSCAN_OPERATOR_LOGADDEXP: return l == r ? give(0.5L, 0.5L) : give(std::exp(l - lr), std::exp(r - lr));
        }
        throw std::invalid_argument("no operator on real numbers");
    }

    void chain(const Sequence& s, int64_t c) {
        const size_t state = p_.state_place(s.state, c);
        const bool inclusive = p_.mode == FLASHSCAN_MODE_INCLUSIVE, exclusive = p_.mode == FLASHSCAN_MODE_EXCLUSIVE;
        const auto steps = static_cast<size_t>(s.length());
        const auto place = [&](size_t i, int64_t element) {
            return p_.place(s.batch, s.step(p_.reverse, static_cast<int64_t>(i)), c, element);
        };
        // ys[i] is what comes before step i; nothing comes before the first unless there is a STATE_IN.
        std::vector<Element> ys{p_.state_in ? read(data_.state_in, state, size()) : identity()}, xs, ws;
        for (size_t i = 0; i < steps; ++i) {
            xs.push_back(read(data_.input, place(i, p_.element()), size()));
            ws.push_back(p_.affine() ? read(data_.gate, place(i, p_.gate_element()), d_ * d_) : Element{});
            ys.push_back(i == 0 && !p_.state_in ? xs[i] : combine(ys[i], xs[i], ws[i]));
            if (inclusive || exclusive) write(FLASHSCAN_ARG_OUTPUT, place(i, p_.element()), ys[inclusive ? i + 1 : i]);
        }
        if (p_.reduction()) write(FLASHSCAN_ARG_OUTPUT, state, ys.back());
        if (p_.index) find_indices(s, c, ys);
        write(FLASHSCAN_ARG_STATE_OUT, state, ys.back());
        if (!p_.backward) return;

        for (size_t i = 1; i < ys.size() && !data_.output.empty(); ++i)
            if (inclusive || i < steps) ys[i] = read(data_.output, place(inclusive ? i - 1 : i, p_.element()), size());
        Element g(size()), gy, gx, gw;
        const auto add = [&](const Values& from, size_t at) {
            for (size_t i = 0; i < size(); ++i) g[i] += read(from[at + i]);
        };
        if (p_.state_out) add(data_.grad_state_out, state);
        if (p_.reduction()) add(data_.grad_output, state);
        for (size_t i = steps; i-- > 0;) {
            if (inclusive) add(data_.grad_output, place(i, p_.element()));
            if (i == 0 && !p_.state_in) {
                write(grad | FLASHSCAN_ARG_INPUT, place(i, p_.element()), g);
                if (p_.affine()) write(grad | FLASHSCAN_ARG_GATE, place(i, p_.gate_element()), Element(d_ * d_));
                break;
            }
            pull(ys[i], xs[i], ws[i], ys[i + 1], g, gy, gx, gw);
            write(grad | FLASHSCAN_ARG_INPUT, place(i, p_.element()), gx);
            if (p_.affine()) write(grad | FLASHSCAN_ARG_GATE, place(i, p_.gate_element()), gw);
            g = gy;
            if (exclusive) add(data_.grad_output, place(i, p_.element()));
        }
        if (p_.state_in) write(grad | FLASHSCAN_ARG_STATE_IN, state, g);
    }

    // The step where y last became another number, which a tie does not; ys[i] is what comes before step i.
    void find_indices(const Sequence& s, int64_t c, const std::vector<Element>& ys) {
        Values& index = results_[FLASHSCAN_ARG_INDEX];
        int64_t from = -1;
        for (size_t i = 0; i + 1 < ys.size(); ++i) {
            const int64_t t = s.step(p_.reverse, static_cast<int64_t>(i)), before = from;
            if (ys[i + 1] != ys[i] || (i == 0 && !p_.state_in)) from = t;
            if (!p_.reduction())
                index[p_.place(s.batch, t, c, 1)] =
                    static_cast<double>(p_.mode == FLASHSCAN_MODE_EXCLUSIVE ? before : from);
        }
        if (p_.reduction()) index[p_.state_place(s.state, c)] = static_cast<double>(from);
    }

    const OperatorProblem& p_;
    const OperatorData& data_;
    bool real_;
    size_t d_;
    Results results_;
};

}  // namespace

Results operator_loop(const OperatorProblem& problem, const OperatorData& data) {
    return problem.integers() ? integer_loop(problem, data) : OperatorLoop(problem, data).run();
}

}  // namespace fuzz
