// SPDX-License-Identifier: Apache-2.0
// Golden cases of the layers around a recurrence: gated layers and selective scans.
#include <cmath>

#include "golden/make_case.h"
#include "golden/maker.h"
#include "support/gated_layers.h"

namespace golden {
namespace {

template <typename Desc>
Shape shape_of(const Desc& desc, const Shape& inner) {
    Shape shape = {desc.batch};
    const bool time_last = desc.layout == FLASHSCAN_LAYOUT_BCT;
    if (!time_last) shape.push_back(desc.time);
    shape.insert(shape.end(), inner.begin(), inner.end());
    if (time_last) shape.push_back(desc.time);
    return shape;
}

}  // namespace

Case gated(const char* name, flashscan_gated_desc desc, Choice choice) {
    desc.struct_size = sizeof desc;
    desc.dtype = FLASHSCAN_DTYPE_F64;
    if (desc.batch == 0) desc.batch = 2;
    if (desc.time == 0) desc.time = 5;
    desc.channels = 3;
    Case made{.name = name, .desc = desc};
    Maker maker(made, false);
    const flashscan::GatedParts parts = support::parts_of(desc);
    const Shape data = shape_of(desc, {desc.channels}), channels = {desc.channels};
    const Shape state = {desc.num_sequences > 0 ? desc.num_sequences : desc.batch, desc.channels};
    const bool plain = parts.decay == flashscan::Decay::value, exponential = parts.decay == flashscan::Decay::exp;

    maker.in(maker.tensor(FLASHSCAN_ARG_INPUT, data, 2), parts.keeps_input());
    maker.in(maker.tensor(FLASHSCAN_ARG_GATE, data, plain || exponential ? 1 : 2), true);
    if (exponential)  // below 1 with the largest bias
        for (double& number : made.inputs.back().data) number = -1 - std::abs(number);
    if (parts.has_second_gate()) maker.in(maker.tensor(FLASHSCAN_ARG_SECOND_GATE, data, 2), true);
    if (parts.has_input_gate()) maker.in(maker.tensor(FLASHSCAN_ARG_INPUT_GATE, data, 2), true);
    if (parts.has_output_gate()) maker.in(maker.tensor(FLASHSCAN_ARG_OUTPUT_GATE, data, 2), true);
    if (parts.has_param()) maker.in(maker.tensor(FLASHSCAN_ARG_PARAM, channels, 1), true);
    if (parts.decay == flashscan::Decay::lower_bound)
        for (double& number : made.inputs.back().data) number = std::abs(number) / 2;
    if (desc.layer == 0) maker.in(maker.tensor(FLASHSCAN_ARG_BIAS, channels, 0.5), true);
    if ((desc.flags & FLASHSCAN_GATED_FLAG_RESET) != 0) maker.reset(desc.batch, desc.time);
    if (desc.num_sequences > 0) maker.offsets(desc.time, desc.num_sequences, desc.offsets_dtype == FLASHSCAN_DTYPE_I32);
    maker.out(FLASHSCAN_ARG_OUTPUT, data, !parts.has_output_gate());
    if (choice.states) {
        maker.in(maker.tensor(FLASHSCAN_ARG_STATE_IN, state, 1), true);
        maker.out(FLASHSCAN_ARG_STATE_OUT, state, false);
    }
    for (const int32_t id :
         {FLASHSCAN_ARG_INPUT, FLASHSCAN_ARG_GATE, FLASHSCAN_ARG_SECOND_GATE, FLASHSCAN_ARG_INPUT_GATE,
          FLASHSCAN_ARG_OUTPUT_GATE, FLASHSCAN_ARG_PARAM, FLASHSCAN_ARG_BIAS, FLASHSCAN_ARG_STATE_IN})
        maker.gradient(id);
    return made;
}

Case selective(const char* name, flashscan_selective_desc desc, bool layer, Choice choice) {
    desc.struct_size = sizeof desc;
    desc.dtype = FLASHSCAN_DTYPE_F64;
    if (desc.batch == 0) desc.batch = 2;
    if (desc.time == 0) desc.time = 4;
    if (desc.groups == 0) desc.groups = 1;
    desc.channels = 4, desc.states = 2;
    Case made{.name = name, .desc = desc};
    Maker maker(made, desc.matrix_dtype == FLASHSCAN_DTYPE_C128);
    const Shape data = shape_of(desc, {desc.channels}), channels = {desc.channels};
    const Shape constant = {desc.channels, desc.states};
    const Shape steps = shape_of(desc, desc.groups == 1 ? Shape{desc.states} : Shape{desc.groups, desc.states});
    const Shape state = {desc.num_sequences > 0 ? desc.num_sequences : desc.batch, desc.channels, desc.states};
    const auto matrix = [&](uint32_t flag) -> const Shape& { return (desc.flags & flag) != 0 ? steps : constant; };

    maker.in(maker.tensor(FLASHSCAN_ARG_INPUT, data, 1, true), true);
    maker.in(maker.tensor(FLASHSCAN_ARG_DELTA, data, 1, true), true);
    if ((desc.flags & FLASHSCAN_SELECTIVE_FLAG_SOFTPLUS) == 0)
        for (double& number : made.inputs.back().data) number = std::abs(number);
    maker.in(maker.tensor(FLASHSCAN_ARG_A, constant, 2), true);
    Tensor& rates = made.inputs.back();  // that decay
    for (size_t i = 0; i < rates.data.size(); i += rates.complex ? 2 : 1) rates.data[i] = -std::abs(rates.data[i]);
    maker.in(maker.tensor(FLASHSCAN_ARG_B, matrix(FLASHSCAN_SELECTIVE_FLAG_B_PER_STEP), 1), true);
    maker.in(maker.tensor(FLASHSCAN_ARG_C, matrix(FLASHSCAN_SELECTIVE_FLAG_C_PER_STEP), 1), true);
    if (layer) {
        maker.in(maker.tensor(FLASHSCAN_ARG_D, channels, 1, true), true);
        maker.in(maker.tensor(FLASHSCAN_ARG_BIAS, channels, 0.5, true), true);
        maker.in(maker.tensor(FLASHSCAN_ARG_OUTPUT_GATE, data, 2, true), true);
    }
    if ((desc.flags & FLASHSCAN_SELECTIVE_FLAG_RESET) != 0) maker.reset(desc.batch, desc.time);
    if (desc.num_sequences > 0) maker.offsets(desc.time, desc.num_sequences, desc.offsets_dtype == FLASHSCAN_DTYPE_I32);
    maker.out(FLASHSCAN_ARG_OUTPUT, data, false, true);
    if (choice.states) {
        maker.in(maker.tensor(FLASHSCAN_ARG_STATE_IN, state, 1), true);
        maker.out(FLASHSCAN_ARG_STATE_OUT, state, false);
    }
    for (const int32_t id :
         {FLASHSCAN_ARG_INPUT, FLASHSCAN_ARG_DELTA, FLASHSCAN_ARG_A, FLASHSCAN_ARG_B, FLASHSCAN_ARG_C, FLASHSCAN_ARG_D,
          FLASHSCAN_ARG_BIAS, FLASHSCAN_ARG_OUTPUT_GATE, FLASHSCAN_ARG_STATE_IN})
        maker.gradient(id);
    return made;
}

}  // namespace golden
