// SPDX-License-Identifier: Apache-2.0
//
// The error bound. Let u be the unit roundoff of the arithmetic (f32 for 16-bit and f32 data, else that of dtype).
//
// h[t] is a sum of terms P(s, t) x[s], P(s, t) = a[s+1] ... a[t], with STATE_IN as the term before the first step. A
// kernel may combine steps in any association, (a2, x2) o (a1, x1) = (a2 a1, a2 x1 + x2). Whatever the association, the
// term of x[s] is multiplied by each of its t - s gates once, m roundings each (1 real, 3 complex: the componentwise
// error of a complex product is at most 2 sqrt(2) u of the moduli), each gate itself has relative error k[t] u from its
// gate form, and the term takes part in additions: one for each later step, as in the sequential order, and some more
// where a tree adds it to earlier terms, at most D = 16 + 2 log2 T. To first order the error of h[t] is therefore at
// most u (K[t] + D M[t]) where
//
//     M[t] = |a[t]| M[t-1] + |x[t]|                                  the sum of the terms' moduli
//     K[t] = |a[t]| (K[t-1] + (m + k[t]) M[t-1]) + M[t]              their roundings, the addition last
//
// which follows the conditioning: old terms count by what is left of them. It is widened by 5 % for the higher orders.
// The result is then rounded once to its dtype, half an ulp. The oracle makes the same kind of error with u = 2^-53,
// which is added to u. A step left out, a wrong initial state or states kept in 16 bits differ by far more
// (tests/numeric/linear/bound.cpp shows it).
//
// Below the normal numbers a rounding is no longer relative to what is rounded: it loses up to half of v, the least
// number above 0, and as much again in the oracle where that has the same type. Sums are exact there. The loop that
// takes step after step in the arithmetic's type loses
//
//     U[t] = |a[t]| U[t-1] + m v + f |M[t-1]|
//
// where f is what the gate itself may lose: 0 of a gate by value, v of exp in f64, and in f32 the least normal number,
// below which a GPU's exp is 0. A tree loses D m v more. Gates above 1 may make large what was lost.
//
// Backward is the same recurrence over g. GRAD|GATE[t] is g (h[t-1] da/dg), in this order: by value, where da/dg is 1,
// it loses m v; else the product in the brackets loses as much, and f |h[t-1]|, and both are multiplied by g. Summed
// over n elements it may add roundings of (32 + 8 sqrt n) u of the sum of moduli: n roundings of random sign stay below
// 8 sqrt(n) u but for a chance of e^-32 (Higham and Mary, "A new approach to probabilistic rounding error analysis",
// SISC 2019), while sums of sums make fewer.
#include "support/bound.h"

#include <algorithm>
#include <cmath>

namespace support {
namespace {

bool finite(Value value) { return std::isfinite(value.real()) && std::isfinite(value.imag()); }

bool is_narrow(const Problem& p) {
    return state_dtype(p.dtype) == FLASHSCAN_DTYPE_F32 || p.dtype == FLASHSCAN_DTYPE_C64;
}

// u, m, D, and of what underflows m v and f.
struct Arithmetic {
    explicit Arithmetic(const Problem& p)
        : roundoff(unit_roundoff(state_dtype(p.dtype)) + 0x1p-53),
          product(is_complex(p.dtype) ? 3 : 1),
          depth(depth_of(p.time)),
          loss(product * (is_narrow(p) ? 0x1p-149 : 0x1p-1074)),
          gate_loss(p.form == FLASHSCAN_GATE_VALUE ? 0
                    : is_narrow(p)                 ? 0x1p-126
                                                   : 0x1p-1074) {}
    double roundoff, product, depth, loss, gate_loss;
};

// M, K and U of the comment above, for one row.
struct Terms {
    double sum = 0, roundings = 0, underflow = 0;

    void add(double x) {
        sum += x;
        roundings += sum;
    }
    void multiply(const Arithmetic& arithmetic, const Gate& gate) {
        const double a = modulus(gate.value);
        roundings = a * (roundings + (arithmetic.product + gate.value_error) * sum);
        underflow = a * underflow + arithmetic.loss + arithmetic.gate_loss * sum;
        sum *= a;
    }
    double error(const Arithmetic& arithmetic) const {
        return 1.05 * arithmetic.roundoff * (roundings + arithmetic.depth * sum) + underflow +
               arithmetic.depth * arithmetic.loss;
    }
};

class Bounds {
  public:
    Bounds(const Problem& problem, const Data& data) : p_(problem), data_(data), arithmetic_(problem) {}

    void forward(Reference& reference) const {
        for (Expected* e : {&reference.output, &reference.state_out}) e->tolerance.resize(e->value.size());
        for (const Sequence& s : sequences_of(p_, data_))
            for (int64_t c = 0; c < p_.channels; ++c) forward_row(reference, s, c);
    }

    void backward(Reference& reference) const {
        for (Expected* e : {&reference.grad_input, &reference.grad_gate, &reference.grad_state_in})
            e->tolerance.resize(e->value.size());
        std::vector<Terms> sums(reference.grad_gate.value.size());
        std::vector<double> counts(sums.size());
        for (const Sequence& s : sequences_of(p_, data_))
            for (int64_t c = 0; c < p_.channels; ++c) backward_row(reference, s, c, sums, counts);
        for (size_t i = 0; i < sums.size(); ++i) {
            const double additions = p_.broadcast == 0 ? 0 : additions_of(counts[i]);
            const double error = 1.05 * (sums[i].roundings + additions * arithmetic_.roundoff * sums[i].sum);
            allow(reference.grad_gate, i, p_.gate_dtype, error + sums[i].underflow);
        }
    }

  private:
    // Allows `error` and half an ulp of the stored dtype wherever a value so far off may lie.
    static void allow(Expected& expected, size_t place, int32_t dtype, double error) {
        if (expected.value.empty()) return;
        expected.tolerance[place] = error + 0.5001 * ulp(dtype, modulus(expected.value[place]) + error);
    }
    bool resets(const Sequence& s, int64_t t) const {
        return p_.reset && data_.reset[static_cast<size_t>(s.batch * p_.time + t)] != 0;
    }
    Gate gate(const Sequence& s, int64_t t, int64_t c) const {
        return gate_of(p_.form, data_.gate[p_.gate_index(s.batch, t, c)]);
    }

    void forward_row(Reference& reference, const Sequence& s, int64_t c) const {
        const auto state = static_cast<size_t>(s.state * p_.channels + c);
        Terms terms;
        if (p_.state_in) terms.sum = modulus(data_.state_in[state]);
        for (int64_t i = 0; i < s.length(); ++i) {
            const int64_t t = s.step(p_, i);
            const size_t place = p_.index(s.batch, t, c);
            if (resets(s, t))
                terms = {};
            else
                terms.multiply(arithmetic_, gate(s, t, c));
            terms.add(modulus(data_.input[place]));
            allow(reference.output, place, p_.dtype, terms.error(arithmetic_));
        }
        allow(reference.state_out, state, state_dtype(p_.dtype), terms.error(arithmetic_));
    }

    void backward_row(Reference& reference, const Sequence& s, int64_t c, std::vector<Terms>& sums,
                      std::vector<double>& counts) const {
        const auto state = static_cast<size_t>(s.state * p_.channels + c);
        Terms terms;
        if (p_.state_out) terms.sum = modulus(data_.grad_state_out[state]);
        for (int64_t i = s.length() - 1; i >= 0; --i) {
            const int64_t t = s.step(p_, i);
            const size_t place = p_.index(s.batch, t, c);
            const Gate a = gate(s, t, c);
            terms.add(modulus(data_.grad_output[place]));
            allow(reference.grad_input, place, p_.dtype, terms.error(arithmetic_));
            if (resets(s, t)) {
                terms = {};
                continue;
            }
            if (!sums.empty()) add_to_gate(s, i, c, a, terms, sums, counts);
            terms.multiply(arithmetic_, a);
        }
        allow(reference.grad_state_in, state, state_dtype(p_.dtype), terms.error(arithmetic_));
    }

    // The part that step i has in GRAD|GATE, whose g is bounded by `terms`.
    void add_to_gate(const Sequence& s, int64_t i, int64_t c, const Gate& a, const Terms& terms,
                     std::vector<Terms>& sums, std::vector<double>& counts) const {
        const int64_t t = s.step(p_, i);
        double previous = 0;
        if (i > 0)
            previous = modulus(data_.output[p_.index(s.batch, s.step(p_, i - 1), c)]);
        else if (p_.state_in)
            previous = modulus(data_.state_in[static_cast<size_t>(s.state * p_.channels + c)]);
        const double factor = previous * modulus(a.derivative);
        const double products = 2 * arithmetic_.product + a.derivative_error;
        const size_t where = p_.gate_index(s.batch, t, c);
        sums[where].sum += factor * terms.sum;
        sums[where].roundings += factor * (terms.error(arithmetic_) + arithmetic_.roundoff * products * terms.sum);
        sums[where].underflow += arithmetic_.loss;
        if (p_.form != FLASHSCAN_GATE_VALUE)
            sums[where].underflow += (arithmetic_.loss + arithmetic_.gate_loss * previous) * terms.sum;
        counts[where] += 1;
    }

    const Problem& p_;
    const Data& data_;
    Arithmetic arithmetic_;
};

}  // namespace

double excess(Value got, Value want, double tolerance) {
    if (!finite(want)) return finite(got) ? INFINITY : 0;
    if (!finite(got)) return INFINITY;
    const double error = std::max(std::abs(got.real() - want.real()), std::abs(got.imag() - want.imag()));
    return error == 0 ? 0 : error / tolerance;
}

void set_tolerances(const Problem& problem, const Data& data, bool backward, Reference& reference) {
    const Bounds bounds(problem, data);
    backward ? bounds.backward(reference) : bounds.forward(reference);
}

Reference reference_of(const Problem& problem, Data& data, const Oracle& oracle) {
    Problem wide = problem.widened();
    wide.gradients = gradient_input | gradient_gate | (problem.state_in ? gradient_state : 0U);
    Reference reference;
    Outcome forward = oracle(wide, data, false);
    reference.output.value = std::move(forward.output);
    reference.state_out.value = std::move(forward.state_out);
    data.output.resize(reference.output.value.size());
    std::transform(reference.output.value.begin(), reference.output.value.end(), data.output.begin(),
                   [&](Value value) { return rounded(problem.dtype, value); });
    Outcome backward = oracle(wide, data, true);
    reference.grad_input.value = std::move(backward.grad_input);
    reference.grad_gate.value = std::move(backward.grad_gate);
    reference.grad_state_in.value = std::move(backward.grad_state_in);
    for (const bool pass : {false, true}) set_tolerances(problem, data, pass, reference);
    return reference;
}

}  // namespace support
