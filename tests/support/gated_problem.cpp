// SPDX-License-Identifier: Apache-2.0
#include "support/gated_problem.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ostream>
#include <sstream>
#include <stdexcept>

namespace support {
namespace {

constexpr const char* layer_names[] = {"mingru", "minlstm", "hgrn", "rglru", "qrnn", "gilr"};
constexpr const char* decay_names[] = {"value",       "exp",      "sigmoid", "one-minus-sigmoid",
                                       "lower-bound", "softplus", "ratio"};
constexpr const char* scale_names[] = {"one", "one-minus", "sqrt"};
constexpr const char* activation_names[] = {"none", "tanh", "silu", "positive"};
constexpr const char* epilogue_names[] = {"none", "sigmoid", "silu", "tanh-sigmoid"};
constexpr const char* placement_names[] = {"dense",      "fused",  "transposed", "padded",
                                           "misaligned", "spread", "time-major", "mixed"};
constexpr const char gradient_letters[] = "xg2iopbs";

template <typename Names>
int32_t named(const Names& names, const std::string& name, int32_t first) {
    const auto found = std::find(std::begin(names), std::end(names), name);
    if (found == std::end(names)) throw std::invalid_argument("unknown word: " + name);
    return first + static_cast<int32_t>(found - std::begin(names));
}

bool starts(const std::string& word, std::string_view prefix, std::string& rest) {
    if (!word.starts_with(prefix)) return false;
    rest = word.substr(prefix.size());
    return true;
}

bool parse_flag(GatedProblem& p, const std::string& word) {
    const std::pair<const char*, bool*> flags[] = {{"first-step", &p.first_step},
                                                   {"reverse", &p.reverse},
                                                   {"reset", &p.reset},
                                                   {"state-in", &p.state_in},
                                                   {"state-out", &p.state_out},
                                                   {"in-place", &p.in_place},
                                                   {"invariant", &p.batch_invariant},
                                                   {"caller-scratch", &p.caller_scratch},
                                                   {"pooled", &p.pooled}};
    for (const auto& [name, flag] : flags)
        if (word == name) return *flag = true;
    if (word == "no-bias") {
        p.bias = false;
    } else if (word == "BTC" || word == "BCT") {
        p.layout = word == "BCT" ? FLASHSCAN_LAYOUT_BCT : FLASHSCAN_LAYOUT_BTC;
    } else if (word == "input-gate") {
        p.input_gating = FLASHSCAN_GATED_INPUT_GATE_SIGMOID;
    } else if (word == "saturated") {
        p.values = GatedValues::saturated;
    } else if (word == "growing") {
        p.values = GatedValues::growing;
    } else if (const auto* layer = std::find(std::begin(layer_names), std::end(layer_names), word);
               layer != std::end(layer_names)) {
        p.set_layer(FLASHSCAN_GATED_LAYER_MINGRU + static_cast<int32_t>(layer - std::begin(layer_names)));
    } else {
        return word == "gated";
    }
    return true;
}

void parse_word(GatedProblem& p, const std::string& word) {
    std::string rest;
    if (parse_flag(p, word)) return;
    if (dtype_named(word) != 0 && !is_complex(dtype_named(word)))  // c64 is an extent here
        p.dtype = p.gate_dtype = p.param_dtype = dtype_named(word);
    else if (starts(word, "gate-", rest))
        p.gate_dtype = dtype_named(rest);
    else if (starts(word, "param-", rest))
        p.param_dtype = dtype_named(rest);
    else if (starts(word, "decay-", rest))
        p.decay = named(decay_names, rest, FLASHSCAN_GATED_DECAY_VALUE);
    else if (starts(word, "scale-", rest))
        p.scale = named(scale_names, rest, FLASHSCAN_GATED_SCALE_ONE);
    else if (starts(word, "activation-", rest))
        p.activation = named(activation_names, rest, FLASHSCAN_GATED_ACTIVATION_NONE);
    else if (starts(word, "epilogue-", rest))
        p.epilogue = named(epilogue_names, rest, FLASHSCAN_GATED_EPILOGUE_NONE);
    else if (starts(word, "place-", rest))
        p.placement = static_cast<Placement>(named(placement_names, rest, 0));
    else if (starts(word, "grads-", rest)) {
        p.gradients = 0;
        for (const char letter : rest) {
            const size_t place = std::string_view(gradient_letters).find(letter);
            if (place == std::string_view::npos) throw std::invalid_argument("unknown letters: " + rest);
            p.gradients |= 1U << place;
        }
    } else if (starts(word, "rate", rest))
        p.decay_rate = std::stod(rest);
    else if (starts(word, "limit", rest))
        p.slope_limit = std::stod(rest);
    else if (starts(word, "threads", rest))
        p.threads = std::stoi(rest);
    else if (starts(word, "seed", rest))
        p.seed = std::stoull(rest);
    else if (starts(word, "offsets-", rest))
        p.offsets_dtype = dtype_named(rest);
    else if (starts(word, "sequences", rest))
        p.sequences = std::stoll(rest);
    else if (starts(word, "b", rest))
        p.batch = std::stoll(rest);
    else if (starts(word, "t", rest))
        p.time = std::stoll(rest);
    else if (starts(word, "c", rest))
        p.channels = std::stoll(rest);
    else
        throw std::invalid_argument("unknown word: " + word);
}

std::string parts_of(const GatedProblem& p) {
    if (p.layer != 0) return fmt::format(" {}", layer_names[p.layer - FLASHSCAN_GATED_LAYER_MINGRU]);
    std::string text = fmt::format(" decay-{}", decay_names[p.decay - FLASHSCAN_GATED_DECAY_VALUE]);
    if (p.scale != FLASHSCAN_GATED_SCALE_ONE)
        text += fmt::format(" scale-{}", scale_names[p.scale - FLASHSCAN_GATED_SCALE_ONE]);
    if (p.activation != FLASHSCAN_GATED_ACTIVATION_NONE)
        text += fmt::format(" activation-{}", activation_names[p.activation - FLASHSCAN_GATED_ACTIVATION_NONE]);
    if (p.has_input_gate()) text += " input-gate";
    if (p.has_output_gate())
        text += fmt::format(" epilogue-{}", epilogue_names[p.epilogue - FLASHSCAN_GATED_EPILOGUE_NONE]);
    if (p.first_step) text += " first-step";
    return text;
}

}  // namespace

// Written apart from the library's table.
void GatedProblem::set_layer(int32_t wanted) {
    layer = wanted;
    decay = FLASHSCAN_GATED_DECAY_SIGMOID, scale = FLASHSCAN_GATED_SCALE_ONE_MINUS;
    activation = FLASHSCAN_GATED_ACTIVATION_TANH, input_gating = FLASHSCAN_GATED_INPUT_GATE_NONE;
    epilogue = FLASHSCAN_GATED_EPILOGUE_NONE;
    switch (wanted) {
    case FLASHSCAN_GATED_LAYER_MINGRU:
        decay = FLASHSCAN_GATED_DECAY_ONE_MINUS_SIGMOID, activation = FLASHSCAN_GATED_ACTIVATION_POSITIVE;
        break;
    case FLASHSCAN_GATED_LAYER_MINLSTM:
        decay = FLASHSCAN_GATED_DECAY_RATIO, activation = FLASHSCAN_GATED_ACTIVATION_POSITIVE;
        break;
    case FLASHSCAN_GATED_LAYER_HGRN:
        decay = FLASHSCAN_GATED_DECAY_LOWER_BOUND, activation = FLASHSCAN_GATED_ACTIVATION_SILU;
        break;
    case FLASHSCAN_GATED_LAYER_RGLRU:
        decay = FLASHSCAN_GATED_DECAY_SOFTPLUS, scale = FLASHSCAN_GATED_SCALE_SQRT;
        activation = FLASHSCAN_GATED_ACTIVATION_NONE, input_gating = FLASHSCAN_GATED_INPUT_GATE_SIGMOID;
        first_step = true;
        break;
    case FLASHSCAN_GATED_LAYER_QRNN: epilogue = FLASHSCAN_GATED_EPILOGUE_SIGMOID; break;
    default: break;
    }
}

GatedProblem GatedProblem::widened() const {
    GatedProblem wide = *this;
    wide.dtype = wide.gate_dtype = wide.param_dtype = FLASHSCAN_DTYPE_F64;
    wide.layout = FLASHSCAN_LAYOUT_BTC;
    wide.placement = Placement::dense;
    wide.in_place = wide.pooled = wide.batch_invariant = wide.caller_scratch = false;
    wide.gradients = 0xff;
    wide.threads = 1;
    return wide;
}

std::string text_of(const GatedProblem& p) {
    std::string text = fmt::format("gated {} {} b{} t{} c{}", name_of(p.dtype),
                                   p.layout == FLASHSCAN_LAYOUT_BCT ? "BCT" : "BTC", p.batch, p.time, p.channels);
    text += parts_of(p);
    if (p.gate_dtype != p.dtype) text += fmt::format(" gate-{}", name_of(p.gate_dtype));
    if (p.param_dtype != p.dtype) text += fmt::format(" param-{}", name_of(p.param_dtype));
    if (p.reverse) text += " reverse";
    if (p.reset) text += " reset";
    if (p.sequences > 0) text += fmt::format(" sequences{} offsets-{}", p.sequences, name_of(p.offsets_dtype));
    if (p.state_in) text += " state-in";
    if (p.state_out) text += " state-out";
    if (!p.bias) text += " no-bias";
    if (p.gradients != 0xff) {
        text += " grads-";
        for (size_t i = 0; i < 8; ++i)
            if ((p.gradients >> i & 1U) != 0) text += gradient_letters[i];
    }
    if (p.decay_rate != 0) text += fmt::format(" rate{}", p.decay_rate);
    if (p.slope_limit != 0) text += fmt::format(" limit{}", p.slope_limit);
    if (p.placement != Placement::dense)
        text += fmt::format(" place-{}", placement_names[static_cast<int>(p.placement)]);
    if (p.in_place) text += " in-place";
    if (p.pooled) text += " pooled";
    if (p.batch_invariant) text += " invariant";
    if (p.caller_scratch) text += " caller-scratch";
    if (p.threads != 0) text += fmt::format(" threads{}", p.threads);
    if (p.values == GatedValues::saturated) text += " saturated";
    if (p.values == GatedValues::growing) text += " growing";
    return text + fmt::format(" seed{}", p.seed);
}

GatedProblem gated_problem_of(const std::string& text) {
    GatedProblem problem;
    std::istringstream words(text);
    for (std::string word; words >> word;) parse_word(problem, word);
    return problem;
}

std::ostream& operator<<(std::ostream& stream, const GatedProblem& problem) { return stream << text_of(problem); }

}  // namespace support
