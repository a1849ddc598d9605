// SPDX-License-Identifier: Apache-2.0
#include "cpu/linear_call.h"

#include "cpu/linear_run.h"
#include "cpu/number.h"

namespace flashscan::cpu {
namespace {

void set_forward(LinearCall& call, const LinearProblem& p, const LinearBuffers& b) {
    call.x = tensor_of(b.input, p.dtype, p.input);
    call.y = tensor_of(b.output, p.dtype, p.output);
}

void set_backward(LinearCall& call, const LinearProblem& p, const LinearBuffers& b) {
    call.x = tensor_of(b.grad_output, p.dtype, p.grad_output);
    call.y = tensor_of(b.grad_input, p.dtype, p.grad_input);
    call.previous = tensor_of(b.grad_gate != nullptr ? b.output : nullptr, p.dtype, p.output);
    call.grad_gate = tensor_of(b.grad_gate, p.gate_dtype, p.grad_gate);
}

}  // namespace

LinearKernels kernels_for(Isa isa, const LinearVariant& variant) {
    return FLASHSCAN_OF_ISA(isa, linear_kernels(variant));
}

LinearCall linear_call(const LinearProblem& p, const LinearPartition& q, const LinearBuffers& b, Pass pass) {
    LinearCall call{};
    set_recurrence(call, p, q, b, pass);
    call.gate = tensor_of(b.gate, p.gate_dtype, p.gate);
    call.form = static_cast<int32_t>(p.gate_form);
    if (pass == Pass::forward)
        set_forward(call, p, b);
    else
        set_backward(call, p, b);
    call.stream_stores =
        call.x.data != call.y.data && streams_outputs(p.batch * p.time * p.channels * size_of(p.dtype));
    return call;
}

}  // namespace flashscan::cpu
