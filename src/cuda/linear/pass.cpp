// SPDX-License-Identifier: Apache-2.0
// Settles passes of the kernel "chunked", and what the passes of all linear kernels share.
#include "cuda/linear/pass.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "cuda/launch/sequence_offsets.h"
#include "cuda/linear/gate_sums.h"

namespace flashscan::cuda {

std::vector<Strides> tensors_of(const LinearProblem& p, Pass pass) {
    if (pass == Pass::forward) return {p.input, p.output};
    return {p.grad_output, p.output, p.grad_input};
}

std::vector<Strides> tensors_and_gates_of(const LinearProblem& p, Pass pass) {
    std::vector<Strides> tensors = tensors_of(p, pass);
    tensors.push_back(p.gate);
    if (pass == Pass::backward) tensors.push_back(p.grad_gate);
    return tensors;
}

namespace {

// Time innermost where most tensors have their shortest stride along time.
bool is_time_inner(const LinearProblem& p, Pass pass, bool batch_invariant) {
    if (batch_invariant) return p.layout == Layout::bct;  // the choice must not depend on the extents
    if (p.channels <= 1) return true;
    if (p.time <= 1) return false;
    const bool lays_gates_out = !p.broadcasts(broadcast_time) && !p.broadcasts(broadcast_channels);
    const std::vector<Strides> tensors = lays_gates_out ? tensors_and_gates_of(p, pass) : tensors_of(p, pass);
    int time = 0, channels = 0;
    for (const Strides& s : tensors) ++(s.time < s.channels ? time : channels);
    return time == channels ? p.layout == Layout::bct : time > channels;
}

// Whether row b * C + c of every tensor lies at one stride times the row.
bool can_fold(const LinearProblem& p, Pass pass, bool time_inner, bool batch_invariant) {
    if (p.batch == 1) return true;
    if (batch_invariant || p.has_reset || !time_inner) return false;
    if (pass == Pass::backward && p.gate_broadcast != 0) return false;
    const std::vector<Strides> tensors = tensors_and_gates_of(p, pass);
    return std::all_of(tensors.begin(), tensors.end(),
                       [&](const Strides& s) { return p.channels == 1 || s.batch == p.channels * s.channels; });
}

constexpr int64_t sector_bytes = 32;

GateSums gate_sums_of(const LinearProblem& p, Pass pass, bool columns) {
    if (pass == Pass::forward || p.gate_broadcast == 0) return GateSums::none;
    if (p.broadcasts(broadcast_time)) return GateSums::over_time;
    return columns && p.broadcasts(broadcast_channels) ? GateSums::over_channels : GateSums::of_elements;
}

Strides dense_strides(int64_t time, int64_t channels, bool time_inner) {
    if (time_inner) return {time * channels, 1, time};
    return {time * channels, channels, 1};
}

}  // namespace

LinearShape shape_of(const LinearPass& l, const LinearProblem& p, bool batch_invariant) {
    const Strides& result = l.pass == Pass::forward ? p.output : p.grad_input;
    const bool in_sectors = l.aligned && result.time * size_of(p.dtype) % sector_bytes == 0;
    return {{l.batches, l.rows, p.time, !in_sectors, p.num_sequences}, l.time_inner, batch_invariant};
}

LinearPass begin_pass(const LinearProblem& problem, Pass pass, bool aligned, bool batch_invariant, bool columns) {
    LinearPass l;
    l.pass = pass;
    l.aligned = aligned;
    l.time_inner = is_time_inner(problem, l.pass, batch_invariant);
    l.sums = gate_sums_of(problem, l.pass, columns);
    l.finds_gate_values =
        l.sums != GateSums::none &&
        (problem.gate_form != GateForm::value || (l.sums == GateSums::of_elements && size_of(problem.gate_dtype) == 2));
    const LinearProblem p = seen_by_kernel(l, problem);
    l.kernels = &linear_kernels(p.dtype, p.gate_dtype);
    l.down = (p.direction == Direction::reverse) != (l.pass == Pass::backward);
    l.fold = can_fold(p, l.pass, l.time_inner, batch_invariant);
    l.batches = l.fold ? Extent(1) : p.batch;
    l.rows = l.fold ? p.batch * p.channels : p.channels;
    l.time = p.time;
    return l;
}

LinearProblem seen_by_kernel(const LinearPass& l, LinearProblem problem) {
    if (l.sums == GateSums::of_elements)
        problem.grad_gate = dense_strides(problem.time, problem.channels, l.time_inner);
    if (l.finds_gate_values) {
        problem.gate_form = GateForm::value;
        problem.gate_dtype = state_dtype(problem.gate_dtype);
        problem.gate = dense_strides(problem.gate_time(), problem.gate_channels(), l.time_inner);
        if (problem.gate_batch() == 1) problem.gate.batch = 0;
        if (problem.gate_time() == 1) problem.gate.time = 0;
        if (problem.gate_channels() == 1) problem.gate.channels = 0;
    }
    return problem;
}

namespace {

void book_look_back(LinearPass& l) {
    if (l.tuning.chunks <= 1) return;
    // If sequences have their own chunks, a group or link publishes at the place of the chunk after its first one.
    const int64_t groups =
        l.by_sequence ? l.tuning.chunks : ceil_div(l.tuning.chunks, int64_t{1} << l.tuning.log2_group_chunks);
    const int64_t links = l.by_sequence ? groups : ceil_div(groups, int64_t{1} << l.tuning.log2_link_groups);
    const Extent rows = l.batches * l.tuning.row_groups * l.tile().lane_rows *
                        (int64_t{1} << (l.tuning.log2_lane_rows + l.tuning.log2_warp_rows));
    const auto bytes = [&](int64_t count, int size) { return count * rows * size; };
    const Extent records = l.tuning.log2_group_chunks > 0 ? bytes(l.tuning.chunks, l.kernels->record_bytes) : Extent();
    const Extent totals = l.tuning.log2_link_groups > 0 ? bytes(groups, l.kernels->record_bytes) : Extent();
    const Extent all = records + totals + bytes(links, l.kernels->carry_bytes);
    l.records = l.workspace.book(all);
    l.look_back_bytes = static_cast<size_t>(all);
    l.totals = l.records + static_cast<size_t>(records);
    l.carries = l.totals + static_cast<size_t>(totals);
}

}  // namespace

View view_of(const LinearPass& pass, const Strides& strides, Dtype dtype) {
    const int64_t size = size_of(dtype);
    View v;
    v.batch = strides.batch * size;
    v.time = (pass.mirrored() ? -1 : 1) * strides.time * size;
    v.row = (pass.fold && strides.channels == 0 ? strides.batch : strides.channels) * size;
    return v;
}

namespace {

// The alignment that each tensor must have for aligned access.
int64_t alignment_of_access(const LinearPass& pass, Dtype dtype) {
    if (pass.mapped()) return map_alignment;
    if (pass.waves()) return bulk_alignment;
    if (pass.time_inner) return 16;
    // Lanes of one row need rows that begin at sectors. Where they do not, other variants take whole elements too, and
    // put warps that store to the same sector into one block.
    return pass.tile().lane_rows == 1 ? sector_bytes : pass.tile().lane_rows * size_of(dtype);
}

// Whether the kernel "rows" has one gate for all steps of a row, which it loads as a constant.
bool has_one_gate_a_row(const LinearPass& l, const LinearProblem& p) {
    return l.takes_rows() && p.broadcasts(broadcast_time);
}

// Whether the kernel "columns" has one gate for the rows of a pair, which it loads as one element. Wider data have lanes
// of one row, which are faster then.
bool one_gate_a_pair(const LinearPass& l, const LinearProblem& p) {
    return l.takes_columns() && size_of(p.dtype) == 2 && !l.skewed && p.broadcasts(broadcast_channels);
}

}  // namespace

void settle_params(LinearPass& l, const LinearProblem& p) {
    LinearParams& params = l.params;
    const bool backward = l.pass == Pass::backward;
    params.gate = view_of(l, p.gate, p.gate_dtype);
    params.source = view_of(l, backward ? p.grad_output : p.input, p.dtype);
    params.result = view_of(l, backward ? p.grad_input : p.output, p.dtype);
    params.states = view_of(l, p.output, p.dtype);
    params.grad_gate = view_of(l, p.grad_gate, p.gate_dtype);
    params.offsets = offsets_of(p, nullptr);
    params.offsets.time = p.time;
    params.offsets.mirrored = l.mirrored();
    params.gate_form = static_cast<int32_t>(p.gate_form);
    params.batches = l.batches;
    params.rows = l.rows;
    params.row_groups = l.tuning.row_groups;
    params.chunks = l.tuning.chunks;
    params.by_row_groups = divisor_of(static_cast<uint32_t>(l.tuning.row_groups));
    params.time = p.time;
    params.log2_lane_rows = l.tuning.log2_lane_rows;
    params.log2_warp_rows = l.tuning.log2_warp_rows;
    params.log2_group_chunks = l.tuning.log2_group_chunks;
    params.log2_link_groups = l.tuning.log2_link_groups;
    params.log2_fold_rows = l.tuning.log2_fold_rows;
    params.by_sequence = l.by_sequence;
    l.one_gate_a_row = has_one_gate_a_row(l, p);
    if (!l.aligned) return;
    if (l.skewed) {
        l.data_alignment = static_cast<uintptr_t>(size_of(p.dtype));
        l.gate_alignment = static_cast<uintptr_t>(size_of(p.gate_dtype));
        return;
    }
    l.data_alignment = static_cast<uintptr_t>(alignment_of_access(l, p.dtype));
    const bool element = l.one_gate_a_row || one_gate_a_pair(l, p);
    l.gate_alignment = static_cast<uintptr_t>(element ? size_of(p.gate_dtype) : alignment_of_access(l, p.gate_dtype));
}

namespace {

GateValuesParams gate_values_of(const LinearPass& l, const LinearProblem& p) {
    struct Axis {
        uint32_t name;
        int64_t count, stride;
    };
    const Axis batch{broadcast_batch, p.gate_batch(), p.gate.batch}, time{broadcast_time, p.gate_time(), p.gate.time},
        row{broadcast_channels, p.gate_channels(), p.gate.channels};
    std::vector<Axis> axes{batch, l.time_inner ? row : time, l.time_inner ? time : row};
    axes.erase(
        std::find_if(axes.begin(), axes.end(), [&](const Axis& axis) { return (p.gate_broadcast & axis.name) != 0; }));
    GateValuesParams values;
    for (size_t i = 0; i < axes.size(); ++i) values.axis[i] = {axes[i].count, axes[i].stride * size_of(p.gate_dtype)};
    values.gate_form = static_cast<int32_t>(p.gate_form);
    return values;
}

// The sums that the pass's kernel leaves where rows are summed too: one for each row, strip of a warp, or block.
Extent strips_of(const LinearPass& l) {
    if (l.takes_rows()) return l.rows;
    if (l.takes_columns()) return ceil_div(l.rows, int64_t{l.row_lanes()} * l.tile().lane_rows);
    return l.tuning.row_groups;
}

}  // namespace

void settle_gate_sums(LinearPass& l, const LinearProblem& problem, const LinearProblem& p, bool batch_invariant) {
    if (l.sums == GateSums::none) return;
    const int64_t wide = size_of(state_dtype(p.gate_dtype));
    ReduceAxis batch{l.batches}, time{p.time}, row{l.rows};
    if (l.sums == GateSums::of_elements) {
        const View& terms = l.params.grad_gate;
        batch.terms = terms.batch;
        time.terms = terms.time;
        row.terms = terms.row;
        l.terms = l.workspace.book(p.batch * p.time * p.channels * wide);
    } else {
        l.params.sum_time = p.broadcasts(broadcast_time);
        l.params.sum_rows = p.broadcasts(broadcast_channels);
        if (l.params.sum_time != 0) time.count = l.tuning.chunks;
        if (l.params.sum_rows != 0) row.count = strips_of(l);
        l.params.partial_time = time.count;
        l.params.partial_rows = row.count;
        row.terms = wide;
        time.terms = row.count * wide;
        batch.terms = time.count * time.terms;
        l.terms = l.workspace.book(Extent(batch.count) * time.count * row.count * wide);
    }
    l.gradient = view_of(l, problem.grad_gate, problem.gate_dtype);
    batch.gradient = l.gradient.batch;
    time.gradient = l.gradient.time;
    row.gradient = l.gradient.row;
    if (l.finds_gate_values) {
        l.gates = l.workspace.book(p.gate_batch() * p.gate_time() * p.gate_channels() * wide);
        l.gate_values = gate_values_of(l, problem);
        l.gate = view_of(l, problem.gate, problem.gate_dtype);
        batch.gate = l.gate.batch;
        time.gate = l.gate.time;
        row.gate = l.gate.row;
    }
    l.reduce = sum_over_axes(batch, time, row, p.gate_broadcast, wide, p.packed(), batch_invariant);
    l.reduce.offsets = l.params.offsets;
    l.reduce.gate_form = static_cast<int32_t>(problem.gate_form);
    if (p.empty()) l.reduce.summed[1].count = 0;
}

int LinearPass::shared_bytes() const {
    if (waves()) return tuning.ring * wave_facts().stage_bytes;
    if (takes_columns()) return 0;
    if (takes_rows()) return tile().shared_bytes / tile().warps * tuning.warps;
    return tile().shared_bytes;
}

std::string LinearPass::describe() const {
    const char* inner = time_inner ? "time" : "channel";
    if (waves())
        return fmt::format(
            "{} x {} blocks walk {} x {} chunks of {} rows x {} steps in waves, rings of {}, {} innermost",
            tuning.teams, blocks() / tuning.teams, wave_sequences(), tuning.chunks, wave_rows(), tuning.chunk_steps,
            tuning.ring, inner);
    const char* const summed = sums == GateSums::of_elements ? ", gradients of gates summed afterwards" : "";
    if (takes_columns())
        return fmt::format("{} groups of {} rows x {} chunks of {} steps, {} groups a set, channel innermost, {}{}",
                           batches * tuning.row_groups,
                           int64_t{row_lanes()} * tile().lane_rows << tuning.log2_warp_rows, tuning.chunks,
                           tuning.chunk_steps, tuning.set_groups, skewed ? "skewed" : "aligned", summed);
    if (takes_rows()) {
        std::string text =
            fmt::format("{} groups of {} rows x {} chunks of {} steps, {} groups a set, time innermost, {}",
                        tuning.row_groups, 1 << tuning.log2_warp_rows, tuning.chunks, tuning.chunk_steps,
                        tuning.set_groups, skewed ? "skewed" : "aligned");
        if (params.grouped != 0) text += fmt::format(", carries by groups of {} chunks", group_chunks());
        return text + summed;
    }
    const int64_t warp_rows = int64_t{tile().lane_rows} << tuning.log2_lane_rows;
    const int64_t groups = batches * tuning.row_groups;
    std::string text = fmt::format("{} groups of {} rows x {} chunks of {} steps, {} innermost, {}", groups,
                                   warp_rows << tuning.log2_warp_rows, tuning.chunks, tuning.chunk_steps, inner,
                                   aligned      ? "aligned"
                                   : time_inner ? "in vectors where rows are aligned"
                                                : "element by element");
    if (by_sequence) text += ", of each sequence from its start";
    if (tuning.chunks > 1)
        text += fmt::format(", look-back over {} x {}", 1 << tuning.log2_group_chunks, 1 << tuning.log2_link_groups);
    return text + summed;
}

bool fits_aligned(const LinearPass& l, const LinearProblem& p) {
    const int64_t pack = l.tile().lane_rows;
    const auto fits = [&](const Strides& strides, Dtype dtype) {
        const View v = view_of(l, strides, dtype);
        const int64_t size = size_of(dtype), piece = alignment_of_access(l, dtype);
        const bool batches = v.batch % piece == 0 || l.batches == 1;
        if (l.time_inner) return v.time == size && v.row % piece == 0 && batches && p.time * size % piece == 0;
        return pack == 1 || (v.row == size && v.time % piece == 0 && batches && l.rows % pack == 0);
    };
    std::vector<Strides> tensors = tensors_of(p, l.pass);
    return std::all_of(tensors.begin(), tensors.end(), [&](const Strides& s) { return fits(s, p.dtype); }) &&
           (has_one_gate_a_row(l, p) || one_gate_a_pair(l, p) || fits(p.gate, p.gate_dtype)) &&
           (l.pass == Pass::forward || l.sums == GateSums::over_time || l.sums == GateSums::over_channels ||
            fits(p.grad_gate, p.gate_dtype));
}

LinearPass make_chunked_pass(const LinearProblem& problem, Pass pass, bool aligned, bool batch_invariant) {
    LinearPass l = begin_pass(problem, pass, aligned, batch_invariant);
    const LinearProblem p = seen_by_kernel(l, problem);
    const LinearShape shape = shape_of(l, p, batch_invariant);
    l.by_sequence = shape.by_sequence();
    l.tuning = tune_chunked(shape, l.lane_tile());
    book_look_back(l);
    settle_params(l, p);
    settle_gate_sums(l, problem, p, batch_invariant);
    return l;
}

bool can_align(const LinearProblem& problem, Pass pass, bool batch_invariant) {
    LinearPass l = begin_pass(problem, pass, true, batch_invariant);
    l.tuning.algorithm = LinearAlgorithm::chunked;
    return fits_aligned(l, seen_by_kernel(l, problem));
}

}  // namespace flashscan::cuda
