// SPDX-License-Identifier: Apache-2.0
// Lists the arguments of both passes of a linear recurrence, and puts the pointers of a call into LinearBuffers.
#include "core/linear_arguments.h"

#include "core/error.h"
#include "core/tensors.h"

namespace flashscan {
namespace {

ArgumentSpec tensor(const LinearProblem& p, int32_t id, const char* name, Presence presence, bool written,
                    const Strides& strides) {
    const bool gate = (id & ~grad_bit) == id_of(ArgId::gate);
    const Extent batch = gate ? p.gate_batch() : p.batch, time = gate ? p.gate_time() : p.time;
    const Extent channels = gate ? p.gate_channels() : p.channels;
    return tensor_argument(id, name, presence, written, {batch, time, channels}, strides, p.layout,
                           gate ? p.gate_dtype : p.dtype);
}

}  // namespace

std::vector<ArgumentSpec> linear_arguments(const LinearProblem& p, Pass pass, size_t scratch_bytes,
                                           bool scratch_required) {
    using enum Presence;
    const Dtype state = state_dtype(p.dtype);
    std::vector<ArgumentSpec> specs;
    const auto add_state = [&](int32_t id, const char* name, bool written) {
        specs.push_back(state_argument(id, name, optional, written, {p.state_rows(), p.channels}, 0, p, state));
    };
    specs.push_back(tensor(p, id_of(ArgId::gate), "GATE", required, false, p.gate));
    add_state(id_of(ArgId::state_in), "STATE_IN", false);
    if (pass == Pass::forward) {
        specs.push_back(tensor(p, id_of(ArgId::input), "INPUT", required, false, p.input));
        specs.push_back(tensor(p, id_of(ArgId::output), "OUTPUT", required, true, p.output));
        add_state(id_of(ArgId::state_out), "STATE_OUT", true);
    } else {
        specs.push_back(tensor(p, id_of(ArgId::output), "OUTPUT", optional, false, p.output));
        specs.push_back(tensor(p, grad_of(ArgId::output), "GRAD|OUTPUT", required, false, p.grad_output));
        add_state(grad_of(ArgId::state_out), "GRAD|STATE_OUT", false);
        specs.push_back(tensor(p, grad_of(ArgId::input), "GRAD|INPUT", optional, true, p.grad_input));
        specs.push_back(tensor(p, grad_of(ArgId::gate), "GRAD|GATE", optional, true, p.grad_gate));
        add_state(grad_of(ArgId::state_in), "GRAD|STATE_IN", true);
    }
    add_sequence_arguments(specs, p);
    add_scratch_argument(specs, scratch_bytes, scratch_required);
    for (ArgumentSpec& spec : specs) spec.may_be = same_memory(p, spec.id);
    return specs;
}

LinearBuffers linear_buffers(const LinearProblem& problem, Pass pass, const Pointers& found) {
    LinearBuffers b(found);
    b.gate = found[ArgId::gate];
    b.grad_gate = found.grad(ArgId::gate);
    if (pass == Pass::backward && b.grad_gate != nullptr && b.output == nullptr &&
        problem.tensor_bytes(problem.output) > 0)
        fail(Code::missing_argument, "OUTPUT is not given; GRAD|GATE needs it");
    return b;
}

}  // namespace flashscan
