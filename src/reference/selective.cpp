// SPDX-License-Identifier: Apache-2.0
#include "reference/selective.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "reference/values.h"

namespace flashscan::reference {
namespace {

int64_t at(const Strides& s, int64_t b, int64_t t, int64_t c) { return b * s.batch + t * s.time + c * s.channels; }

using Row = std::vector<Wide>;  // a number for each of the N states, or for each state of each step

class Selective final : public SelectiveKernel {
  public:
    explicit Selective(const SelectiveProblem& problem) : p_(problem), n_(static_cast<size_t>(p_.states)) {}

    std::string describe() const override { return "step by step in double, one thread"; }
    size_t scratch_bytes(Pass) const override { return 0; }

    void forward(const SelectiveBuffers& x, void*) const override {
        const std::vector<Sequence> sequences = sequences_of(p_, x.seq_offsets);
        Row h(n_);
        for (const Sequence& s : sequences)
            for (int64_t c = 0; c < p_.channels; ++c) forward_row(x, s, c, h);
    }

    void backward(const SelectiveBuffers& x, void*) const override {
        const auto channels = static_cast<size_t>(p_.channels), numbers = channels * n_;
        Sums sums{Row(numbers), Row(numbers), Row(numbers), Row(channels), Row(channels)};
        const std::vector<Sequence> sequences = sequences_of(p_, x.seq_offsets);
        int64_t longest = 0;
        for (const Sequence& s : sequences) longest = std::max(longest, s.length());
        const auto steps = static_cast<size_t>(longest);
        Work work{Row(n_ * (steps + 1)), Row(n_), Row(p_.b_per_step ? n_ * steps : 0),
                  Row(p_.c_per_step ? n_ * steps : 0), std::vector<double>(steps)};
        for (const Sequence& s : sequences)
            for (int64_t group = 0; group < p_.groups; ++group) backward_group(x, s, group, sums, work);
        const auto put = [](void* to, Dtype dtype, const Row& values) {
            for (size_t i = 0; to != nullptr && i < values.size(); ++i)
                store(to, dtype, static_cast<int64_t>(i), values[i]);
        };
        put(x.grad_a, p_.matrix_dtype, sums.a);
        if (!p_.b_per_step) put(x.grad_b, p_.matrix_dtype, sums.b);
        if (!p_.c_per_step) put(x.grad_c, p_.matrix_dtype, sums.c);
        put(x.grad_d, p_.param_dtype(), sums.d);
        put(x.grad_bias, p_.param_dtype(), sums.bias);
    }

  private:
    // Over batch and time.
    struct Sums {
        Row a, b, c;  // [C][N]
        Row d, bias;  // [C]
    };
    // Memory for the longest sequence, which backward takes before it writes: a call that fails leaves its outputs
    // alone.
    struct Work {
        Row states;  // of a channel before the first step, then after each
        Row g;       // the gradient of the states after a step, from later steps
        Row b, c;    // gradients of a group's B and C per step
        std::vector<double> y;
    };
    // One step of one channel, but for the states.
    struct Step {
        double u, delta, delta_slope, gate, gate_slope;
        bool reset;
    };

    double tensor(const void* data, const Strides& s, int64_t b, int64_t t, int64_t c) const {
        return load(data, p_.dtype, at(s, b, t, c)).real();
    }
    double param(const void* data, int64_t c) const {
        return data == nullptr ? 0.0 : load(data, p_.param_dtype(), c).real();
    }
    int64_t number(int64_t c, size_t n) const { return c * p_.states + static_cast<int64_t>(n); }
    Wide rate(const SelectiveBuffers& x, int64_t c, size_t n) const { return load(x.a, p_.matrix_dtype, number(c, n)); }
    // B or C of a step.
    Wide matrix(const void* data, bool per_step, const Strides& strides, const Sequence& s, int64_t t, int64_t c,
                size_t n) const {
        if (!per_step) return load(data, p_.matrix_dtype, number(c, n));
        return load(data, p_.step_dtype(), at(strides, s.b, t, number(p_.group_of(c), n)));
    }
    Wide b_of(const SelectiveBuffers& x, const Sequence& s, int64_t t, int64_t c, size_t n) const {
        return matrix(x.b, p_.b_per_step, p_.b, s, t, c, n);
    }
    Wide c_of(const SelectiveBuffers& x, const Sequence& s, int64_t t, int64_t c, size_t n) const {
        return matrix(x.c, p_.c_per_step, p_.c, s, t, c, n);
    }
    // y is twice the real part of the sum where numbers are complex, which stands for the conjugate states beside them.
    double output_factor() const { return p_.is_complex() ? 2 : 1; }

    Step step_of(const SelectiveBuffers& x, const Sequence& s, int64_t t, int64_t c) const {
        Step step{};
        step.u = tensor(x.input, p_.input, s.b, t, c);
        step.delta = tensor(x.delta, p_.delta, s.b, t, c) + param(x.bias, c);
        step.delta_slope = 1;
        if (p_.softplus) {
            step.delta_slope = 1 / (1 + std::exp(-step.delta));
            step.delta = std::max(step.delta, 0.0) + std::log1p(std::exp(-std::abs(step.delta)));
        }
        step.gate = 1;
        if (x.output_gate != nullptr) {
            const double z = tensor(x.output_gate, p_.output_gate, s.b, t, c), sigmoid = 1 / (1 + std::exp(-z));
            step.gate = z * sigmoid;
            step.gate_slope = sigmoid * (1 + z * (1 - sigmoid));
        }
        step.reset = p_.has_reset && x.reset[s.b * p_.time + t] != 0;
        return step;
    }
    // Reads the states of a channel, zeros if there are none.
    void read_states(const void* data, const Sequence& s, int64_t c, Wide* h) const {
        for (size_t n = 0; n < n_; ++n)
            h[n] = data == nullptr ? Wide{}
                                   : load(data, p_.matrix_dtype, s.state * p_.channels * p_.states + number(c, n));
    }
    // h becomes the states after the step; returns the sum over them of C h.
    double advance(const SelectiveBuffers& x, const Sequence& s, int64_t t, int64_t c, const Step& step,
                   Wide* h) const {
        double sum = 0;
        for (size_t n = 0; n < n_; ++n) {
            const Wide entering = step.delta * step.u * b_of(x, s, t, c, n);
            h[n] = step.reset ? entering : std::exp(step.delta * rate(x, c, n)) * h[n] + entering;
            sum += (c_of(x, s, t, c, n) * h[n]).real();
        }
        return output_factor() * sum;
    }

    void forward_row(const SelectiveBuffers& x, const Sequence& s, int64_t c, Row& h) const {
        read_states(x.state_in, s, c, h.data());
        for (int64_t i = 0; i < s.length(); ++i) {
            const int64_t t = s.step(p_.direction, i);
            const Step step = step_of(x, s, t, c);
            const double y = advance(x, s, t, c, step, h.data()) + param(x.d, c) * step.u;
            if (x.output != nullptr) store(x.output, p_.dtype, at(p_.output, s.b, t, c), y * step.gate);
        }
        for (size_t n = 0; x.state_out != nullptr && n < n_; ++n)
            store(x.state_out, p_.matrix_dtype, s.state * p_.channels * p_.states + number(c, n), h[n]);
    }

    // The channels that share B and C, whose gradients of each step are sums over them.
    void backward_group(const SelectiveBuffers& x, const Sequence& s, int64_t group, Sums& sums, Work& work) const {
        const size_t numbers = static_cast<size_t>(s.length()) * n_;
        if (p_.b_per_step) std::fill_n(work.b.begin(), numbers, Wide{});
        if (p_.c_per_step) std::fill_n(work.c.begin(), numbers, Wide{});
        const int64_t width = p_.channels / p_.groups;
        for (int64_t channel = group * width; channel < (group + 1) * width; ++channel)
            backward_row(x, s, channel, sums, work);
        const auto put = [&](void* to, const Strides& strides, const Row& values) {
            for (size_t i = 0; to != nullptr && i < numbers; ++i) {
                const int64_t t = s.step(p_.direction, static_cast<int64_t>(i / n_));
                store(to, p_.step_dtype(), at(strides, s.b, t, number(group, i % n_)), values[i]);
            }
        };
        put(p_.b_per_step ? x.grad_b : nullptr, p_.grad_b, work.b);
        put(p_.c_per_step ? x.grad_c : nullptr, p_.grad_c, work.c);
    }

    // Adds to the gradients of B and C in `work`, or to the sums where these are constant.
    void backward_row(const SelectiveBuffers& x, const Sequence& s, int64_t c, Sums& sums, Work& work) const {
        const auto channel = static_cast<size_t>(c), length = static_cast<size_t>(s.length());
        Row& states = work.states;
        Row& g = work.g;
        std::vector<double>& y = work.y;
        read_states(x.state_in, s, c, states.data());
        for (size_t i = 0; i < length; ++i) {
            const int64_t t = s.step(p_.direction, static_cast<int64_t>(i));
            std::copy_n(&states[i * n_], n_, &states[(i + 1) * n_]);
            y[i] = advance(x, s, t, c, step_of(x, s, t, c), &states[(i + 1) * n_]);
        }
        read_states(x.grad_state_out, s, c, g.data());
        for (size_t i = length; i-- > 0;) {
            const int64_t t = s.step(p_.direction, static_cast<int64_t>(i));
            const Step step = step_of(x, s, t, c);
            const double d_out = tensor(x.grad_output, p_.grad_output, s.b, t, c), dy = d_out * step.gate;
            double du = param(x.d, c) * dy, d_delta = 0;
            Wide* b_sum = p_.b_per_step ? &work.b[i * n_] : &sums.b[channel * n_];
            Wide* c_sum = p_.c_per_step ? &work.c[i * n_] : &sums.c[channel * n_];
            for (size_t n = 0; n < n_; ++n) {
                const Wide b = b_of(x, s, t, c, n), before = states[i * n_ + n], rate_n = rate(x, c, n);
                g[n] += output_factor() * dy * std::conj(c_of(x, s, t, c, n));
                c_sum[n] += output_factor() * dy * std::conj(states[(i + 1) * n_ + n]);
                b_sum[n] += step.delta * step.u * g[n];
                const double through = (g[n] * std::conj(b)).real();
                du += step.delta * through;
                d_delta += step.u * through;
                if (step.reset) {
                    g[n] = 0;
                    continue;
                }
                const Wide a = std::exp(step.delta * rate_n), d_exponent = g[n] * std::conj(before * a);
                sums.a[channel * n_ + n] += step.delta * d_exponent;
                d_delta += (d_exponent * std::conj(rate_n)).real();
                g[n] *= std::conj(a);
            }
            const double d_raw = d_delta * step.delta_slope;
            sums.d[channel] += dy * step.u;
            sums.bias[channel] += d_raw;
            const auto put = [&](void* to, const Strides& strides, double value) {
                if (to != nullptr) store(to, p_.dtype, at(strides, s.b, t, c), value);
            };
            put(x.grad_output_gate, p_.grad_output_gate, d_out * (y[i] + param(x.d, c) * step.u) * step.gate_slope);
            put(x.grad_input, p_.grad_input, du);
            put(x.grad_delta, p_.grad_delta, d_raw);
        }
        for (size_t n = 0; x.grad_state_in != nullptr && n < n_; ++n)
            store(x.grad_state_in, p_.matrix_dtype, s.state * p_.channels * p_.states + number(c, n), g[n]);
    }

    SelectiveProblem p_;
    size_t n_;
};

}  // namespace

std::unique_ptr<SelectiveKernel> make_selective(const SelectiveProblem& problem, const Options&, std::string&) {
    return std::make_unique<Selective>(problem);
}

}  // namespace flashscan::reference
