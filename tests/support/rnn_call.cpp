// SPDX-License-Identifier: Apache-2.0
#include "support/rnn_call.h"

namespace support {
namespace {

constexpr int32_t grad = FLASHSCAN_GRAD;

const Values& values_of(const RnnData& data, int32_t id) {
    switch (id) {
    case FLASHSCAN_ARG_INPUT: return data.input;
    case FLASHSCAN_ARG_WEIGHT: return data.weight;
    case FLASHSCAN_ARG_BIAS: return data.bias;
    case FLASHSCAN_ARG_STATE_IN: return data.state_in;
    case grad | FLASHSCAN_ARG_OUTPUT: return data.grad_output;
    default: return data.grad_state_out;
    }
}

void collect(const Call& call, RnnOutcome& outcome) {
    for (const auto& [id, bytes] : call.output_bytes())
        if (id != FLASHSCAN_ARG_RESERVE) outcome.values[id] = call.values(id);
}

}  // namespace

Call forward_call(const RnnProblem& p, const Plan& plan, int32_t backend, const RnnData& data, Guard guard) {
    Call call = call_of(
        p, false, backend, guard, [&](int32_t id) -> const Values& { return values_of(data, id); },
        written_time(p, data));
    if (p.trains()) call.opaque(FLASHSCAN_ARG_RESERVE, plan.bytes(FLASHSCAN_PASS_FORWARD, FLASHSCAN_ARG_RESERVE));
    add_masks(call, data.reset, data.offsets, p.offsets_dtype);
    if (p.caller_scratch) add_scratch(call, plan, FLASHSCAN_PASS_FORWARD);
    return call;
}

Call backward_call(const RnnProblem& p, const Plan& plan, int32_t backend, const RnnData& data, const Call& forward,
                   Guard guard) {
    const Values output = forward.values(FLASHSCAN_ARG_OUTPUT);
    const auto given = [&](int32_t id) -> const Values& {
        return id == FLASHSCAN_ARG_OUTPUT ? output : values_of(data, id);
    };
    Call call = call_of(p, true, backend, guard, given, written_time(p, data));
    call.input_bytes(FLASHSCAN_ARG_RESERVE, forward.output_bytes().at(FLASHSCAN_ARG_RESERVE), 64);
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
    if (written_by(p, true).empty()) return outcome;
    Call backward = backward_call(p, plan, target.backend, data, forward, guard);
    auto bits = outcome.bits;
    if (!run_repeatedly(backward, plan, times, outcome)) return outcome;
    outcome.bits.merge(bits);
    collect(backward, outcome);
    return outcome;
}

}  // namespace support
