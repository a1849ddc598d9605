// SPDX-License-Identifier: Apache-2.0
#include "support/operator_problem.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "support/operators.h"
#include "support/words.h"

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

constexpr Flag<OperatorProblem> flags[] = {{"state-in", &OperatorProblem::state_in},
                                           {"state-out", &OperatorProblem::state_out},
                                           {"index", &OperatorProblem::index},
                                           {"custom", &OperatorProblem::custom},
                                           {"invariant", &OperatorProblem::batch_invariant},
                                           {"pooled", &OperatorProblem::pooled},
                                           {"caller-scratch", &OperatorProblem::caller_scratch},
                                           {"place-misaligned", &OperatorProblem::misaligned},
                                           {"tf32", &OperatorProblem::allow_tf32}};

bool parse_flag(OperatorProblem& p, const std::string& word) {
    if (flag_named(flags, word, p)) return true;
    if (const int32_t kind = operator_named(word); kind != 0) {
        p.kind = kind;
        return true;
    }
    if (word == "fwd" || word == "bwd") {
        p.backward = word == "bwd";
        return true;
    }
    if (word == "reverse") return p.reverse = true;
    return parse_layout(word, p.layout) || word == "operator";
}

// `c64` is a dtype where none was seen yet and an extent after that.
bool parse_word(OperatorProblem& p, const std::string& word, bool& dtype_seen) {
    if (parse_flag(p, word)) return true;
    if (!dtype_seen && dtype_after(word, "", p.dtype)) return dtype_seen = true;
    return name_after(word, "", mode_names, p.mode, FLASHSCAN_MODE_INCLUSIVE) ||
           dtype_after(word, "offsets-", p.offsets_dtype) || name_after(word, "values-", values_names, p.values) ||
           number_after(word, "threads", p.threads) || number_after(word, "sequences", p.sequences) ||
           number_after(word, "seed", p.seed) || number_after(word, "b", p.batch) || number_after(word, "t", p.time) ||
           number_after(word, "c", p.channels) || number_after(word, "d", p.dim);
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

OperatorProblem OperatorProblem::widened() const {
    OperatorProblem wide = *this;
    wide.dtype = wide_dtype(dtype);
    wide.pooled = wide.misaligned = wide.batch_invariant = wide.caller_scratch = wide.allow_tf32 = wide.custom = false;
    return wide;
}

const char* mode_name(const OperatorProblem& p) { return mode_names[p.mode - FLASHSCAN_MODE_INCLUSIVE]; }

std::string text_of(const OperatorProblem& p) {
    std::string text = fmt::format("operator {} {} {} b{} t{} c{}", operator_row(p.kind).word,
                                   p.backward ? "bwd" : "fwd", name_of(p.dtype), p.batch, p.time, p.channels);
    if (p.dim > 0) text += fmt::format(" d{}", p.dim);
    if (p.mode != FLASHSCAN_MODE_INCLUSIVE) text += fmt::format(" {}", mode_name(p));
    if (p.layout == FLASHSCAN_LAYOUT_BCT) text += " BCT";
    if (p.reverse) text += " reverse";
    if (p.sequences > 0) text += fmt::format(" sequences{}", p.sequences);
    if (p.offsets_dtype != FLASHSCAN_DTYPE_I64) text += fmt::format(" offsets-{}", name_of(p.offsets_dtype));
    text += text_of(flags, p);
    if (p.threads != 0) text += fmt::format(" threads{}", p.threads);
    if (p.values != OperatorValues::positive)
        text += fmt::format(" values-{}", values_names[static_cast<int>(p.values)]);
    if (p.seed != 1) text += fmt::format(" seed{}", p.seed);
    return text;
}

OperatorProblem operator_problem_of(const std::string& text) {
    OperatorProblem problem;
    bool dtype_seen = false;
    for (const std::string& word : words_of(text))
        if (!parse_word(problem, word, dtype_seen))
            throw std::invalid_argument(fmt::format(
                "'{}' is no word of an operator line; accepted are an operator ({}), fwd, bwd, DTYPE, BTC, BCT, bN, "
                "tN, "
                "cN, dN, {}, reverse, sequencesN, offsets-i32, state-in, state-out, index, custom, invariant, pooled, "
                "caller-scratch, place-misaligned, tf32, threadsN, values- {} and seedN",
                word, fmt::join(operator_words(), " "), fmt::join(mode_names, ", "), fmt::join(values_names, " ")));
    return problem;
}

bool has_argument(const OperatorProblem& p, int32_t id) {
    switch (id) {
    case FLASHSCAN_ARG_GATE: return p.affine();
    case FLASHSCAN_ARG_STATE_IN: return p.state_in;
    case FLASHSCAN_ARG_STATE_OUT: return p.state_out;
    default: return true;
    }
}

std::vector<int32_t> read_by(const OperatorProblem& p, bool backward) {
    constexpr int32_t grad = FLASHSCAN_GRAD;
    const bool input = !backward || p.custom || (p.affine() ? p.reduction() : operator_row(p.kind).has_slopes);
    const bool output = backward && !p.custom && (p.affine() || p.matmul()) && !p.reduction();
    std::vector<int32_t> ids;
    if (input) ids.push_back(FLASHSCAN_ARG_INPUT);
    ids.insert(ids.end(), {FLASHSCAN_ARG_GATE, FLASHSCAN_ARG_STATE_IN});
    if (output) ids.push_back(FLASHSCAN_ARG_OUTPUT);
    if (backward) ids.insert(ids.end(), {grad | FLASHSCAN_ARG_OUTPUT, grad | FLASHSCAN_ARG_STATE_OUT});
    std::erase_if(ids, [&](int32_t id) { return !has_argument(p, id & ~grad); });
    return ids;
}

bool has_steps(const OperatorProblem& p, int32_t id) {
    const int32_t argument = id & ~FLASHSCAN_GRAD;
    return argument == FLASHSCAN_ARG_INPUT || argument == FLASHSCAN_ARG_GATE ||
           ((argument == FLASHSCAN_ARG_OUTPUT || argument == FLASHSCAN_ARG_INDEX) && !p.reduction());
}

int32_t dtype_of(const OperatorProblem& p, int32_t id) {
    const int32_t argument = id & ~FLASHSCAN_GRAD;
    if (argument == FLASHSCAN_ARG_INDEX) return FLASHSCAN_DTYPE_I64;
    const bool state = argument == FLASHSCAN_ARG_STATE_IN || argument == FLASHSCAN_ARG_STATE_OUT;
    return state ? state_dtype(p.dtype) : p.dtype;
}

Tensor tensor_of(const OperatorProblem& p, int32_t id) {
    Tensor tensor;
    switch (id & ~FLASHSCAN_GRAD) {
    case FLASHSCAN_ARG_INPUT: tensor.extents = p.extents(p.element()); break;
    case FLASHSCAN_ARG_GATE: tensor.extents = p.extents(p.gate_element()); break;
    case FLASHSCAN_ARG_INDEX:
    case FLASHSCAN_ARG_OUTPUT: tensor.extents = p.output_extents(); break;
    default: return state_tensor(p);
    }
    tensor.strides = {tensor.extents[1] * tensor.extents[2], tensor.extents[2], 1};
    tensor.misaligned = p.misaligned;
    return tensor;
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
    if (p.custom) {
        desc.kind = FLASHSCAN_OPERATOR_CUSTOM;
        desc.dim = 0;
        desc.custom = operator_code(p);
    }
    return desc;
}

flashscan_options options_of(const OperatorProblem& p, int32_t backend, const std::string& kernel) {
    return make_options(backend, kernel, p.threads, p.batch_invariant, p.caller_scratch);
}

std::vector<Target> operator_kernel_targets() {
    std::vector<Target> targets;
    for (const int32_t backend : {FLASHSCAN_BACKEND_CPU, FLASHSCAN_BACKEND_CUDA})
        if (!kernels_of(flashscan_plan_operator, OperatorProblem{}, backend).empty()) targets.push_back({backend, ""});
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
