// SPDX-License-Identifier: Apache-2.0
#include "core/linear_problem.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>
#include <vector>

#include "core/error.h"

namespace flashscan {
namespace {

struct Extents {
    int64_t batch, time, channels;
    bool empty() const { return batch == 0 || time == 0 || channels == 0; }
};

constexpr int64_t max_bytes = std::numeric_limits<int64_t>::max();

int64_t multiply(int64_t a, int64_t b, const char* what) {
    int64_t product = 0;
    if (__builtin_mul_overflow(a, b, &product))
        fail(Code::size_overflow, "{}: {} * {} does not fit; at most 2^63 - 1 bytes are accepted", what, a, b);
    return product;
}

int64_t add(int64_t a, int64_t b, const char* what) {
    int64_t sum = 0;
    if (__builtin_add_overflow(a, b, &sum))
        fail(Code::size_overflow, "{}: {} + {} does not fit; at most 2^63 - 1 bytes are accepted", what, a, b);
    return sum;
}

int64_t span_bytes(const Extents& e, const Strides& s, Dtype dtype, const char* what) {
    if (e.empty()) return 0;
    int64_t last = multiply(e.batch - 1, s.batch, what);
    last = add(last, multiply(e.time - 1, s.time, what), what);
    last = add(last, multiply(e.channels - 1, s.channels, what), what);
    return multiply(add(last, 1, what), size_of(dtype), what);
}

Strides dense(const Extents& e, Layout layout, const char* what) {
    const int64_t row = multiply(e.time, e.channels, what);
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
    if (e.batch <= 1) s.batch = 0;
    if (e.time <= 1) s.time = 0;
    if (e.channels <= 1) s.channels = 0;
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

template <typename Enum>
void check_enum(Enum value, std::initializer_list<Enum> accepted, const char* field, const char* names) {
    if (std::find(accepted.begin(), accepted.end(), value) == accepted.end())
        fail(Code::invalid_argument, "{} is {}; accepted are {}", field, static_cast<int32_t>(value), names);
}

void check_extent(int64_t value, const char* field) {
    if (value < 0) fail(Code::invalid_argument, "{} is {}; accepted are extents >= 0", field, value);
}

void check_dtypes(LinearProblem& p) {
    check_enum(p.dtype, {Dtype::f32, Dtype::bf16, Dtype::f16, Dtype::f64, Dtype::c64, Dtype::c128}, "dtype",
               "F32 (1), BF16 (2), F16 (3), F64 (4), C64 (5), C128 (6)");
    if (p.gate_dtype == Dtype{}) p.gate_dtype = p.dtype;
    const Dtype wide = p.dtype == Dtype::c128 ? Dtype::f64 : Dtype::f32;
    const bool mixed = p.dtype != Dtype::f64 && p.gate_dtype == wide;
    if (p.gate_dtype != p.dtype && !mixed)
        fail(Code::invalid_argument, "gate_dtype is {} with dtype {}; accepted are 0, {}{}",
             static_cast<int32_t>(p.gate_dtype), name_of(p.dtype), name_of(p.dtype),
             p.dtype == Dtype::f32 || p.dtype == Dtype::f64 ? "" : fmt::format(" and {}", name_of(wide)));
}

void check_packing(LinearProblem& p) {
    if (p.num_sequences < 0)
        fail(Code::invalid_argument, "num_sequences is {}; accepted are 0 (not packed) and up", p.num_sequences);
    if (p.packed() && p.batch != 1)
        fail(Code::invalid_argument, "batch is {} with num_sequences {}; packed sequences need batch 1", p.batch,
             p.num_sequences);
    if (p.offsets_dtype == Dtype{}) p.offsets_dtype = Dtype::i64;
    check_enum(p.offsets_dtype, {Dtype::i32, Dtype::i64}, "offsets_dtype", "0, I32 (7), I64 (8)");
    if (p.packed() && p.offsets_dtype == Dtype::i32 && p.time > std::numeric_limits<int32_t>::max())
        fail(Code::invalid_argument, "offsets_dtype is I32 with time {}; accepted is I64 (8) above 2^31 - 1", p.time);
}

}  // namespace

bool strides_nest(const int64_t* extents, const int64_t* strides, int axes) {
    std::vector<std::pair<int64_t, int64_t>> order;
    for (int i = 0; i < axes; ++i)
        if (extents[i] > 1) order.emplace_back(strides[i], extents[i]);
    std::sort(order.begin(), order.end());
    int64_t covered = 1;
    for (const auto& [stride, extent] : order) {
        if (stride < covered) return false;
        covered += (extent - 1) * stride;
    }
    return true;
}

int64_t LinearProblem::tensor_bytes(const Strides& strides) const {
    return span_bytes({batch, time, channels}, strides, dtype, "tensor");
}

int64_t LinearProblem::gate_bytes(const Strides& strides) const {
    return span_bytes({gate_batch(), gate_time(), gate_channels()}, strides, gate_dtype, "gate");
}

void validate(LinearProblem& p) {
    check_dtypes(p);
    check_enum(p.layout, {Layout::btc, Layout::bct}, "layout", "LAYOUT_BTC (0), LAYOUT_BCT (1)");
    check_enum(p.gate_form, {GateForm::value, GateForm::log, GateForm::logit}, "gate_form",
               "GATE_VALUE (0), GATE_LOG (1), GATE_LOGIT (2)");
    check_enum(p.direction, {Direction::forward, Direction::reverse}, "direction",
               "FORWARD_IN_TIME (0), REVERSE_IN_TIME (1)");
    constexpr uint32_t all_axes = broadcast_batch | broadcast_time | broadcast_channels;
    if ((p.gate_broadcast & ~all_axes) != 0)
        fail(Code::invalid_argument, "gate_broadcast is {}; accepted are sums of BATCH (1), TIME (2), CHANNELS (4)",
             p.gate_broadcast);
    check_extent(p.batch, "batch");
    check_extent(p.time, "time");
    check_extent(p.channels, "channels");
    check_packing(p);
    const Extents data{p.batch, p.time, p.channels};
    // An absent axis does not need to fit: the product of the other two must.
    const Extents nonzero{std::max<int64_t>(p.batch, 1), std::max<int64_t>(p.time, 1),
                          std::max<int64_t>(p.channels, 1)};
    multiply(
        multiply(multiply(nonzero.batch, nonzero.time, "batch * time"), nonzero.channels, "batch * time * channels"),
        size_of(Dtype::c128), "batch * time * channels * element size");
    multiply(multiply(std::max<int64_t>(p.state_rows(), 1), nonzero.channels, "states"), size_of(Dtype::c128),
             "states");
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
    if (direction == Direction::reverse) text += " reverse";
    if (has_reset) text += " reset";
    if (packed()) text += fmt::format(" sequences{}", num_sequences);
    return text;
}

}  // namespace flashscan
