// SPDX-License-Identifier: Apache-2.0
#include "reference/gated.h"

#include <vector>

#include "reference/values.h"

namespace flashscan::reference {
namespace {

gated::Decayed<double> decayed(Decay decay, double g, double second, double rate) {
    using enum Decay;
    switch (decay) {
    case value: return gated::decayed<value>(g, second, rate);
    case exp: return gated::decayed<exp>(g, second, rate);
    case sigmoid: return gated::decayed<sigmoid>(g, second, rate);
    case one_minus_sigmoid: return gated::decayed<one_minus_sigmoid>(g, second, rate);
    case lower_bound: return gated::decayed<lower_bound>(g, second, rate);
    case softplus: return gated::decayed<softplus>(g, second, rate);
    case ratio: return gated::decayed<ratio>(g, second, rate);
    }
    __builtin_trap();  // the interface takes no other
}

gated::ValueAndSlope<double> activated(Activation activation, double x) {
    switch (activation) {
    case Activation::none: return gated::activated<Activation::none>(x);
    case Activation::tanh: return gated::activated<Activation::tanh>(x);
    case Activation::silu: return gated::activated<Activation::silu>(x);
    case Activation::positive: return gated::activated<Activation::positive>(x);
    }
    __builtin_trap();  // the interface takes no other
}

gated::Epilogued<double> epilogued(Epilogue epilogue, double h, double o) {
    switch (epilogue) {
    case Epilogue::none: return gated::epilogued<Epilogue::none>(h, o);
    case Epilogue::sigmoid: return gated::epilogued<Epilogue::sigmoid>(h, o);
    case Epilogue::silu: return gated::epilogued<Epilogue::silu>(h, o);
    case Epilogue::tanh_sigmoid: return gated::epilogued<Epilogue::tanh_sigmoid>(h, o);
    }
    __builtin_trap();  // the interface takes no other
}

int64_t at(const Strides& s, int64_t b, int64_t t, int64_t c) { return b * s.batch + t * s.time + c * s.channels; }

class Gated final : public GatedKernel {
  public:
    explicit Gated(const GatedProblem& problem)
        : p_(problem), state_(state_dtype(problem.dtype)), kept_(p_.hides_state() ? p_.reserve : p_.output) {}

    std::string describe() const override { return "step by step in double, one thread"; }
    size_t scratch_bytes(Pass) const override { return 0; }

    void forward(const GatedBuffers& buffers, void*) const override {
        for (const Sequence& sequence : sequences_of(p_, buffers.seq_offsets))
            for (int64_t c = 0; c < p_.channels; ++c) forward_row(buffers, sequence, c);
    }

    void backward(const GatedBuffers& buffers, void*) const override {
        std::vector<double> param(static_cast<size_t>(p_.channels)), bias(static_cast<size_t>(p_.channels));
        for (const Sequence& sequence : sequences_of(p_, buffers.seq_offsets))
            for (int64_t c = 0; c < p_.channels; ++c)
                backward_row(buffers, sequence, c, param[static_cast<size_t>(c)], bias[static_cast<size_t>(c)]);
        for (int64_t c = 0; c < p_.channels; ++c) {
            if (buffers.grad_param != nullptr)
                store(buffers.grad_param, p_.param_dtype, c, param[static_cast<size_t>(c)]);
            if (buffers.grad_bias != nullptr) store(buffers.grad_bias, p_.param_dtype, c, bias[static_cast<size_t>(c)]);
        }
    }

  private:
    // One step of one channel, but for the state.
    struct Step {
        gated::Decayed<double> decay;
        double scale, scale_slope;
        gated::ValueAndSlope<double> input, gate;
        bool reset;
        double value() const { return input.value * gate.value; }
    };

    double load_real(const void* data, Dtype dtype, const Strides& s, int64_t b, int64_t t, int64_t c) const {
        return data == nullptr ? 0.0 : load(data, dtype, at(s, b, t, c)).real();
    }
    gated::Rate<double> rate(const GatedBuffers& buffers, int64_t c) const {
        if (!p_.parts.has_param()) return {0, 0};
        return gated::rate_of(p_.parts.decay, load(buffers.param, p_.param_dtype, c).real(), p_.decay_rate);
    }

    Step step_of(const GatedBuffers& buffers, const Sequence& s, int64_t i, int64_t c) const {
        const int64_t t = s.step(p_.direction, i);
        double g = load_real(buffers.gate, p_.gate_dtype, p_.gate, s.b, t, c);
        if (buffers.bias != nullptr) g += load(buffers.bias, p_.param_dtype, c).real();
        const double second = load_real(buffers.second_gate, p_.gate_dtype, p_.second_gate, s.b, t, c);
        Step step{};
        step.decay = decayed(p_.parts.decay, g, second, rate(buffers, c).value);
        step.reset = p_.has_reset && buffers.reset[s.b * p_.time + t] != 0;
        const double a = step.decay.a, rest = step.decay.rest;
        if ((step.reset && p_.parts.first_step) || (i == 0 && p_.starts_with_one(buffers.state_in != nullptr)) ||
            p_.parts.scale == Scale::one) {
            step.scale = 1;
        } else if (p_.parts.scale == Scale::one_minus) {
            step.scale = gated::scaled<Scale::one_minus>(a, rest);
            step.scale_slope = -1;
        } else {
            step.scale = gated::scaled<Scale::sqrt>(a, rest);
            step.scale_slope = gated::scale_slope<Scale::sqrt>(a, step.scale, p_.sqrt_slope_limit);
        }
        step.input = activated(p_.parts.activation, load_real(buffers.input, p_.dtype, p_.input, s.b, t, c));
        step.gate = {1, 0};
        if (p_.parts.has_input_gate())
            step.gate = gated::input_gated<InputGating::sigmoid>(
                load_real(buffers.input_gate, p_.dtype, p_.input_gate, s.b, t, c));
        return step;
    }

    void forward_row(const GatedBuffers& buffers, const Sequence& s, int64_t c) const {
        const int64_t state = s.state * p_.channels + c;
        double h = buffers.state_in != nullptr ? load(buffers.state_in, state_, state).real() : 0.0;
        for (int64_t i = 0; i < s.length(); ++i) {
            const int64_t t = s.step(p_.direction, i);
            const Step step = step_of(buffers, s, i, c);
            const double x = step.scale * step.value();
            h = step.reset ? x : step.decay.a * h + x;
            const double o = load_real(buffers.output_gate, p_.dtype, p_.output_gate, s.b, t, c);
            if (buffers.reserve != nullptr) store(buffers.reserve, p_.dtype, at(kept_, s.b, t, c), h);
            store(buffers.output, p_.dtype, at(p_.output, s.b, t, c), epilogued(p_.parts.epilogue, h, o).y);
        }
        if (buffers.state_out != nullptr) store(buffers.state_out, state_, state, h);
    }

    double state_after(const GatedBuffers& buffers, const Sequence& s, int64_t i, int64_t c) const {
        if (i >= 0) return load_real(buffers.states(), p_.dtype, kept_, s.b, s.step(p_.direction, i), c);
        return buffers.state_in != nullptr ? load(buffers.state_in, state_, s.state * p_.channels + c).real() : 0.0;
    }

    void backward_row(const GatedBuffers& buffers, const Sequence& s, int64_t c, double& param, double& bias) const {
        const int64_t state = s.state * p_.channels + c;
        double carry = buffers.grad_state_out != nullptr ? load(buffers.grad_state_out, state_, state).real() : 0.0;
        const double rate_slope = rate(buffers, c).slope;
        for (int64_t i = s.length() - 1; i >= 0; --i) {
            const int64_t t = s.step(p_.direction, i);
            const Step step = step_of(buffers, s, i, c);
            const double o = load_real(buffers.output_gate, p_.dtype, p_.output_gate, s.b, t, c);
            const double dy = load(buffers.grad_output, p_.dtype, at(p_.grad_output, s.b, t, c)).real();
            const double h = p_.hides_state() ? state_after(buffers, s, i, c) : 0.0;
            const gated::Epilogued<double> y = epilogued(p_.parts.epilogue, h, o);
            const double g = dy * y.state_slope + carry;
            carry = step.reset ? 0.0 : step.decay.a * g;
            const double dv = g * step.scale;
            double da = step.reset ? 0.0 : g * state_after(buffers, s, i - 1, c);
            if (step.scale_slope != 0) da += g * step.value() * step.scale_slope;
            const double dg = da * step.decay.gate_slope;
            const auto put = [&](void* to, Dtype dtype, const Strides& strides, double value) {
                if (to != nullptr) store(to, dtype, at(strides, s.b, t, c), value);
            };
            put(buffers.grad_input, p_.dtype, p_.grad_input, dv * step.gate.value * step.input.slope);
            put(buffers.grad_input_gate, p_.dtype, p_.grad_input_gate, dv * step.input.value * step.gate.slope);
            put(buffers.grad_gate, p_.gate_dtype, p_.grad_gate, dg);
            put(buffers.grad_second_gate, p_.gate_dtype, p_.grad_second_gate, da * step.decay.second_slope);
            put(buffers.grad_output_gate, p_.dtype, p_.grad_output_gate, dy * y.gate_slope);
            param += da * step.decay.rate_slope * rate_slope;
            bias += dg;
        }
        if (buffers.grad_state_in != nullptr) store(buffers.grad_state_in, state_, state, carry);
    }

    GatedProblem p_;
    Dtype state_;
    Strides kept_;  // of h in backward
};

}  // namespace

std::unique_ptr<GatedKernel> make_gated(const GatedProblem& problem, const Options&, std::string&) {
    return std::make_unique<Gated>(problem);
}

}  // namespace flashscan::reference
