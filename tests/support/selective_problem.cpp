// SPDX-License-Identifier: Apache-2.0
#include "support/selective_problem.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ostream>
#include <stdexcept>

#include "support/words.h"

namespace support {
namespace {

constexpr const char gradient_letters[] = "udzABCDbs";

constexpr Flag<SelectiveProblem> flags[] = {{"complex", &SelectiveProblem::complex},
                                            {"b-per-step", &SelectiveProblem::b_per_step},
                                            {"c-per-step", &SelectiveProblem::c_per_step},
                                            {"softplus", &SelectiveProblem::softplus},
                                            {"gate", &SelectiveProblem::gate},
                                            {"skip", &SelectiveProblem::skip},
                                            {"bias", &SelectiveProblem::bias},
                                            {"reverse", &SelectiveProblem::reverse},
                                            {"reset", &SelectiveProblem::reset},
                                            {"state-in", &SelectiveProblem::state_in},
                                            {"state-out", &SelectiveProblem::state_out},
                                            {"forgets", &SelectiveProblem::forgets},
                                            {"far-deltas", &SelectiveProblem::far_deltas},
                                            {"in-place", &SelectiveProblem::in_place},
                                            {"pooled", &SelectiveProblem::pooled},
                                            {"invariant", &SelectiveProblem::batch_invariant},
                                            {"caller-scratch", &SelectiveProblem::caller_scratch}};

struct Count {
    const char* prefix;
    int64_t SelectiveProblem::*field;
};
constexpr Count counts[] = {
    {"sequences", &SelectiveProblem::sequences}, {"b", &SelectiveProblem::batch},  {"t", &SelectiveProblem::time},
    {"c", &SelectiveProblem::channels},          {"n", &SelectiveProblem::states}, {"g", &SelectiveProblem::groups}};

bool parse_word(SelectiveProblem& p, const std::string& word) {
    if (flag_named(flags, word, p)) return true;
    if (word == "fwd") {
        p.gradients = 0;
        return true;
    }
    int32_t dtype = 0;
    if (dtype_after(word, "", dtype) && !is_complex(dtype)) {  // c64 is an extent here
        p.dtype = dtype;
        return true;
    }
    if (word == "bwd" || word == "selective" || parse_layout(word, p.layout) ||
        placement_after(word, "place-", p.placement) || letters_after(word, "grads-", gradient_letters, p.gradients) ||
        dtype_after(word, "offsets-", p.offsets_dtype) || number_after(word, "threads", p.threads) ||
        number_after(word, "seed", p.seed))
        return true;
    return std::any_of(std::begin(counts), std::end(counts),
                       [&](const Count& count) { return number_after(word, count.prefix, p.*count.field); });
}

constexpr uint64_t first_stream = 500;  // of arguments, by their ids

}  // namespace

SelectiveProblem SelectiveProblem::widened() const {
    SelectiveProblem wide = *this;
    wide.dtype = FLASHSCAN_DTYPE_F64;
    wide.layout = FLASHSCAN_LAYOUT_BTC;
    wide.placement = Placement::dense;
    wide.in_place = wide.pooled = wide.batch_invariant = wide.caller_scratch = false;
    wide.gradients = 0x1ff;
    wide.threads = 1;
    return wide;
}

std::string text_of(const SelectiveProblem& p) {
    std::string text =
        fmt::format("selective {} {} {} b{} t{} c{} n{}", p.gradients == 0 ? "fwd" : "bwd", name_of(p.dtype),
                    p.layout == FLASHSCAN_LAYOUT_BCT ? "BCT" : "BTC", p.batch, p.time, p.channels, p.states);
    if (p.groups != 1) text += fmt::format(" g{}", p.groups);
    text += text_of(flags, p);
    if (p.sequences > 0) text += fmt::format(" sequences{}", p.sequences);
    if (p.offsets_dtype != FLASHSCAN_DTYPE_I64) text += fmt::format(" offsets-{}", name_of(p.offsets_dtype));
    if (p.gradients != 0x1ff && p.gradients != 0) text += " grads-" + spell(p.gradients, gradient_letters);
    if (p.placement != Placement::dense) text += fmt::format(" place-{}", name_of(p.placement));
    if (p.threads != 0) text += fmt::format(" threads{}", p.threads);
    if (p.seed != 1) text += fmt::format(" seed{}", p.seed);
    return text;
}

SelectiveProblem selective_problem_of(const std::string& text) {
    SelectiveProblem problem;
    for (const std::string& word : words_of(text)) {
        if (parse_word(problem, word)) continue;
        std::string names;
        for (const auto& flag : flags) names += fmt::format("{}, ", flag.word);
        throw std::invalid_argument(
            fmt::format("'{}' is no word of a selective line; accepted are fwd, bwd, DTYPE, BTC, BCT, bN, tN, cN, nN, "
                        "gN, {}sequencesN, offsets-i32, grads-LETTERS of {}, place-PLACE, threadsN and seedN",
                        word, names, gradient_letters));
    }
    return problem;
}

std::ostream& operator<<(std::ostream& stream, const SelectiveProblem& p) { return stream << text_of(p); }

bool has_argument(const SelectiveProblem& p, int32_t id) {
    switch (id) {
    case FLASHSCAN_ARG_OUTPUT_GATE: return p.gate;
    case FLASHSCAN_ARG_D: return p.skip;
    case FLASHSCAN_ARG_BIAS: return p.bias;
    case FLASHSCAN_ARG_STATE_IN: return p.state_in;
    case FLASHSCAN_ARG_STATE_OUT: return p.state_out;
    default: return true;
    }
}

std::vector<int32_t> read_by(const SelectiveProblem& p, bool backward) {
    std::vector<int32_t> ids(std::begin(selective_gradients), std::end(selective_gradients));
    if (backward)
        ids.insert(ids.end(), {FLASHSCAN_GRAD | FLASHSCAN_ARG_OUTPUT, FLASHSCAN_GRAD | FLASHSCAN_ARG_STATE_OUT});
    std::erase_if(ids, [&](int32_t id) { return !has_argument(p, id & ~FLASHSCAN_GRAD); });
    return ids;
}

bool has_steps(const SelectiveProblem& p, int32_t id) {
    switch (id & ~FLASHSCAN_GRAD) {
    case FLASHSCAN_ARG_B: return p.b_per_step;
    case FLASHSCAN_ARG_C: return p.c_per_step;
    case FLASHSCAN_ARG_INPUT:
    case FLASHSCAN_ARG_DELTA:
    case FLASHSCAN_ARG_OUTPUT_GATE:
    case FLASHSCAN_ARG_OUTPUT: return true;
    default: return false;
    }
}

int32_t dtype_of(const SelectiveProblem& p, int32_t id) {
    switch (id & ~FLASHSCAN_GRAD) {
    case FLASHSCAN_ARG_B:
    case FLASHSCAN_ARG_C:
        if (has_steps(p, id) && !p.complex) return p.dtype;
        [[fallthrough]];
    case FLASHSCAN_ARG_A:
    case FLASHSCAN_ARG_STATE_IN:
    case FLASHSCAN_ARG_STATE_OUT: return p.matrix_dtype();
    case FLASHSCAN_ARG_D:
    case FLASHSCAN_ARG_BIAS: return p.real_dtype();
    default: return p.dtype;
    }
}

Tensor tensor_of(const SelectiveProblem& p, int32_t id) {
    const int32_t argument = id & ~FLASHSCAN_GRAD;
    std::array<int64_t, 3> extents{p.batch, p.time, p.channels};
    switch (argument) {
    case FLASHSCAN_ARG_D:
    case FLASHSCAN_ARG_BIAS: return dense_tensor(1, p.channels);
    case FLASHSCAN_ARG_STATE_IN:
    case FLASHSCAN_ARG_STATE_OUT: return state_tensor(1, p.state_rows(), p.channels * p.states, p.pooled);
    case FLASHSCAN_ARG_A: return dense_tensor(p.channels, p.states);
    case FLASHSCAN_ARG_B:
    case FLASHSCAN_ARG_C:
        if (!has_steps(p, argument)) return dense_tensor(p.channels, p.states);
        extents[2] = p.groups * p.states;
        break;
    default: break;
    }
    if (p.placement != Placement::mixed) return placed(extents, p.layout, p.placement);
    // Arguments in one place lie there alike.
    if (p.in_place && id == FLASHSCAN_ARG_OUTPUT) return tensor_of(p, FLASHSCAN_ARG_INPUT);
    if (p.in_place && id == (FLASHSCAN_GRAD | FLASHSCAN_ARG_INPUT))
        return tensor_of(p, FLASHSCAN_GRAD | FLASHSCAN_ARG_OUTPUT);
    const uint64_t k = static_cast<uint64_t>(argument) + ((id & FLASHSCAN_GRAD) != 0 ? 3 : 0) + p.seed;
    return placed(extents, p.layout, mixed_placement(k));
}

flashscan_selective_desc desc_of(const SelectiveProblem& p) {
    flashscan_selective_desc desc{};
    desc.struct_size = sizeof desc;
    desc.dtype = p.dtype;
    desc.matrix_dtype = p.complex ? p.matrix_dtype() : 0;
    desc.layout = p.layout;
    desc.direction = p.reverse ? FLASHSCAN_DIRECTION_REVERSE : FLASHSCAN_DIRECTION_FORWARD;
    if (p.reset) desc.flags |= FLASHSCAN_SELECTIVE_FLAG_RESET;
    if (p.softplus) desc.flags |= FLASHSCAN_SELECTIVE_FLAG_SOFTPLUS;
    if (p.b_per_step) desc.flags |= FLASHSCAN_SELECTIVE_FLAG_B_PER_STEP;
    if (p.c_per_step) desc.flags |= FLASHSCAN_SELECTIVE_FLAG_C_PER_STEP;
    desc.batch = p.batch, desc.time = p.time, desc.channels = p.channels;
    desc.states = p.states, desc.groups = p.groups;
    desc.num_sequences = p.sequences;
    desc.offsets_dtype = p.sequences > 0 ? p.offsets_dtype : 0;
    const std::pair<int32_t, flashscan_strides*> fields[] = {
        {FLASHSCAN_ARG_INPUT, &desc.input},
        {FLASHSCAN_ARG_DELTA, &desc.delta},
        {FLASHSCAN_ARG_OUTPUT_GATE, &desc.output_gate},
        {FLASHSCAN_ARG_B, &desc.b},
        {FLASHSCAN_ARG_C, &desc.c},
        {FLASHSCAN_ARG_OUTPUT, &desc.output},
        {FLASHSCAN_GRAD | FLASHSCAN_ARG_INPUT, &desc.grad_input},
        {FLASHSCAN_GRAD | FLASHSCAN_ARG_DELTA, &desc.grad_delta},
        {FLASHSCAN_GRAD | FLASHSCAN_ARG_OUTPUT_GATE, &desc.grad_output_gate},
        {FLASHSCAN_GRAD | FLASHSCAN_ARG_B, &desc.grad_b},
        {FLASHSCAN_GRAD | FLASHSCAN_ARG_C, &desc.grad_c},
        {FLASHSCAN_GRAD | FLASHSCAN_ARG_OUTPUT, &desc.grad_output}};
    for (const auto& [id, field] : fields) {
        const Tensor tensor = tensor_of(p, id);
        if (tensor.strides_given) *field = {tensor.strides[0], tensor.strides[1], tensor.strides[2]};
    }
    set_state_strides(desc, tensor_of(p, FLASHSCAN_ARG_STATE_IN));
    return desc;
}

flashscan_options options_of(const SelectiveProblem& p, int32_t backend, const std::string& kernel) {
    return make_options(backend, kernel, p.threads, p.batch_invariant, p.caller_scratch);
}

std::vector<Target> selective_kernel_targets() {
    return targets_of(
        [](int32_t backend) { return kernels_of(flashscan_plan_selective, SelectiveProblem{}, backend); });
}

std::vector<Target> selective_targets() {
    std::vector<Target> targets = selective_kernel_targets();
    targets.push_back({FLASHSCAN_BACKEND_CPU, "reference"});
    return targets;
}

SelectiveData make_data(const SelectiveProblem& p) {
    SelectiveData data;
    const auto add = [&](int32_t id, double low, double high) {
        if (!has_argument(p, id & ~FLASHSCAN_GRAD)) return;
        const Tensor tensor = tensor_of(p, id);
        Values& values = data.values[id];
        values.resize(static_cast<size_t>(tensor.extents[0] * tensor.extents[1] * tensor.extents[2]));
        const auto stream = first_stream + static_cast<uint64_t>(id & 0xff) + ((id & FLASHSCAN_GRAD) != 0 ? 100 : 0);
        const int32_t dtype = dtype_of(p, id);
        for (size_t i = 0; i < values.size(); ++i) {
            const auto number = [&](uint64_t part) {
                return low + (high - low) * uniform(p.seed, stream + 200 * part, i);
            };
            values[i] = rounded(dtype, is_complex(dtype) ? Value(number(0), number(1) - (low + high) / 2) : number(0));
        }
    };
    add(FLASHSCAN_ARG_INPUT, -2, 2);
    const double low = p.far_deltas ? -60 : p.softplus ? -4 : 0, high = p.far_deltas ? 60 : p.softplus ? 3 : 1;
    add(FLASHSCAN_ARG_DELTA, low, high);
    add(FLASHSCAN_ARG_OUTPUT_GATE, -3, 3);
    add(FLASHSCAN_ARG_A, -3, -0.01);
    if (p.forgets)
        for (int64_t c = 0; c < p.channels; ++c)
            data.values[FLASHSCAN_ARG_A][p.matrix_at(false, 0, 0, c, 0)] = -INFINITY;
    add(FLASHSCAN_ARG_B, -1, 1);
    add(FLASHSCAN_ARG_C, -1, 1);
    add(FLASHSCAN_ARG_D, -1, 1);
    add(FLASHSCAN_ARG_BIAS, -0.5, 0.5);
    add(FLASHSCAN_ARG_STATE_IN, -1, 1);
    add(FLASHSCAN_GRAD | FLASHSCAN_ARG_OUTPUT, -1, 1);
    add(FLASHSCAN_GRAD | FLASHSCAN_ARG_STATE_OUT, -1, 1);
    if (p.reset) data.reset = make_reset(p.seed, p.batch * p.time);
    if (p.sequences > 0) data.offsets = make_offsets(p.seed, p.time, p.sequences);
    return data;
}

int64_t written_time(const SelectiveProblem& p, const SelectiveData& data) {
    return p.sequences > 0 ? data.offsets.back() : p.time;
}

}  // namespace support
