// SPDX-License-Identifier: Apache-2.0
// Settles passes of the kernel "few_long_rows", whose loads the bulk copy engine (TMA) does.
#include "cuda/linear/pass.h"

#include <limits>

namespace flashscan::cuda {
namespace {

// Settles tensor maps, whose boxes have the rows of a warp. Returns false where a tensor cannot have one.
bool settle_maps(LinearPass& l, const LinearProblem& p) {
    const bool backward = l.pass == Pass::backward;
    const auto map_of = [&](const View& view, Dtype dtype) {
        MapShape map;
        map.element_bytes = static_cast<int>(size_of(dtype));
        const MapAxis rows{l.rows, view.row, l.wave_rows()};
        const MapAxis time{l.time, view.time, l.wave_box_steps()};
        map.axes = {rows, time, MapAxis{l.batches, view.batch, 1}};
        return map;
    };
    const LinearParams& v = l.params;
    l.maps = {map_of(v.gate, p.gate_dtype), map_of(v.source, p.dtype), map_of(v.states, p.dtype),
              map_of(v.result, p.dtype), map_of(v.grad_gate, p.gate_dtype)};
    const std::array<bool, 5> used = {true, true, backward, true, backward};
    for (size_t i = 0; i < used.size(); ++i)
        if (used[i] && !can_map(l.maps[i])) return false;
    return true;
}

// Whether the steps of a strip lie next to each other in every tensor.
bool are_dense(const LinearPass& l, int64_t element_bytes) {
    const LinearParams& v = l.params;
    const bool backward = l.pass == Pass::backward;
    const auto dense = [&](const View& view) { return view.time == l.rows * element_bytes; };
    return l.wave_rows() == l.rows && dense(v.gate) && dense(v.source) && dense(v.result) &&
           (!backward || (dense(v.states) && dense(v.grad_gate)));
}

// Books the memory through which blocks exchange summaries and carries. Each word of a value has a tag of the same size
// beside it, hence the factor of two.
void book_waves(LinearPass& l) {
    const Extent words = Extent(l.wave_facts().slots) * l.tuning.blocks * l.wave_rows();
    const Extent records = 2 * words * l.kernels->record_bytes, carries = 2 * words * l.kernels->carry_bytes;
    l.records = l.workspace.book(records + carries);
    l.look_back_bytes = static_cast<size_t>(records + carries);
    l.carries = l.records + static_cast<size_t>(records);
}

}  // namespace

std::optional<LinearPass> make_few_long_rows_pass(const LinearProblem& p, Pass pass, int multiprocessors,
                                                  bool must_suit) {
    if (p.packed() || p.has_reset || p.gate_form != GateForm::value || p.gate_broadcast != 0) return std::nullopt;
    if (p.time == 0 || p.batch * p.channels == 0 || !can_align(p, pass, false)) return std::nullopt;
    LinearPass l = begin_pass(p, pass, true, false);
    l.wave_kernels = wave_kernels(p.dtype, p.gate_dtype);
    const bool backward = pass == Pass::backward;
    if (l.wave_kernels == nullptr || l.wave_kernels->kernel[l.time_inner][l.down][backward] == nullptr)
        return std::nullopt;
    const LinearShape shape = shape_of(l, p, false);
    const WaveFacts& facts = l.wave_facts();
    l.tuning = tune_waves(shape, {facts.lane_rows, facts.steps, facts.rows, facts.warps, facts.ring}, multiprocessors);
    if (must_suit && !waves_suit(shape, l.tuning)) return std::nullopt;
    if (l.wave_chunks() > std::numeric_limits<int32_t>::max()) return std::nullopt;
    settle_params(l, p);
    if (!l.time_inner) {
        if (!settle_maps(l, p)) return std::nullopt;
        l.dense = are_dense(l, size_of(p.dtype));
    }
    book_waves(l);
    return l;
}

}  // namespace flashscan::cuda
