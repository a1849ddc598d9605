// SPDX-License-Identifier: Apache-2.0
// Settles passes of the kernels "rows" and "columns", whose blocks go through sets of groups of rows (block_order.cuh).
#include <algorithm>
#include <limits>

#include "cuda/linear/pass.h"

namespace flashscan::cuda {
namespace {

// Whether, if the first row begins at the same place within 16 bytes in all tensors, every row does. A gate that all steps
// share is loaded as one element.
bool can_skew(const LinearPass& l, const LinearProblem& p) {
    if (l.kernels->rows_skew == 0 || l.sums == GateSums::of_elements) return false;
    const std::vector<Strides> tensors =
        p.broadcasts(broadcast_time) ? tensors_of(p, l.pass) : tensors_and_gates_of(p, l.pass);
    const View first = view_of(l, tensors.front(), p.dtype);
    return std::all_of(tensors.begin(), tensors.end(), [&](const Strides& strides) {
        const View v = view_of(l, strides, p.dtype);
        return v.time == size_of(p.dtype) && (v.row - first.row) % bulk_alignment == 0 &&
               (l.batches == 1 || (v.batch - first.batch) % bulk_alignment == 0);
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

// Whether the kernels take the problem, as they see it. Empty problems are refused too.
bool can_take(const LinearPass& l, const LinearProblem& p) {
    const bool cuts = p.has_reset || p.packed();
    if (p.gate_form != GateForm::value && cuts && !cuts_forms(p, l.pass)) return false;
    return p.time > 0 && p.batch * p.channels > 0;
}

// Books memory for what chunks exchange; lanes publish what their `pack` rows carry together.
void book_carries(LinearPass& l) {
    const auto [carries, all] = exchanged_bytes(l.tuning, l.group_chunks(), l.batches * ceil_div(l.rows, l.pack),
                                                l.kernels->carry_bytes, l.kernels->record_bytes * l.pack);
    l.look_back_bytes = static_cast<size_t>(all);
    l.carries = l.workspace.book(all);
    l.records = l.carries + static_cast<size_t>(carries);
}

// Completes a pass after its tuning. Returns false where the blocks of a set exceed 31 bits.
bool settle(LinearPass& l, const LinearProblem& problem, const LinearProblem& p) {
    if (l.tuning.set_groups * l.tuning.chunks > std::numeric_limits<int32_t>::max()) return false;
    settle_params(l, p);
    settle_gate_sums(l, problem, p, false);
    l.takes_states = !p.packed();
    book_carries(l);
    return true;
}

}  // namespace

std::optional<LinearPass> make_rows_pass(const LinearProblem& problem, Pass pass, bool skewed, bool must_suit) {
    LinearPass l = begin_pass(problem, pass, true, false);
    const LinearProblem p = seen_by_kernel(l, problem);
    if (!can_take(l, p)) return std::nullopt;
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
    if ((must_suit && !suits && !grouped) || !settle(l, problem, p)) return std::nullopt;
    return l;
}

std::optional<LinearPass> make_columns_pass(const LinearProblem& problem, Pass pass, int pack, bool skewed,
                                            bool must_suit) {
    const bool backward = pass == Pass::backward;
    LinearPass l = begin_pass(problem, pass, true, false, true);
    const LinearProblem p = seen_by_kernel(l, problem);
    if (!can_take(l, p)) return std::nullopt;
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
    if ((must_suit && !suits && !grouped) || !settle(l, problem, p)) return std::nullopt;
    if (backward && p.gate_form != GateForm::value && !cuts_forms(p, pass)) l.takes_states = false;
    // Chunks of wide elements are short and their carries many, but scratch memory should stay within about 1 % of the
    // tensors.
    const int64_t step_bytes = size_of(p.gate_dtype) + size_of(p.dtype) * (backward ? 2 : 1);
    const int64_t most = std::max<int64_t>(4 << 20, p.batch * p.channels * p.time / 100 * step_bytes);
    if (must_suit && static_cast<int64_t>(l.look_back_bytes) > most) return std::nullopt;
    return l;
}

}  // namespace flashscan::cuda
