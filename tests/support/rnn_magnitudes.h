// SPDX-License-Identifier: Apache-2.0
// The magnitudes of the numbers that enter a recurrent network's steps, from a run of the oracle: rounding errors are
// proportional to them (rnn_bound.cpp, whose letters are used here).
#pragma once

#include "support/rnn_call.h"

namespace support {

double square(double x);
double modulus(const Values& values, size_t i);

class RnnMagnitudes {
  public:
    // One head of one sequence before and at a step, in the order of computation.
    struct Step {
        double h = 0, m = 0, state = 0;  // largest moduli of h and m before, of all states before and after
        double error = 0;                // e after the step
        bool reset = false;              // before the step
        double dg = 0, dh = 0;           // largest of GRAD|INPUT and of GRAD|OUTPUT
        double floor = 0;                // f
    };

    // `outcome` is what the oracle gave for problem.widened() on `data`; u and v are the unit roundoffs of the
    // arithmetic and of the factors of products.
    RnnMagnitudes(const RnnProblem& problem, const RnnData& data, const RnnOutcome& outcome, double u, double v);

    const Step& step(int64_t b, int64_t t, int64_t head) const { return steps_[step_index(b, t, head)]; }
    // After the last step: e, f and, unless it resets, the first step's dg.
    const Step& end(int64_t row, int64_t head) const { return ends_[static_cast<size_t>(row * p_.heads + head)]; }
    double row(int64_t gate, int64_t w) const { return rows_[static_cast<size_t>(gate * p_.width() + w)]; }  // |R_j|
    double column(int64_t w) const { return columns_[static_cast<size_t>(w)]; }  // (u sqrt(D) + 2 v) |R^k|

  private:
    size_t step_index(int64_t b, int64_t t, int64_t head) const {
        return static_cast<size_t>((b * p_.time + t) * p_.heads + head);
    }
    double largest_of(const Values& values, size_t first) const;
    double largest_state(int64_t s, int64_t b, int64_t t, int64_t head) const;
    double largest_given(int64_t s, const Sequence& q, int64_t head, const Values& states) const;
    void norms(double v);
    void walk_forward(const Sequence& q, int64_t head);
    void walk_backward(const Sequence& q, int64_t head);

    const RnnProblem& p_;
    RnnProblem wide_;
    const RnnData& data_;
    const RnnOutcome& base_;
    double u_;
    std::vector<double> rows_, columns_;
    std::vector<Step> steps_, ends_;
};

}  // namespace support
