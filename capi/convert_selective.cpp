// SPDX-License-Identifier: Apache-2.0
#include "capi/convert.h"
#include "capi/enumerators.h"

namespace flashscan {

SelectiveProblem convert(const flashscan_selective_desc& d) {
    check_flags(d.flags,
                FLASHSCAN_SELECTIVE_FLAG_RESET | FLASHSCAN_SELECTIVE_FLAG_SOFTPLUS |
                    FLASHSCAN_SELECTIVE_FLAG_B_PER_STEP | FLASHSCAN_SELECTIVE_FLAG_C_PER_STEP,
                "flags",
                "SELECTIVE_FLAG_RESET (16777216), SELECTIVE_FLAG_SOFTPLUS (33554432), SELECTIVE_FLAG_B_PER_STEP "
                "(67108864), SELECTIVE_FLAG_C_PER_STEP (134217728)");
    if (d.reserved != 0) fail(Code::invalid_argument, "reserved is {}; accepted is 0", d.reserved);
    SelectiveProblem p;
    p.dtype = needed(d.dtype, dtypes, "dtype");
    p.matrix_dtype = optional(d.matrix_dtype, dtypes, "matrix_dtype");
    p.layout = optional(d.layout, layouts, "layout");
    p.direction = optional(d.direction, directions, "direction");
    p.offsets_dtype = optional(d.offsets_dtype, dtypes, "offsets_dtype");
    p.has_reset = (d.flags & FLASHSCAN_SELECTIVE_FLAG_RESET) != 0;
    p.softplus = (d.flags & FLASHSCAN_SELECTIVE_FLAG_SOFTPLUS) != 0;
    p.b_per_step = (d.flags & FLASHSCAN_SELECTIVE_FLAG_B_PER_STEP) != 0;
    p.c_per_step = (d.flags & FLASHSCAN_SELECTIVE_FLAG_C_PER_STEP) != 0;
    p.batch = d.batch;
    p.time = d.time;
    p.channels = d.channels;
    p.states = d.states;
    p.groups = d.groups;
    p.num_sequences = d.num_sequences;
    p.input = convert(d.input);
    p.delta = convert(d.delta);
    p.output_gate = convert(d.output_gate);
    p.b = convert(d.b);
    p.c = convert(d.c);
    p.output = convert(d.output);
    p.grad_input = convert(d.grad_input);
    p.grad_delta = convert(d.grad_delta);
    p.grad_output_gate = convert(d.grad_output_gate);
    p.grad_b = convert(d.grad_b);
    p.grad_c = convert(d.grad_c);
    p.grad_output = convert(d.grad_output);
    convert_states(p, d);
    return p;
}

}  // namespace flashscan
