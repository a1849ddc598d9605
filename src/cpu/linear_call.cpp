// SPDX-License-Identifier: Apache-2.0
#include "cpu/linear_call.h"

#include "cpu/linear_run.h"
#include "cpu/number.h"

namespace flashscan::cpu {
namespace {

Tensor tensor(const void* data, Dtype dtype, const Strides& s) {
    const int32_t parts = is_complex(dtype) ? 2 : 1;
    return {static_cast<char*>(const_cast<void*>(data)),
            number_of(dtype),
            parts,
            s.batch * parts,
            s.time * parts,
            s.channels * parts};
}

void set_forward(LinearCall& call, const LinearProblem& p, const LinearBuffers& b) {
    call.x = tensor(b.input, p.dtype, p.input);
    call.y = tensor(b.output, p.dtype, p.output);
    call.start = static_cast<const char*>(b.state_in);
    call.end = static_cast<char*>(b.state_out);
    call.ascending = p.direction == Direction::forward;
}

void set_backward(LinearCall& call, const LinearProblem& p, const LinearBuffers& b) {
    call.backward = true;
    call.x = tensor(b.grad_output, p.dtype, p.grad_output);
    call.y = tensor(b.grad_input, p.dtype, p.grad_input);
    call.previous = tensor(b.grad_gate != nullptr ? b.output : nullptr, p.dtype, p.output);
    call.grad_gate = tensor(b.grad_gate, p.gate_dtype, p.grad_gate);
    call.start = static_cast<const char*>(b.grad_state_out);
    call.end = static_cast<char*>(b.grad_state_in);
    call.first_state = static_cast<const char*>(b.state_in);
    call.ascending = p.direction == Direction::reverse;
}

}  // namespace

LinearKernels kernels_for(Isa isa, const LinearVariant& variant) {
    return FLASHSCAN_OF_ISA(isa, linear_kernels(variant));
}

LinearCall linear_call(const LinearProblem& p, const LinearPartition& q, const LinearBuffers& b, Pass pass) {
    LinearCall call{};
    call.gate = tensor(b.gate, p.gate_dtype, p.gate);
    call.reset = b.reset;
    call.offsets = p.packed() ? b.seq_offsets : nullptr;
    call.wide_offsets = p.offsets_dtype == Dtype::i64;
    call.form = static_cast<int32_t>(p.gate_form);
    call.sum_batch = q.sum_batch;
    call.sum_time = q.sum_time;
    call.sum_channels = q.sum_channels;
    call.rows = q.rows;
    call.time = p.time;
    call.channels = p.channels;
    call.chunk = q.chunk;
    if (pass == Pass::forward)
        set_forward(call, p, b);
    else
        set_backward(call, p, b);
    call.stream_stores =
        call.x.data != call.y.data && streams_outputs(p.batch * p.time * p.channels * size_of(p.dtype));
    return call;
}

}  // namespace flashscan::cpu
