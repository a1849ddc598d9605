// SPDX-License-Identifier: Apache-2.0
// Descriptors of gated layers.
#include <utility>

#include "capi/convert.h"
#include "capi/enumerators.h"

namespace flashscan {
namespace {

constexpr Enumerator<const GatedLayer*> gated_layer_rows[] = {
    FLASHSCAN_ENUMERATOR(GATED_LAYER_MINGRU, &gated_layers[0]),
    FLASHSCAN_ENUMERATOR(GATED_LAYER_MINLSTM, &gated_layers[1]),
    FLASHSCAN_ENUMERATOR(GATED_LAYER_HGRN, &gated_layers[2]),
    FLASHSCAN_ENUMERATOR(GATED_LAYER_RGLRU, &gated_layers[3]),
    FLASHSCAN_ENUMERATOR(GATED_LAYER_QRNN, &gated_layers[4]),
    FLASHSCAN_ENUMERATOR(GATED_LAYER_GILR, &gated_layers[5]),
};
constexpr Enumerator<Decay> decays[] = {
    FLASHSCAN_ENUMERATOR(GATED_DECAY_VALUE, Decay::value),
    FLASHSCAN_ENUMERATOR(GATED_DECAY_EXP, Decay::exp),
    FLASHSCAN_ENUMERATOR(GATED_DECAY_SIGMOID, Decay::sigmoid),
    FLASHSCAN_ENUMERATOR(GATED_DECAY_ONE_MINUS_SIGMOID, Decay::one_minus_sigmoid),
    FLASHSCAN_ENUMERATOR(GATED_DECAY_LOWER_BOUND, Decay::lower_bound),
    FLASHSCAN_ENUMERATOR(GATED_DECAY_SOFTPLUS, Decay::softplus),
    FLASHSCAN_ENUMERATOR(GATED_DECAY_RATIO, Decay::ratio),
};
constexpr Enumerator<Scale> scales[] = {
    FLASHSCAN_ENUMERATOR(GATED_SCALE_ONE, Scale::one),
    FLASHSCAN_ENUMERATOR(GATED_SCALE_ONE_MINUS, Scale::one_minus),
    FLASHSCAN_ENUMERATOR(GATED_SCALE_SQRT, Scale::sqrt),
};
constexpr Enumerator<Activation> activations[] = {
    FLASHSCAN_ENUMERATOR(GATED_ACTIVATION_NONE, Activation::none),
    FLASHSCAN_ENUMERATOR(GATED_ACTIVATION_TANH, Activation::tanh),
    FLASHSCAN_ENUMERATOR(GATED_ACTIVATION_SILU, Activation::silu),
    FLASHSCAN_ENUMERATOR(GATED_ACTIVATION_POSITIVE, Activation::positive),
};
constexpr Enumerator<InputGating> input_gatings[] = {
    FLASHSCAN_ENUMERATOR(GATED_INPUT_GATE_NONE, InputGating::none),
    FLASHSCAN_ENUMERATOR(GATED_INPUT_GATE_SIGMOID, InputGating::sigmoid),
};
constexpr Enumerator<Epilogue> epilogues[] = {
    FLASHSCAN_ENUMERATOR(GATED_EPILOGUE_NONE, Epilogue::none),
    FLASHSCAN_ENUMERATOR(GATED_EPILOGUE_SIGMOID, Epilogue::sigmoid),
    FLASHSCAN_ENUMERATOR(GATED_EPILOGUE_SILU, Epilogue::silu),
    FLASHSCAN_ENUMERATOR(GATED_EPILOGUE_TANH_SIGMOID, Epilogue::tanh_sigmoid),
};

GatedParts convert_parts(const flashscan_gated_desc& d) {
    GatedParts parts{};
    parts.decay = needed(d.decay, decays, "decay");
    parts.scale = optional(d.scale, scales, "scale");
    parts.activation = optional(d.activation, activations, "activation");
    parts.input_gating = optional(d.input_gating, input_gatings, "input_gating");
    parts.epilogue = optional(d.epilogue, epilogues, "epilogue");
    return parts;
}

// A layer with a name has all of its parts.
void check_no_parts(const flashscan_gated_desc& d) {
    const std::pair<int32_t, const char*> fields[] = {{d.decay, "decay"},
                                                      {d.scale, "scale"},
                                                      {d.activation, "activation"},
                                                      {d.input_gating, "input_gating"},
                                                      {d.epilogue, "epilogue"}};
    for (const auto& [value, name] : fields)
        if (value != 0)
            fail(Code::invalid_argument, "{} is {} with layer {}, which says what it is; accepted is 0", name, value,
                 d.layer);
}

}  // namespace

GatedProblem convert(const flashscan_gated_desc& d) {
    check_flags(d.flags, FLASHSCAN_GATED_FLAG_RESET | FLASHSCAN_GATED_FLAG_FIRST_STEP, "flags",
                "GATED_FLAG_RESET (1048576), GATED_FLAG_FIRST_STEP (2097152)");
    GatedProblem p;
    p.dtype = needed(d.dtype, dtypes, "dtype");
    p.gate_dtype = optional(d.gate_dtype, dtypes, "gate_dtype");
    p.param_dtype = optional(d.param_dtype, dtypes, "param_dtype");
    p.layout = optional(d.layout, layouts, "layout");
    if (d.layer != 0) {
        p.layer = needed(d.layer, gated_layer_rows, "layer", "0, ");
        check_no_parts(d);
        p.parts = p.layer->parts;
    } else {
        p.parts = convert_parts(d);
    }
    if ((d.flags & FLASHSCAN_GATED_FLAG_FIRST_STEP) != 0) p.parts.first_step = true;
    p.has_reset = (d.flags & FLASHSCAN_GATED_FLAG_RESET) != 0;
    p.direction = optional(d.direction, directions, "direction");
    p.offsets_dtype = optional(d.offsets_dtype, dtypes, "offsets_dtype");
    p.batch = d.batch;
    p.time = d.time;
    p.channels = d.channels;
    p.num_sequences = d.num_sequences;
    p.decay_rate = d.decay_rate;
    p.sqrt_slope_limit = d.sqrt_slope_limit;
    p.input = convert(d.input);
    p.gate = convert(d.gate);
    p.second_gate = convert(d.second_gate);
    p.input_gate = convert(d.input_gate);
    p.output_gate = convert(d.output_gate);
    p.output = convert(d.output);
    p.grad_input = convert(d.grad_input);
    p.grad_gate = convert(d.grad_gate);
    p.grad_second_gate = convert(d.grad_second_gate);
    p.grad_input_gate = convert(d.grad_input_gate);
    p.grad_output_gate = convert(d.grad_output_gate);
    p.grad_output = convert(d.grad_output);
    convert_states(p, d);
    return p;
}

}  // namespace flashscan
