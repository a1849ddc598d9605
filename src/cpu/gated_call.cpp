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
    call.output = gated_tensor(b.output, p.dtype, p.output);
    if (p.hides_state()) call.states = gated_tensor(b.reserve, p.dtype, p.reserve_strides());
    call.start = static_cast<const char*>(b.state_in);
    call.end = static_cast<char*>(b.state_out);
    call.ascending = p.direction == Direction::forward;
    if (b.output == b.input) call.stream_stores = false;
}

void set_backward(GatedCall& call, const GatedProblem& p, const GatedBuffers& b) {
    call.backward = true;
    call.states = gated_tensor(b.states(), p.dtype, p.hides_state() ? p.reserve_strides() : p.output);
    call.grad_output = gated_tensor(b.grad_output, p.dtype, p.grad_output);
    call.grad_input = gated_tensor(b.grad_input, p.dtype, p.grad_input);
    call.grad_gates = gated_tensor(b.grad_gate, p.gate_dtype, p.grad_gate);
    call.grad_second_gate = gated_tensor(b.grad_second_gate, p.gate_dtype, p.grad_second_gate);
    call.grad_input_gate = gated_tensor(b.grad_input_gate, p.dtype, p.grad_input_gate);
    call.grad_output_gate = gated_tensor(b.grad_output_gate, p.dtype, p.grad_output_gate);
    // Only whether sums are wanted counts.
    if (b.grad_param != nullptr || b.grad_bias != nullptr) call.grad_gate.data = static_cast<char*>(b.scratch);
    call.start = static_cast<const char*>(b.grad_state_out);
    call.end = static_cast<char*>(b.grad_state_in);
    call.first_state = static_cast<const char*>(b.state_in);
    call.ascending = p.direction == Direction::reverse;
    if (b.grad_input == b.grad_output) call.stream_stores = false;
}

}  // namespace

LinearKernels gated_kernels_for(Isa isa, const LinearVariant& variant) {
    return FLASHSCAN_OF_ISA(isa, gated_kernels(variant));
}

Tensor gated_tensor(const void* data, Dtype dtype, const Strides& s) {
    return {static_cast<char*>(const_cast<void*>(data)), number_of(dtype), 1, s.batch, s.time, s.channels};
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
    call.x.parts = 1;
    call.x.number = number_of(p.dtype);
    call.grad_gate.parts = sums_of_channel;
    call.reset = b.reset;
    call.offsets = p.packed() ? b.seq_offsets : nullptr;
    call.wide_offsets = p.offsets_dtype == Dtype::i64;
    call.stream_stores = streams_outputs(p.element_count() * size_of(p.dtype));
    call.sum_batch = call.sum_time = q.sum_batch;
    call.rows = q.rows;
    call.time = p.time;
    call.channels = p.channels;
    call.chunk = q.chunk;
    call.input = gated_tensor(b.input, p.dtype, p.input);
    call.gates = gated_tensor(b.gate, p.gate_dtype, p.gate);
    call.second_gate = gated_tensor(b.second_gate, p.gate_dtype, p.second_gate);
    call.input_gate = gated_tensor(b.input_gate, p.dtype, p.input_gate);
    call.output_gate = gated_tensor(b.output_gate, p.dtype, p.output_gate);
    call.param = gated_tensor(b.param, p.param_dtype, {0, 0, 1});
    call.bias = gated_tensor(b.bias, p.param_dtype, {0, 0, 1});
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
