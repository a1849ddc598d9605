// SPDX-License-Identifier: Apache-2.0
#include "support/rnn_call.h"

namespace support {
namespace {

constexpr int32_t grad = FLASHSCAN_GRAD;

Tensor dense(const std::array<int64_t, 3>& e) {
    Tensor tensor;
    tensor.extents = e;
    tensor.strides = {e[1] * e[2], e[2], 1};
    return tensor;
}

void collect(const Call& call, RnnOutcome& outcome) {
    for (const auto& [id, bytes] : call.output_bytes())
        if (id != FLASHSCAN_ARG_RESERVE) outcome.values[id] = call.values(id);
}

}  // namespace

Call forward_call(const RnnProblem& p, const Plan& plan, int32_t backend, const RnnData& data, Guard guard) {
    Call call(backend, FLASHSCAN_PASS_FORWARD, guard);
    const int32_t state = state_dtype(p.dtype);
    call.input(FLASHSCAN_ARG_INPUT, p.dtype, dense(p.input_extents()), data.input);
    call.input(FLASHSCAN_ARG_WEIGHT, p.weight_dtype, dense(p.weight_extents()), data.weight);
    if (p.bias) call.input(FLASHSCAN_ARG_BIAS, p.weight_dtype, dense(p.bias_extents()), data.bias);
    if (p.state_in) call.input(FLASHSCAN_ARG_STATE_IN, state, state_tensor(p), data.state_in);
    call.output(FLASHSCAN_ARG_OUTPUT, p.dtype, dense(p.output_extents()), written_time(p, data));
    if (p.state_out) call.output(FLASHSCAN_ARG_STATE_OUT, state, state_tensor(p), p.state_rows());
    if (p.backward) call.opaque(FLASHSCAN_ARG_RESERVE, plan.bytes(FLASHSCAN_PASS_FORWARD, FLASHSCAN_ARG_RESERVE));
    add_masks(call, data.reset, data.offsets, p.offsets_dtype);
    if (p.caller_scratch) add_scratch(call, plan, FLASHSCAN_PASS_FORWARD);
    return call;
}

Call backward_call(const RnnProblem& p, const Plan& plan, int32_t backend, const RnnData& data, const Call& forward,
                   Guard guard) {
    Call call(backend, FLASHSCAN_PASS_BACKWARD, guard);
    const int32_t state = state_dtype(p.dtype);
    call.input(FLASHSCAN_ARG_WEIGHT, p.weight_dtype, dense(p.weight_extents()), data.weight);
    call.input(FLASHSCAN_ARG_OUTPUT, p.dtype, dense(p.output_extents()), forward.values(FLASHSCAN_ARG_OUTPUT));
    if (p.state_in) call.input(FLASHSCAN_ARG_STATE_IN, state, state_tensor(p), data.state_in);
    call.input_bytes(FLASHSCAN_ARG_RESERVE, forward.output_bytes().at(FLASHSCAN_ARG_RESERVE), 64);
    call.input(grad | FLASHSCAN_ARG_OUTPUT, p.dtype, dense(p.output_extents()), data.grad_output);
    if (p.state_out) call.input(grad | FLASHSCAN_ARG_STATE_OUT, state, state_tensor(p), data.grad_state_out);
    if ((p.gradients & rnn_gradient_input) != 0)
        call.output(grad | FLASHSCAN_ARG_INPUT, p.dtype, dense(p.input_extents()), written_time(p, data));
    if ((p.gradients & rnn_gradient_weight) != 0)
        call.output(grad | FLASHSCAN_ARG_WEIGHT, p.weight_dtype, dense(p.weight_extents()), 1);
    if ((p.gradients & rnn_gradient_bias) != 0)
        call.output(grad | FLASHSCAN_ARG_BIAS, p.weight_dtype, dense(p.bias_extents()), 1);
    if ((p.gradients & rnn_gradient_state) != 0 && p.state_in)
        call.output(grad | FLASHSCAN_ARG_STATE_IN, state, state_tensor(p), p.state_rows());
    add_masks(call, data.reset, data.offsets, p.offsets_dtype);
    if (p.caller_scratch) add_scratch(call, plan, FLASHSCAN_PASS_BACKWARD);
    return call;
}

RnnOutcome run_rnn(const RnnProblem& p, const Target& target, const RnnData& data, Guard guard, int times) {
    RnnOutcome outcome;
    const Plan plan(desc_of(p), options_of(p, target.backend, target.kernel));
    if (failed(plan, outcome)) return outcome;
    Call forward = forward_call(p, plan, target.backend, data, guard);
    if (!run_repeatedly(forward, plan, times, outcome)) return outcome;
    collect(forward, outcome);
    if (!p.backward || (p.gradients == rnn_gradient_state && !p.state_in)) return outcome;
    Call backward = backward_call(p, plan, target.backend, data, forward, guard);
    auto bits = outcome.bits;
    if (!run_repeatedly(backward, plan, times, outcome)) return outcome;
    outcome.bits.merge(bits);
    collect(backward, outcome);
    return outcome;
}

}  // namespace support
