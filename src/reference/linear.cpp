// SPDX-License-Identifier: Apache-2.0
#include "reference/linear.h"

#include <vector>

#include "reference/values.h"

namespace flashscan::reference {
namespace {

// (x + iy)(u + iv) without std::complex's repair of infinities: NaN and infinity flow as the arithmetic says, and a
// real factor does not mix the parts.
Wide multiply(Wide a, Wide b) {
    if (a.imag() == 0 && b.imag() == 0) return a.real() * b.real();
    return {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()};
}

struct Gate {
    Wide value, derivative;
};

Gate gate_of(GateForm form, Wide g) {
    if (form == GateForm::value) return {g, 1.0};
    if (form == GateForm::log) {
        const Wide a = g.imag() == 0 ? Wide(std::exp(g.real())) : std::exp(g);
        return {a, a};
    }
    // Both halves of 1 = sigmoid(g) + sigmoid(-g), each from the exponential that cannot overflow.
    const bool negative = g.real() < 0;
    const Wide e = g.imag() == 0 ? Wide(std::exp(negative ? g.real() : -g.real())) : std::exp(negative ? g : -g);
    const Wide large = 1.0 / (1.0 + e), small = multiply(e, large);
    return {negative ? small : large, multiply(small, large)};
}

int64_t at(const Strides& s, int64_t b, int64_t t, int64_t c) { return b * s.batch + t * s.time + c * s.channels; }

class Linear final : public LinearKernel {
  public:
    explicit Linear(const LinearProblem& problem) : p_(problem), state_(state_dtype(problem.dtype)) {}

    std::string describe() const override { return "step by step in double, one thread"; }
    size_t scratch_bytes(Pass) const override { return 0; }

    void forward(const LinearBuffers& buffers, void*) const override {
        for (const Sequence& sequence : sequences_of(p_, buffers.seq_offsets))
            for (int64_t c = 0; c < p_.channels; ++c) forward_row(buffers, sequence, c);
    }

    void backward(const LinearBuffers& buffers, void*) const override {
        const bool reduces = p_.gate_broadcast != 0 && buffers.grad_gate != nullptr;
        std::vector<Wide> sums(reduces ? static_cast<size_t>(p_.gate_batch() * p_.gate_time() * p_.gate_channels())
                                       : 0);
        for (const Sequence& sequence : sequences_of(p_, buffers.seq_offsets))
            for (int64_t c = 0; c < p_.channels; ++c) backward_row(buffers, sequence, c, sums);
        // Steps that belong to no sequence are not written.
        const int64_t end =
            p_.packed() ? load_offset(buffers.seq_offsets, p_.offsets_dtype, p_.num_sequences) : int64_t{p_.time};
        for (size_t i = 0; i < sums.size(); ++i) store_sum(buffers, static_cast<int64_t>(i), sums[i], end);
    }

  private:
    bool resets(const LinearBuffers& buffers, int64_t b, int64_t t) const {
        return p_.has_reset && buffers.reset[b * p_.time + t] != 0;
    }

    void forward_row(const LinearBuffers& buffers, const Sequence& s, int64_t c) const {
        const int64_t state = s.state * p_.channels + c;
        Wide h = buffers.state_in != nullptr ? load(buffers.state_in, state_, state) : 0.0;
        for (int64_t i = 0; i < s.length(); ++i) {
            const int64_t t = s.step(p_.direction, i);
            const Wide x = load(buffers.input, p_.dtype, at(p_.input, s.b, t, c));
            const Gate a = gate_of(p_.gate_form, load(buffers.gate, p_.gate_dtype, at(p_.gate, s.b, t, c)));
            h = resets(buffers, s.b, t) ? x : multiply(a.value, h) + x;
            store(buffers.output, p_.dtype, at(p_.output, s.b, t, c), h);
        }
        if (buffers.state_out != nullptr) store(buffers.state_out, state_, state, h);
    }

    void backward_row(const LinearBuffers& buffers, const Sequence& s, int64_t c, std::vector<Wide>& sums) const {
        const int64_t state = s.state * p_.channels + c;
        Wide carry = buffers.grad_state_out != nullptr ? load(buffers.grad_state_out, state_, state) : 0.0;
        for (int64_t i = s.length() - 1; i >= 0; --i) {
            const int64_t t = s.step(p_.direction, i);
            const Wide g = load(buffers.grad_output, p_.dtype, at(p_.grad_output, s.b, t, c)) + carry;
            const Gate a = gate_of(p_.gate_form, load(buffers.gate, p_.gate_dtype, at(p_.gate, s.b, t, c)));
            const bool reset = resets(buffers, s.b, t);
            if (buffers.grad_input != nullptr) store(buffers.grad_input, p_.dtype, at(p_.grad_input, s.b, t, c), g);
            if (buffers.grad_gate != nullptr) {
                Wide previous = 0.0;
                if (i > 0)
                    previous = load(buffers.output, p_.dtype, at(p_.output, s.b, s.step(p_.direction, i - 1), c));
                else if (buffers.state_in != nullptr)
                    previous = load(buffers.state_in, state_, state);
                const Wide d = reset ? 0.0 : multiply(g, std::conj(multiply(previous, a.derivative)));
                if (sums.empty())
                    store(buffers.grad_gate, p_.gate_dtype, at(p_.grad_gate, s.b, t, c), d);
                else
                    sums[static_cast<size_t>(gate_index(s.b, t, c))] += d;
            }
            carry = reset ? 0.0 : multiply(std::conj(a.value), g);
        }
        if (buffers.grad_state_in != nullptr) store(buffers.grad_state_in, state_, state, carry);
    }

    int64_t gate_index(int64_t b, int64_t t, int64_t c) const {
        if (p_.broadcasts(broadcast_batch)) b = 0;
        if (p_.broadcasts(broadcast_time)) t = 0;
        if (p_.broadcasts(broadcast_channels)) c = 0;
        return (b * p_.gate_time() + t) * p_.gate_channels() + c;
    }

    void store_sum(const LinearBuffers& buffers, int64_t index, Wide sum, int64_t end) const {
        const int64_t c = index % p_.gate_channels();
        const int64_t t = index / p_.gate_channels() % p_.gate_time();
        if (!p_.broadcasts(broadcast_time) && t >= end) return;
        const int64_t b = index / p_.gate_channels() / p_.gate_time();
        store(buffers.grad_gate, p_.gate_dtype, at(p_.grad_gate, b, t, c), sum);
    }

    LinearProblem p_;
    Dtype state_;
};

}  // namespace

std::unique_ptr<LinearKernel> make_linear(const LinearProblem& problem, const Options&, std::string&) {
    return std::make_unique<Linear>(problem);
}

}  // namespace flashscan::reference
