// SPDX-License-Identifier: Apache-2.0
// Lists the arguments of both passes of a recurrent network, and puts the pointers of a call into RnnBuffers.
#include "core/rnn_arguments.h"

namespace flashscan {

std::vector<ArgumentSpec> rnn_arguments(const RnnProblem& p, Pass pass, size_t reserve_bytes, size_t scratch_bytes,
                                        bool scratch_required) {
    using enum Presence;
    std::vector<ArgumentSpec> specs;
    const auto add = [&](int32_t id, const char* name, Presence presence, bool written, const Axes& axes, Dtype dtype) {
        specs.push_back(dense_argument(id, name, presence, written, axes, dtype));
    };
    const bool forward = pass == Pass::forward;
    const CellCounts counts = p.counts();
    const Extent outer = p.layout == RnnLayout::btghd ? p.batch : p.time;
    const Extent inner = p.layout == RnnLayout::btghd ? p.time : p.batch;
    const Axes input{outer, inner, counts.gates, p.heads, p.head_dim};
    const Axes output =
        p.all_states ? Axes{counts.states, outer, inner, p.heads, p.head_dim} : Axes{outer, inner, p.heads, p.head_dim};
    const Axes weight{counts.gates, p.heads, p.head_dim, p.head_dim}, bias{counts.biases, p.heads, p.head_dim};
    const auto add_state = [&](int32_t id, const char* name, bool written) {
        specs.push_back(state_argument(id, name, optional, written,
                                       {counts.states, p.state_rows(), p.heads, p.head_dim}, 1, p,
                                       state_dtype(p.dtype)));
    };
    add(id_of(ArgId::weight), "WEIGHT", required, false, weight, p.weight_dtype);
    add(id_of(ArgId::output), "OUTPUT", required, forward, output, p.dtype);
    const int first = p.all_states ? 1 : 0, second = first + 1;
    specs.back().batch_axis = p.layout == RnnLayout::btghd ? first : second;
    specs.back().time_axis = p.layout == RnnLayout::btghd ? second : first;
    add_state(id_of(ArgId::state_in), "STATE_IN", false);
    if (p.training) {
        add(id_of(ArgId::reserve), "RESERVE", required, forward, {reserve_bytes}, Dtype{});
        specs.back().alignment = 64;
    }
    if (forward) {
        add(id_of(ArgId::input), "INPUT", required, false, input, p.dtype);
        add(id_of(ArgId::bias), "BIAS", optional, false, bias, p.weight_dtype);
        add_state(id_of(ArgId::state_out), "STATE_OUT", true);
        if (p.head_dim == 1) {
            add(id_of(ArgId::iterations), "ITERATIONS", optional, true, {p.state_rows()}, Dtype::i32);
            add(id_of(ArgId::residual), "RESIDUAL", optional, true, {p.state_rows()}, Dtype::f32);
        }
    } else {
        add(grad_of(ArgId::output), "GRAD|OUTPUT", required, false, output, p.dtype);
        add_state(grad_of(ArgId::state_out), "GRAD|STATE_OUT", false);
        add(grad_of(ArgId::input), "GRAD|INPUT", optional, true, input, p.dtype);
        add(grad_of(ArgId::weight), "GRAD|WEIGHT", optional, true, weight, p.weight_dtype);
        add(grad_of(ArgId::bias), "GRAD|BIAS", optional, true, bias, p.weight_dtype);
        add_state(grad_of(ArgId::state_in), "GRAD|STATE_IN", true);
    }
    add_sequence_arguments(specs, p);
    add_scratch_argument(specs, scratch_bytes, scratch_required);
    for (ArgumentSpec& spec : specs)
        if (spec.id == id_of(ArgId::state_out) && p.pooled()) spec.may_be = id_of(ArgId::state_in);
    return specs;
}

RnnBuffers rnn_buffers(const Pointers& found) {
    RnnBuffers b(found);
    b.weight = found[ArgId::weight];
    b.bias = found[ArgId::bias];
    b.iterations = static_cast<int32_t*>(found[ArgId::iterations]);
    b.residual = static_cast<float*>(found[ArgId::residual]);
    b.reserve = found[ArgId::reserve];
    b.grad_weight = found.grad(ArgId::weight);
    b.grad_bias = found.grad(ArgId::bias);
    return b;
}

}  // namespace flashscan
