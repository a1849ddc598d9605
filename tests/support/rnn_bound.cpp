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
// with u the unit roundoff of the arithmetic (f32 or f64), v that of the factors of products (of dtype where it has 16
// bits, 2^-10 where f32 may be cut off to tf32, else 0), |R_j| the Euclidean norm of a row and |R^k| of a column over
// all gates, |h| and |dg| the largest modulus in the head: roundings are independent, so a row's errors add up in
// quadrature. The oracle runs four times on data so disturbed, each by a uniform factor in [-1, 1] (Monte Carlo
// arithmetic: Parker, "Monte Carlo arithmetic", UCLA 1997). The largest root mean square over a head's D elements of
// what changes, times 12, is what an implementation may be off there. To this
// comes, per element, what saturated gates hide from a disturbance of INPUT, and what no step before takes up:
//
//     r[t]         where ReLU holds the oracle at 0, how far above 0 the step's disturbance reaches; few of the runs do
//     e[t]         states that add up: e = 8 u |state| summed since the last reset, of c (and n) also through h
//     f[t]         dc likewise: 8 u sqrt(sum of max |GRAD|OUTPUT|^2 from here on) max(1, |states|)
//                  + u (8 + steps left) max |dg|
//     GRAD|STATE_IN  of h: 2 (u sqrt(D) + 2 v) |R^k| |dg| of the first step unless it resets, at most 2 recurrent_clip
//     GRAD|INPUT   of GRU's r, dg_n (R_n h + BIAS_rn) r (1 - r): 2 / 4 |dg| times the error of R_n h, as 1 / 4 is the
//                  sigmoid's largest slope
//     GRAD|INPUT   of the gate that resets before the product, whose gradient comes through R_n^T of the same step:
//                  2 / 4 |h| (u sqrt(D) + 2 v) |R^k| |dg|
//     sums         n products over batch and time in any order add 12 v |dg|_2 |h| and u (32 + 8 sqrt n) |dg|_1 |h|
//                  (Higham and Mary, SISC 2019, as for the linear recurrence), and the f of each in quadrature; factors
//                  that are cut off make all terms smaller, and the sum with them: 2 v of it
//
// and half an ulp for the rounding to the output's dtype. u includes the oracle's own 2^-53. A gate below the normal
// numbers may be 0, as on a GPU, whatever it is multiplied by: 2^-110 comes to everything, in f64 2^-1010. So may a
// factor in tf32.
//
// Where a derivative jumps, at ReLU's 0 and where sLSTM's max decide, an error of any size changes gradients by what
// they are. Elements whose raw is so near such a kink that its error (the step's disturbance and the root mean square
// of what changes there) reaches it may be on either side: the oracle runs on data that takes all of them to one
// (rnn_kinks.h). Twice what then changes is allowed where it changes, four times its mean over the head everywhere in
// the head, since other choices of sides add up otherwise, and to a sum the terms' changes in quadrature.
#include <algorithm>
#include <cmath>
#include <optional>

#include "support/rnn_check.h"
#include "support/rnn_kinks.h"
#include "support/rnn_magnitudes.h"

namespace support {
namespace {

constexpr int32_t grad = FLASHSCAN_GRAD;
constexpr int runs = 4;
constexpr double widening = 12, certainty = 2, mixing = 4;

// The most that a factor of a product may be off, relatively.
double factor_roundoff(const RnnProblem& p) {
    if (p.takes_tf32()) return 0x1p-10;
    return size_of(p.dtype) == 2 ? unit_roundoff(p.dtype) : 0;
}

class RnnBounds {
  public:
    RnnBounds(const RnnProblem& problem, const RnnData& data, const RnnOracle& oracle)
        : p_(problem),
          wide_(problem.widened()),
          data_(data),
          oracle_(oracle),
          arithmetic_(unit_roundoff(state_dtype(p_.dtype)) + 0x1p-53),
          factors_(factor_roundoff(p_)),
          least_(p_.dtype == FLASHSCAN_DTYPE_F64 ? 0x1p-1010 : 0x1p-110) {
        wide_.state_out = true;
        exact_ = data;
        exact_.grad_output.resize(static_cast<size_t>(wide_.output_states() * p_.batch * p_.time * p_.width()));
        if (!p_.state_out)
            exact_.grad_state_out.resize(static_cast<size_t>(p_.states() * p_.state_rows() * p_.width()));
        base_ = run(exact_);
        sizes_.emplace(p_, exact_, base_, arithmetic_, factors_);
        for (int i = 0; i < runs; ++i) disturbed_.push_back(run(disturb(i)));
        turn_at_kinks();
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
                    0.5001 * ulp(dtype_of(id), modulus(expected.value[i]) + expected.tolerance[i]) + least_;
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
        RnnOutcome outcome;
        outcome.values = oracle_(wide_, data);
        return outcome;
    }

    // The error of R h by f32 arithmetic and rounded factors.
    double product_error(const RnnMagnitudes::Step& step, int64_t gate, int64_t w) const {
        const double root = std::sqrt(static_cast<double>(p_.dim));
        return (arithmetic_ * root + 2 * factors_) * sizes_->row(gate, w) * step.h;
    }
    // The most that INPUT of the i-th step is disturbed.
    double disturbance(const Sequence& q, int64_t i, int64_t gate, int64_t w) const {
        const int64_t t = q.step(p_.reverse, i), head = w / p_.dim;
        const RnnMagnitudes::Step& step = sizes_->step(q.batch, t, head);
        const double e = i > 0 ? sizes_->step(q.batch, q.step(p_.reverse, i - 1), head).error : 0;
        const double input = modulus(data_.input, p_.input_index(q.batch, t, gate, w));
        return arithmetic_ * 8 * (1 + input + step.m) + product_error(step, gate, w) + sizes_->row(gate, w) * e;
    }

    void turn_at_kinks() {
        const bool slstm = p_.cell == FLASHSCAN_CELL_SLSTM;
        const std::vector<double> off = spread(FLASHSCAN_ARG_OUTPUT, base_[FLASHSCAN_ARG_OUTPUT].size());
        kinks_.emplace(p_, exact_, base_, [&](const Sequence& q, int64_t i, int64_t w) {
            const int64_t t = q.step(p_.reverse, i);
            return std::max(disturbance(q, i, 0, w), slstm ? disturbance(q, i, 1, w) : 0) +
                   off[wide_.output_index(slstm ? 3 : 0, q.batch, t, w)] / widening +
                   sizes_->step(q.batch, t, w / p_.dim).error;
        });
        for (int choice = 0; choice < kinks_->choices(); ++choice) turned_.push_back(run(kinks_->pushed(choice)));
    }

    RnnData disturb(int run) const {
        RnnData data = exact_;
        const uint64_t stream = 1000 + 10 * static_cast<uint64_t>(run);
        const auto noise = [&](uint64_t which, size_t i) { return 2 * uniform(p_.seed, stream + which, i) - 1; };
        for (const Sequence& q : sequences_of(p_.batch, p_.time, data_.offsets))
            for (int64_t i = 0; i < q.length(); ++i)
                for (int64_t w = 0; w < p_.width(); ++w) {
                    const int64_t t = q.step(p_.reverse, i), head = w / p_.dim;
                    for (int64_t g = 0; g < p_.gates(); ++g) {
                        const size_t at = p_.input_index(q.batch, t, g, w);
                        data.input[at] += noise(0, at) * disturbance(q, i, g, w);
                    }
                    const double later =
                        i + 1 < q.length() ? sizes_->step(q.batch, q.step(p_.reverse, i + 1), head).dg : 0;
                    const size_t at = wide_.output_index(0, q.batch, t, w);
                    data.grad_output[at] +=
                        noise(1, at) * (8 * arithmetic_ * modulus(data.grad_output, at) + sizes_->column(w) * later);
                }
        for (size_t i = 0; i < data.state_in.size(); ++i) data.state_in[i] *= 1 + 4 * arithmetic_ * noise(2, i);
        for (size_t i = 0; i < data.grad_state_out.size(); ++i)
            data.grad_state_out[i] *= 1 + 4 * arithmetic_ * noise(3, i);
        return data;
    }

    double change(const RnnOutcome& outcome, int32_t id, size_t i) const {
        const double change = modulus(outcome[id][i] - base_[id][i]);
        return std::isfinite(change) ? change : 0;
    }
    // The largest change of each element when it and others change sides at kinks.
    std::vector<double> jumps(int32_t id, size_t count) const {
        std::vector<double> jump(count);
        for (const RnnOutcome& turned : turned_)
            for (size_t i = 0; i < count; ++i) jump[i] = std::max(jump[i], change(turned, id, i));
        return jump;
    }
    // By a head's elements, which lie together everywhere.
    std::vector<double> spread(int32_t id, size_t count) const {
        std::vector<double> tolerance = (id & grad) != 0 ? jumps(id, count) : std::vector<double>(count);
        const size_t D = static_cast<size_t>(p_.dim);
        for (size_t start = 0; start < count; start += D) {
            double most = 0, mixed = 0;
            for (const RnnOutcome& disturbed : disturbed_) {
                double sum = 0, peak = 0;  // squares of small changes would underflow
                const auto left = [&](size_t i) { return std::max(0.0, change(disturbed, id, i) - tolerance[i]); };
                for (size_t i = start; i < start + D; ++i) peak = std::max(peak, left(i));
                for (size_t i = start; peak > 0 && i < start + D; ++i) sum += square(left(i) / peak);
                most = std::max(most, peak * std::sqrt(sum / static_cast<double>(D)));
            }
            for (size_t i = start; i < start + D; ++i) mixed += tolerance[i] / static_cast<double>(D);
            for (size_t i = start; i < start + D; ++i)
                tolerance[i] = widening * most + certainty * tolerance[i] + mixing * mixed;
        }
        return tolerance;
    }
    double through(int64_t w, double dg) const {
        const double error = sizes_->column(w) * dg;
        return p_.clip > 0 ? std::min(error, p_.clip) : error;
    }
    double floor_of(const RnnMagnitudes::Step& step, int64_t gate, int64_t w) const {
        if (gate > 0) return step.floor;
        if (p_.cell == FLASHSCAN_CELL_GRU)
            return step.floor +
                   step.dg / 2 * (8 * arithmetic_ + product_error(step, 2, w) + sizes_->row(2, w) * step.error);
        const bool behind_product = cell_row(p_.cell).resets_before;
        return step.floor + (behind_product ? step.h / 2 * sizes_->column(w) * step.dg : 0);
    }
    void add_local(int32_t id, std::vector<double>& tolerance) const {
        if (id == (grad | FLASHSCAN_ARG_WEIGHT) || id == (grad | FLASHSCAN_ARG_BIAS)) return add_sums(id, tolerance);
        for (int64_t w = 0; w < p_.width(); ++w) {
            const int64_t head = w / p_.dim;
            for (int64_t row = 0; row < p_.state_rows(); ++row)
                for (int64_t s = 0; s < p_.states(); ++s) {
                    const RnnMagnitudes::Step& end = sizes_->end(row, head);
                    if (id == FLASHSCAN_ARG_STATE_OUT) tolerance[p_.state_index(s, row, w)] += end.error;
                    if (id == (grad | FLASHSCAN_ARG_STATE_IN))
                        tolerance[p_.state_index(s, row, w)] += end.floor + (s == 0 ? 2 * through(w, end.dg) : 0);
                }
            for (const Sequence& q : sequences_of(p_.batch, p_.time, data_.offsets))
                if (id == FLASHSCAN_ARG_STATE_OUT && q.length() > 0)
                    tolerance[p_.state_index(0, q.state, w)] +=
                        kinks_->reach(q.batch, q.step(p_.reverse, q.length() - 1), w);
            for (int64_t b = 0; b < p_.batch; ++b)
                for (int64_t t = 0; t < p_.time; ++t) {
                    const RnnMagnitudes::Step& step = sizes_->step(b, t, head);
                    for (int64_t s = 0; id == FLASHSCAN_ARG_OUTPUT && s < p_.output_states(); ++s)
                        tolerance[p_.output_index(s, b, t, w)] += step.error + kinks_->reach(b, t, w);
                    for (int64_t g = 0; id == (grad | FLASHSCAN_ARG_INPUT) && g < p_.gates(); ++g)
                        tolerance[p_.input_index(b, t, g, w)] += floor_of(step, g, w);
                }
        }
    }

    // GRAD|WEIGHT's rows and GRAD|BIAS's elements are sums of dg h and dg over batch and time.
    void add_sums(int32_t id, std::vector<double>& tolerance) const {
        const bool bias = id == (grad | FLASHSCAN_ARG_BIAS);
        const size_t D = static_cast<size_t>(p_.dim);
        const double n = static_cast<double>(p_.batch * p_.time), cut = p_.takes_tf32() ? 2 * factors_ : 0;
        const std::vector<double> jump = jumps(grad | FLASHSCAN_ARG_INPUT, base_[grad | FLASHSCAN_ARG_INPUT].size());
        for (int64_t j = 0; j < (bias ? p_.biases() : p_.gates()); ++j)
            for (int64_t w = 0; w < p_.width(); ++w) {
                double ones = 0, squares = 0, floors = 0, turns = 0, h = 0;
                for (int64_t b = 0; b < p_.batch; ++b)
                    for (int64_t t = 0; t < p_.time; ++t) {
                        // GRU's fourth bias takes r times the gradient of the third.
                        const size_t at = p_.input_index(b, t, std::min(j, p_.gates() - 1), w);
                        const double dg = modulus(base_[grad | FLASHSCAN_ARG_INPUT], at);
                        const RnnMagnitudes::Step& step = sizes_->step(b, t, w / p_.dim);
                        if (!std::isfinite(dg)) continue;
                        ones += dg;
                        squares += dg * dg;
                        floors += square(floor_of(step, j, w));
                        if (!turned_.empty()) turns += square(jump[at]);
                        h = std::max(h, step.h);
                    }
                const double error = 12 * factors_ * std::sqrt(squares) + arithmetic_ * additions_of(n) * ones +
                                     4 * std::sqrt(floors) + std::sqrt(turns);
                const auto row = static_cast<size_t>(j * p_.width() + w);
                if (bias) tolerance[row] += error;
                for (size_t k = 0; !bias && k < D; ++k)
                    tolerance[row * D + k] += error * h + cut * modulus(base_[id], row * D + k);
            }
    }

    const RnnProblem& p_;
    RnnProblem wide_;
    const RnnData& data_;
    const RnnOracle& oracle_;
    double arithmetic_, factors_, least_;
    RnnData exact_;
    RnnOutcome base_;
    std::optional<RnnMagnitudes> sizes_;
    std::vector<RnnOutcome> disturbed_, turned_;
    std::optional<RnnKinks> kinks_;
};

}  // namespace

std::map<int32_t, Values> rnn_reference(const RnnProblem& problem, const RnnData& data) {
    RnnOutcome outcome = run_rnn(problem, {FLASHSCAN_BACKEND_CPU, "reference"}, data, Guard::end, 1);
    require(outcome);
    return outcome.values;
}

RnnReference reference_of(const RnnProblem& problem, const RnnData& data, const RnnOracle& oracle) {
    return RnnBounds(problem, data, oracle).reference();
}

}  // namespace support
