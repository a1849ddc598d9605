// SPDX-License-Identifier: Apache-2.0
// Passes by rows (kernels/linear_rows.cuh).
#include <algorithm>
#include <limits>

#include "cuda/linear_pass.h"

namespace flashscan::cuda {
namespace {

// Whether all tensors of a row lie at the same place in vectors of 16 bytes where those of the first row do.
bool can_skew(const LinearPass& l, const LinearProblem& p) {
    if (l.kernels->rows_skew == 0) return false;
    const View gate = view_of(l, p.gate, p.gate_dtype);
    std::vector<Strides> tensors = tensors_of(p, l.pass);
    if (l.pass == Pass::backward) tensors.push_back(p.grad_gate);
    return gate.time == size_of(p.dtype) && std::all_of(tensors.begin(), tensors.end(), [&](const Strides& strides) {
               const View v = view_of(l, strides, p.dtype);
               return v.time == gate.time && (v.row - gate.row) % bulk_alignment == 0 &&
                      (l.batches == 1 || (v.batch - gate.batch) % bulk_alignment == 0);
           });
}

}  // namespace

std::optional<LinearPass> make_rows_pass(const LinearProblem& p, Pass pass, bool skewed, bool must_suit) {
    if ((p.has_reset || p.packed()) && p.gate_form != GateForm::value) return std::nullopt;
    if (p.gate_broadcast != 0 || p.time == 0 || p.batch * p.channels == 0) return std::nullopt;
    LinearPass l = begin_pass(p, pass, true, false);
    l.skewed = skewed;
    l.tuning.algorithm = LinearAlgorithm::rows;
    if (!l.time_inner || l.kernel() == nullptr || l.batches * l.rows > std::numeric_limits<int32_t>::max())
        return std::nullopt;
    if (skewed ? !can_skew(l, p) : !can_align(p, pass, false)) return std::nullopt;
    LinearShape shape = shape_of(l, p, false);
    if (skewed) shape.skew = l.kernels->rows_skew;
    l.tuning = tune_rows(shape, l.lane_tile());
    if (must_suit && !rows_suit(shape, l.tuning)) return std::nullopt;
    if (l.tuning.set_groups * l.tuning.chunks > std::numeric_limits<int32_t>::max()) return std::nullopt;
    l.launch_steps = p.time;
    settle_params(l, p);
    l.params.chunks = l.tuning.chunks;
    l.takes_states = !p.packed();
    book_carries(l, 1);
    return l;
}

}  // namespace flashscan::cuda
