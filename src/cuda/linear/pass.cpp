// SPDX-License-Identifier: Apache-2.0
// Settles passes of the kernel "chunked", and what the passes of all linear kernels share.
#include "cuda/linear/pass.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "cuda/launch/sequence_offsets.h"

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

}  // namespace

LinearShape shape_of(const LinearPass& l, const LinearProblem& p, bool batch_invariant) {
    const bool sums_rows = l.sums_gate && p.broadcasts(broadcast_channels) && !p.broadcasts(broadcast_time);
    const Strides& result = l.pass == Pass::forward ? p.output : p.grad_input;
    const bool in_sectors = l.aligned && result.time * size_of(p.dtype) % sector_bytes == 0;
    return {{l.batches, l.rows, p.time, !in_sectors, p.num_sequences}, l.time_inner, sums_rows, batch_invariant};
}

LinearPass begin_pass(const LinearProblem& p, Pass pass, bool aligned, bool batch_invariant) {
    LinearPass l;
    l.pass = pass;
    l.aligned = aligned;
    l.kernels = &linear_kernels(p.dtype, p.gate_dtype);
    l.time_inner = is_time_inner(p, l.pass, batch_invariant);
    l.down = (p.direction == Direction::reverse) != (l.pass == Pass::backward);
    l.fold = can_fold(p, l.pass, l.time_inner, batch_invariant);
    l.batches = l.fold ? Extent(1) : p.batch;
    l.rows = l.fold ? p.batch * p.channels : p.channels;
    l.time = p.time;
    l.sums_gate = l.pass == Pass::backward && p.gate_broadcast != 0;
    l.sums_steps = l.sums_gate && !p.broadcasts(broadcast_time);
    return l;
}

namespace {

// Books the partial sums of GRAD|GATE, and cuts time where they would take more than 4 MB or 1 % of the input.
void book_partial_sums(LinearPass& l, const LinearProblem& p, bool batch_invariant) {
    l.launch_steps = std::max<int64_t>(p.time, 1);
    if (!l.sums_gate) return;
    const bool over_time = p.broadcasts(broadcast_time), over_channels = p.broadcasts(broadcast_channels);
    if (l.sums_steps && p.broadcasts(broadcast_batch)) l.batch_loop = std::max<int64_t>(l.batches, 1);
    if (l.sums_steps && !over_channels) return;
    const int64_t wide = size_of(state_dtype(p.gate_dtype));
    const int64_t groups = over_time ? l.tuning.row_groups : l.tuning.row_groups << l.tuning.log2_warp_rows;
    l.partial_rows = over_channels ? Extent(groups) : l.rows;
    if (!over_time && !l.by_sequence) {
        // If the number of rows must not change bits, the places where time is cut must not depend on it.
        const Extent batches = batch_invariant ? Extent(1) : l.batches / l.batch_loop;
        const int64_t limit = std::max<int64_t>(4 << 20, batches * l.rows * p.time * size_of(p.dtype) / 100);
        const int64_t step_bytes = std::max<int64_t>(batches * l.partial_rows * wide, 1);
        const int64_t steps = std::max<int64_t>(limit / step_bytes / l.tuning.chunk_steps, 1) * l.tuning.chunk_steps;
        l.launch_steps = std::min(l.launch_steps, steps);
        l.tuning.chunks = std::max<int64_t>(ceil_div(l.launch_steps, l.tuning.chunk_steps), 1);
    }
    l.partial_time = over_time ? l.tuning.chunks : l.launch_steps;
    l.partial = l.workspace.book(l.batches / l.batch_loop * l.partial_time * l.partial_rows * wide);
    if (l.launches() > 1) l.edges = l.workspace.book(l.batches * l.rows * size_of(state_dtype(p.dtype)));
}

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
bool one_gate_a_row(const LinearPass& l, const LinearProblem& p) {
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
    params.by_row_groups = divisor_of(static_cast<uint32_t>(l.tuning.row_groups));
    params.time = p.time;
    params.log2_lane_rows = l.tuning.log2_lane_rows;
    params.log2_warp_rows = l.tuning.log2_warp_rows;
    params.log2_group_chunks = l.tuning.log2_group_chunks;
    params.log2_link_groups = l.tuning.log2_link_groups;
    params.log2_fold_rows = l.tuning.log2_fold_rows;
    params.by_sequence = l.by_sequence;
    if (l.sums_gate) {
        params.sum_batch = p.broadcasts(broadcast_batch);
        params.sum_time = p.broadcasts(broadcast_time);
        params.sum_rows = p.broadcasts(broadcast_channels);
    }
    params.partial_time = l.partial_time;
    params.partial_rows = l.partial_rows;
    if (!l.aligned) return;
    if (l.skewed) {
        l.data_alignment = static_cast<uintptr_t>(size_of(p.dtype));
        l.gate_alignment = static_cast<uintptr_t>(size_of(p.gate_dtype));
        return;
    }
    l.data_alignment = static_cast<uintptr_t>(alignment_of_access(l, p.dtype));
    const bool element = one_gate_a_row(l, p) || one_gate_a_pair(l, p);
    l.gate_alignment = static_cast<uintptr_t>(element ? size_of(p.gate_dtype) : alignment_of_access(l, p.gate_dtype));
}

int LinearPass::shared_bytes() const {
    if (waves()) return tuning.ring * wave_facts().stage_bytes;
    if (takes_columns()) return 0;
    if (takes_rows()) return tile().shared_bytes / tile().warps * tuning.warps;
    return tile().shared_bytes + (sums_steps ? tile().sum_bytes : 0);
}

std::string LinearPass::describe() const {
    const char* inner = time_inner ? "time" : "channel";
    if (waves())
        return fmt::format(
            "{} x {} blocks walk {} x {} chunks of {} rows x {} steps in waves, rings of {}, {} innermost",
            tuning.teams, blocks() / tuning.teams, wave_sequences(), tuning.chunks, wave_rows(), tuning.chunk_steps,
            tuning.ring, inner);
    const char* const summed = sums_terms ? ", gradients of gates summed afterwards" : "";
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
    if (batch_loop > 1) text += fmt::format(", {} batch entries in turn", batch_loop);
    if (launches() > 1) text += fmt::format(", {} launches", launches());
    return text;
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
           (one_gate_a_row(l, p) || one_gate_a_pair(l, p) || fits(p.gate, p.gate_dtype)) &&
           (l.pass == Pass::forward ||
            (l.sums_gate && (p.broadcasts(broadcast_time) || p.broadcasts(broadcast_channels))) ||
            fits(p.grad_gate, p.gate_dtype));
}

LinearPass make_chunked_pass(const LinearProblem& problem, Pass pass, bool aligned, bool batch_invariant) {
    LinearPass l = begin_pass(problem, pass, aligned, batch_invariant);
    const LinearShape shape = shape_of(l, problem, batch_invariant);
    l.by_sequence = shape.by_sequence();
    l.tuning = tune_chunked(shape, l.lane_tile());
    book_partial_sums(l, problem, batch_invariant);
    book_look_back(l);
    settle_params(l, problem);
    return l;
}

bool can_align(const LinearProblem& p, Pass pass, bool batch_invariant) {
    LinearPass l = begin_pass(p, pass, true, batch_invariant);
    l.tuning.algorithm = LinearAlgorithm::chunked;
    return fits_aligned(l, p);
}

}  // namespace flashscan::cuda
