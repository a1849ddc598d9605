// SPDX-License-Identifier: Apache-2.0
#include "support/problem.h"

#include <fmt/format.h>

#include <algorithm>
#include <ostream>
#include <stdexcept>
#include <string_view>

#include "support/words.h"

namespace support {
namespace {

constexpr const char* form_names[] = {"value", "log", "logit"};
constexpr const char* gates_names[] = {"mixed", "ones", "large", "range"};

constexpr const char gradient_letters[] = "xgs";

// Words before and after those of packing.
constexpr Flag<Problem> flags[] = {{"reverse", &Problem::reverse}, {"reset", &Problem::reset}};
constexpr Flag<Problem> later_flags[] = {{"state-in", &Problem::state_in},
                                         {"state-out", &Problem::state_out},
                                         {"strided", &Problem::strided},
                                         {"in-place", &Problem::in_place},
                                         {"invariant", &Problem::batch_invariant},
                                         {"pooled", &Problem::pooled},
                                         {"caller-scratch", &Problem::caller_scratch}};

bool parse_flag(Problem& p, const std::string& word) {
    if (flag_named(flags, word, p) || flag_named(later_flags, word, p)) return true;
    if (word == "fwd") {
        p.gradients = 0;
        return true;
    }
    return parse_layout(word, p.layout) || word == "bwd" || word == "linear";
}

// `c64` is a dtype where none was seen yet and an extent after that.
bool parse_word(Problem& p, const std::string& word, bool& dtype_seen) {
    if (parse_flag(p, word)) return true;
    if (!dtype_seen && dtype_named(word) != 0) {
        p.dtype = p.gate_dtype = dtype_named(word);
        return dtype_seen = true;
    }
    return dtype_after(word, "gate-", p.gate_dtype) ||
           name_after(word, "form-", form_names, p.form, FLASHSCAN_GATE_VALUE) ||
           letters_after(word, "broadcast-", "btc", p.broadcast) ||
           letters_after(word, "grads-", gradient_letters, p.gradients) ||
           placement_after(word, "place-", p.placement) || name_after(word, "gates-", gates_names, p.gates) ||
           number_after(word, "threads", p.threads) || number_after(word, "seed", p.seed) ||
           dtype_after(word, "offsets-", p.offsets_dtype) || number_after(word, "sequences", p.sequences) ||
           number_after(word, "b", p.batch) || number_after(word, "t", p.time) || number_after(word, "c", p.channels);
}

// Strides that nest in the order of `axes`, innermost first, with `gap` elements after each axis.
std::array<int64_t, 3> nested(const std::array<int64_t, 3>& extents, const std::array<int, 3>& axes, int64_t first,
                              const std::array<int64_t, 3>& gap) {
    std::array<int64_t, 3> strides{};
    int64_t stride = first;
    for (size_t i = 0; i < 3; ++i) {
        const auto axis = static_cast<size_t>(axes[i]);
        strides[axis] = stride;
        stride = stride * std::max<int64_t>(extents[axis], 1) + gap[i];
    }
    return strides;
}

Placement placement_of(const Problem& p, int32_t id) {
    constexpr int32_t grad = FLASHSCAN_GRAD;
    if (p.placement != Placement::mixed) return p.placement;
    if (p.in_place && id == FLASHSCAN_ARG_OUTPUT) id = FLASHSCAN_ARG_INPUT;
    if (p.in_place && id == (grad | FLASHSCAN_ARG_INPUT)) id = grad | FLASHSCAN_ARG_OUTPUT;
    const int32_t argument = id & ~grad;
    const uint64_t place = argument == FLASHSCAN_ARG_INPUT ? 0 : argument == FLASHSCAN_ARG_GATE ? 1 : 2;
    return mixed_placement(place + ((id & grad) != 0 ? 3 : 0) + p.seed);
}

}  // namespace

size_t Problem::gate_index(int64_t b, int64_t t, int64_t c) const {
    const auto e = gate_extents();
    return static_cast<size_t>(((e[0] == 1 ? 0 : b) * e[1] + (e[1] == 1 ? 0 : t)) * e[2] + (e[2] == 1 ? 0 : c));
}

Problem Problem::widened() const {
    Problem wide = *this;
    wide.dtype = wide_dtype(dtype);
    wide.gate_dtype = wide_dtype(gate_dtype);
    wide.layout = FLASHSCAN_LAYOUT_BTC;
    wide.placement = Placement::dense;
    wide.in_place = wide.pooled = wide.batch_invariant = wide.caller_scratch = false;
    wide.threads = 1;
    return wide;
}

std::string text_of(const Problem& p) {
    std::string text = fmt::format("linear {} {} {} b{} t{} c{}", p.gradients == 0 ? "fwd" : "bwd", name_of(p.dtype),
                                   p.layout == FLASHSCAN_LAYOUT_BCT ? "BCT" : "BTC", p.batch, p.time, p.channels);
    if (p.gate_dtype != p.dtype) text += fmt::format(" gate-{}", name_of(p.gate_dtype));
    if (p.form != FLASHSCAN_GATE_VALUE) text += fmt::format(" form-{}", form_names[p.form - FLASHSCAN_GATE_VALUE]);
    if (p.broadcast != 0) text += " broadcast-" + spell(p.broadcast, "btc");
    text += text_of(flags, p);
    if (p.sequences > 0) text += fmt::format(" sequences{}", p.sequences);
    if (p.offsets_dtype != FLASHSCAN_DTYPE_I64) text += fmt::format(" offsets-{}", name_of(p.offsets_dtype));
    text += text_of(later_flags, p);
    if (p.gradients != 7 && p.gradients != 0) text += " grads-" + spell(p.gradients, gradient_letters);
    if (p.placement != Placement::dense) text += fmt::format(" place-{}", name_of(p.placement));
    if (p.threads != 0) text += fmt::format(" threads{}", p.threads);
    if (p.gates != Gates::mixed) text += fmt::format(" gates-{}", gates_names[static_cast<int>(p.gates)]);
    if (p.seed != 1) text += fmt::format(" seed{}", p.seed);
    return text;
}

Problem problem_of(const std::string& text) {
    Problem problem;
    bool dtype_seen = false;
    for (const std::string& word : words_of(text))
        if (!parse_word(problem, word, dtype_seen))
            throw std::invalid_argument(fmt::format(
                "'{}' is no word of a linear line; accepted are fwd, bwd, DTYPE, BTC, BCT, bN, tN, cN, gate-DTYPE, "
                "form-log, form-logit, broadcast-AXES of btc, reverse, reset, sequencesN, offsets-i32, state-in, "
                "state-out, strided, in-place, invariant, pooled, caller-scratch, grads-LETTERS of {}, place-PLACE, "
                "threadsN, gates- {} and seedN",
                word, gradient_letters, fmt::join(gates_names, " ")));
    return problem;
}

std::ostream& operator<<(std::ostream& stream, const Problem& problem) { return stream << text_of(problem); }

int64_t Tensor::span() const {
    int64_t last = 0;
    for (size_t i = 0; i < 3; ++i) {
        if (extents[i] == 0) return 0;
        last += (extents[i] - 1) * strides[i];
    }
    return last + 1;
}

Placement mixed_placement(uint64_t k) {
    constexpr Placement cycle[] = {Placement::fused,      Placement::transposed, Placement::dense, Placement::padded,
                                   Placement::time_major, Placement::misaligned, Placement::spread};
    return cycle[k % std::size(cycle)];
}

Tensor placed(const std::array<int64_t, 3>& e, int32_t layout, Placement placement) {
    Tensor tensor;
    tensor.extents = e;
    const std::array<int, 3> own = layout == FLASHSCAN_LAYOUT_BTC ? std::array{2, 1, 0} : std::array{1, 2, 0};
    const std::array<int, 3> other = layout == FLASHSCAN_LAYOUT_BTC ? std::array{1, 2, 0} : std::array{2, 1, 0};
    tensor.strides_given = placement != Placement::dense && placement != Placement::misaligned;
    tensor.misaligned = placement == Placement::misaligned;
    switch (placement) {
    case Placement::fused: tensor.strides = nested({e[0], e[1], 2 * e[2]}, own, 1, {}); break;
    case Placement::transposed: tensor.strides = nested(e, other, 1, {}); break;
    case Placement::padded: tensor.strides = nested(e, own, 1, {3, 5, 0}); break;
    case Placement::spread: tensor.strides = nested(e, own, 2, {}); break;
    case Placement::time_major: tensor.strides = nested(e, {2, 0, 1}, 1, {}); break;
    default: tensor.strides = nested(e, own, 1, {}); break;
    }
    return tensor;
}

bool has_argument(const Problem& p, int32_t id) {
    if (id == FLASHSCAN_ARG_STATE_IN) return p.state_in;
    return id != FLASHSCAN_ARG_STATE_OUT || p.state_out;
}

std::vector<int32_t> read_by(const Problem& p, bool backward) {
    constexpr int32_t grad = FLASHSCAN_GRAD;
    std::vector<int32_t> ids{FLASHSCAN_ARG_INPUT, FLASHSCAN_ARG_GATE, FLASHSCAN_ARG_STATE_IN};
    if (backward)
        ids = {FLASHSCAN_ARG_GATE, FLASHSCAN_ARG_OUTPUT, grad | FLASHSCAN_ARG_OUTPUT, FLASHSCAN_ARG_STATE_IN,
               grad | FLASHSCAN_ARG_STATE_OUT};
    std::erase_if(ids, [&](int32_t id) {
        return !has_argument(p, id & ~grad) || (id == FLASHSCAN_ARG_OUTPUT && (p.gradients & gradient_gate) == 0);
    });
    return ids;
}

bool has_steps(const Problem& p, int32_t id) {
    const int32_t argument = id & ~FLASHSCAN_GRAD;
    if (argument == FLASHSCAN_ARG_GATE) return !p.broadcasts(FLASHSCAN_BROADCAST_TIME);
    return argument == FLASHSCAN_ARG_INPUT || argument == FLASHSCAN_ARG_OUTPUT;
}

int32_t dtype_of(const Problem& p, int32_t id) {
    switch (id & ~FLASHSCAN_GRAD) {
    case FLASHSCAN_ARG_GATE: return p.gate_dtype;
    case FLASHSCAN_ARG_STATE_IN:
    case FLASHSCAN_ARG_STATE_OUT: return state_dtype(p.dtype);
    default: return p.dtype;
    }
}

Tensor tensor_of(const Problem& p, int32_t id) {
    const int32_t argument = id & ~FLASHSCAN_GRAD;
    if (argument == FLASHSCAN_ARG_STATE_IN || argument == FLASHSCAN_ARG_STATE_OUT) return state_tensor(p);
    const bool gate = argument == FLASHSCAN_ARG_GATE, half = p.strided && argument != FLASHSCAN_ARG_OUTPUT;
    const Placement placement = placement_of(p, id);
    Tensor tensor = placed(gate ? p.gate_extents() : p.extents(), p.layout, half ? Placement::fused : placement);
    tensor.misaligned = placement == Placement::misaligned;
    for (size_t i = 0; i < 3; ++i)
        if (gate && (p.broadcast >> i & 1U) != 0) tensor.strides[i] = 0;
    return tensor;
}

Tensor dense_tensor(int64_t rows, int64_t channels) {
    Tensor tensor;
    tensor.extents = {rows, 1, channels};
    tensor.strides = {channels, 0, 1};
    return tensor;
}

Tensor state_tensor(int64_t states, int64_t rows, int64_t width, bool pooled) {
    Tensor tensor;
    tensor.extents = {states, rows, width};
    tensor.strides = {rows * width, width, 1};
    tensor.strides_given = pooled;
    if (pooled) tensor.strides = {width + 1, states * (width + 1) + 2, 1};
    return tensor;
}

Tensor state_tensor(const Problem& p) { return state_tensor(1, p.state_rows(), p.channels, p.pooled); }

flashscan_linear_desc desc_of(const Problem& p) {
    flashscan_linear_desc desc{};
    desc.struct_size = sizeof desc;
    desc.dtype = p.dtype;
    desc.gate_dtype = p.gate_dtype == p.dtype ? 0 : p.gate_dtype;
    desc.layout = p.layout;
    desc.gate_form = p.form;
    desc.gate_broadcast = p.broadcast;
    desc.direction = p.reverse ? FLASHSCAN_DIRECTION_REVERSE : FLASHSCAN_DIRECTION_FORWARD;
    desc.flags = p.reset ? static_cast<uint32_t>(FLASHSCAN_LINEAR_FLAG_RESET) : 0;
    desc.batch = p.batch;
    desc.time = p.time;
    desc.channels = p.channels;
    desc.num_sequences = p.sequences;
    desc.offsets_dtype = p.sequences > 0 ? p.offsets_dtype : 0;
    const auto strides = [&](int32_t id) -> flashscan_strides {
        const Tensor tensor = tensor_of(p, id);
        if (!tensor.strides_given) return {};
        return {tensor.strides[0], tensor.strides[1], tensor.strides[2]};
    };
    desc.input = strides(FLASHSCAN_ARG_INPUT);
    desc.gate = strides(FLASHSCAN_ARG_GATE);
    desc.output = strides(FLASHSCAN_ARG_OUTPUT);
    desc.grad_input = strides(FLASHSCAN_GRAD | FLASHSCAN_ARG_INPUT);
    desc.grad_gate = strides(FLASHSCAN_GRAD | FLASHSCAN_ARG_GATE);
    desc.grad_output = strides(FLASHSCAN_GRAD | FLASHSCAN_ARG_OUTPUT);
    set_state_strides(desc, state_tensor(p));
    return desc;
}

flashscan_options options_of(const Problem& p, int32_t backend, const std::string& kernel) {
    return make_options(backend, kernel, p.threads, p.batch_invariant, p.caller_scratch);
}

flashscan_options make_options(int32_t backend, const std::string& kernel, int32_t threads, bool batch_invariant,
                               bool caller_scratch) {
    flashscan_options options{};
    options.struct_size = sizeof options;
    options.backend = backend;
    options.threads = backend == FLASHSCAN_BACKEND_CPU ? threads : 0;
#if defined(__SANITIZE_THREAD__)
    // ThreadSanitizer does not see the synchronisation inside GCC's OpenMP runtime.
    if (backend == FLASHSCAN_BACKEND_CPU) options.threads = 1;
#endif
    options.determinism = batch_invariant ? FLASHSCAN_DETERMINISM_BATCH_INVARIANT : FLASHSCAN_DETERMINISM_RUN_TO_RUN;
    options.workspace = caller_scratch ? FLASHSCAN_WORKSPACE_CALLER : FLASHSCAN_WORKSPACE_LIBRARY;
    options.kernel = kernel.empty() ? nullptr : kernel.c_str();
    return options;
}

}  // namespace support
