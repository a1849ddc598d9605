// SPDX-License-Identifier: Apache-2.0
// Tensors, descriptors and data of gated problems.
#include <algorithm>
#include <cmath>

#include "support/gated_problem.h"

namespace support {
namespace {

constexpr uint64_t first_stream = 300;  // of arguments, by their ids

Values uniform_values(const GatedProblem& p, int32_t id, int64_t count, double low, double high) {
    Values values(static_cast<size_t>(count));
    const auto stream = first_stream + static_cast<uint64_t>(id & 0xff) + ((id & FLASHSCAN_GRAD) != 0 ? 100 : 0);
    for (size_t i = 0; i < values.size(); ++i)
        values[i] = rounded(dtype_of(p, id), low + (high - low) * uniform(p.seed, stream, i));
    return values;
}

// Gates by value lie in (-1, 1): at the ends the derivative of the square root is infinite. Some are 0.
Values usual_gates(const GatedProblem& p) {
    const double far = p.values == GatedValues::saturated ? 100 : 5;
    if (p.values == GatedValues::growing) {
        const double middle = p.decay == FLASHSCAN_GATED_DECAY_VALUE ? 1 : 0;
        return uniform_values(p, FLASHSCAN_ARG_GATE, p.elements(), middle - 0.1, middle + 0.1);
    }
    if (p.decay == FLASHSCAN_GATED_DECAY_EXP)
        return uniform_values(p, FLASHSCAN_ARG_GATE, p.elements(), p.values == GatedValues::saturated ? -100 : -2,
                              -0.02);
    if (p.decay != FLASHSCAN_GATED_DECAY_VALUE) return uniform_values(p, FLASHSCAN_ARG_GATE, p.elements(), -far, far);
    Values values = uniform_values(p, FLASHSCAN_ARG_GATE, p.elements(), -0.4, 0.9);
    for (size_t i = 0; i < values.size(); i += 7) values[i] = 0;
    return values;
}

// A gate that makes the decay 1 in f32.
double opening_gate(int32_t decay) {
    switch (decay) {
    case FLASHSCAN_GATED_DECAY_VALUE: return 1;
    case FLASHSCAN_GATED_DECAY_EXP: return 0;
    case FLASHSCAN_GATED_DECAY_ONE_MINUS_SIGMOID:
    case FLASHSCAN_GATED_DECAY_SOFTPLUS: return -200;
    default: return 200;
    }
}
Values gate_values(const GatedProblem& p) {
    Values values = usual_gates(p);
    const bool exact = p.decay == FLASHSCAN_GATED_DECAY_VALUE || p.decay == FLASHSCAN_GATED_DECAY_EXP;
    if (p.values != GatedValues::saturated || p.scale != FLASHSCAN_GATED_SCALE_SQRT || p.slope_limit == 0)
        return values;
    if (exact && p.bias) return values;
    for (size_t i = 3; i < values.size(); i += 11) values[i] = opening_gate(p.decay);
    return values;
}

}  // namespace

bool has_argument(const GatedProblem& p, int32_t id) {
    switch (id) {
    case FLASHSCAN_ARG_SECOND_GATE: return p.has_second_gate();
    case FLASHSCAN_ARG_INPUT_GATE: return p.has_input_gate();
    case FLASHSCAN_ARG_OUTPUT_GATE: return p.has_output_gate();
    case FLASHSCAN_ARG_PARAM: return p.has_param();
    case FLASHSCAN_ARG_BIAS: return p.bias;
    case FLASHSCAN_ARG_STATE_IN: return p.state_in;
    case FLASHSCAN_ARG_STATE_OUT: return p.state_out;
    default: return true;
    }
}

std::vector<int32_t> read_by(const GatedProblem& p, bool backward) {
    constexpr int32_t grad = FLASHSCAN_GRAD;
    std::vector<int32_t> ids{FLASHSCAN_ARG_GATE,        FLASHSCAN_ARG_SECOND_GATE, FLASHSCAN_ARG_INPUT_GATE,
                             FLASHSCAN_ARG_OUTPUT_GATE, FLASHSCAN_ARG_PARAM,       FLASHSCAN_ARG_BIAS,
                             FLASHSCAN_ARG_STATE_IN};
    if (!backward || p.keeps_input()) ids.push_back(FLASHSCAN_ARG_INPUT);
    if (backward && !p.has_output_gate()) ids.push_back(FLASHSCAN_ARG_OUTPUT);
    if (backward) ids.insert(ids.end(), {grad | FLASHSCAN_ARG_OUTPUT, grad | FLASHSCAN_ARG_STATE_OUT});
    std::erase_if(ids, [&](int32_t id) { return !has_argument(p, id & ~grad); });
    return ids;
}

bool has_steps(const GatedProblem&, int32_t id) {
    switch (id & ~FLASHSCAN_GRAD) {
    case FLASHSCAN_ARG_PARAM:
    case FLASHSCAN_ARG_BIAS:
    case FLASHSCAN_ARG_STATE_IN:
    case FLASHSCAN_ARG_STATE_OUT: return false;
    default: return true;
    }
}

int32_t dtype_of(const GatedProblem& p, int32_t id) {
    switch (id & ~FLASHSCAN_GRAD) {
    case FLASHSCAN_ARG_GATE:
    case FLASHSCAN_ARG_SECOND_GATE: return p.gate_dtype;
    case FLASHSCAN_ARG_PARAM:
    case FLASHSCAN_ARG_BIAS: return p.param_dtype;
    case FLASHSCAN_ARG_STATE_IN:
    case FLASHSCAN_ARG_STATE_OUT: return state_dtype(p.dtype);
    default: return p.dtype;
    }
}

Tensor tensor_of(const GatedProblem& p, int32_t id) {
    const int32_t argument = id & ~FLASHSCAN_GRAD;
    if (argument == FLASHSCAN_ARG_PARAM || argument == FLASHSCAN_ARG_BIAS) return dense_tensor(1, p.channels);
    if (argument == FLASHSCAN_ARG_STATE_IN || argument == FLASHSCAN_ARG_STATE_OUT)
        return state_tensor(1, p.state_rows(), p.channels, p.pooled);
    if (p.placement != Placement::mixed) return placed(p.extents(), p.layout, p.placement);
    uint64_t k = static_cast<uint64_t>(argument) + ((id & FLASHSCAN_GRAD) != 0 ? 3 : 0) + p.seed;
    // Arguments in one place lie there alike.
    if (p.in_place && id == FLASHSCAN_ARG_OUTPUT) return tensor_of(p, FLASHSCAN_ARG_INPUT);
    if (p.in_place && id == (FLASHSCAN_GRAD | FLASHSCAN_ARG_INPUT))
        return tensor_of(p, FLASHSCAN_GRAD | FLASHSCAN_ARG_OUTPUT);
    return placed(p.extents(), p.layout, mixed_placement(k));
}

flashscan_gated_desc desc_of(const GatedProblem& p) {
    flashscan_gated_desc desc{};
    desc.struct_size = sizeof desc;
    desc.dtype = p.dtype;
    desc.gate_dtype = p.gate_dtype == p.dtype ? 0 : p.gate_dtype;
    desc.param_dtype = p.param_dtype == p.dtype ? 0 : p.param_dtype;
    desc.layout = p.layout;
    desc.layer = p.layer;
    if (p.layer == 0) {
        desc.decay = p.decay, desc.scale = p.scale, desc.activation = p.activation;
        desc.input_gating = p.input_gating, desc.epilogue = p.epilogue;
        if (p.first_step) desc.flags |= FLASHSCAN_GATED_FLAG_FIRST_STEP;
    }
    if (p.reset) desc.flags |= FLASHSCAN_GATED_FLAG_RESET;
    desc.direction = p.reverse ? FLASHSCAN_DIRECTION_REVERSE : FLASHSCAN_DIRECTION_FORWARD;
    desc.batch = p.batch, desc.time = p.time, desc.channels = p.channels;
    desc.num_sequences = p.sequences;
    desc.offsets_dtype = p.sequences > 0 ? p.offsets_dtype : 0;
    if (p.is_softplus()) desc.decay_rate = p.decay_rate;
    if (p.scale == FLASHSCAN_GATED_SCALE_SQRT) desc.sqrt_slope_limit = p.slope_limit;
    const std::pair<int32_t, flashscan_strides*> fields[] = {
        {FLASHSCAN_ARG_INPUT, &desc.input},
        {FLASHSCAN_ARG_GATE, &desc.gate},
        {FLASHSCAN_ARG_SECOND_GATE, &desc.second_gate},
        {FLASHSCAN_ARG_INPUT_GATE, &desc.input_gate},
        {FLASHSCAN_ARG_OUTPUT_GATE, &desc.output_gate},
        {FLASHSCAN_ARG_OUTPUT, &desc.output},
        {FLASHSCAN_GRAD | FLASHSCAN_ARG_INPUT, &desc.grad_input},
        {FLASHSCAN_GRAD | FLASHSCAN_ARG_GATE, &desc.grad_gate},
        {FLASHSCAN_GRAD | FLASHSCAN_ARG_SECOND_GATE, &desc.grad_second_gate},
        {FLASHSCAN_GRAD | FLASHSCAN_ARG_INPUT_GATE, &desc.grad_input_gate},
        {FLASHSCAN_GRAD | FLASHSCAN_ARG_OUTPUT_GATE, &desc.grad_output_gate},
        {FLASHSCAN_GRAD | FLASHSCAN_ARG_OUTPUT, &desc.grad_output}};
    for (const auto& [id, field] : fields) {
        const Tensor tensor = tensor_of(p, id);
        if (has_argument(p, id & ~FLASHSCAN_GRAD) && tensor.strides_given)
            *field = {tensor.strides[0], tensor.strides[1], tensor.strides[2]};
    }
    set_state_strides(desc, tensor_of(p, FLASHSCAN_ARG_STATE_IN));
    return desc;
}

flashscan_options options_of(const GatedProblem& p, int32_t backend, const std::string& kernel) {
    return make_options(backend, kernel, p.threads, p.batch_invariant, p.caller_scratch);
}

std::vector<Target> gated_kernel_targets() {
    return targets_of([](int32_t backend) { return kernels_of(flashscan_plan_gated, GatedProblem{}, backend); });
}

std::vector<Target> gated_targets() {
    std::vector<Target> targets = gated_kernel_targets();
    targets.push_back({FLASHSCAN_BACKEND_CPU, "reference"});
    return targets;
}

GatedData make_data(const GatedProblem& p) {
    GatedData data;
    const double far = p.values == GatedValues::saturated ? 100 : 3;
    const auto add = [&](int32_t id, int64_t count, double low, double high) {
        if (has_argument(p, id & ~FLASHSCAN_GRAD)) data.values[id] = uniform_values(p, id, count, low, high);
    };
    const int64_t states = p.state_rows() * p.channels;
    data.values[FLASHSCAN_ARG_GATE] = gate_values(p);
    add(FLASHSCAN_ARG_INPUT, p.elements(), -far, far);
    add(FLASHSCAN_ARG_SECOND_GATE, p.elements(), -far, far);
    add(FLASHSCAN_ARG_INPUT_GATE, p.elements(), -far, far);
    add(FLASHSCAN_ARG_OUTPUT_GATE, p.elements(), -far, far);
    add(FLASHSCAN_ARG_PARAM, p.channels, p.is_softplus() ? -3 : 0, p.is_softplus() ? 2 : 0.9);
    const bool bounded = p.decay == FLASHSCAN_GATED_DECAY_VALUE || p.decay == FLASHSCAN_GATED_DECAY_EXP;
    add(FLASHSCAN_ARG_BIAS, p.channels, bounded ? -0.01 : -0.5, bounded ? 0.01 : 0.5);
    add(FLASHSCAN_ARG_STATE_IN, states, -1, 1);
    add(FLASHSCAN_GRAD | FLASHSCAN_ARG_OUTPUT, p.elements(), -1, 1);
    add(FLASHSCAN_GRAD | FLASHSCAN_ARG_STATE_OUT, states, -1, 1);
    if (p.reset) data.reset = make_reset(p.seed, p.batch * p.time);
    if (p.sequences > 0) data.offsets = make_offsets(p.seed, p.time, p.sequences);
    return data;
}

int64_t written_time(const GatedProblem& p, const GatedData& data) {
    return p.sequences > 0 ? data.offsets.back() : p.time;
}

}  // namespace support
