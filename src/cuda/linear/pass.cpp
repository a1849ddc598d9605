// SPDX-License-Identifier: Apache-2.0
// What the passes of all linear kernels share.
#include "cuda/linear/pass.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "core/rounding.h"
#include "cuda/launch/sequence_offsets.h"
#include "cuda/linear/gate_sums.h"

namespace flashscan::cuda {

std::vector<Tensor> tensors_of(const LinearProblem& p, Pass pass) {
    if (pass == Pass::forward) return {{"input", p.input, p.dtype}, {"output", p.output, p.dtype}};
    return {
        {"grad_output", p.grad_output, p.dtype}, {"output", p.output, p.dtype}, {"grad_input", p.grad_input, p.dtype}};
}

std::vector<Tensor> tensors_and_gates_of(const LinearProblem& p, Pass pass) {
    std::vector<Tensor> tensors = tensors_of(p, pass);
    tensors.push_back({"gate", p.gate, p.gate_dtype});
    if (pass == Pass::backward) tensors.push_back({"grad_gate", p.grad_gate, p.gate_dtype});
    return tensors;
}

namespace {

// Time innermost where most tensors have their shortest stride along time.
bool is_time_inner(const LinearProblem& p, Pass pass, bool batch_invariant) {
    if (batch_invariant) return p.layout == Layout::bct;  // the choice must not depend on the extents
    if (p.channels <= 1) return true;
    if (p.time <= 1) return false;
    const bool lays_gates_out = !p.broadcasts(broadcast_time) && !p.broadcasts(broadcast_channels);
    int time = 0, channels = 0;
    for (const Tensor& tensor : lays_gates_out ? tensors_and_gates_of(p, pass) : tensors_of(p, pass))
        ++(tensor.strides.time < tensor.strides.channels ? time : channels);
    return time == channels ? p.layout == Layout::bct : time > channels;
}

// Whether row b * C + c of every tensor lies at one stride times the row.
bool can_fold(const LinearProblem& p, Pass pass, bool time_inner, bool batch_invariant) {
    if (p.batch == 1) return true;
    if (batch_invariant || p.has_reset || !time_inner) return false;
    if (pass == Pass::backward && p.gate_broadcast != 0) return false;
    if (p.channels == 1) return true;
    const std::vector<Tensor> tensors = tensors_and_gates_of(p, pass);
    return std::all_of(tensors.begin(), tensors.end(), [&](const Tensor& tensor) {
        return tensor.strides.batch == p.channels * tensor.strides.channels;
    });
}

GateSums gate_sums_of(const LinearProblem& p, Pass pass, bool columns, bool shares) {
    if (pass == Pass::forward || p.gate_broadcast == 0) return GateSums::none;
    if (p.broadcasts(broadcast_time)) return GateSums::over_time;
    if (columns && p.broadcasts(broadcast_channels)) return GateSums::over_channels;
    return shares ? GateSums::of_blocks : GateSums::of_elements;
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

std::string LinearPass::describe_sums() const {
    if (sums == GateSums::of_elements) return ", gradients of gates summed afterwards";
    if (sums != GateSums::of_blocks) return {};
    return fmt::format(", gradients of gates summed by blocks over {} {}{}", sharing(),
                       shared_rows ? "rows" : "batch entries", params.sums_whole != 0 ? "" : ", then afterwards");
}

void begin_pass(LinearPass& l, const LinearProblem& problem, Pass pass, bool batch_invariant, bool columns,
                int log2_sharing) {
    l.pass = pass;
    l.time_inner = is_time_inner(problem, l.pass, batch_invariant);
    l.sums = gate_sums_of(problem, l.pass, columns, log2_sharing > 0);
    // Values are found in the arithmetic's dtype. Kernels whose warps share 16-bit gates take these as they are given:
    // their sums are in f32 all the same, and "rows" is not compiled for 16-bit data with gates of f32.
    const bool narrow = size_of(problem.gate_dtype) == 2, has_form = problem.gate_form != GateForm::value;
    l.finds_gate_values = l.sums == GateSums::of_elements
                              ? narrow || has_form
                              : l.sums != GateSums::none && has_form && !(l.sums == GateSums::of_blocks && narrow);
    const LinearProblem p = seen_by_kernel(l, problem);
    l.kernels = &linear_kernels(p.dtype, p.gate_dtype);
    l.down = (p.direction == Direction::reverse) != (l.pass == Pass::backward);
    l.mirrored = l.down && !l.time_inner;
    l.fold = can_fold(p, l.pass, l.time_inner, batch_invariant);
    l.batches = l.fold ? Extent(1) : p.batch;
    l.rows = l.fold ? p.batch * p.channels : p.channels;
    if (l.sums != GateSums::of_blocks) return;
    l.log2_sharing = log2_sharing;
    l.shared_rows = p.broadcasts(broadcast_channels) && (p.channels > 1 || !p.broadcasts(broadcast_batch));
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

RowAxis row_axis(const LinearPass& pass, const Strides& strides) {
    if (pass.fold && strides.channels == 0) return {"batch", strides.batch};
    return {"channels", strides.channels};
}

View view_of(const LinearPass& pass, const Strides& strides, Dtype dtype) {
    const int64_t size = size_of(dtype);
    View v;
    v.batch = strides.batch * size;
    v.time = (pass.mirrored ? -1 : 1) * strides.time * size;
    v.row = row_axis(pass, strides).stride * size;
    return v;
}

void settle_params(LinearPass& l, const LinearProblem& p, const ChainedTuning& tuning) {
    LinearParams& params = l.params;
    const bool backward = l.pass == Pass::backward;
    params.gate = view_of(l, p.gate, p.gate_dtype);
    params.source = view_of(l, backward ? p.grad_output : p.input, p.dtype);
    params.result = view_of(l, backward ? p.grad_input : p.output, p.dtype);
    params.states = view_of(l, p.output, p.dtype);
    params.grad_gate = view_of(l, p.grad_gate, p.gate_dtype);
    params.offsets = offsets_of(p, nullptr);
    params.offsets.time = p.time;
    params.offsets.mirrored = l.mirrored;
    params.gate_form = static_cast<int32_t>(p.gate_form);
    params.batches = l.batches;
    params.rows = l.rows;
    params.row_groups = tuning.row_groups;
    params.chunks = tuning.chunks;
    params.by_row_groups = divisor_of(static_cast<uint32_t>(tuning.row_groups));
    params.time = p.time;
    params.log2_warp_rows = tuning.log2_warp_rows;
    params.shared_rows = l.shared_rows;
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

// A grid whose blocks, of reduce_threads threads, go through `rows` rows of `blocks` blocks.
LaunchShape blocks_of_rows(int64_t blocks, int64_t rows) {
    LaunchShape shape = blocks_of(rows == 0 ? 0 : std::min<int64_t>(blocks, 4096), reduce_threads);
    shape.blocks.y = static_cast<unsigned>(std::min<int64_t>(rows, 4096));
    return shape;
}

}  // namespace

void settle_gate_sums(LinearPass& l, const LinearProblem& problem, const LinearProblem& p, Extent strips,
                      bool batch_invariant) {
    if (l.sums == GateSums::none) return;
    const int64_t wide = size_of(state_dtype(p.gate_dtype));
    ReduceAxis batch{l.batches}, time{p.time}, row{l.rows};
    if (l.sums == GateSums::of_elements || l.sums == GateSums::of_blocks) {
        int64_t& shared = l.shared_rows ? row.count : batch.count;
        shared = ceil_div(shared, l.sharing());
        View& terms = l.params.grad_gate;
        terms = view_of(l, dense_strides(p.time, row.count, l.time_inner), state_dtype(p.gate_dtype));
        batch.terms = terms.batch;
        time.terms = terms.time;
        row.terms = terms.row;
        const bool one_term = (batch.count == 1 || !p.broadcasts(broadcast_batch)) &&
                              (row.count == 1 || !p.broadcasts(broadcast_channels));
        const Strides& gradient = problem.grad_gate;
        if (l.sums == GateSums::of_blocks && one_term && !l.finds_gate_values &&
            (l.time_inner ? gradient.time : gradient.channels) == 1) {
            l.params.sums_whole = 1;
            terms = view_of(l, gradient, problem.gate_dtype);
            return;
        }
    } else {
        l.params.sum_time = p.broadcasts(broadcast_time);
        l.params.sum_rows = p.broadcasts(broadcast_channels);
        if (l.params.sum_time != 0) time.count = l.params.chunks;
        if (l.params.sum_rows != 0) row.count = strips;
        l.params.partial_time = time.count;
        l.params.partial_rows = row.count;
        row.terms = wide;
        time.terms = row.count * wide;
        batch.terms = time.count * time.terms;
    }
    l.terms = l.workspace.book(Extent(batch.count) * time.count * row.count * wide);
    l.gradient = view_of(l, problem.grad_gate, problem.gate_dtype);
    batch.gradient = l.gradient.batch;
    time.gradient = l.gradient.time;
    row.gradient = l.gradient.row;
    const LinearKernels& of_gates = linear_kernels(problem.dtype, problem.gate_dtype);  // as the caller has them
    if (l.finds_gate_values) {
        l.gates = l.workspace.book(p.gate_batch() * p.gate_time() * p.gate_channels() * wide);
        const GateValuesParams& values = l.gate_values.params = gate_values_of(l, problem);
        l.gate_values.shape =
            blocks_of_rows(ceil_div(values.axis[1].count, int64_t{reduce_threads}), values.axis[0].count);
        if (!p.empty()) l.gate_values.kernel = of_gates.find_gate_values;
        l.gate = view_of(l, problem.gate, problem.gate_dtype);
        batch.gate = l.gate.batch;
        time.gate = l.gate.time;
        row.gate = l.gate.row;
    }
    ReduceParams& sums = l.reduce.params;
    sums = sum_over_axes(batch, time, row, p.gate_broadcast, wide, p.packed(), batch_invariant);
    sums.offsets = l.params.offsets;
    if (l.finds_gate_values) sums.gate_form = static_cast<int32_t>(problem.gate_form);
    if (p.empty()) sums.summed[1].count = 0;  // the sums are zeros
    l.reduce.kernel = of_gates.reduce_gate_gradient;
    l.reduce.shape = blocks_of_rows(ceil_div(sums.kept[1].count, int64_t{reduce_threads / sums.width * sums.pack}),
                                    sums.kept[0].count);
}

}  // namespace flashscan::cuda
