// SPDX-License-Identifier: Apache-2.0
#include "golden/case.h"

#include "golden/words.h"

namespace golden {
namespace {

using nlohmann::ordered_json;

ordered_json offsets_word(int32_t dtype) { return word(dtypes, dtype == 0 ? FLASHSCAN_DTYPE_I64 : dtype); }

ordered_json fields_of(const flashscan_linear_desc& d) {
    return {{"layout", word(layouts, d.layout)},
            {"gate_form", word(gate_forms, d.gate_form)},
            {"gate_broadcast", words_of(broadcast_bits, d.gate_broadcast)},
            {"direction", word(directions, d.direction)},
            {"flags", words_of(linear_bits, d.flags)},
            {"batch", d.batch},
            {"time", d.time},
            {"channels", d.channels},
            {"num_sequences", d.num_sequences},
            {"offsets_dtype", offsets_word(d.offsets_dtype)}};
}

ordered_json fields_of(const flashscan_rnn_desc& d) {
    return {{"layout", word(rnn_layouts, d.layout)},
            {"cell", word(cells, d.cell)},
            {"direction", word(directions, d.direction)},
            {"flags", words_of(rnn_bits, d.flags)},
            {"batch", d.batch},
            {"time", d.time},
            {"heads", d.heads},
            {"head_dim", d.head_dim},
            {"num_sequences", d.num_sequences},
            {"offsets_dtype", offsets_word(d.offsets_dtype)},
            {"recurrent_clip", d.recurrent_clip}};
}

ordered_json fields_of(const flashscan_operator_desc& d) {
    return {{"kind", word(kinds, d.kind)},
            {"layout", word(layouts, d.layout)},
            {"mode", word(modes, d.mode)},
            {"direction", word(directions, d.direction)},
            {"batch", d.batch},
            {"time", d.time},
            {"channels", d.channels},
            {"dim", d.dim},
            {"num_sequences", d.num_sequences},
            {"offsets_dtype", offsets_word(d.offsets_dtype)}};
}

ordered_json fields_of(const flashscan_gated_desc& d) {
    return {{"layout", word(layouts, d.layout)},
            {"layer", word_or_none(gated_layers, d.layer)},
            {"decay", word_or_none(gated_decays, d.decay)},
            {"scale", word(gated_scales, d.scale)},
            {"activation", word(gated_activations, d.activation)},
            {"input_gating", word(gated_input_gatings, d.input_gating)},
            {"epilogue", word(gated_epilogues, d.epilogue)},
            {"direction", word(directions, d.direction)},
            {"flags", words_of(gated_bits, d.flags)},
            {"batch", d.batch},
            {"time", d.time},
            {"channels", d.channels},
            {"num_sequences", d.num_sequences},
            {"offsets_dtype", offsets_word(d.offsets_dtype)},
            {"decay_rate", d.decay_rate},
            {"sqrt_slope_limit", d.sqrt_slope_limit}};
}

ordered_json fields_of(const flashscan_selective_desc& d) {
    return {{"layout", word(layouts, d.layout)},
            {"direction", word(directions, d.direction)},
            {"flags", words_of(selective_bits, d.flags)},
            {"batch", d.batch},
            {"time", d.time},
            {"channels", d.channels},
            {"states", d.states},
            {"groups", d.groups},
            {"num_sequences", d.num_sequences},
            {"offsets_dtype", offsets_word(d.offsets_dtype)}};
}

}  // namespace

std::string Case::family() const {
    constexpr const char* names[] = {"linear", "rnn", "operator", "gated", "selective"};
    return names[desc.index()];
}

ordered_json Case::fields() const {
    return std::visit([](const auto& d) { return fields_of(d); }, desc);
}

ordered_json Case::runs() const {
    if (!integers.empty()) {
        ordered_json runs = ordered_json::array();
        for (const std::string& dtype : integers) runs.push_back({{"dtype", dtype}});
        return runs;
    }
    const auto* line = std::get_if<flashscan_linear_desc>(&desc);
    const auto* selective = std::get_if<flashscan_selective_desc>(&desc);
    if (selective != nullptr && selective->matrix_dtype == FLASHSCAN_DTYPE_C128)
        return {{{"dtype", "f64"}, {"matrix_dtype", "c128"}}, {{"dtype", "f32"}, {"matrix_dtype", "c64"}}};
    const bool complex = std::visit([](const auto& d) { return d.dtype == FLASHSCAN_DTYPE_C128; }, desc);
    if (line != nullptr && complex && line->gate_dtype == FLASHSCAN_DTYPE_F64)
        return {{{"dtype", "c128"}, {"gate_dtype", "f64"}}, {{"dtype", "c64"}, {"gate_dtype", "f32"}}};
    if (complex) return {{{"dtype", "c128"}}, {{"dtype", "c64"}}};
    ordered_json runs = {{{"dtype", "f64"}}, {{"dtype", "f32"}}};
    if (!halves) return runs;
    const bool gated = family() == "gated";
    const char* other = gated || family() == "linear" ? "gate_dtype" : family() == "rnn" ? "weight_dtype" : "";
    for (const char* half : {"bf16", "f16"}) {
        runs.push_back({{"dtype", half}});
        if (*other == 0) continue;
        runs.push_back({{"dtype", half}, {other, "f32"}});
        if (gated) runs.back()["param_dtype"] = "f32";
    }
    return runs;
}

}  // namespace golden
