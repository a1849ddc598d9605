// SPDX-License-Identifier: Apache-2.0
#include "support/problem.h"

#include <fmt/format.h>

#include <algorithm>
#include <ostream>
#include <sstream>
#include <stdexcept>
#include <string_view>

#include "support/words.h"

namespace support {
namespace {

constexpr const char* form_names[] = {"value", "log", "logit"};
constexpr const char* gates_names[] = {"mixed", "ones", "large", "range"};

bool parse_flag(Problem& p, const std::string& word) {
    if (word == "reverse") return p.reverse = true;
    if (word == "reset") return p.reset = true;
    if (word == "state-in") return p.state_in = true;
    if (word == "state-out") return p.state_out = true;
    if (word == "in-place") return p.in_place = true;
    if (word == "invariant") return p.batch_invariant = true;
    if (word == "caller-scratch") return p.caller_scratch = true;
    if (word == "pooled") return p.pooled = true;
    return parse_layout(word, p.layout) || word == "linear";
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
           letters_after(word, "broadcast-", "btc", p.broadcast) || letters_after(word, "grads-", "xgs", p.gradients) ||
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

Placement placement_of(const Problem& p, Role role) {
    if (p.placement != Placement::mixed) return p.placement;
    if (p.in_place && role == Role::output) role = Role::input;
    if (p.in_place && role == Role::grad_input) role = Role::grad_output;
    return mixed_placement(static_cast<uint64_t>(role) + p.seed);
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
    std::string text = fmt::format("linear {} {} b{} t{} c{}", name_of(p.dtype),
                                   p.layout == FLASHSCAN_LAYOUT_BCT ? "BCT" : "BTC", p.batch, p.time, p.channels);
    if (p.gate_dtype != p.dtype) text += fmt::format(" gate-{}", name_of(p.gate_dtype));
    if (p.form != FLASHSCAN_GATE_VALUE) text += fmt::format(" form-{}", form_names[p.form - FLASHSCAN_GATE_VALUE]);
    if (p.broadcast != 0) text += " broadcast-" + spell(p.broadcast, "btc");
    if (p.reverse) text += " reverse";
    if (p.reset) text += " reset";
    if (p.sequences > 0) text += fmt::format(" sequences{} offsets-{}", p.sequences, name_of(p.offsets_dtype));
    if (p.state_in) text += " state-in";
    if (p.state_out) text += " state-out";
    text += " grads-" + spell(p.gradients, "xgs");
    if (p.placement != Placement::dense) text += fmt::format(" place-{}", name_of(p.placement));
    if (p.in_place) text += " in-place";
    if (p.batch_invariant) text += " invariant";
    if (p.pooled) text += " pooled";
    if (p.caller_scratch) text += " caller-scratch";
    if (p.threads != 0) text += fmt::format(" threads{}", p.threads);
    if (p.gates != Gates::mixed) text += fmt::format(" gates-{}", gates_names[static_cast<int>(p.gates)]);
    return text + fmt::format(" seed{}", p.seed);
}

Problem problem_of(const std::string& text) {
    Problem problem;
    std::istringstream words(text);
    bool dtype_seen = false;
    for (std::string word; words >> word;)
        if (!parse_word(problem, word, dtype_seen)) throw std::invalid_argument("unknown word: " + word);
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

Tensor tensor_of(const Problem& p, Role role) {
    const bool gate = role == Role::gate || role == Role::grad_gate;
    Tensor tensor = placed(gate ? p.gate_extents() : p.extents(), p.layout, placement_of(p, role));
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
    const auto strides = [&](Role role) -> flashscan_strides {
        const Tensor tensor = tensor_of(p, role);
        if (!tensor.strides_given) return {};
        return {tensor.strides[0], tensor.strides[1], tensor.strides[2]};
    };
    desc.input = strides(Role::input);
    desc.gate = strides(Role::gate);
    desc.output = strides(Role::output);
    desc.grad_input = strides(Role::grad_input);
    desc.grad_gate = strides(Role::grad_gate);
    desc.grad_output = strides(Role::grad_output);
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

std::string text_of(const Target& target) {
    return fmt::format("{}_{}", target.backend == FLASHSCAN_BACKEND_CUDA ? "cuda" : "cpu",
                       target.kernel.empty() ? "auto" : target.kernel);
}

std::vector<Target> planner_targets() { return {{FLASHSCAN_BACKEND_CPU, ""}, {FLASHSCAN_BACKEND_CUDA, ""}}; }

std::vector<std::string> names_in(const std::string& sentence) {
    const std::string mark = " accepts ";
    const size_t start = sentence.find(mark);
    if (start == std::string::npos) return {};
    std::istringstream list(sentence.substr(start + mark.size()));
    std::vector<std::string> names;
    for (std::string name; list >> name;) {
        if (name.back() == ',') name.pop_back();
        names.push_back(name);
    }
    return names;
}

static std::vector<std::string> kernels_of(int32_t backend) {
    flashscan_plan* plan = nullptr;
    const flashscan_linear_desc desc = desc_of(Problem{});
    const std::string unknown = "?";  // the options point into it
    const flashscan_options options = options_of(Problem{}, backend, unknown);
    if (flashscan_plan_linear(&plan, &desc, &options) == FLASHSCAN_STATUS_INVALID_ARGUMENT)
        return names_in(flashscan_last_error());
    flashscan_plan_destroy(plan);
    return {};
}

std::vector<Target> kernel_targets() {
    std::vector<Target> targets;
    for (const int32_t backend : {FLASHSCAN_BACKEND_CPU, FLASHSCAN_BACKEND_CUDA})
        for (const std::string& kernel : kernels_of(backend))
            if (kernel != "reference") targets.push_back({backend, kernel});
    return targets;
}

std::vector<Target> targets_of(std::vector<std::string> (*kernels_of)(int32_t backend)) {
    std::vector<Target> targets;
    for (const int32_t backend : {FLASHSCAN_BACKEND_CPU, FLASHSCAN_BACKEND_CUDA}) {
        const std::vector<std::string> kernels = kernels_of(backend);
        if (!kernels.empty()) targets.push_back({backend, ""});
        for (const std::string& kernel : kernels)
            if (kernel != "reference") targets.push_back({backend, kernel});
    }
    return targets;
}

std::vector<Target> all_targets() {
    std::vector<Target> targets = planner_targets();
    for (const Target& target : kernel_targets()) targets.push_back(target);
    targets.push_back({FLASHSCAN_BACKEND_CPU, "reference"});
    return targets;
}

}  // namespace support
