// SPDX-License-Identifier: Apache-2.0
#include "core/linear_problem.h"

#include <algorithm>
#include <array>
#include <utility>

#include "core/extents.h"

namespace flashscan {
namespace {

struct Extents {
    Extent batch, time, channels;
    bool empty() const { return batch == 0 || time == 0 || channels == 0; }
};

int64_t span_bytes(const Extents& e, const Strides& s, Dtype dtype, const char* what) {
    if (e.empty()) return 0;
    const Extent last = (e.batch - 1).named(what) * s.batch + (e.time - 1).named(what) * s.time +
                        (e.channels - 1).named(what) * s.channels;
    return (last + 1) * size_of(dtype);
}

Strides dense(const Extents& e, Layout layout, const char* what) {
    const Extent row = e.time.named(what) * e.channels;
    if (layout == Layout::btc) return {row, e.channels, 1};
    return {row, 1, e.time};
}

void check_axis(int64_t stride, const char* tensor, const char* axis) {
    if (stride < 0) fail(Code::invalid_argument, "{}.{} stride is {}; accepted are strides >= 0", tensor, axis, stride);
}

// Fills and checks the strides of one tensor. `broadcast` names the axes of extent 1 that must have stride 0.
void settle(Strides& s, const Extents& e, const LinearProblem& p, uint32_t broadcast, Dtype dtype, bool written,
            const char* tensor) {
    check_axis(s.batch, tensor, "batch");
    check_axis(s.time, tensor, "time");
    check_axis(s.channels, tensor, "channels");
    const std::array<std::pair<uint32_t, std::pair<const char*, int64_t>>, 3> axes{
        {{broadcast_batch, {"batch", s.batch}},
         {broadcast_time, {"time", s.time}},
         {broadcast_channels, {"channels", s.channels}}}};
    for (const auto& [bit, axis] : axes)
        if ((broadcast & bit) != 0 && axis.second != 0)
            fail(Code::invalid_argument, "{}.{} stride is {}, but gate_broadcast names that axis; accepted is 0",
                 tensor, axis.first, axis.second);
    if (s == Strides{}) s = dense(e, p.layout, tensor);
    // A tensor without elements uses none of them.
    if (e.batch <= 1 || e.empty()) s.batch = 0;
    if (e.time <= 1 || e.empty()) s.time = 0;
    if (e.channels <= 1 || e.empty()) s.channels = 0;
    span_bytes(e, s, dtype, tensor);
    const int64_t extents[] = {e.batch, e.time, e.channels};
    const int64_t strides[] = {s.batch, s.time, s.channels};
    if (written && !e.empty() && !strides_nest(extents, strides, 3))
        fail(Code::invalid_argument,
             "{} strides (batch {}, time {}, channels {}) make elements of the {} x {} x {} tensor overlap; a tensor "
             "that "
             "is written needs each stride to step over what the smaller ones cover",
             tensor, s.batch, s.time, s.channels, e.batch, e.time, e.channels);
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
    const Extents data{p.batch, p.time, p.channels};
    check_steps(p, p.channels, size_of(Dtype::c128), "batch * time * channels * bytes of an element");
    settle_states(p, {1, p.state_rows(), p.channels}, size_of(state_dtype(p.dtype)));
    const Extents gate{p.gate_batch(), p.gate_time(), p.gate_channels()};
    settle(p.input, data, p, 0, p.dtype, false, "input");
    settle(p.output, data, p, 0, p.dtype, true, "output");
    settle(p.grad_input, data, p, 0, p.dtype, true, "grad_input");
    settle(p.grad_output, data, p, 0, p.dtype, false, "grad_output");
    settle(p.gate, gate, p, p.gate_broadcast, p.gate_dtype, false, "gate");
    settle(p.grad_gate, gate, p, p.gate_broadcast, p.gate_dtype, true, "grad_gate");
}

std::string LinearProblem::describe() const {
    std::string text = fmt::format("linear {} {} b{} t{} c{}", name_of(dtype), layout == Layout::btc ? "BTC" : "BCT",
                                   batch, time, channels);
    if (gate_dtype != dtype) text += fmt::format(" gate-{}", name_of(gate_dtype));
    if (gate_form == GateForm::log) text += " log";
    if (gate_form == GateForm::logit) text += " logit";
    if (gate_broadcast != 0)
        text += fmt::format(" broadcast-{}{}{}", broadcasts(broadcast_batch) ? "b" : "",
                            broadcasts(broadcast_time) ? "t" : "", broadcasts(broadcast_channels) ? "c" : "");
    return text + describe_sequences(*this);
}

}  // namespace flashscan
