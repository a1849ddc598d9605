// SPDX-License-Identifier: Apache-2.0
// Lists the arguments of both passes of an associative operator, and puts the pointers of a call into OperatorBuffers.
#include "core/operator_arguments.h"

#include "core/error.h"

namespace flashscan {
namespace {

using enum Presence;

// Return whether backward may read OUTPUT, and whether it may read INPUT. Affine maps read them for GRAD|GATE alone.
bool keeps_output(const OperatorProblem& p) { return !p.is_reduction() && (p.is_affine() || p.is_matmul()); }
bool keeps_input(const OperatorProblem& p) { return p.has_slopes() && (!p.is_affine() || p.is_reduction()); }

Axes with(Axes axes, std::initializer_list<Extent> inner) {
    for (const Extent extent : inner) axes.extents[axes.count++] = extent;
    return axes;
}
// Returns `axes` followed by the axes of an element.
Axes with_element(const OperatorProblem& p, const Axes& axes) {
    if (p.on_numbers()) return axes;
    if (p.is_custom()) return with(axes, {p.custom.element_bytes});
    return p.is_affine() ? with(axes, {p.dim}) : with(axes, {p.dim, p.dim});
}

}  // namespace

std::vector<ArgumentSpec> operator_arguments(const OperatorProblem& p, Pass pass, size_t scratch_bytes,
                                             bool scratch_required) {
    std::vector<ArgumentSpec> specs;
    const auto add = [&](int32_t id, const char* name, Presence presence, bool written, const Axes& axes) {
        const Dtype dtype = p.is_custom() ? Dtype{} : p.dtype;
        specs.push_back(dense_argument(id, name, presence, written, axes, dtype));
    };
    const Axes inputs = with_element(
        p, p.layout == Layout::btc ? Axes{p.batch, p.time, p.channels} : Axes{p.batch, p.channels, p.time});
    const Axes states = with_element(p, {p.state_rows(), p.channels});
    const Axes outputs = p.is_reduction() ? states : inputs;
    const Axes gates = with(inputs, {p.dim});
    const auto add_state = [&](int32_t id, const char* name, Presence presence, bool written) {
        const Dtype dtype = p.is_custom() ? Dtype{} : state_dtype(p.dtype);
        specs.push_back(state_argument(id, name, presence, written, states, 0, p, dtype));
    };
    if (p.is_affine()) add(id_of(ArgId::gate), "GATE", required, false, gates);
    const bool state_needed = p.is_custom() && p.mode == OperatorMode::exclusive;
    add_state(id_of(ArgId::state_in), "STATE_IN", state_needed ? required : optional, false);
    if (pass == Pass::forward) {
        add(id_of(ArgId::input), "INPUT", required, false, inputs);
        add(id_of(ArgId::output), "OUTPUT", required, true, outputs);
        if (p.has_index())
            specs.push_back(dense_argument(id_of(ArgId::index), "INDEX", optional, true, outputs, Dtype::i64));
        add_state(id_of(ArgId::state_out), "STATE_OUT", optional, true);
    } else {
        if (keeps_input(p)) add(id_of(ArgId::input), "INPUT", p.is_affine() ? optional : required, false, inputs);
        if (keeps_output(p)) add(id_of(ArgId::output), "OUTPUT", optional, false, outputs);
        add(grad_of(ArgId::output), "GRAD|OUTPUT", required, false, outputs);
        add_state(grad_of(ArgId::state_out), "GRAD|STATE_OUT", optional, false);
        add(grad_of(ArgId::input), "GRAD|INPUT", optional, true, inputs);
        if (p.is_affine()) add(grad_of(ArgId::gate), "GRAD|GATE", optional, true, gates);
        add_state(grad_of(ArgId::state_in), "GRAD|STATE_IN", optional, true);
    }
    add_sequence_arguments(specs, p);
    add_scratch_argument(specs, scratch_bytes, scratch_required);
    return specs;
}

OperatorBuffers operator_buffers(const OperatorProblem& p, Pass pass, const Pointers& found) {
    OperatorBuffers b(found);
    b.gate = found[ArgId::gate];
    b.index = found[ArgId::index];
    b.grad_gate = found.grad(ArgId::gate);
    if (pass == Pass::forward) return b;
    if (b.grad_state_in != nullptr && b.state_in == nullptr && p.chains() > 0)
        fail(Code::missing_argument, "STATE_IN is not given; GRAD|STATE_IN needs it");
    if (p.input_count() == 0) return b;
    const bool reads = p.is_affine() ? b.grad_gate != nullptr : b.grad_input != nullptr;
    const char* gradient = p.is_affine() ? "GRAD|GATE" : "GRAD|INPUT";
    if (reads && keeps_output(p) && b.output == nullptr)
        fail(Code::missing_argument, "OUTPUT is not given; {} needs it", gradient);
    if (reads && p.is_affine() && p.is_reduction() && b.input == nullptr)
        fail(Code::missing_argument, "INPUT is not given; {} of a reduction needs it", gradient);
    return b;
}

}  // namespace flashscan
