// SPDX-License-Identifier: Apache-2.0
// Checks the problem of a recurrent network, and describes it as text.
#include "core/rnn_problem.h"

#include <cmath>

#include "core/extents.h"

namespace flashscan {

CellCounts counts_of(Cell cell) {
    const CellRow& row = row_of(cell);
    return {row.gates, row.biases, row.states};
}

RnnStrides RnnProblem::input_strides() const {
    const Extent step = counts().gates * width();
    if (layout == RnnLayout::btghd) return {width(), time * step, step};
    return {width(), step, batch * step};
}

RnnStrides RnnProblem::output_strides() const {
    const Extent state = batch * time * width();
    if (layout == RnnLayout::btghd) return {state, time * width(), width()};
    return {state, width(), batch * width()};
}

void validate(RnnProblem& p) {
    check_dtype(p.dtype, {Dtype::f32, Dtype::bf16, Dtype::f16, Dtype::f64}, "dtype");
    check_second_dtype(p.weight_dtype, p.dtype, state_dtype(p.dtype), "weight_dtype");
    validate_sequences(p);
    check_extent(p.heads, 1, "heads");
    check_extent(p.head_dim, 1, "head_dim");
    if (!(p.recurrent_clip >= 0) || std::isinf(p.recurrent_clip))
        fail(Code::invalid_argument, "recurrent_clip is {}; accepted are 0 (no limit) and finite numbers above",
             p.recurrent_clip);
    if (p.training && p.pooled())
        fail(Code::invalid_argument, "flags has RNN_FLAG_TRAINING with state_pool {}; accepted is state_pool 0",
             p.state_pool);
    // 16 values of 8 bytes for each element, all that a cell keeps, bound every size that is formed later.
    constexpr int64_t most = 16 * 8;
    const Extent width = p.heads.named("heads * head_dim") * p.head_dim;
    static_cast<void>(width.named("bytes of WEIGHT") * p.head_dim * most);
    check_steps(p, width, most, "batch * time * heads * head_dim * bytes of an element");
    p.allow_tf32 = p.allow_tf32 && p.dtype == Dtype::f32;
    settle_states(p, {p.counts().states, p.state_rows(), width}, size_of(state_dtype(p.dtype)));
}

std::string RnnProblem::describe() const {
    std::string text = fmt::format("rnn {} {} {} b{} t{} h{} d{}", row_of(cell).word, name_of(dtype),
                                   layout == RnnLayout::btghd ? "BTGHD" : "TBGHD", batch, time, heads, head_dim);
    if (weight_dtype != dtype) text += fmt::format(" weight-{}", name_of(weight_dtype));
    if (training) text += " training";
    if (all_states) text += " all-states";
    if (allow_tf32) text += " tf32";
    if (recurrent_clip > 0) text += fmt::format(" clip{}", recurrent_clip);
    return text + describe_sequences(*this);
}

}  // namespace flashscan
