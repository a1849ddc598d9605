// SPDX-License-Identifier: Apache-2.0
// Checks the problem of a linear recurrence, and describes it as text.
#include "core/linear_problem.h"

#include <array>
#include <utility>

#include "core/tensors.h"

namespace flashscan {
namespace {

// Strides along axes of extent 1 that gate_broadcast names must be 0.
void check_broadcast(const Strides& s, uint32_t broadcast, const char* tensor) {
    const std::array<std::pair<uint32_t, std::pair<const char*, int64_t>>, 3> axes{
        {{broadcast_batch, {"batch", s.batch}},
         {broadcast_time, {"time", s.time}},
         {broadcast_channels, {"channels", s.channels}}}};
    for (const auto& [bit, axis] : axes)
        if ((broadcast & bit) != 0 && axis.second != 0)
            fail(Code::invalid_argument, "{}.{} stride is {}, but gate_broadcast names that axis; accepted is 0",
                 tensor, axis.first, axis.second);
}

void check_dtypes(LinearProblem& p) {
    check_dtype(p.dtype, {Dtype::f32, Dtype::bf16, Dtype::f16, Dtype::f64, Dtype::c64, Dtype::c128}, "dtype");
    const Dtype wide = p.dtype == Dtype::c128 || p.dtype == Dtype::f64 ? Dtype::f64 : Dtype::f32;
    check_second_dtype(p.gate_dtype, p.dtype, wide, "gate_dtype");
}

}  // namespace

int64_t LinearProblem::tensor_bytes(const Strides& strides) const {
    return span_bytes({batch, time, channels}, strides, dtype, "tensor");
}

int64_t LinearProblem::gate_bytes(const Strides& strides) const {
    return span_bytes({gate_batch(), gate_time(), gate_channels()}, strides, gate_dtype, "gate");
}

void validate(LinearProblem& p) {
    check_dtypes(p);
    check_extent(p.channels, 0, "channels");
    validate_sequences(p);
    const TensorExtents data{p.batch, p.time, p.channels};
    check_steps(p, p.channels, size_of(Dtype::c128), "batch * time * channels * bytes of an element");
    settle_states(p, {1, p.state_rows(), p.channels}, size_of(state_dtype(p.dtype)));
    const TensorExtents gate{p.gate_batch(), p.gate_time(), p.gate_channels()};
    const auto settle = [&](Strides& strides, bool written, const char* tensor) {
        settle_tensor(strides, data, p.layout, p.dtype, written, tensor);
    };
    const auto settle_gate = [&](Strides& strides, bool written, const char* tensor) {
        check_broadcast(strides, p.gate_broadcast, tensor);
        settle_tensor(strides, gate, p.layout, p.gate_dtype, written, tensor);
    };
    settle(p.input, false, "input");
    settle(p.output, true, "output");
    settle(p.grad_input, true, "grad_input");
    settle(p.grad_output, false, "grad_output");
    settle_gate(p.gate, false, "gate");
    settle_gate(p.grad_gate, true, "grad_gate");
}

std::string LinearProblem::describe() const { return describe(fmt::format("b{} t{} c{}", batch, time, channels)); }
std::string LinearProblem::describe_ranks() const { return describe(fmt::format("b{} c{}", batch, channels)); }

std::string LinearProblem::describe(const std::string& extents) const {
    std::string text = fmt::format("linear {} {} {}", name_of(dtype), layout == Layout::btc ? "BTC" : "BCT", extents);
    if (gate_dtype != dtype) text += fmt::format(" gate-{}", name_of(gate_dtype));
    if (gate_form == GateForm::log) text += " log";
    if (gate_form == GateForm::logit) text += " logit";
    if (gate_broadcast != 0)
        text += fmt::format(" broadcast-{}{}{}", broadcasts(broadcast_batch) ? "b" : "",
                            broadcasts(broadcast_time) ? "t" : "", broadcasts(broadcast_channels) ? "c" : "");
    return text + describe_sequences(*this);
}

}  // namespace flashscan
