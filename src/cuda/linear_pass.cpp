// SPDX-License-Identifier: Apache-2.0
#include "cuda/linear_pass.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "cuda/loader/tensor_map.h"

namespace flashscan::cuda {
namespace {

std::vector<Strides> tensors_of(const LinearProblem& p, Pass pass) {
    if (pass == Pass::forward) return {p.input, p.output};
    return {p.grad_output, p.output, p.grad_input};
}

// Time innermost where most tensors have their shortest stride along time.
bool is_time_inner(const LinearProblem& p, Pass pass, bool batch_invariant) {
    if (batch_invariant) return p.layout == Layout::bct;  // by nothing that depends on the extents
    if (p.channels <= 1) return true;
    if (p.time <= 1) return false;
    std::vector<Strides> tensors = tensors_of(p, pass);
    if (!p.broadcasts(broadcast_time) && !p.broadcasts(broadcast_channels)) {
        tensors.push_back(p.gate);
        if (pass == Pass::backward) tensors.push_back(p.grad_gate);
    }
    int time = 0, channels = 0;
    for (const Strides& s : tensors) ++(s.time < s.channels ? time : channels);
    return time == channels ? p.layout == Layout::bct : time > channels;
}

// Whether row b * C + c of every tensor lies at one stride times the row.
bool can_fold(const LinearProblem& p, Pass pass, bool time_inner, bool batch_invariant) {
    if (p.batch == 1) return true;
    if (batch_invariant || p.has_reset || !time_inner) return false;
    if (pass == Pass::backward && p.gate_broadcast != 0) return false;
    std::vector<Strides> tensors = tensors_of(p, pass);
    tensors.push_back(p.gate);
    if (pass == Pass::backward) tensors.push_back(p.grad_gate);
    return std::all_of(tensors.begin(), tensors.end(),
                       [&](const Strides& s) { return p.channels == 1 || s.batch == p.channels * s.channels; });
}

LinearShape shape_of(const LinearPass& l, const LinearProblem& p, bool batch_invariant) {
    const bool sums_rows = l.sums_gate && p.broadcasts(broadcast_channels) && !p.broadcasts(broadcast_time);
    return {l.batches, l.rows, p.time, sums_rows, batch_invariant, p.packed()};
}

LinearTile tile_of(const TileFacts& facts) {
    return {facts.channels_per_lane, facts.steps, facts.warps, facts.log2_widest};
}

void settle_axes(LinearPass& l, const LinearProblem& p, bool batch_invariant) {
    l.kernels = &linear_kernels(p.dtype, p.gate_dtype);
    l.time_inner = is_time_inner(p, l.pass, batch_invariant);
    l.down = (p.direction == Direction::reverse) != (l.pass == Pass::backward);
    l.fold = can_fold(p, l.pass, l.time_inner, batch_invariant);
    l.batches = l.fold ? 1 : p.batch;
    l.rows = l.fold ? p.batch * p.channels : p.channels;
    l.time = p.time;
    l.sums_gate = l.pass == Pass::backward && p.gate_broadcast != 0;
}

// Books the partial sums of GRAD|GATE, and cuts time where they would take more than 4 MB or 1 % of the input.
void book_partial_sums(LinearPass& l, const LinearProblem& p, bool batch_invariant) {
    l.launch_steps = std::max<int64_t>(p.time, 1);
    if (!l.sums_gate) return;
    const bool over_time = p.broadcasts(broadcast_time);
    const int64_t wide = size_of(state_dtype(p.gate_dtype));
    l.partial_rows = p.broadcasts(broadcast_channels) ? l.tuning.row_groups : l.rows;
    if (!over_time) {
        // Where time is cut may not depend on the other rows if their number may not change bits.
        const int64_t batches = batch_invariant ? 1 : l.batches;
        const int64_t limit = std::max<int64_t>(4 << 20, batches * l.rows * p.time * size_of(p.dtype) / 100);
        const int64_t step_bytes = std::max<int64_t>(batches * l.partial_rows * wide, 1);
        const int64_t steps = std::max<int64_t>(limit / step_bytes / l.tuning.chunk_steps, 1) * l.tuning.chunk_steps;
        l.launch_steps = std::min(l.launch_steps, steps);
        if (l.tuning.algorithm == LinearAlgorithm::chunked)
            l.tuning.chunks = std::max<int64_t>((l.launch_steps + l.tuning.chunk_steps - 1) / l.tuning.chunk_steps, 1);
    }
    l.partial_time = over_time ? l.tuning.chunks : l.launch_steps;
    if (l.tuning.algorithm == LinearAlgorithm::stream && over_time) l.partial_time = 1;
    l.partial = l.workspace.book(static_cast<size_t>(l.batches * l.partial_time * l.partial_rows * wide));
    if (l.launches() > 1)
        l.edges = l.workspace.book(static_cast<size_t>(l.batches * l.rows * size_of(state_dtype(p.dtype))));
}

void book_look_back(LinearPass& l) {
    if (l.tuning.algorithm != LinearAlgorithm::chunked || l.tuning.chunks <= 1) return;
    const int64_t row_groups = l.batches * l.tuning.row_groups;
    const int64_t groups = (l.tuning.chunks + l.tuning.group_chunks - 1) / l.tuning.group_chunks;
    const int64_t rows = int64_t{l.tile().channels_per_lane} << l.tuning.log2_lane_rows;
    l.record_bytes = static_cast<size_t>(l.tuning.chunks * row_groups * rows * l.kernels->record_bytes);
    l.carry_bytes = static_cast<size_t>(groups * row_groups * rows * l.kernels->carry_bytes);
    l.records = l.workspace.book(l.record_bytes + l.carry_bytes);
    l.carries = l.records + l.record_bytes;
}

bool divides(int64_t piece, const View& v) {
    const auto address = reinterpret_cast<uintptr_t>(v.data);
    return address % static_cast<uintptr_t>(piece) == 0 && v.batch % piece == 0 && v.row % piece == 0 &&
           v.time % piece == 0;
}

// The boxes that load_tile and store_tile ask for.
bool encode_view(const LinearPass& pass, const View& v, int64_t size, CUtensorMap& map) {
    const int64_t steps = pass.tile().steps;
    const int log2_rows = pass.tuning.log2_lane_rows;
    const uint32_t lane_rows = 1U << log2_rows, segments = 32U >> log2_rows;
    if (!pass.time_inner) {
        if (log2_rows != 5 && !pass.tile().dense) return false;
        const int64_t words = size == 16 ? 2 : 1;  // the engine knows no elements of 16 bytes
        const TensorBox axes[] = {{pass.rows * words, size / words,
                                   static_cast<uint32_t>((pass.tile().channels_per_lane << log2_rows) * words)},
                                  {pass.time, v.time, static_cast<uint32_t>(segments * steps)},
                                  {pass.batches, v.batch, 1}};
        return encode_tensor_map(map, v.data, static_cast<int>(size / words), axes, false);
    }
    constexpr int64_t column = 128;
    if (steps * size < column) return false;
    const int64_t word = std::min<int64_t>(size, 8);
    const TensorBox axes[] = {{column / word, word, static_cast<uint32_t>(column / word)},
                              {pass.time / steps, steps * size, segments},
                              {steps * size / column, column, 1},
                              {pass.rows, v.row, lane_rows},
                              {pass.batches, v.batch, 1}};
    return encode_tensor_map(map, v.data, static_cast<int>(word), axes, true);
}

}  // namespace

bool LinearPass::worth_bulk() const {
    constexpr int64_t elements = 1 << 19;
    return batches * rows * time >= elements;
}

std::string LinearPass::describe() const {
    const char* inner = time_inner ? "time" : "channel";
    const int64_t lane_rows = int64_t{tile().channels_per_lane} << tuning.log2_lane_rows;
    const int64_t groups = batches * tuning.row_groups;
    if (tuning.algorithm == LinearAlgorithm::stream)
        return fmt::format("{} warps stream {} rows each, {} innermost", groups, lane_rows, inner);
    std::string text = fmt::format("{} groups of {} rows x {} chunks of {} steps, look-back over {}, {} innermost",
                                   groups, lane_rows, tuning.chunks, tuning.chunk_steps, tuning.group_chunks, inner);
    if (launches() > 1) text += fmt::format(", {} launches", launches());
    return text;
}

LinearAlgorithm choose_algorithm(const LinearProblem& problem, Pass pass, bool batch_invariant) {
    LinearPass l;
    l.pass = pass;
    settle_axes(l, problem, batch_invariant);
    return choose_linear_algorithm(shape_of(l, problem, batch_invariant));
}

LinearPass make_linear_pass(const LinearProblem& problem, Pass pass, LinearAlgorithm wanted, bool batch_invariant) {
    LinearPass l;
    l.pass = pass;
    settle_axes(l, problem, batch_invariant);
    const LinearShape shape = shape_of(l, problem, batch_invariant);
    const bool stream = wanted == LinearAlgorithm::stream || shape.sums_rows_every_step;
    l.tuning = stream ? tune_stream(shape, tile_of(l.kernels->stream_tile[l.time_inner]))
                      : tune_chunked(shape, tile_of(l.kernels->chunked_tile[l.time_inner]), l.time_inner);
    book_partial_sums(l, problem, batch_invariant);
    book_look_back(l);
    return l;
}

View view_of(const LinearPass& pass, const void* data, const Strides& strides, Dtype dtype, CUtensorMap& map) {
    const int64_t size = size_of(dtype);
    View v;
    v.data = static_cast<char*>(const_cast<void*>(data));
    v.batch = strides.batch * size;
    v.time = strides.time * size;
    v.row = (pass.fold && strides.channels == 0 ? strides.batch : strides.channels) * size;
    v.time_fast = strides.time != 0 && (v.row == 0 || v.time < v.row);
    const int64_t inner = pass.time_inner ? v.time : v.row;
    if (inner != size) return v;
    // The inner axis is walked in pieces, so only the other strides must be multiples of one.
    View outer = v;
    (pass.time_inner ? outer.time : outer.row) = 0;
    if (pass.fold) outer.batch = 0;
    const int64_t tile_row =
        pass.time_inner ? 16 : (int64_t{pass.tile().channels_per_lane} << pass.tuning.log2_lane_rows) * size;
    for (const int32_t piece : {16, size >= 8 ? 8 : 4, static_cast<int>(alignment_of(dtype))}) {
        if (piece > tile_row || !divides(piece, outer)) continue;
        v.granule = piece;
        break;
    }
    v.bulk = pass.bulk && data != nullptr && v.granule == 16 && encode_view(pass, v, size, map);
    return v;
}

}  // namespace flashscan::cuda
