// SPDX-License-Identifier: Apache-2.0
// Lists the arguments of both passes of a selective scan, and puts the pointers of a call into SelectiveBuffers.
#include "core/selective_arguments.h"

#include "core/error.h"
#include "core/tensors.h"

namespace flashscan {
namespace {

using enum Presence;

struct List {
    const SelectiveProblem& p;
    std::vector<ArgumentSpec> specs;

    void tensor(int32_t id, const char* name, Presence presence, bool written, const Strides& strides) {
        specs.push_back(
            tensor_argument(id, name, presence, written, {p.batch, p.time, p.channels}, strides, p.layout, p.dtype));
    }
    // Adds B, C or the gradient of one of them.
    void matrix(int32_t id, const char* name, Presence presence, bool written, bool per_step, const Strides& strides) {
        if (per_step)
            specs.push_back(tensor_argument(id, name, presence, written, {p.batch, p.time, p.groups * p.states},
                                            strides, p.layout, p.step_dtype()));
        else
            constant(id, name, presence, written);
    }
    void constant(int32_t id, const char* name, Presence presence, bool written) {
        specs.push_back(dense_argument(id, name, presence, written, {p.channels, p.states}, p.matrix_dtype));
    }
    void param(int32_t id, const char* name, bool written) {
        specs.push_back(dense_argument(id, name, optional, written, {p.channels}, p.param_dtype()));
    }
    void state(int32_t id, const char* name, bool written) {
        specs.push_back(
            state_argument(id, name, optional, written, {p.state_rows(), p.channels, p.states}, 0, p, p.matrix_dtype));
    }

    void read_by_both() {
        tensor(id_of(ArgId::input), "INPUT", required, false, p.input);
        tensor(id_of(ArgId::delta), "DELTA", required, false, p.delta);
        tensor(id_of(ArgId::output_gate), "OUTPUT_GATE", optional, false, p.output_gate);
        constant(id_of(ArgId::a), "A", required, false);
        matrix(id_of(ArgId::b), "B", required, false, p.b_per_step, p.b);
        matrix(id_of(ArgId::c), "C", required, false, p.c_per_step, p.c);
        param(id_of(ArgId::d), "D", false);
        param(id_of(ArgId::bias), "BIAS", false);
        state(id_of(ArgId::state_in), "STATE_IN", false);
    }
    void gradients() {
        tensor(grad_of(ArgId::output), "GRAD|OUTPUT", required, false, p.grad_output);
        state(grad_of(ArgId::state_out), "GRAD|STATE_OUT", false);
        tensor(grad_of(ArgId::input), "GRAD|INPUT", optional, true, p.grad_input);
        tensor(grad_of(ArgId::delta), "GRAD|DELTA", optional, true, p.grad_delta);
        tensor(grad_of(ArgId::output_gate), "GRAD|OUTPUT_GATE", optional, true, p.grad_output_gate);
        constant(grad_of(ArgId::a), "GRAD|A", optional, true);
        matrix(grad_of(ArgId::b), "GRAD|B", optional, true, p.b_per_step, p.grad_b);
        matrix(grad_of(ArgId::c), "GRAD|C", optional, true, p.c_per_step, p.grad_c);
        param(grad_of(ArgId::d), "GRAD|D", true);
        param(grad_of(ArgId::bias), "GRAD|BIAS", true);
        state(grad_of(ArgId::state_in), "GRAD|STATE_IN", true);
    }
};

}  // namespace

std::vector<ArgumentSpec> selective_arguments(const SelectiveProblem& p, Pass pass, size_t scratch_bytes,
                                              bool scratch_required) {
    List list{p, {}};
    list.read_by_both();
    if (pass == Pass::forward) {
        list.tensor(id_of(ArgId::output), "OUTPUT", required, true, p.output);
        list.state(id_of(ArgId::state_out), "STATE_OUT", true);
    } else {
        list.gradients();
    }
    add_sequence_arguments(list.specs, p);
    add_scratch_argument(list.specs, scratch_bytes, scratch_required);
    for (ArgumentSpec& spec : list.specs) spec.may_be = same_memory(p, spec.id);
    return list.specs;
}

SelectiveBuffers selective_buffers(const SelectiveProblem& p, Pass pass, const Pointers& found) {
    SelectiveBuffers b(found);
    b.delta = found[ArgId::delta];
    b.output_gate = found[ArgId::output_gate];
    b.a = found[ArgId::a];
    b.b = found[ArgId::b];
    b.c = found[ArgId::c];
    b.d = found[ArgId::d];
    b.bias = found[ArgId::bias];
    b.grad_delta = found.grad(ArgId::delta);
    b.grad_output_gate = found.grad(ArgId::output_gate);
    b.grad_a = found.grad(ArgId::a);
    b.grad_b = found.grad(ArgId::b);
    b.grad_c = found.grad(ArgId::c);
    b.grad_d = found.grad(ArgId::d);
    b.grad_bias = found.grad(ArgId::bias);
    if (pass == Pass::backward && b.grad_output_gate != nullptr && b.output_gate == nullptr && !p.empty())
        fail(Code::missing_argument, "OUTPUT_GATE is not given; GRAD|OUTPUT_GATE needs it");
    return b;
}

}  // namespace flashscan
