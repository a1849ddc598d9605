// SPDX-License-Identifier: Apache-2.0
// Checks the problem of a selective scan, and describes it as text.
#include "core/selective_problem.h"

#include "core/tensors.h"

namespace flashscan {
namespace {

// Complex matrices need data of 32 or 64 bits, for complex B and C of each step have no narrower type.
void check_dtypes(SelectiveProblem& p) {
    check_dtype(p.dtype, {Dtype::f32, Dtype::bf16, Dtype::f16, Dtype::f64}, "dtype");
    const Dtype real = p.param_dtype();
    if (p.matrix_dtype == Dtype{}) p.matrix_dtype = real;
    const bool narrow = p.dtype == Dtype::bf16 || p.dtype == Dtype::f16;
    const Dtype complex = narrow ? real : real == Dtype::f64 ? Dtype::c128 : Dtype::c64;
    if (p.matrix_dtype != real && p.matrix_dtype != complex)
        fail(Code::invalid_argument, "matrix_dtype is {} with dtype {}; accepted: {}{}", name_of(p.matrix_dtype),
             name_of(p.dtype), name_of(real), narrow ? "" : fmt::format(", {}", name_of(complex)));
}

void check_counts(SelectiveProblem& p) {
    constexpr int64_t most_states = 256;
    check_extent(p.channels, 0, "channels");
    if (p.states < 1 || p.states > most_states)
        fail(Code::invalid_argument, "states is {}; accepted are 1 to {}", p.states, most_states);
    if (p.groups < 0) fail(Code::invalid_argument, "groups is {}; accepted are 0 (one group) and up", p.groups);
    if (p.groups > 1 && !p.b_per_step && !p.c_per_step)
        fail(Code::invalid_argument, "groups is {}, but B and C are constant; accepted are 0 and 1", p.groups);
    if (p.groups == 0) p.groups = 1;
    if (p.channels % p.groups != 0 || (p.channels > 0 && p.groups > p.channels))
        fail(Code::invalid_argument, "groups is {} with channels {}; accepted are divisors of channels", p.groups,
             p.channels);
}

}  // namespace

void validate(SelectiveProblem& p) {
    check_dtypes(p);
    check_counts(p);
    validate_sequences(p);
    const Extent numbers = nonzero(p.channels).named("channels * states") * p.states;
    check_steps(p, numbers * nonzero(p.groups), 32, "batch * time * channels * states * bytes of an element");
    settle_states(p, {1, p.state_rows(), p.channels * p.states}, size_of(p.matrix_dtype));
    const auto settle = [&](Strides& strides, Strides& grad, Extent channels, const char* tensor,
                            const char* grad_tensor, Dtype dtype) {
        settle_tensor(strides, {p.batch, p.time, channels}, p.layout, dtype, false, tensor);
        settle_tensor(grad, {p.batch, p.time, channels}, p.layout, dtype, true, grad_tensor);
    };
    const auto settle_matrix = [&](bool per_step, Strides& strides, Strides& grad, const char* tensor,
                                   const char* grad_tensor) {
        if (per_step) return settle(strides, grad, p.groups * p.states, tensor, grad_tensor, p.step_dtype());
        for (const auto& [given, name] : {std::pair(strides, tensor), std::pair(grad, grad_tensor)})
            if (given != Strides{})
                fail(Code::invalid_argument, "{} has strides, but this matrix is constant; accepted are zeros", name);
    };
    settle(p.input, p.grad_input, p.channels, "input", "grad_input", p.dtype);
    settle(p.delta, p.grad_delta, p.channels, "delta", "grad_delta", p.dtype);
    settle(p.output_gate, p.grad_output_gate, p.channels, "output_gate", "grad_output_gate", p.dtype);
    settle_matrix(p.b_per_step, p.b, p.grad_b, "b", "grad_b");
    settle_matrix(p.c_per_step, p.c, p.grad_c, "c", "grad_c");
    settle_tensor(p.output, {p.batch, p.time, p.channels}, p.layout, p.dtype, true, "output");
    settle_tensor(p.grad_output, {p.batch, p.time, p.channels}, p.layout, p.dtype, false, "grad_output");
}

std::string SelectiveProblem::describe() const { return describe(fmt::format("b{} t{} c{}", batch, time, channels)); }
std::string SelectiveProblem::describe_ranks() const { return describe(fmt::format("b{} c{}", batch, channels)); }

std::string SelectiveProblem::describe(const std::string& extents) const {
    std::string text =
        fmt::format("selective {} {} {} n{}", name_of(dtype), layout == Layout::btc ? "BTC" : "BCT", extents, states);
    if (groups > 1) text += fmt::format(" g{}", groups);
    if (b_per_step) text += " b-per-step";
    if (c_per_step) text += " c-per-step";
    if (is_complex()) text += " complex";
    if (softplus) text += " softplus";
    return text + describe_sequences(*this);
}

}  // namespace flashscan
