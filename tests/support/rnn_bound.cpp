// SPDX-License-Identifier: Apache-2.0
//
// The error bound. What a rounding error becomes through a recurrent network depends on the network: it may die out or
// grow from step to step. A worst-case bound, sums of moduli carried along, multiplies by the row sums of |R| at every
// step and says nothing after a few; so the growth is measured. Every rounding error of a step is equivalent to a
// disturbance of that step's INPUT, and backward of its GRAD|OUTPUT, at least as large as the errors can be:
//
//     INPUT        u (8 (1 + |INPUT| + |m|) + sqrt(D) |R_j| |h|)       f32 arithmetic on the pre-activation
//                  + 2 v |R_j| |h| + |R_j| e                           h and R rounded to dtype, h off by e
//     GRAD|OUTPUT  8 u |GRAD|OUTPUT| + (u sqrt(D) + 2 v) |R^k| |dg|    the same for R^T times the gradient dg of raw
//     states       4 u, relative, and those of their gradients
//
// with u the unit roundoff of the arithmetic (f32 or f64), v that of dtype where it has 16 bits and else 0, |R_j| the
// Euclidean norm of a row and |R^k| of a column over all gates, |h| and |dg| the largest modulus in the head: roundings
// are independent, so a row's errors add up in quadrature. The oracle runs four times on data so disturbed, each by a
// uniform factor in [-1, 1] (Monte Carlo arithmetic: Parker, "Monte Carlo arithmetic", UCLA 1997). The largest root
// mean square over a head's D elements of what changes, times 12, is what an implementation may be off there. To this
// comes, per element, what saturated gates hide from a disturbance of INPUT, and what no step before takes up:
//
//     e[t]         states that add up: e = 8 u |state| summed since the last reset, of c (and n) also through h
//     f[t]         dc likewise: 8 u sqrt(sum of max |GRAD|OUTPUT|^2 from here on) max(1, |states|)
//                  + u (8 + steps left) max |dg|
//     GRAD|STATE_IN  of h: 2 (u sqrt(D) + 2 v) |R^k| |dg| of the first step unless it resets, at most 2 recurrent_clip
//     sums         n products over batch and time in any order add 12 v |dg|_2 |h| and u (32 + 8 sqrt n) |dg|_1 |h|
//                  (Higham and Mary, SISC 2019, as for the linear recurrence), and the f of each in quadrature
//
// and half an ulp for the rounding to the output's dtype. u includes the oracle's own 2^-53.
#include <algorithm>
#include <cmath>

#include "support/rnn_check.h"

namespace support {
namespace {

constexpr int32_t grad = FLASHSCAN_GRAD;
constexpr int runs = 4;
constexpr double widening = 12;
double square(double x) { return x * x; }
double modulus(const Values& values, size_t i) { return std::abs(values[i].real()); }

class RnnBounds {
  public:
    RnnBounds(const RnnProblem& problem, const RnnData& data)
        : p_(problem),
          wide_(problem.widened()),
          data_(data),
          arithmetic_(unit_roundoff(state_dtype(p_.dtype)) + 0x1p-53),
          factors_(size_of(p_.dtype) == 2 ? unit_roundoff(p_.dtype) : 0) {
        wide_.state_out = true;
        exact_ = data;
        exact_.grad_output.resize(static_cast<size_t>(wide_.output_states() * p_.batch * p_.time * p_.width()));
        if (!p_.state_out)
            exact_.grad_state_out.resize(static_cast<size_t>(p_.states() * p_.state_rows() * p_.width()));
        base_ = run(exact_);
        norms();
        walk();
        for (int i = 0; i < runs; ++i) disturbed_.push_back(run(disturb(i)));
    }

    RnnReference reference() const {
        RnnReference all;
        for (const auto& [id, values] : base_.values) {
            Expected& expected = all[id];
            expected.value = values;
            if (id == FLASHSCAN_ARG_OUTPUT)
                expected.value.resize(static_cast<size_t>(p_.output_states() * p_.batch * p_.time * p_.width()));
            expected.tolerance = spread(id, expected.value.size());
            add_local(id, expected.tolerance);
            for (size_t i = 0; i < expected.value.size(); ++i)
                expected.tolerance[i] +=
                    0.5001 * ulp(dtype_of(id), std::abs(expected.value[i]) + expected.tolerance[i]);
        }
        return all;
    }

  private:
    int32_t dtype_of(int32_t id) const {
        const int32_t argument = id & ~grad;
        if (argument == FLASHSCAN_ARG_WEIGHT || argument == FLASHSCAN_ARG_BIAS) return p_.weight_dtype;
        return argument == FLASHSCAN_ARG_INPUT || argument == FLASHSCAN_ARG_OUTPUT ? p_.dtype : state_dtype(p_.dtype);
    }
    RnnOutcome run(const RnnData& data) const {
        RnnOutcome outcome = run_rnn(wide_, {FLASHSCAN_CPU, "reference"}, data, Guard::end, 1);
        require(outcome);
        return outcome;
    }

    // |R_j| of every gate's row; (u sqrt(D) + 2 v) |R^k| of every column.
    void norms() {
        const size_t D = static_cast<size_t>(p_.dim), W = static_cast<size_t>(p_.width());
        rows_.assign(static_cast<size_t>(p_.gates()) * W, 0);
        columns_.assign(W, 0);
        for (size_t row = 0; row < rows_.size(); ++row)
            for (size_t k = 0; k < D; ++k) {
                const double r = square(data_.weight[row * D + k].real());
                rows_[row] += r;
                columns_[row % W / D * D + k] += r;
            }
        for (double& x : rows_) x = std::sqrt(x);
        for (double& x : columns_) x = (arithmetic_ * std::sqrt(static_cast<double>(D)) + 2 * factors_) * std::sqrt(x);
    }

    // What one head of one sequence is like before and at each step, in the order of computation.
    struct Step {
        double h = 0, m = 0, state = 0;  // largest moduli of h and m before, of all states before and after
        double error = 0;                // e after the step
        bool reset = false;              // before the step
        double dg = 0, dh = 0;           // largest of GRAD|INPUT and of GRAD|OUTPUT
        double floor = 0;                // f
    };
    size_t step_index(int64_t b, int64_t t, int64_t h) const {
        return static_cast<size_t>((b * p_.time + t) * p_.heads + h);
    }
    // Of a head's elements from `first` on, in values that may not be given.
    double largest_of(const Values& values, size_t first) const {
        double most = 0;
        for (size_t i = first; i < std::min(first + static_cast<size_t>(p_.dim), values.size()); ++i)
            most = std::max(most, modulus(values, i));
        return most;
    }
    double largest_state(int64_t s, int64_t b, int64_t t, int64_t head) const {
        return largest_of(base_[FLASHSCAN_ARG_OUTPUT], wide_.output_index(s, b, t, head * p_.dim));
    }
    double largest_given(int64_t s, const Sequence& q, int64_t head, const Values& states) const {
        return largest_of(states, p_.state_index(s, q.state, head * p_.dim));
    }
    void walk() {
        steps_.resize(static_cast<size_t>(p_.batch * p_.time * p_.heads));
        ends_.resize(static_cast<size_t>(p_.state_rows() * p_.heads));
        for (const Sequence& q : sequences_of(p_.batch, p_.time, data_.offsets))
            for (int64_t head = 0; head < p_.heads; ++head) {
                walk_forward(q, head);
                walk_backward(q, head);
            }
    }
    void walk_forward(const Sequence& q, int64_t head) {
        double error = 0;
        for (int64_t i = 0; i < q.length(); ++i) {
            const int64_t t = q.step(p_.reverse, i);
            Step& step = steps_[step_index(q.batch, t, head)];
            step.reset = p_.reset && data_.reset[static_cast<size_t>(q.batch * p_.time + t)] != 0;
            if (step.reset) error = 0;
            for (int64_t s = 0; s < p_.states(); ++s) {
                const double before = step.reset ? 0
                                      : i > 0    ? largest_state(s, q.batch, q.step(p_.reverse, i - 1), head)
                                                 : largest_given(s, q, head, data_.state_in);
                const double after = largest_state(s, q.batch, t, head);
                if (s == 0) step.h = before;
                if (s == 3) step.m = std::max(before, after);
                step.state = std::max({step.state, before, after});
                error += 8 * arithmetic_ * after;
            }
            step.error = error;
        }
        ends_[static_cast<size_t>(q.state * p_.heads + head)].error = error;
    }
    void walk_backward(const Sequence& q, int64_t head) {
        Step& end = ends_[static_cast<size_t>(q.state * p_.heads + head)];
        double squares = 0, largest_dg = 0, largest = 1;
        for (int64_t s = 0; s < p_.states(); ++s) {
            squares += square(largest_given(s, q, head, exact_.grad_state_out));
            largest = std::max(largest, largest_given(s, q, head, data_.state_in));
        }
        const auto floor = [&](int64_t left) {
            return arithmetic_ * (8 * std::sqrt(squares) * largest + static_cast<double>(8 + left) * largest_dg);
        };
        for (int64_t i = q.length() - 1; i >= 0; --i) {
            const int64_t t = q.step(p_.reverse, i);
            Step& step = steps_[step_index(q.batch, t, head)];
            const Values& gradient = base_[grad | FLASHSCAN_ARG_INPUT];
            const int64_t w = head * p_.dim;
            for (int64_t g = 0; g < p_.gates(); ++g)
                step.dg = std::max(step.dg, largest_of(gradient, p_.input_index(q.batch, t, g, w)));
            for (int64_t s = 0; s < p_.states(); ++s)
                step.dh = std::max(step.dh, largest_of(exact_.grad_output, wide_.output_index(s, q.batch, t, w)));
            squares += square(step.dh);
            largest = std::max(largest, step.state);
            largest_dg = std::max(largest_dg, step.dg);
            step.floor = floor(q.length() - i);
            end.dg = step.reset ? 0 : step.dg;
        }
        end.floor = floor(q.length());
    }

    RnnData disturb(int run) const {
        RnnData data = exact_;
        const uint64_t stream = 1000 + 10 * static_cast<uint64_t>(run);
        const auto noise = [&](uint64_t which, size_t i) { return 2 * uniform(p_.seed, stream + which, i) - 1; };
        const double root = std::sqrt(static_cast<double>(p_.dim));
        for (const Sequence& q : sequences_of(p_.batch, p_.time, data_.offsets))
            for (int64_t i = 0; i < q.length(); ++i)
                for (int64_t w = 0; w < p_.width(); ++w) {
                    const int64_t t = q.step(p_.reverse, i), head = w / p_.dim;
                    const Step& step = steps_[step_index(q.batch, t, head)];
                    const double e = i > 0 ? steps_[step_index(q.batch, q.step(p_.reverse, i - 1), head)].error : 0;
                    for (int64_t g = 0; g < p_.gates(); ++g) {
                        const size_t at = p_.input_index(q.batch, t, g, w);
                        const double row = rows_[static_cast<size_t>(g * p_.width() + w)];
                        const double size =
                            arithmetic_ * (8 * (1 + modulus(data.input, at) + step.m) + root * row * step.h) +
                            2 * factors_ * row * step.h + row * e;
                        data.input[at] += noise(0, at) * size;
                    }
                    const double later =
                        i + 1 < q.length() ? steps_[step_index(q.batch, q.step(p_.reverse, i + 1), head)].dg : 0;
                    const size_t at = wide_.output_index(0, q.batch, t, w);
                    data.grad_output[at] += noise(1, at) * (8 * arithmetic_ * modulus(data.grad_output, at) +
                                                            columns_[static_cast<size_t>(w)] * later);
                }
        for (size_t i = 0; i < data.state_in.size(); ++i) data.state_in[i] *= 1 + 4 * arithmetic_ * noise(2, i);
        for (size_t i = 0; i < data.grad_state_out.size(); ++i)
            data.grad_state_out[i] *= 1 + 4 * arithmetic_ * noise(3, i);
        return data;
    }

    // 12 times the largest root mean square of the changes over a head's elements, which lie together everywhere.
    std::vector<double> spread(int32_t id, size_t count) const {
        std::vector<double> tolerance(count);
        const size_t D = static_cast<size_t>(p_.dim);
        for (size_t start = 0; start < count; start += D) {
            double most = 0;
            for (const RnnOutcome& disturbed : disturbed_) {
                double sum = 0;
                for (size_t i = start; i < start + D; ++i) {
                    const double change = std::abs(disturbed[id][i] - base_[id][i]);
                    if (std::isfinite(change)) sum += square(change);
                }
                most = std::max(most, std::sqrt(sum / static_cast<double>(D)));
            }
            std::fill_n(tolerance.begin() + static_cast<std::ptrdiff_t>(start), D, widening * most);
        }
        return tolerance;
    }
    double through(int64_t w, double dg) const {
        const double error = columns_[static_cast<size_t>(w)] * dg;
        return p_.clip > 0 ? std::min(error, p_.clip) : error;
    }
    void add_local(int32_t id, std::vector<double>& tolerance) const {
        if (id == (grad | FLASHSCAN_ARG_WEIGHT) || id == (grad | FLASHSCAN_ARG_BIAS)) return add_sums(id, tolerance);
        for (int64_t w = 0; w < p_.width(); ++w) {
            const int64_t head = w / p_.dim;
            for (int64_t row = 0; row < p_.state_rows(); ++row)
                for (int64_t s = 0; s < p_.states(); ++s) {
                    const Step& end = ends_[static_cast<size_t>(row * p_.heads + head)];
                    if (id == FLASHSCAN_ARG_STATE_OUT) tolerance[p_.state_index(s, row, w)] += end.error;
                    if (id == (grad | FLASHSCAN_ARG_STATE_IN))
                        tolerance[p_.state_index(s, row, w)] += end.floor + (s == 0 ? 2 * through(w, end.dg) : 0);
                }
            for (int64_t b = 0; b < p_.batch; ++b)
                for (int64_t t = 0; t < p_.time; ++t) {
                    const Step& step = steps_[step_index(b, t, head)];
                    for (int64_t s = 0; id == FLASHSCAN_ARG_OUTPUT && s < p_.output_states(); ++s)
                        tolerance[p_.output_index(s, b, t, w)] += step.error;
                    for (int64_t g = 0; id == (grad | FLASHSCAN_ARG_INPUT) && g < p_.gates(); ++g)
                        tolerance[p_.input_index(b, t, g, w)] += step.floor;
                }
        }
    }

    // GRAD|WEIGHT's rows and GRAD|BIAS's elements are sums of dg h and dg over batch and time.
    void add_sums(int32_t id, std::vector<double>& tolerance) const {
        const bool bias = id == (grad | FLASHSCAN_ARG_BIAS);
        const size_t D = static_cast<size_t>(p_.dim);
        const double n = static_cast<double>(p_.batch * p_.time);
        for (int64_t j = 0; j < (bias ? p_.biases() : p_.gates()); ++j)
            for (int64_t w = 0; w < p_.width(); ++w) {
                double ones = 0, squares = 0, floors = 0, h = 0;
                for (int64_t b = 0; b < p_.batch; ++b)
                    for (int64_t t = 0; t < p_.time; ++t) {
                        // GRU's fourth bias takes r times the gradient of the third.
                        const size_t at = p_.input_index(b, t, std::min(j, p_.gates() - 1), w);
                        const double dg = modulus(base_[grad | FLASHSCAN_ARG_INPUT], at);
                        const Step& step = steps_[step_index(b, t, w / p_.dim)];
                        if (!std::isfinite(dg)) continue;
                        ones += dg;
                        squares += dg * dg;
                        floors += square(step.floor);
                        h = std::max(h, step.h);
                    }
                const double error = 12 * factors_ * std::sqrt(squares) + arithmetic_ * (32 + 8 * std::sqrt(n)) * ones +
                                     4 * std::sqrt(floors);
                const auto row = static_cast<size_t>(j * p_.width() + w);
                if (bias) tolerance[row] += error;
                for (size_t k = 0; !bias && k < D; ++k) tolerance[row * D + k] += error * h;
            }
    }

    const RnnProblem& p_;
    RnnProblem wide_;
    const RnnData& data_;
    double arithmetic_, factors_;
    RnnData exact_;
    RnnOutcome base_;
    std::vector<double> rows_, columns_;
    std::vector<Step> steps_, ends_;  // ends_: e, f and, unless it resets, the first step's dg
    std::vector<RnnOutcome> disturbed_;
};

}  // namespace

RnnReference reference_of(const RnnProblem& problem, const RnnData& data) {
    return RnnBounds(problem, data).reference();
}

}  // namespace support
