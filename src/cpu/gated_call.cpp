// SPDX-License-Identifier: Apache-2.0
#include "cpu/gated_call.h"

#include "cpu/linear_chain.h"
#include "cpu/linear_run.h"
#include "cpu/number.h"

namespace flashscan::cpu {
namespace {

// The linear recurrence of the same shape, with a gate gradient that is summed over batch and time.
LinearProblem recurrence_of(const GatedProblem& p) {
    LinearProblem linear;
    static_cast<Sequences&>(linear) = p;
    linear.dtype = linear.gate_dtype = p.dtype;
    linear.layout = p.layout;
    linear.channels = p.channels;
    linear.gate_broadcast = broadcast_batch | broadcast_time;
    linear.input = p.gate;
    linear.grad_output = p.grad_output;
    return linear;
}

void set_forward(GatedCall& call, const GatedProblem& p, const GatedBuffers& b) {
    call.output = tensor_of(b.output, p.dtype, p.output);
    if (p.hides_state()) call.states = tensor_of(b.reserve, p.dtype, p.reserve);
    if (b.output == b.input) call.stream_stores = false;
}

void set_backward(GatedCall& call, const GatedProblem& p, const GatedBuffers& b) {
    call.states = tensor_of(b.states(), p.dtype, p.hides_state() ? p.reserve : p.output);
    call.grad_output = tensor_of(b.grad_output, p.dtype, p.grad_output);
    call.grad_input = tensor_of(b.grad_input, p.dtype, p.grad_input);
    call.grad_gates = tensor_of(b.grad_gate, p.gate_dtype, p.grad_gate);
    call.grad_second_gate = tensor_of(b.grad_second_gate, p.gate_dtype, p.grad_second_gate);
    call.grad_input_gate = tensor_of(b.grad_input_gate, p.dtype, p.grad_input_gate);
    call.grad_output_gate = tensor_of(b.grad_output_gate, p.dtype, p.grad_output_gate);
    // Only whether sums are wanted counts.
    if (b.grad_param != nullptr || b.grad_bias != nullptr) call.grad_gate.data = static_cast<char*>(b.scratch);
    if (b.grad_input == b.grad_output) call.stream_stores = false;
}

}  // namespace

LinearKernels gated_kernels_for(Isa isa, const LinearVariant& variant) {
    return FLASHSCAN_OF_ISA(isa, gated_kernels(variant));
}

LinearPartition gated_partition(const GatedProblem& p, Pass pass, bool chunked, const Options& options, int threads) {
    LinearPartition q = partition(recurrence_of(p), pass, chunked, options.batch_invariant, threads);
    q.sum_batch = q.sum_time = pass == Pass::backward;
    q.gate_numbers = p.channels * sums_of_channel;
    if (q.chained && pass == Pass::backward) q.step_sums = q.gate_numbers;
    if (q.chained) q.scratch_bytes = chain_layout(q).bytes;
    if (q.chained) return q;
    q.slots = q.groups;
    q.scratch_bytes =
        pass == Pass::backward ? static_cast<size_t>(q.slots.named("SCRATCH") * q.gate_numbers * sizeof(double)) : 0;
    return q;
}

GatedCall gated_call(const GatedProblem& p, const LinearPartition& q, const GatedBuffers& b, Pass pass) {
    GatedCall call{};
    set_recurrence(call, p, q, b, pass);
    call.x.parts = 1;
    call.x.number = number_of(p.dtype);
    call.grad_gate.parts = sums_of_channel;
    call.stream_stores = streams_outputs(p.element_count() * size_of(p.dtype));
    call.input = tensor_of(b.input, p.dtype, p.input);
    call.gates = tensor_of(b.gate, p.gate_dtype, p.gate);
    call.second_gate = tensor_of(b.second_gate, p.gate_dtype, p.second_gate);
    call.input_gate = tensor_of(b.input_gate, p.dtype, p.input_gate);
    call.output_gate = tensor_of(b.output_gate, p.dtype, p.output_gate);
    call.param = tensor_of(b.param, p.param_dtype, {0, 0, 1});
    call.bias = tensor_of(b.bias, p.param_dtype, {0, 0, 1});
    call.parts = p.parts;
    call.starts_with_one = p.starts_with_one(b.state_in != nullptr);
    call.decay_rate = p.decay_rate;
    call.sqrt_slope_limit = p.sqrt_slope_limit;
    if (pass == Pass::forward)
        set_forward(call, p, b);
    else
        set_backward(call, p, b);
    return call;
}

}  // namespace flashscan::cpu
