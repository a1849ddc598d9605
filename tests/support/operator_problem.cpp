// SPDX-License-Identifier: Apache-2.0
#include "support/operator_problem.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <sstream>
#include <stdexcept>

#include "support/operators.h"

namespace support {
namespace {

constexpr const char* mode_names[] = {"inclusive", "exclusive", "reduction"};
constexpr const char* values_names[] = {"positive", "sign", "ties"};

enum Stream : uint64_t {
    stream_input = 201,
    stream_gate,
    stream_state,
    stream_grad_output,
    stream_grad_state
};

template <typename Names>
bool named(const Names& names, const std::string& name, int32_t& found, int32_t first = 0) {
    const auto place = std::find(std::begin(names), std::end(names), name);
    if (place == std::end(names)) return false;
    found = first + static_cast<int32_t>(place - std::begin(names));
    return true;
}

// `c64` is a dtype where none was seen yet and an extent after that.
bool parse_flag(OperatorProblem& p, const std::string& word, bool& dtype_seen) {
    if (const int32_t kind = operator_named(word); kind != 0) {
        p.kind = kind;
        return true;
    }
    if (named(mode_names, word, p.mode, FLASHSCAN_MODE_INCLUSIVE)) return true;
    if (!dtype_seen && dtype_named(word) != 0) {
        p.dtype = dtype_named(word);
        dtype_seen = true;
    } else if (word == "fwd" || word == "bwd")
        p.backward = word == "bwd";
    else if (word == "BTC" || word == "BCT")
        p.layout = word == "BCT" ? FLASHSCAN_LAYOUT_BCT : FLASHSCAN_LAYOUT_BTC;
    else if (word == "offsets-i32")
        p.offsets_dtype = FLASHSCAN_DTYPE_I32;
    else if (word == "reverse")
        p.reverse = true;
    else if (word == "state-in")
        p.state_in = true;
    else if (word == "state-out")
        p.state_out = true;
    else if (word == "invariant")
        p.batch_invariant = true;
    else if (word == "pooled")
        p.pooled = true;
    else if (word == "caller-scratch")
        p.caller_scratch = true;
    else if (word == "misaligned")
        p.misaligned = true;
    else if (word == "tf32")
        p.allow_tf32 = true;
    else
        return word == "operator";
    return true;
}

void parse_word(OperatorProblem& p, const std::string& word, bool& dtype_seen) {
    if (parse_flag(p, word, dtype_seen)) return;
    const auto after = [&](const char* prefix, auto& to) {
        if (!word.starts_with(prefix)) return false;
        to = static_cast<std::remove_reference_t<decltype(to)>>(std::stoll(word.substr(std::string(prefix).size())));
        return true;
    };
    int32_t values = 0;
    if (word.starts_with("values-") && named(values_names, word.substr(7), values))
        p.values = static_cast<OperatorValues>(values);
    else if (!after("threads", p.threads) && !after("sequences", p.sequences) && !after("seed", p.seed) &&
             !after("b", p.batch) && !after("t", p.time) && !after("c", p.channels) && !after("d", p.dim))
        throw std::invalid_argument("unknown word: " + word);
}

// Numbers around `middle`, of both signs or of one, with some imaginary part where the dtype has one.
Values numbers(const OperatorProblem& p, int32_t dtype, Stream stream, int64_t count, double middle, double spread) {
    Values values(static_cast<size_t>(count));
    for (size_t i = 0; i < values.size(); ++i) {
        const double draw = 2 * uniform(p.seed, stream, i) - 1;
        Value value = middle + spread * draw;
        if (p.values == OperatorValues::sign && uniform(p.seed, stream + 50, i) < 0.5) value = -value;
        if (p.values == OperatorValues::sign && is_complex(dtype))
            value += Value(0, 0.5 * spread * (2 * uniform(p.seed, stream + 70, i) - 1));
        if (p.values == OperatorValues::ties) value = std::round(3 * draw);
        values[i] = rounded(dtype, value);
    }
    return values;
}

// Any bits, of i64 with the sign that follows.
Values integers(const OperatorProblem& p, int32_t dtype, Stream stream, int64_t count) {
    Values values(static_cast<size_t>(count));
    for (size_t i = 0; i < values.size(); ++i) {
        const auto half = [&](uint64_t part) {
            return static_cast<int64_t>(uniform(p.seed, stream, 2 * i + part) * 0x1p32);
        };
        const int64_t any = dtype == FLASHSCAN_DTYPE_I64   ? (half(0) - 0x80000000) * 0x100000000 + half(1)
                            : dtype == FLASHSCAN_DTYPE_I32 ? half(0) - 0x80000000
                                                           : half(0) >> 24;
        values[i] = of_integer(p.values == OperatorValues::ties ? any & 3 : any);
    }
    return values;
}

// Matrices whose rows sum to about 1.
double matrix_middle(const OperatorProblem& p) { return 1.0 / static_cast<double>(p.dim); }

Values elements(const OperatorProblem& p, int32_t dtype, Stream stream, int64_t count) {
    // Products of many stay in range.
    const double spread = std::min(0.5, 8 / std::sqrt(static_cast<double>(std::max<int64_t>(p.time, 2))));
    if (p.integers()) return integers(p, dtype, stream, count);
    if (p.matmul()) return numbers(p, dtype, stream, count, matrix_middle(p), spread * matrix_middle(p));
    if (p.affine()) return numbers(p, dtype, stream, count, 1, 0.75);
    if (p.kind == FLASHSCAN_OPERATOR_MUL) return numbers(p, dtype, stream, count, 1, spread);
    if (p.kind == FLASHSCAN_OPERATOR_ADD) return numbers(p, dtype, stream, count, 1, 0.75);
    return numbers(p, dtype, stream, count, 0, 4);
}

}  // namespace

size_t OperatorProblem::place(int64_t b, int64_t t, int64_t c, int64_t size) const {
    const int64_t at = layout == FLASHSCAN_LAYOUT_BTC ? (b * time + t) * channels + c : (b * channels + c) * time + t;
    return static_cast<size_t>(at * size);
}
std::array<int64_t, 3> OperatorProblem::extents(int64_t size) const {
    if (layout == FLASHSCAN_LAYOUT_BTC) return {batch, time, channels * size};
    return {batch * channels, time, size};
}

std::string text_of(const OperatorProblem& p) {
    std::string text = fmt::format("operator {} {} {} {} b{} t{} c{}", operator_row(p.kind).word,
                                   mode_names[p.mode - FLASHSCAN_MODE_INCLUSIVE], p.backward ? "bwd" : "fwd",
                                   name_of(p.dtype), p.batch, p.time, p.channels);
    if (p.dim > 0) text += fmt::format(" d{}", p.dim);
    if (p.layout == FLASHSCAN_LAYOUT_BCT) text += " BCT";
    if (p.reverse) text += " reverse";
    if (p.sequences > 0) text += fmt::format(" sequences{}", p.sequences);
    if (p.sequences > 0 && p.offsets_dtype == FLASHSCAN_DTYPE_I32) text += " offsets-i32";
    if (p.state_in) text += " state-in";
    if (p.state_out) text += " state-out";
    if (p.batch_invariant) text += " invariant";
    if (p.pooled) text += " pooled";
    if (p.caller_scratch) text += " caller-scratch";
    if (p.misaligned) text += " misaligned";
    if (p.allow_tf32) text += " tf32";
    if (p.threads != 0) text += fmt::format(" threads{}", p.threads);
    if (p.values != OperatorValues::positive)
        text += fmt::format(" values-{}", values_names[static_cast<int>(p.values)]);
    return text + fmt::format(" seed{}", p.seed);
}

OperatorProblem operator_problem_of(const std::string& text) {
    OperatorProblem problem;
    std::istringstream words(text);
    bool dtype_seen = false;
    for (std::string word; words >> word;) parse_word(problem, word, dtype_seen);
    return problem;
}

Tensor state_tensor(const OperatorProblem& p) {
    Tensor tensor = state_tensor(1, p.state_rows(), p.channels * p.element(), p.pooled);
    tensor.misaligned = p.misaligned;
    return tensor;
}

flashscan_operator_desc desc_of(const OperatorProblem& p) {
    flashscan_operator_desc desc{};
    desc.struct_size = sizeof desc;
    desc.dtype = p.dtype;
    desc.kind = p.kind;
    desc.layout = p.layout;
    desc.mode = p.mode;
    desc.direction = p.reverse ? FLASHSCAN_DIRECTION_REVERSE : FLASHSCAN_DIRECTION_FORWARD;
    desc.flags = p.allow_tf32 ? FLASHSCAN_OPERATOR_FLAG_ALLOW_TF32 : 0;
    desc.offsets_dtype = p.sequences > 0 ? p.offsets_dtype : 0;
    desc.batch = p.batch;
    desc.time = p.time;
    desc.channels = p.channels;
    desc.dim = p.dim;
    desc.num_sequences = p.sequences;
    set_state_strides(desc, state_tensor(p));
    return desc;
}

bool is_without_kernel(const OperatorProblem& p, int32_t backend) {
    return backend == FLASHSCAN_BACKEND_CUDA && p.batch_invariant && p.sequences > 0 && !p.matmul() && !p.affine() &&
           !p.integers();
}

flashscan_options options_of(const OperatorProblem& p, int32_t backend, const std::string& kernel) {
    return make_options(backend, kernel, p.threads, p.batch_invariant, p.caller_scratch);
}

static std::vector<std::string> kernels_of(int32_t backend) {
    flashscan_plan* plan = nullptr;
    const flashscan_operator_desc desc = desc_of(OperatorProblem{});
    const std::string unknown = "?";
    const flashscan_options options = options_of(OperatorProblem{}, backend, unknown);
    if (flashscan_plan_operator(&plan, &desc, &options) == FLASHSCAN_STATUS_INVALID_ARGUMENT)
        return names_in(flashscan_last_error());
    flashscan_plan_destroy(plan);
    return {};
}

std::vector<Target> operator_kernel_targets() {
    std::vector<Target> targets;
    for (const int32_t backend : {FLASHSCAN_BACKEND_CPU, FLASHSCAN_BACKEND_CUDA})
        if (!kernels_of(backend).empty()) targets.push_back({backend, ""});
    return targets;
}

std::vector<Target> operator_targets() {
    std::vector<Target> targets = operator_kernel_targets();
    targets.push_back({FLASHSCAN_BACKEND_CPU, "reference"});
    return targets;
}

OperatorData make_data(const OperatorProblem& p) {
    OperatorData data;
    const int64_t steps = p.batch * p.time * p.channels, chains = p.state_rows() * p.channels;
    const int32_t state = state_dtype(p.dtype);
    data.input = elements(p, p.dtype, stream_input, steps * p.element());
    if (p.affine())
        data.gate = numbers(p, p.dtype, stream_gate, steps * p.gate_element(), 0.75 * matrix_middle(p),
                            0.25 * matrix_middle(p));
    if (p.state_in) data.state_in = elements(p, state, stream_state, chains * p.element());
    if (p.backward) {
        const int64_t outputs = (p.reduction() ? chains : steps) * p.element();
        data.grad_output = numbers(p, p.dtype, stream_grad_output, outputs, 1, 0.5);
        if (p.state_out) data.grad_state_out = numbers(p, state, stream_grad_state, chains * p.element(), 1, 0.5);
    }
    if (p.sequences > 0) data.offsets = make_offsets(p.seed, p.time, p.sequences);
    return data;
}

int64_t written_time(const OperatorProblem& p, const OperatorData& data) {
    return data.offsets.empty() ? p.time : data.offsets.back();
}

}  // namespace support
