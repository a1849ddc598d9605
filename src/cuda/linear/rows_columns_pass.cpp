// SPDX-License-Identifier: Apache-2.0
// Settles passes of the kernels "rows" and "columns", whose blocks go through sets of groups of rows (block_order.cuh).
#include <algorithm>
#include <limits>

#include "cuda/linear/pass.h"

namespace flashscan::cuda {
namespace {

// Whether, if the first row begins at the same place within 16 bytes in all tensors, every row does.
bool can_skew(const LinearPass& l, const LinearProblem& p) {
    if (l.kernels->rows_skew == 0 || l.sums_terms) return false;
    const View gate = view_of(l, p.gate, p.gate_dtype);
    const std::vector<Strides> tensors = tensors_and_gates_of(p, l.pass);
    return gate.time == size_of(p.dtype) && std::all_of(tensors.begin(), tensors.end(), [&](const Strides& strides) {
               const View v = view_of(l, strides, p.dtype);
               return v.time == gate.time && (v.row - gate.row) % bulk_alignment == 0 &&
                      (l.batches == 1 || (v.batch - gate.batch) % bulk_alignment == 0);
           });
}

// Whether channels lie side by side in all tensors.
bool can_skew_pairs(const LinearPass& l, const LinearProblem& p) {
    const std::vector<Strides> tensors = tensors_and_gates_of(p, l.pass);
    return std::all_of(tensors.begin(), tensors.end(), [](const Strides& s) { return s.channels == 1; });
}

// Whether the kernels have code for log or logit gates together with resets, packed sequences and, backward, initial
// states (Walk::holds_values).
bool cuts_forms(const LinearProblem& p, Pass pass) {
    return size_of(p.gate_dtype) >= 4 && !(pass == Pass::backward && is_complex(p.gate_dtype));
}

// Whether the gradient of a gate that is broadcast is summed after the kernel, from one of each element: where it is not
// shared by all steps, whose gradients a warp sums as it walks, nor, in columns, by all channels. Gradients of 16-bit gates
// would be rounded before they are summed.
bool sums_terms(const LinearProblem& p, Pass pass, bool columns) {
    return pass == Pass::backward && p.gate_broadcast != 0 && !p.broadcasts(broadcast_time) &&
           !(columns && p.broadcasts(broadcast_channels)) && size_of(p.gate_dtype) >= 4;
}

// The problem as the kernels see it: where gradients are summed afterwards, GRAD|GATE is dense and has the shape of INPUT.
LinearProblem with_terms(LinearProblem p, Pass pass, bool columns) {
    if (!sums_terms(p, pass, columns)) return p;
    const int64_t time = p.time, channels = p.channels;
    p.grad_gate = columns ? Strides{time * channels, channels, 1} : Strides{time * channels, 1, time};
    return p;
}

// Whether the kernels take the problem's gates. Backward they take 16-bit gates for each element, or by value and one for
// all steps; columns also one for all channels. Empty problems are refused too.
bool can_take(const LinearProblem& p, Pass pass, bool columns) {
    const bool sums = pass == Pass::backward && p.gate_broadcast != 0 && !sums_terms(p, pass, columns);
    const bool cuts = p.has_reset || p.packed();
    const bool of_steps = sums && !p.broadcasts(broadcast_time), forms = p.gate_form != GateForm::value;
    if (of_steps && !(columns && p.broadcasts(broadcast_channels))) return false;
    if (forms && ((sums && !of_steps) || ((cuts || sums) && !cuts_forms(p, pass)))) return false;
    return p.time > 0 && p.batch * p.channels > 0;
}

// A pass whose kernel writes a gradient for each element where they are summed afterwards.
LinearPass begin_rows_columns_pass(const LinearProblem& p, Pass pass, bool columns) {
    LinearPass l = begin_pass(p, pass, true, false);
    l.sums_terms = sums_terms(p, pass, columns);
    if (l.sums_terms) l.sums_gate = l.sums_steps = false;
    return l;
}

// Books the partial sums of gates that are broadcast over time or channels: for each chunk, or each step, and each row,
// or strip of columns where rows are summed.
void book_partial_sums(LinearPass& l, const LinearProblem& p) {
    const int64_t wide = size_of(state_dtype(p.gate_dtype));
    if (l.sums_terms) l.partial = l.workspace.book(p.batch * p.time * p.channels * wide);
    if (!l.sums_gate) return;
    l.partial_time = l.sums_steps ? int64_t{p.time} : l.tuning.chunks;
    const bool strips = l.takes_columns() && p.broadcasts(broadcast_channels);
    l.partial_rows = strips ? ceil_div(l.rows, int64_t{l.row_lanes()} * l.tile().lane_rows) : l.rows;
    l.partial = l.workspace.book(l.batches * l.partial_time * l.partial_rows * wide);
}

// Books memory for what chunks exchange; lanes publish what their `pack` rows carry together.
void book_carries(LinearPass& l) {
    const auto [carries, all] = exchanged_bytes(l.tuning, l.group_chunks(), l.batches * ceil_div(l.rows, l.pack),
                                                l.kernels->carry_bytes, l.kernels->record_bytes * l.pack);
    l.look_back_bytes = static_cast<size_t>(all);
    l.carries = l.workspace.book(all);
    l.records = l.carries + static_cast<size_t>(carries);
}

// Completes a pass after its tuning. `p` is the problem as its kernels see it, `grad_gate` the strides of GRAD|GATE. Returns
// false where the blocks of a set exceed 31 bits.
bool settle(LinearPass& l, const LinearProblem& p, const Strides& grad_gate) {
    if (l.tuning.set_groups * l.tuning.chunks > std::numeric_limits<int32_t>::max()) return false;
    l.launch_steps = p.time;
    book_partial_sums(l, p);
    settle_params(l, p);
    if (l.sums_terms) {
        l.terms = l.params.grad_gate;
        l.params.grad_gate = view_of(l, grad_gate, p.gate_dtype);
    }
    l.params.chunks = l.tuning.chunks;
    l.takes_states = !p.packed();
    book_carries(l);
    return true;
}

}  // namespace

std::optional<LinearPass> make_rows_pass(const LinearProblem& problem, Pass pass, bool skewed, bool must_suit) {
    if (!can_take(problem, pass, false)) return std::nullopt;
    const LinearProblem p = with_terms(problem, pass, false);
    LinearPass l = begin_rows_columns_pass(p, pass, false);
    l.skewed = skewed;
    l.tuning.algorithm = LinearAlgorithm::rows;
    if (!l.time_inner || l.kernel() == nullptr || l.batches * l.rows > std::numeric_limits<int32_t>::max())
        return std::nullopt;
    if (skewed ? !can_skew(l, p) : !fits_aligned(l, p)) return std::nullopt;
    LinearShape shape = shape_of(l, p, false);
    if (skewed) shape.skew = l.kernels->rows_skew;
    l.tuning.log2_lane_rows = 0;
    static_cast<ChainedTuning&>(l.tuning) = tune_chained_rows(shape, l.lane_tile());
    const bool suits = chained_rows_suit(shape, l.tuning), grouped = !suits && chained_groups_suit(l.tuning);
    l.params.grouped = grouped;
    if ((must_suit && !suits && !grouped) || !settle(l, p, problem.grad_gate)) return std::nullopt;
    return l;
}

std::optional<LinearPass> make_columns_pass(const LinearProblem& problem, Pass pass, int pack, bool skewed,
                                            bool must_suit) {
    if (!can_take(problem, pass, true)) return std::nullopt;
    const LinearProblem p = with_terms(problem, pass, true);
    const bool backward = pass == Pass::backward;
    LinearPass l = begin_rows_columns_pass(p, pass, true);
    l.tuning.algorithm = LinearAlgorithm::columns;
    l.pack = pack;
    l.skewed = skewed;
    if (l.time_inner || l.kernel() == nullptr) return std::nullopt;
    if (skewed ? !can_skew_pairs(l, p) : !fits_aligned(l, p)) return std::nullopt;
    LinearShape shape = shape_of(l, p, false);
    if (skewed) shape.shares_sectors = true;
    static_cast<ChainedTuning&>(l.tuning) = tune_chained_columns(shape, l.lane_tile());
    const bool narrowest = pack == 1 || l.kernels->columns[0][backward] == nullptr;
    const bool suits = chained_columns_suit(shape, l.lane_tile(), l.tuning, narrowest);
    const bool grouped =
        !suits && chained_column_groups_suit(shape, l.lane_tile(), l.tuning, l.kernels->record_bytes * pack);
    l.params.grouped = grouped;
    if ((must_suit && !suits && !grouped) || !settle(l, p, problem.grad_gate)) return std::nullopt;
    if (backward && p.gate_form != GateForm::value && !cuts_forms(p, pass)) l.takes_states = false;
    // Chunks of wide elements are short and their carries many, but scratch memory should stay within about 1 % of the
    // tensors.
    const int64_t step_bytes = size_of(p.gate_dtype) + size_of(p.dtype) * (backward ? 2 : 1);
    const int64_t most = std::max<int64_t>(4 << 20, p.batch * p.channels * p.time / 100 * step_bytes);
    if (must_suit && static_cast<int64_t>(l.look_back_bytes) > most) return std::nullopt;
    return l;
}

}  // namespace flashscan::cuda
