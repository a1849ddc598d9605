// SPDX-License-Identifier: Apache-2.0
#include "cuda/selective/call.h"

#include "cuda/launch/sequence_offsets.h"
#include "cuda/launch/view_of.h"

namespace flashscan::cuda {

SelectiveParams params_of(const SelectiveProblem& p, Pass pass) {
    const int64_t bytes = size_of(p.dtype), step_bytes = size_of(p.step_dtype());
    SelectiveParams params;
    params.input = view_of(p.input, bytes);
    params.delta = view_of(p.delta, bytes);
    params.gate = view_of(p.output_gate, bytes);
    if (p.b_per_step) params.b = view_of(p.b, step_bytes);
    if (p.c_per_step) params.c = view_of(p.c, step_bytes);
    if (pass == Pass::forward) {
        params.output = view_of(p.output, bytes);
    } else {
        params.grad_output = view_of(p.grad_output, bytes);
        params.grad_input = view_of(p.grad_input, bytes);
        params.grad_delta = view_of(p.grad_delta, bytes);
        params.grad_gate = view_of(p.grad_output_gate, bytes);
    }
    params.offsets = offsets_of(p, nullptr);
    params.time = p.time;
    params.channels = p.channels;
    params.group_channels = p.channels / p.groups;
    params.states = static_cast<int32_t>(p.states);
    params.groups = static_cast<int32_t>(p.groups);
    params.softplus = p.softplus;
    params.down = p.direction == Direction::reverse;
    return params;
}

void point_inputs(SelectiveParams& params, const SelectiveProblem& p, const SelectiveBuffers& b) {
    point(params.input, b.input);
    point(params.delta, b.delta);
    point(params.gate, b.output_gate);
    if (p.b_per_step)
        point(params.b, b.b);
    else
        params.constant_b = b.b;
    if (p.c_per_step)
        point(params.c, b.c);
    else
        params.constant_c = b.c;
    params.a = b.a;
    params.d = b.d;
    params.bias = b.bias;
    params.state_in = b.state_in;
    params.reset = b.reset;
    params.offsets.data = b.seq_offsets;
}

}  // namespace flashscan::cuda
