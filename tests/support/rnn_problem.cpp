// SPDX-License-Identifier: Apache-2.0
#include "support/rnn_problem.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ostream>
#include <stdexcept>

#include "support/words.h"

namespace support {
namespace {

constexpr const char* values_names[] = {"usual", "saturated", "large", "loose"};
constexpr const char gradient_letters[] = "xrbs";

enum Stream : uint64_t {
    stream_input = 101,
    stream_weight,
    stream_bias,
    stream_state,
    stream_grad_output,
    stream_grad_state
};

// Words before and after those of packing, and after those of BIAS and of gradients.
constexpr Flag<RnnProblem> flags[] = {
    {"training", &RnnProblem::training}, {"reverse", &RnnProblem::reverse}, {"reset", &RnnProblem::reset}};
constexpr Flag<RnnProblem> later_flags[] = {{"state-in", &RnnProblem::state_in},
                                            {"state-out", &RnnProblem::state_out},
                                            {"all-states", &RnnProblem::all_states},
                                            {"tf32", &RnnProblem::allow_tf32},
                                            {"invariant", &RnnProblem::batch_invariant},
                                            {"pooled", &RnnProblem::pooled},
                                            {"caller-scratch", &RnnProblem::caller_scratch}};

bool parse_flag(RnnProblem& p, const std::string& word) {
    if (flag_named(flags, word, p) || flag_named(later_flags, word, p)) return true;
    if (cell_named(word) != 0)
        p.cell = cell_named(word);
    else if (dtype_after(word, "", p.dtype))
        p.weight_dtype = p.dtype;
    else if (word == "fwd" || word == "bwd")
        p.backward = word == "bwd";
    else if (word == "BTGHD" || word == "TBGHD")
        p.layout = word == "TBGHD" ? FLASHSCAN_LAYOUT_TBGHD : FLASHSCAN_LAYOUT_BTGHD;
    else if (word == "no-bias")
        p.bias = false;
    else
        return word == "rnn";
    return true;
}

bool parse_word(RnnProblem& p, const std::string& word) {
    return parse_flag(p, word) || dtype_after(word, "weight-", p.weight_dtype) ||
           dtype_after(word, "offsets-", p.offsets_dtype) || name_after(word, "values-", values_names, p.values) ||
           letters_after(word, "grads-", gradient_letters, p.gradients) || number_after(word, "clip", p.clip) ||
           number_after(word, "threads", p.threads) || number_after(word, "sequences", p.sequences) ||
           number_after(word, "seed", p.seed) || number_after(word, "b", p.batch) || number_after(word, "t", p.time) ||
           number_after(word, "h", p.heads) || number_after(word, "d", p.dim);
}

Values uniform_values(const RnnProblem& p, int32_t dtype, Stream stream, const std::array<int64_t, 3>& extents,
                      double range) {
    Values values(static_cast<size_t>(extents[0] * extents[1] * extents[2]));
    for (size_t i = 0; i < values.size(); ++i) values[i] = rounded(dtype, range * (2 * uniform(p.seed, stream, i) - 1));
    return values;
}

double weight_range(const RnnProblem& p) {
    if (p.values == RnnValues::loose) return 0;
    // States that ReLU lets through would grow without bound.
    const double radius = p.cell == FLASHSCAN_CELL_ELMAN_RELU ? 0.5 : 1;
    return radius * std::sqrt(3.0 / static_cast<double>(p.dim));
}

Values make_states(const RnnProblem& p) {
    Values states = uniform_values(p, state_dtype(p.dtype), stream_state, p.state_extents(), 1);
    if (p.cell != FLASHSCAN_CELL_SLSTM) return states;
    for (int64_t row = 0; row < p.state_rows(); ++row)
        for (int64_t w = 0; w < p.width(); ++w) {
            // Mostly what a run leaves behind, n >= 1; some without a past, some where the max with 1 acts.
            Value& n = states[p.state_index(2, row, w)];
            const double draw = uniform(p.seed, stream_state + 100, static_cast<uint64_t>(row * p.width() + w));
            n = draw < 0.1 ? Value(0) : draw < 0.2 ? Value(0.25 + 0.125 * n.real()) : Value(2 + n.real());
        }
    return states;
}

}  // namespace

int64_t RnnProblem::gates() const { return cell_row(cell).gates; }
int64_t RnnProblem::biases() const { return cell_row(cell).biases; }
int64_t RnnProblem::states() const { return cell_row(cell).states; }

size_t RnnProblem::input_index(int64_t b, int64_t t, int64_t gate, int64_t w) const {
    const int64_t row = layout == FLASHSCAN_LAYOUT_BTGHD ? b * time + t : t * batch + b;
    return static_cast<size_t>((row * gates() + gate) * width() + w);
}
size_t RnnProblem::output_index(int64_t state, int64_t b, int64_t t, int64_t w) const {
    const int64_t row = layout == FLASHSCAN_LAYOUT_BTGHD ? b * time + t : t * batch + b;
    return static_cast<size_t>((state * batch * time + row) * width() + w);
}
size_t RnnProblem::state_index(int64_t state, int64_t row, int64_t w) const {
    return static_cast<size_t>((state * state_rows() + row) * width() + w);
}
std::array<int64_t, 3> RnnProblem::input_extents() const {
    if (layout == FLASHSCAN_LAYOUT_BTGHD) return {batch, time, gates() * width()};
    return {1, time, batch * gates() * width()};
}
std::array<int64_t, 3> RnnProblem::output_extents() const {
    if (layout == FLASHSCAN_LAYOUT_BTGHD) return {output_states() * batch, time, width()};
    return {output_states(), time, batch * width()};
}

RnnProblem RnnProblem::widened() const {
    RnnProblem wide = *this;
    wide.dtype = wide.weight_dtype = FLASHSCAN_DTYPE_F64;
    wide.all_states = wide.backward = true;
    wide.pooled = wide.batch_invariant = wide.caller_scratch = wide.allow_tf32 = false;
    wide.threads = 1;
    wide.gradients = 15;
    return wide;
}

std::string text_of(const RnnProblem& p) {
    std::string text = fmt::format("rnn {} {} {} b{} t{} h{} d{}", cell_row(p.cell).word, p.backward ? "bwd" : "fwd",
                                   name_of(p.dtype), p.batch, p.time, p.heads, p.dim);
    if (p.layout == FLASHSCAN_LAYOUT_TBGHD) text += " TBGHD";
    if (p.weight_dtype != p.dtype) text += fmt::format(" weight-{}", name_of(p.weight_dtype));
    text += text_of(flags, p);
    if (p.sequences > 0) text += fmt::format(" sequences{}", p.sequences);
    if (p.offsets_dtype != FLASHSCAN_DTYPE_I64) text += fmt::format(" offsets-{}", name_of(p.offsets_dtype));
    text += text_of(later_flags, p);
    if (!p.bias) text += " no-bias";
    if (p.gradients != 15) text += " grads-" + spell(p.gradients, gradient_letters);
    if (p.clip > 0) text += fmt::format(" clip{}", p.clip);
    if (p.threads != 0) text += fmt::format(" threads{}", p.threads);
    if (p.values != RnnValues::usual) text += fmt::format(" values-{}", values_names[static_cast<int>(p.values)]);
    if (p.seed != 1) text += fmt::format(" seed{}", p.seed);
    return text;
}

RnnProblem rnn_problem_of(const std::string& text) {
    RnnProblem problem;
    for (const std::string& word : words_of(text))
        if (!parse_word(problem, word))
            throw std::invalid_argument(fmt::format(
                "'{}' is no word of an rnn line; accepted are a cell ({}), fwd, bwd, DTYPE, bN, tN, hN, dN, BTGHD, "
                "TBGHD, weight-f32, training, reverse, reset, sequencesN, offsets-i32, state-in, state-out, no-bias, "
                "all-states, tf32, grads-LETTERS of {}, clipX, invariant, pooled, caller-scratch, threadsN, values- {} "
                "and "
                "seedN",
                word, fmt::join(cell_words(), " "), gradient_letters, fmt::join(values_names, " ")));
    problem.training = problem.training && !problem.backward;
    return problem;
}

std::ostream& operator<<(std::ostream& stream, const RnnProblem& problem) { return stream << text_of(problem); }

bool has_argument(const RnnProblem& p, int32_t id) {
    switch (id) {
    case FLASHSCAN_ARG_BIAS: return p.bias;
    case FLASHSCAN_ARG_STATE_IN: return p.state_in;
    case FLASHSCAN_ARG_STATE_OUT: return p.state_out;
    default: return true;
    }
}

std::vector<int32_t> gradients_of(const RnnProblem&) {
    return {FLASHSCAN_ARG_INPUT, FLASHSCAN_ARG_WEIGHT, FLASHSCAN_ARG_BIAS, FLASHSCAN_ARG_STATE_IN};
}

std::vector<int32_t> read_by(const RnnProblem& p, bool backward) {
    constexpr int32_t grad = FLASHSCAN_GRAD;
    std::vector<int32_t> ids{FLASHSCAN_ARG_INPUT, FLASHSCAN_ARG_BIAS, FLASHSCAN_ARG_WEIGHT, FLASHSCAN_ARG_STATE_IN};
    if (backward)
        ids = {FLASHSCAN_ARG_WEIGHT, FLASHSCAN_ARG_OUTPUT, FLASHSCAN_ARG_STATE_IN, grad | FLASHSCAN_ARG_OUTPUT,
               grad | FLASHSCAN_ARG_STATE_OUT};
    std::erase_if(ids, [&](int32_t id) { return !has_argument(p, id & ~grad); });
    return ids;
}

bool has_steps(const RnnProblem&, int32_t id) {
    const int32_t argument = id & ~FLASHSCAN_GRAD;
    return argument == FLASHSCAN_ARG_INPUT || argument == FLASHSCAN_ARG_OUTPUT;
}

int32_t dtype_of(const RnnProblem& p, int32_t id) {
    const int32_t argument = id & ~FLASHSCAN_GRAD;
    if (argument == FLASHSCAN_ARG_WEIGHT || argument == FLASHSCAN_ARG_BIAS) return p.weight_dtype;
    return has_steps(p, id) ? p.dtype : state_dtype(p.dtype);
}

Tensor tensor_of(const RnnProblem& p, int32_t id) {
    Tensor tensor;
    switch (id & ~FLASHSCAN_GRAD) {
    case FLASHSCAN_ARG_INPUT: tensor.extents = p.input_extents(); break;
    case FLASHSCAN_ARG_WEIGHT: tensor.extents = p.weight_extents(); break;
    case FLASHSCAN_ARG_BIAS: tensor.extents = p.bias_extents(); break;
    case FLASHSCAN_ARG_OUTPUT: tensor.extents = p.output_extents(); break;
    default: return state_tensor(p);
    }
    tensor.strides = {tensor.extents[1] * tensor.extents[2], tensor.extents[2], 1};
    return tensor;
}

Tensor state_tensor(const RnnProblem& p) { return state_tensor(p.states(), p.state_rows(), p.width(), p.pooled); }

flashscan_rnn_desc desc_of(const RnnProblem& p) {
    flashscan_rnn_desc desc{};
    desc.struct_size = sizeof desc;
    desc.dtype = p.dtype;
    desc.weight_dtype = p.weight_dtype == p.dtype ? 0 : p.weight_dtype;
    desc.layout = p.layout;
    desc.cell = p.cell;
    desc.direction = p.reverse ? FLASHSCAN_DIRECTION_REVERSE : FLASHSCAN_DIRECTION_FORWARD;
    if (p.reset) desc.flags |= FLASHSCAN_RNN_FLAG_RESET;
    if (p.all_states) desc.flags |= FLASHSCAN_RNN_FLAG_ALL_STATES;
    if (p.trains()) desc.flags |= FLASHSCAN_RNN_FLAG_TRAINING;
    if (p.allow_tf32) desc.flags |= FLASHSCAN_RNN_FLAG_ALLOW_TF32;
    desc.offsets_dtype = p.sequences > 0 ? p.offsets_dtype : 0;
    desc.batch = p.batch;
    desc.time = p.time;
    desc.heads = p.heads;
    desc.head_dim = p.dim;
    desc.num_sequences = p.sequences;
    desc.recurrent_clip = p.clip;
    set_state_strides(desc, state_tensor(p));
    return desc;
}

flashscan_options options_of(const RnnProblem& p, int32_t backend, const std::string& kernel) {
    return make_options(backend, kernel, p.threads, p.batch_invariant, p.caller_scratch);
}

std::vector<Target> rnn_kernel_targets() {
    return targets_of([](int32_t backend) { return kernels_of(flashscan_plan_rnn, RnnProblem{}, backend); });
}

std::vector<Target> rnn_targets() {
    std::vector<Target> targets = rnn_kernel_targets();
    targets.push_back({FLASHSCAN_BACKEND_CPU, "reference"});
    return targets;
}

RnnProblem fitted(RnnProblem p, const Target& target) {
    if (target.kernel != "diagonal" && target.kernel != "diagonal_newton") return p;
    p.heads *= p.dim;
    p.dim = 1;
    return p;
}

RnnData make_data(const RnnProblem& p) {
    constexpr double ranges[] = {2, 40, 4000, 2};
    RnnData data;
    data.input = uniform_values(p, p.dtype, stream_input, p.input_extents(), ranges[static_cast<int>(p.values)]);
    data.weight = uniform_values(p, p.weight_dtype, stream_weight, p.weight_extents(), weight_range(p));
    if (p.bias) data.bias = uniform_values(p, p.weight_dtype, stream_bias, p.bias_extents(), 0.5);
    if (p.state_in) data.state_in = make_states(p);
    data.grad_output = uniform_values(p, p.dtype, stream_grad_output, p.output_extents(), 1);
    if (p.state_out)
        data.grad_state_out = uniform_values(p, state_dtype(p.dtype), stream_grad_state, p.state_extents(), 1);
    if (p.reset) data.reset = make_reset(p.seed, p.batch * p.time);
    if (p.sequences > 0) data.offsets = make_offsets(p.seed, p.time, p.sequences);
    return data;
}

int64_t written_time(const RnnProblem& p, const RnnData& data) {
    return p.sequences > 0 ? data.offsets.back() : p.time;
}

}  // namespace support
