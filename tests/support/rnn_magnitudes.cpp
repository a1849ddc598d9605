// SPDX-License-Identifier: Apache-2.0
#include "support/rnn_magnitudes.h"

#include <algorithm>
#include <cmath>

namespace support {

double square(double x) { return x * x; }
double modulus(const Values& values, size_t i) { return std::abs(values[i].real()); }

RnnMagnitudes::RnnMagnitudes(const RnnProblem& problem, const RnnData& data, const RnnOutcome& outcome, double u,
                             double v)
    : p_(problem), wide_(problem.widened()), data_(data), base_(outcome), u_(u) {
    norms(v);
    steps_.resize(static_cast<size_t>(p_.batch * p_.time * p_.heads));
    ends_.resize(static_cast<size_t>(p_.state_rows() * p_.heads));
    for (const Sequence& q : sequences_of(p_.batch, p_.time, data_.offsets))
        for (int64_t head = 0; head < p_.heads; ++head) {
            walk_forward(q, head);
            walk_backward(q, head);
        }
}

void RnnMagnitudes::norms(double v) {
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
    for (double& x : columns_) x = (u_ * std::sqrt(static_cast<double>(D)) + 2 * v) * std::sqrt(x);
}

// The largest magnitude of a head's elements from `first` on; 0 where the values are not given.
double RnnMagnitudes::largest_of(const Values& values, size_t first) const {
    double most = 0;
    for (size_t i = first; i < std::min(first + static_cast<size_t>(p_.dim), values.size()); ++i)
        most = std::max(most, modulus(values, i));
    return most;
}

double RnnMagnitudes::largest_state(int64_t s, int64_t b, int64_t t, int64_t head) const {
    return largest_of(base_[FLASHSCAN_ARG_OUTPUT], wide_.output_index(s, b, t, head * p_.dim));
}

double RnnMagnitudes::largest_given(int64_t s, const Sequence& q, int64_t head, const Values& states) const {
    return largest_of(states, p_.state_index(s, q.state, head * p_.dim));
}

void RnnMagnitudes::walk_forward(const Sequence& q, int64_t head) {
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
            error += 8 * u_ * after;
        }
        step.error = error;
    }
    ends_[static_cast<size_t>(q.state * p_.heads + head)].error = error;
}

void RnnMagnitudes::walk_backward(const Sequence& q, int64_t head) {
    Step& end = ends_[static_cast<size_t>(q.state * p_.heads + head)];
    double squares = 0, largest_dg = 0, largest = 1;
    for (int64_t s = 0; s < p_.states(); ++s) {
        squares += square(largest_given(s, q, head, data_.grad_state_out));
        largest = std::max(largest, largest_given(s, q, head, data_.state_in));
    }
    const auto floor = [&](int64_t left) {
        return u_ * (8 * std::sqrt(squares) * largest + static_cast<double>(8 + left) * largest_dg);
    };
    for (int64_t i = q.length() - 1; i >= 0; --i) {
        const int64_t t = q.step(p_.reverse, i);
        Step& step = steps_[step_index(q.batch, t, head)];
        const Values& gradient = base_[FLASHSCAN_GRAD | FLASHSCAN_ARG_INPUT];
        const int64_t w = head * p_.dim;
        for (int64_t g = 0; g < p_.gates(); ++g)
            step.dg = std::max(step.dg, largest_of(gradient, p_.input_index(q.batch, t, g, w)));
        for (int64_t s = 0; s < p_.states(); ++s)
            step.dh = std::max(step.dh, largest_of(data_.grad_output, wide_.output_index(s, q.batch, t, w)));
        squares += square(step.dh);
        largest = std::max(largest, step.state);
        largest_dg = std::max(largest_dg, step.dg);
        step.floor = floor(q.length() - i);
        end.dg = step.reset ? 0 : step.dg;
    }
    end.floor = floor(q.length());
}

}  // namespace support
