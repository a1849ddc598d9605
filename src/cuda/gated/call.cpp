// SPDX-License-Identifier: Apache-2.0
#include "cuda/gated/call.h"

#include "cuda/launch/sequence_offsets.h"
#include "cuda/launch/view_of.h"

namespace flashscan::cuda {

GatedParams params_of(const GatedProblem& p, Pass pass) {
    const int64_t bytes = size_of(p.dtype), gate_bytes = size_of(p.gate_dtype);
    GatedParams params;
    params.input = view_of(p.input, bytes);
    params.gate = view_of(p.gate, gate_bytes);
    params.second_gate = view_of(p.second_gate, gate_bytes);
    params.input_gate = view_of(p.input_gate, bytes);
    params.output_gate = view_of(p.output_gate, bytes);
    if (pass == Pass::forward) {
        params.output = view_of(p.output, bytes);
        if (p.hides_state()) params.states = view_of(p.reserve, bytes);
    } else {
        params.states = view_of(p.hides_state() ? p.reserve : p.output, bytes);
        params.grad_output = view_of(p.grad_output, bytes);
        params.grad_input = view_of(p.grad_input, bytes);
        params.grad_gate = view_of(p.grad_gate, gate_bytes);
        params.grad_second_gate = view_of(p.grad_second_gate, gate_bytes);
        params.grad_input_gate = view_of(p.grad_input_gate, bytes);
        params.grad_output_gate = view_of(p.grad_output_gate, bytes);
    }
    params.offsets = offsets_of(p, nullptr);
    params.time = p.time;
    params.channels = p.channels;
    params.decay_rate = p.decay_rate;
    params.slope_limit = p.sqrt_slope_limit;
    params.short_slope_limit = static_cast<float>(p.sqrt_slope_limit);
    params.decay = static_cast<int32_t>(p.parts.decay);
    params.scale = static_cast<int32_t>(p.parts.scale);
    params.activation = static_cast<int32_t>(p.parts.activation);
    params.input_gating = static_cast<int32_t>(p.parts.input_gating);
    params.epilogue = static_cast<int32_t>(p.parts.epilogue);
    params.first_step = p.parts.first_step;
    params.wide_gates = p.gate_dtype != p.dtype;
    params.wide_params = p.param_dtype != p.dtype;
    params.down = p.direction == Direction::reverse;
    return params;
}

void point_inputs(GatedParams& params, const GatedProblem& p, const GatedBuffers& b) {
    point(params.input, b.input);
    point(params.gate, b.gate);
    point(params.second_gate, b.second_gate);
    point(params.input_gate, b.input_gate);
    point(params.output_gate, b.output_gate);
    params.param = b.param;
    params.bias = b.bias;
    params.state_in = b.state_in;
    params.reset = b.reset;
    params.offsets.data = b.seq_offsets;
    params.starts_unscaled = p.starts_with_one(b.state_in != nullptr);
}

void point_forward(GatedParams& params, const GatedProblem& p, const GatedBuffers& b) {
    point_inputs(params, p, b);
    point(params.output, b.output);
    point(params.states, b.reserve);
    params.state_out = b.state_out;
}

const void* named_kernel(std::span<const void* const, gated_layer_count> named, const GatedParts& parts) {
    for (size_t i = 0; i < named.size(); ++i)
        if (parts == gated_layers[i].parts) return named[i];
    return nullptr;
}

}  // namespace flashscan::cuda
