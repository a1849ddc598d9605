// SPDX-License-Identifier: Apache-2.0
// Lists the arguments of both passes of a gated layer, and puts the pointers of a call into GatedBuffers.
#include "core/gated_arguments.h"

#include <utility>

#include "core/error.h"
#include "core/tensors.h"

namespace flashscan {
namespace {

using enum Presence;

struct List {
    const GatedProblem& p;
    std::vector<ArgumentSpec> specs;

    void tensor(int32_t id, const char* name, Presence presence, bool written, const Strides& strides, Dtype dtype) {
        specs.push_back(
            tensor_argument(id, name, presence, written, {p.batch, p.time, p.channels}, strides, p.layout, dtype));
    }
    void state(int32_t id, const char* name, bool written) {
        specs.push_back(
            state_argument(id, name, optional, written, {p.state_rows(), p.channels}, 0, p, state_dtype(p.dtype)));
    }
    void param(int32_t id, const char* name, Presence presence, bool written) {
        specs.push_back(dense_argument(id, name, presence, written, {p.channels}, p.param_dtype));
    }
    void reserve(Presence presence, bool written, size_t bytes) {
        specs.push_back(dense_argument(id_of(ArgId::reserve), "RESERVE", presence, written, {Extent(bytes)}, Dtype{}));
        specs.back().alignment = 64;
    }

    // Adds the arguments that both passes read.
    void read_by_both() {
        tensor(id_of(ArgId::gate), "GATE", required, false, p.gate, p.gate_dtype);
        if (p.parts.has_second_gate())
            tensor(id_of(ArgId::second_gate), "SECOND_GATE", required, false, p.second_gate, p.gate_dtype);
        if (p.parts.has_input_gate())
            tensor(id_of(ArgId::input_gate), "INPUT_GATE", required, false, p.input_gate, p.dtype);
        if (p.parts.has_output_gate())
            tensor(id_of(ArgId::output_gate), "OUTPUT_GATE", required, false, p.output_gate, p.dtype);
        if (p.parts.has_param()) param(id_of(ArgId::param), "PARAM", required, false);
        param(id_of(ArgId::bias), "BIAS", optional, false);
        state(id_of(ArgId::state_in), "STATE_IN", false);
    }
    void gradients() {
        tensor(grad_of(ArgId::output), "GRAD|OUTPUT", required, false, p.grad_output, p.dtype);
        state(grad_of(ArgId::state_out), "GRAD|STATE_OUT", false);
        tensor(grad_of(ArgId::input), "GRAD|INPUT", optional, true, p.grad_input, p.dtype);
        tensor(grad_of(ArgId::gate), "GRAD|GATE", optional, true, p.grad_gate, p.gate_dtype);
        if (p.parts.has_second_gate())
            tensor(grad_of(ArgId::second_gate), "GRAD|SECOND_GATE", optional, true, p.grad_second_gate, p.gate_dtype);
        if (p.parts.has_input_gate())
            tensor(grad_of(ArgId::input_gate), "GRAD|INPUT_GATE", optional, true, p.grad_input_gate, p.dtype);
        if (p.parts.has_output_gate())
            tensor(grad_of(ArgId::output_gate), "GRAD|OUTPUT_GATE", optional, true, p.grad_output_gate, p.dtype);
        if (p.parts.has_param()) param(grad_of(ArgId::param), "GRAD|PARAM", optional, true);
        param(grad_of(ArgId::bias), "GRAD|BIAS", optional, true);
        state(grad_of(ArgId::state_in), "GRAD|STATE_IN", true);
    }
};

}  // namespace

std::vector<ArgumentSpec> gated_arguments(const GatedProblem& p, Pass pass, size_t reserve_bytes, size_t scratch_bytes,
                                          bool scratch_required) {
    List list{p, {}};
    list.read_by_both();
    if (pass == Pass::forward) {
        list.tensor(id_of(ArgId::input), "INPUT", required, false, p.input, p.dtype);
        list.tensor(id_of(ArgId::output), "OUTPUT", required, true, p.output, p.dtype);
        list.state(id_of(ArgId::state_out), "STATE_OUT", true);
        if (p.hides_state()) list.reserve(optional, true, reserve_bytes);
    } else {
        if (p.parts.keeps_input()) list.tensor(id_of(ArgId::input), "INPUT", required, false, p.input, p.dtype);
        if (p.hides_state())
            list.reserve(required, false, reserve_bytes);
        else
            list.tensor(id_of(ArgId::output), "OUTPUT", optional, false, p.output, p.dtype);
        list.gradients();
    }
    add_sequence_arguments(list.specs, p);
    add_scratch_argument(list.specs, scratch_bytes, scratch_required);
    for (ArgumentSpec& spec : list.specs) spec.may_be = same_memory(p, spec.id);
    return list.specs;
}

GatedBuffers gated_buffers(const GatedProblem& p, Pass pass, const Pointers& found) {
    GatedBuffers b(found);
    b.gate = found[ArgId::gate];
    b.second_gate = found[ArgId::second_gate];
    b.input_gate = found[ArgId::input_gate];
    b.output_gate = found[ArgId::output_gate];
    b.param = found[ArgId::param];
    b.bias = found[ArgId::bias];
    b.reserve = found[ArgId::reserve];
    b.grad_gate = found.grad(ArgId::gate);
    b.grad_second_gate = found.grad(ArgId::second_gate);
    b.grad_input_gate = found.grad(ArgId::input_gate);
    b.grad_output_gate = found.grad(ArgId::output_gate);
    b.grad_param = found.grad(ArgId::param);
    b.grad_bias = found.grad(ArgId::bias);
    if (pass == Pass::forward || p.hides_state() || b.output != nullptr || p.empty()) return b;
    const std::pair<const void*, const char*> readers[] = {{b.grad_gate, "GRAD|GATE"},
                                                           {b.grad_second_gate, "GRAD|SECOND_GATE"},
                                                           {b.grad_param, "GRAD|PARAM"},
                                                           {b.grad_bias, "GRAD|BIAS"}};
    for (const auto& [gradient, name] : readers)
        if (gradient != nullptr) fail(Code::missing_argument, "OUTPUT is not given; {} needs it", name);
    return b;
}

}  // namespace flashscan
