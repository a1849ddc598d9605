// SPDX-License-Identifier: Apache-2.0
// Checks the problem of a gated layer, and describes it as text.
#include "core/gated_problem.h"

#include <cmath>
#include <limits>

#include "core/tensors.h"

namespace flashscan {
namespace {

constexpr const char* decay_names[] = {"value",       "exp",      "sigmoid", "one-minus-sigmoid",
                                       "lower-bound", "softplus", "ratio"};
constexpr const char* scale_names[] = {"one", "one-minus", "sqrt"};
constexpr const char* activation_names[] = {"none", "tanh", "silu", "positive"};
constexpr const char* epilogue_names[] = {"none", "sigmoid", "silu", "tanh-sigmoid"};

void check_numbers(GatedProblem& p) {
    const auto check = [](double value, const char* field) {
        if (!(value >= 0) || std::isinf(value))
            fail(Code::invalid_argument, "{} is {}; accepted are 0 (the default) and finite numbers above", field,
                 value);
    };
    check(p.decay_rate, "decay_rate");
    check(p.sqrt_slope_limit, "sqrt_slope_limit");
    if (p.decay_rate != 0 && p.parts.decay != Decay::softplus)
        fail(Code::invalid_argument, "decay_rate is {} with a decay other than GATED_DECAY_SOFTPLUS; accepted is 0",
             p.decay_rate);
    if (p.sqrt_slope_limit != 0 && p.parts.scale != Scale::sqrt)
        fail(Code::invalid_argument, "sqrt_slope_limit is {} with a scale other than GATED_SCALE_SQRT; accepted is 0",
             p.sqrt_slope_limit);
    if (p.decay_rate == 0) p.decay_rate = 8;
    if (p.sqrt_slope_limit == 0) p.sqrt_slope_limit = std::numeric_limits<double>::infinity();
}

}  // namespace

void validate(GatedProblem& p) {
    check_dtype(p.dtype, {Dtype::f32, Dtype::bf16, Dtype::f16, Dtype::f64}, "dtype");
    check_second_dtype(p.gate_dtype, p.dtype, state_dtype(p.dtype), "gate_dtype");
    check_second_dtype(p.param_dtype, p.dtype, state_dtype(p.dtype), "param_dtype");
    check_numbers(p);
    check_extent(p.channels, 0, "channels");
    validate_sequences(p);
    check_steps(p, p.channels, 16, "batch * time * channels * bytes of an element");
    settle_states(p, {1, p.state_rows(), p.channels}, size_of(state_dtype(p.dtype)));
    const auto settle = [&](Strides& strides, bool there, bool written, const char* tensor, Dtype dtype) {
        if (!there && strides != Strides{})
            fail(Code::invalid_argument, "{} has strides, but this layer has no such tensor; accepted are zeros",
                 tensor);
        if (there) settle_tensor(strides, {p.batch, p.time, p.channels}, p.layout, dtype, written, tensor);
    };
    const auto settle_both = [&](Strides& strides, Strides& grad, bool there, const char* tensor,
                                 const char* grad_tensor, Dtype dtype) {
        settle(strides, there, false, tensor, dtype);
        settle(grad, there, true, grad_tensor, dtype);
    };
    settle_both(p.input, p.grad_input, true, "input", "grad_input", p.dtype);
    settle_both(p.gate, p.grad_gate, true, "gate", "grad_gate", p.gate_dtype);
    settle_both(p.second_gate, p.grad_second_gate, p.parts.has_second_gate(), "second_gate", "grad_second_gate",
                p.gate_dtype);
    settle_both(p.input_gate, p.grad_input_gate, p.parts.has_input_gate(), "input_gate", "grad_input_gate", p.dtype);
    settle_both(p.output_gate, p.grad_output_gate, p.parts.has_output_gate(), "output_gate", "grad_output_gate",
                p.dtype);
    settle(p.output, true, true, "output", p.dtype);
    settle(p.grad_output, true, false, "grad_output", p.dtype);
    settle(p.reserve, p.hides_state(), true, "RESERVE", p.dtype);
}

std::string GatedProblem::describe() const { return describe(fmt::format("b{} t{} c{}", batch, time, channels)); }
std::string GatedProblem::describe_ranks() const { return describe(fmt::format("b{} c{}", batch, channels)); }

std::string GatedProblem::describe(const std::string& extents) const {
    std::string text = fmt::format("gated {} {} {}", name_of(dtype), layout == Layout::btc ? "BTC" : "BCT", extents);
    if (layer != nullptr) text += fmt::format(" {}", layer->name);
    text += fmt::format(" decay-{} scale-{}", decay_names[static_cast<int>(parts.decay)],
                        scale_names[static_cast<int>(parts.scale)]);
    if (parts.activation != Activation::none)
        text += fmt::format(" activation-{}", activation_names[static_cast<int>(parts.activation)]);
    if (parts.has_input_gate()) text += " input-gate";
    if (parts.has_output_gate()) text += fmt::format(" epilogue-{}", epilogue_names[static_cast<int>(parts.epilogue)]);
    if (parts.first_step) text += " first-step";
    if (parts.decay == Decay::softplus) text += fmt::format(" rate{}", decay_rate);
    if (!std::isinf(sqrt_slope_limit)) text += fmt::format(" slope-limit{}", sqrt_slope_limit);
    if (gate_dtype != dtype) text += fmt::format(" gate-{}", name_of(gate_dtype));
    if (param_dtype != dtype) text += fmt::format(" param-{}", name_of(param_dtype));
    return text + describe_sequences(*this);
}

}  // namespace flashscan
