// SPDX-License-Identifier: Apache-2.0
// Checks the problem of an associative operator, and describes it as text.
#include "core/operator_problem.h"

#include "core/extents.h"

namespace flashscan {
namespace {

constexpr int64_t most_dim = 1024;
constexpr int64_t most_element_bytes = 4096;

void validate_dtype(const OperatorProblem& p) {
    using enum Dtype;
    if (p.is_custom()) {
        if (p.dtype != Dtype{}) check_dtype(p.dtype, {f32, f64}, "dtype with kind custom");
        return;
    }
    constexpr Dtype all[] = {f32, bf16, f16, f64, c64, c128, i32, i64, u8};
    const unsigned takes = row_of(p.kind).takes;
    std::string accepted;
    for (const Dtype dtype : all) {
        if ((takes & kind_of(dtype)) == 0) continue;
        if (dtype == p.dtype) return;
        accepted += fmt::format("{}{}", accepted.empty() ? "" : ", ", name_of(dtype));
    }
    const char* const needed = (takes & complex_number) != 0 ? "real or complex numbers"
                               : (takes & real_number) != 0  ? "real numbers"
                                                             : "integers";
    fail(Code::invalid_argument, "dtype is {} with kind {}, which needs {}; accepted are {}", name_of(p.dtype),
         name_of(p.kind), needed, accepted);
}

void validate_code(const CustomOperator& c) {
    if (c.code_kind == CodeKind::none) {
        if (!c.code.empty())
            fail(Code::invalid_argument,
                 "custom.code is given with code_kind 0; accepted are CODE_CUDA_SOURCE and CODE_LTO_IR");
        return;
    }
    if (c.code.empty()) fail(Code::invalid_argument, "custom.code is empty, and custom.code_kind is not 0");
    if (const size_t zero = c.code.find('\0'); c.code_kind == CodeKind::cuda_source && zero != std::string::npos)
        fail(Code::invalid_argument,
             "custom.code has a zero at byte {} of code_bytes {}; accepted is text without one, its closing zero not "
             "counted",
             zero, c.code.size());
    if (c.name.empty())
        fail(Code::invalid_argument, "custom.name is not given; the device code needs the name of its function");
}

void validate_custom(const OperatorProblem& p) {
    if (!p.is_custom()) {
        if (p.has_custom)
            fail(Code::invalid_argument, "custom is given with kind {}; accepted is NULL", name_of(p.kind));
        return;
    }
    const CustomOperator& c = p.custom;
    if (!p.has_custom) fail(Code::invalid_argument, "custom is NULL; kind CUSTOM needs an operator");
    const bool batched_alone = c.host == nullptr && c.batched != nullptr && c.code_kind == CodeKind::none;
    if (c.element_bytes < 1 || (c.element_bytes > most_element_bytes && !batched_alone))
        fail(Code::invalid_argument, "custom.element_bytes is {}; accepted are 1 to {}, and more with batched alone",
             c.element_bytes, most_element_bytes);
    validate_code(c);
    if (c.host == nullptr && c.batched == nullptr && c.code_kind == CodeKind::none)
        fail(Code::invalid_argument, "custom has none of host, batched and code; one at least is needed");
    if (c.host_adjoint != nullptr && c.host == nullptr)
        fail(Code::invalid_argument, "custom.host_adjoint is given without host");
    if (c.batched_adjoint != nullptr && c.batched == nullptr)
        fail(Code::invalid_argument, "custom.batched_adjoint is given without batched");
    if (!c.adjoint_name.empty() && c.code_kind == CodeKind::none)
        fail(Code::invalid_argument, "custom.adjoint_name is given without code");
    if (p.differentiable() && p.dtype == Dtype{})
        fail(Code::invalid_argument, "dtype is 0 with an adjoint, whose gradients are added; accepted are f32 and f64");
    if (p.dtype != Dtype{} && c.element_bytes % size_of(p.dtype) != 0)
        fail(Code::invalid_argument, "custom.element_bytes is {}, which is no multiple of the {} bytes of dtype {}",
             c.element_bytes, size_of(p.dtype), name_of(p.dtype));
}

}  // namespace

const char* name_of(OperatorKind kind) { return row_of(kind).word; }

bool OperatorProblem::differentiable() const {
    if (!is_custom()) return !is_integer(dtype);
    return custom.host_adjoint != nullptr || custom.batched_adjoint != nullptr || !custom.adjoint_name.empty();
}

Extent OperatorProblem::element() const {
    if (on_numbers()) return 1;
    return is_custom() ? custom.element_bytes : is_affine() ? dim : dim * dim;
}

OperatorProblem::Steps OperatorProblem::steps() const {
    const Extent all = max(channels, array_channels);
    if (layout == Layout::btc) return {time * all, all, 1};
    return {time * all, 1, time};
}

void validate(OperatorProblem& p) {
    using enum OperatorKind;
    validate_dtype(p);
    validate_sequences(p);
    check_extent(p.channels, 0, "channels");
    if (p.kind == matmul || p.kind == affine) {
        if (p.dim < 1 || p.dim > most_dim)
            fail(Code::invalid_argument, "dim is {} with kind {}; accepted are 1 to {}", p.dim, name_of(p.kind),
                 most_dim);
    } else if (p.dim != 0) {
        fail(Code::invalid_argument, "dim is {} with kind {}; accepted is 0", p.dim, name_of(p.kind));
    }
    validate_custom(p);
    // 8 arrays of elements of 16 bytes a number bound every size that is formed later.
    const Extent most = (p.is_affine() ? p.gate_element() : p.element()).named("bytes of an element") * 8 * 16;
    check_steps(p, p.channels, most, "batch * time * channels * bytes of an element");
    settle_states(p, {1, p.state_rows(), p.channels * p.element()}, p.state_number_bytes());
}

OperatorProblem total_of(OperatorProblem p) {
    p.mode = OperatorMode::reduction;
    return p;
}

OperatorProblem matrices_of(OperatorProblem p) {
    p.kind = OperatorKind::matmul;
    p.direction = p.direction == Direction::forward ? Direction::reverse : Direction::forward;
    return total_of(p);
}

std::string OperatorProblem::describe() const { return describe(fmt::format("b{} t{} c{}", batch, time, channels)); }
std::string OperatorProblem::describe_ranks() const {
    const std::string text = describe(fmt::format("b{} c{}", batch, channels));
    return is_custom() && differentiable() ? fmt::format("{} adjoint {}", text, flashscan::name_of(dtype)) : text;
}

std::string OperatorProblem::describe(const std::string& extents) const {
    constexpr const char* modes[] = {"inclusive", "exclusive", "reduction"};
    std::string text = fmt::format("operator {}", name_of(kind));
    text += is_custom() ? fmt::format(" bytes{}", custom.element_bytes) : fmt::format(" {}", flashscan::name_of(dtype));
    text += fmt::format(" {} {} {}", layout == Layout::btc ? "BTC" : "BCT", modes[static_cast<int32_t>(mode)], extents);
    if (dim > 0) text += fmt::format(" d{}", dim);
    if (allow_tf32) text += " tf32";
    return text + describe_sequences(*this);
}

}  // namespace flashscan
