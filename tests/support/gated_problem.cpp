// SPDX-License-Identifier: Apache-2.0
#include "support/gated_problem.h"

#include <fmt/format.h>

#include <cmath>
#include <ostream>
#include <stdexcept>

#include "support/words.h"

namespace support {
namespace {

constexpr const char* layer_names[] = {"mingru", "minlstm", "hgrn", "rglru", "qrnn", "gilr"};
constexpr const char* decay_names[] = {"value",       "exp",      "sigmoid", "one-minus-sigmoid",
                                       "lower-bound", "softplus", "ratio"};
constexpr const char* scale_names[] = {"one", "one-minus", "sqrt"};
constexpr const char* activation_names[] = {"none", "tanh", "silu", "positive"};
constexpr const char* epilogue_names[] = {"none", "sigmoid", "silu", "tanh-sigmoid"};
constexpr const char gradient_letters[] = "xg2iopbs";

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
    if (word == "fwd") {
        p.gradients = 0;
    } else if (word == "no-bias") {
        p.bias = false;
    } else if (word == "input-gate") {
        p.input_gating = FLASHSCAN_GATED_INPUT_GATE_SIGMOID;
    } else if (word == "saturated") {
        p.values = GatedValues::saturated;
    } else if (word == "growing") {
        p.values = GatedValues::growing;
    } else {
        return parse_layout(word, p.layout) || word == "bwd" || word == "gated";
    }
    return true;
}

bool parse_word(GatedProblem& p, const std::string& word) {
    int32_t named = 0;
    if (parse_flag(p, word)) return true;
    if (name_after(word, "", layer_names, named, FLASHSCAN_GATED_LAYER_MINGRU)) {
        p.set_layer(named);
        return true;
    }
    if (dtype_after(word, "", named) && !is_complex(named)) {  // c64 is an extent here
        p.dtype = p.gate_dtype = p.param_dtype = named;
        return true;
    }
    return dtype_after(word, "gate-", p.gate_dtype) || dtype_after(word, "param-", p.param_dtype) ||
           name_after(word, "decay-", decay_names, p.decay, FLASHSCAN_GATED_DECAY_VALUE) ||
           name_after(word, "scale-", scale_names, p.scale, FLASHSCAN_GATED_SCALE_ONE) ||
           name_after(word, "activation-", activation_names, p.activation, FLASHSCAN_GATED_ACTIVATION_NONE) ||
           name_after(word, "epilogue-", epilogue_names, p.epilogue, FLASHSCAN_GATED_EPILOGUE_NONE) ||
           placement_after(word, "place-", p.placement) ||
           letters_after(word, "grads-", gradient_letters, p.gradients) || number_after(word, "rate", p.decay_rate) ||
           number_after(word, "limit", p.slope_limit) || number_after(word, "threads", p.threads) ||
           number_after(word, "seed", p.seed) || dtype_after(word, "offsets-", p.offsets_dtype) ||
           number_after(word, "sequences", p.sequences) || number_after(word, "b", p.batch) ||
           number_after(word, "t", p.time) || number_after(word, "c", p.channels);
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

std::string layer_text(const GatedProblem& p) {
    if (p.layer != 0) return std::string(layer_names[p.layer - FLASHSCAN_GATED_LAYER_MINGRU]);
    std::string text = fmt::format("decay-{}", decay_names[p.decay - FLASHSCAN_GATED_DECAY_VALUE]);
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

std::string text_of(const GatedProblem& p) {
    std::string text =
        fmt::format("gated {} {} {} b{} t{} c{} {}", p.gradients == 0 ? "fwd" : "bwd", name_of(p.dtype),
                    p.layout == FLASHSCAN_LAYOUT_BCT ? "BCT" : "BTC", p.batch, p.time, p.channels, layer_text(p));
    if (p.gate_dtype != p.dtype) text += fmt::format(" gate-{}", name_of(p.gate_dtype));
    if (p.param_dtype != p.dtype) text += fmt::format(" param-{}", name_of(p.param_dtype));
    if (p.reverse) text += " reverse";
    if (p.reset) text += " reset";
    if (p.sequences > 0) text += fmt::format(" sequences{}", p.sequences);
    if (p.offsets_dtype != FLASHSCAN_DTYPE_I64) text += fmt::format(" offsets-{}", name_of(p.offsets_dtype));
    if (p.state_in) text += " state-in";
    if (p.state_out) text += " state-out";
    if (!p.bias) text += " no-bias";
    if (p.gradients != 0xff && p.gradients != 0) text += " grads-" + spell(p.gradients, gradient_letters);
    if (p.decay_rate != 0) text += fmt::format(" rate{}", p.decay_rate);
    if (p.slope_limit != 0) text += fmt::format(" limit{}", p.slope_limit);
    if (p.placement != Placement::dense) text += fmt::format(" place-{}", name_of(p.placement));
    if (p.in_place) text += " in-place";
    if (p.pooled) text += " pooled";
    if (p.batch_invariant) text += " invariant";
    if (p.caller_scratch) text += " caller-scratch";
    if (p.threads != 0) text += fmt::format(" threads{}", p.threads);
    if (p.values == GatedValues::saturated) text += " saturated";
    if (p.values == GatedValues::growing) text += " growing";
    if (p.seed != 1) text += fmt::format(" seed{}", p.seed);
    return text;
}

GatedProblem gated_problem_of(const std::string& text) {
    GatedProblem problem;
    for (const std::string& word : words_of(text))
        if (!parse_word(problem, word))
            throw std::invalid_argument(fmt::format(
                "'{}' is no word of a gated line; accepted are fwd, bwd, DTYPE, BTC, BCT, bN, tN, cN, a layer ({}) or "
                "its parts (decay- {}, scale- {}, activation- {}, input-gate, epilogue- {}, first-step), gate-DTYPE, "
                "param-DTYPE, reverse, reset, sequencesN, offsets-i32, state-in, state-out, no-bias, grads-LETTERS of "
                "{}, rateX, limitX, place-PLACE, pooled, in-place, invariant, caller-scratch, threadsN, saturated, "
                "growing and seedN",
                word, fmt::join(layer_names, " "), fmt::join(decay_names, " "), fmt::join(scale_names, " "),
                fmt::join(activation_names, " "), fmt::join(epilogue_names, " "), gradient_letters));
    GatedProblem parts = problem, named;
    named.set_layer(problem.layer);
    parts.layer = named.layer = 0;
    if (problem.layer != 0 && layer_text(parts) != layer_text(named))
        throw std::invalid_argument(fmt::format("{} stands for its parts and takes no others", layer_text(problem)));
    return problem;
}

std::ostream& operator<<(std::ostream& stream, const GatedProblem& problem) { return stream << text_of(problem); }

}  // namespace support
