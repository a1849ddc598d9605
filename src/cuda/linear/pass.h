// SPDX-License-Identifier: Apache-2.0
// How one pass (forward or backward) of a plan runs on a device. All of it is settled when the plan is made, so that a
// call only fills in pointers.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "core/linear_problem.h"
#include "core/rounding.h"
#include "core/workspace.h"
#include "cuda/device/scan/chained_sets.h"
#include "cuda/linear/instances/few_long_rows_table.h"
#include "cuda/linear/instances/table.h"
#include "cuda/linear/params.h"
#include "cuda/linear/tuning.h"
#include "cuda/loader/tensor_map.h"

namespace flashscan::cuda {

// The alignment that the bulk copy engine needs of addresses and strides.
inline constexpr int64_t bulk_alignment = 16;

// How GRAD|GATE of a gate that is broadcast is summed: what the kernel leaves for a second launch to add up.
enum class GateSums {
    none,           // the kernel writes GRAD|GATE
    over_time,      // a sum over the steps of each chunk, for each row or over rows too
    over_channels,  // "columns": for each step, a sum over the rows of each warp
    of_elements     // a gradient for each element; the kernel does not know that the gate is broadcast
};

struct LinearPass {
    Pass pass{};
    const LinearKernels* kernels = nullptr;
    const WaveKernels* wave_kernels = nullptr;  // waves alone
    bool aligned = false;     // whole elements, pairs or vectors of 16 bytes may be read and written at once
    bool time_inner = false;  // whether time, not rows, is the innermost axis of the tiles
    bool down = false;        // whether the walk goes against the order of memory
    bool fold = false;        // whether batch and channels are one axis of rows
    int pack = 1;             // columns alone: rows of a lane
    // The tensors are aligned to elements alone. With "rows", a row may begin anywhere in a 16-byte vector, at the same
    // place in every tensor; with "columns", each tensor's pairs of rows may begin at any element.
    bool skewed = false;
    bool by_sequence = false;  // chunked: whether each packed sequence is cut into chunks from its own start
    bool dense = false;        // waves, channels innermost: the steps of a strip lie next to each other in every tensor
    Extent batches, rows, time;
    LinearTuning tuning;

    GateSums sums = GateSums::none;
    ReduceParams reduce;  // the launch that adds up GRAD|GATE, without a call's pointers
    View gradient, gate;  // GRAD|GATE, and a GATE whose values are found before, as that launch needs them
    // Whether a launch before the kernel writes the gates' values to scratch memory, and its arguments.
    bool finds_gate_values = false;
    GateValuesParams gate_values;

    Extent blocks() const {
        return tuning.blocks > 0 ? Extent(tuning.blocks) : tuning.chunks * batches * tuning.row_groups;
    }
    std::string describe() const;

    LinearParams params;                               // arguments of every launch, without a call's pointers
    uintptr_t data_alignment = 1, gate_alignment = 1;  // which the tensors of a call must have
    bool takes_states = true;                          // whether a call may have initial and final states
    bool one_gate_a_row = false;                       // "rows": whether all steps share a gate, which may lie anywhere

    // Waves with channels innermost: shapes of the tensor maps of gate, source, states, result, grad_gate.
    std::array<MapShape, 5> maps;
    bool mapped() const { return waves() && !time_inner && !dense; }

    // Scratch memory, and the offsets of what lies there.
    Workspace workspace;
    size_t records = 0, look_back_bytes = 0, totals = 0, carries = 0, terms = 0, gates = 0;

    // That of the kernel "chunked".
    Access access() const { return time_inner ? Access::time : aligned ? Access::channel_packs : Access::channels; }
    bool takes_rows() const { return tuning.algorithm == LinearAlgorithm::rows; }
    bool takes_columns() const { return tuning.algorithm == LinearAlgorithm::columns; }
    int group_chunks() const { return cuda::group_chunks(params.grouped != 0, takes_rows()); }
    bool waves() const { return tuning.algorithm == LinearAlgorithm::waves; }
    // Whether the kernel walks with the steps of tensors that are turned round (SequenceOffsets::mirrored).
    bool mirrored() const { return down && !time_inner && !waves(); }
    const TileFacts& tile() const {
        const bool backward = pass == Pass::backward;
        if (takes_rows()) return kernels->rows_tile[backward];
        if (takes_columns()) return kernels->columns_tile[pack - 1][backward];
        return kernels->chunked_tile[static_cast<int>(access())][backward];
    }
    LinearTile lane_tile() const { return {tile().lane_rows, tile().steps, tile().warps, row_lanes()}; }
    int row_lanes() const { return takes_columns() && skewed ? skewed_pair_lanes : 32; }
    const WaveFacts& wave_facts() const { return wave_kernels->facts[time_inner][pass == Pass::backward]; }
    Extent wave_sequences() const { return batches * tuning.row_groups; }
    Extent wave_chunks() const { return wave_sequences() * tuning.chunks; }
    // Rows that a warp has side by side; rows of a chunk of waves.
    int64_t warp_rows(int lane_rows) const { return int64_t{lane_rows} << tuning.log2_lane_rows; }
    int64_t wave_rows() const { return warp_rows(wave_facts().lane_rows); }
    // Steps of a box of the tensor maps of waves: a box has at most 256, so a chunk may be several boxes.
    int64_t wave_box_steps() const {
        int64_t steps = tuning.chunk_steps;
        while (steps > 256) steps /= 2;
        return steps;
    }
    const void* kernel() const {
        const bool backward = pass == Pass::backward;
        if (waves()) return wave_kernels->kernel[time_inner][down][backward];
        if (takes_rows()) return kernels->rows[down][backward];
        if (takes_columns()) return skewed ? kernels->skewed_columns[backward] : kernels->columns[pack - 1][backward];
        return kernels->chunked[static_cast<int>(access())][down && !mirrored()][backward];
    }
    int warps() const {
        if (waves()) return wave_facts().threads / 32;
        return takes_rows() || takes_columns() ? tuning.warps : tile().warps;
    }
    int shared_bytes() const;
};

// For the kernel "chunked".
LinearPass make_chunked_pass(const LinearProblem& problem, Pass pass, bool aligned, bool batch_invariant);

// The following functions are shared by the functions that make passes. First: the tensors of a pass but for the gates,
// and all of its tensors.
std::vector<Strides> tensors_of(const LinearProblem& p, Pass pass);
std::vector<Strides> tensors_and_gates_of(const LinearProblem& p, Pass pass);
// A pass with its kernels and axes, without tuning. `columns` tells that it is for the kernel of that name.
LinearPass begin_pass(const LinearProblem& problem, Pass pass, bool aligned, bool batch_invariant,
                      bool columns = false);
// The problem as the pass's kernel sees it: where it writes a gradient for each element, GRAD|GATE is dense and has the shape
// of INPUT; where values of gates are found before it, GATE is dense and holds these. The functions below that take both
// problems take this one as `p`.
LinearProblem seen_by_kernel(const LinearPass& l, LinearProblem problem);
LinearShape shape_of(const LinearPass& l, const LinearProblem& p, bool batch_invariant);
// The tensor as the pass's kernel sees it.
View view_of(const LinearPass& pass, const Strides& strides, Dtype dtype);
// Fills in what depends on the problem and the tuning: params and the alignment that a call's tensors must have.
void settle_params(LinearPass& l, const LinearProblem& p);
// Settles how GRAD|GATE of `problem` is summed, and books its scratch memory. The tuning and params must be settled.
void settle_gate_sums(LinearPass& l, const LinearProblem& problem, const LinearProblem& p, bool batch_invariant);
// Whether extents and strides allow the pass's aligned access.
bool fits_aligned(const LinearPass& l, const LinearProblem& p);
// Whether they allow aligned access for the kernel "chunked".
bool can_align(const LinearProblem& problem, Pass pass, bool batch_invariant);

// Makes the pass for the kernel "rows", skewed or aligned. It is absent where the problem rules that kernel out, and,
// if `must_suit`, where another is expected to be faster. The next functions do the same for other kernels.
std::optional<LinearPass> make_rows_pass(const LinearProblem& problem, Pass pass, bool skewed, bool must_suit);

// For the kernel "columns", whose lanes have one row or two (`pack`), skewed or aligned.
std::optional<LinearPass> make_columns_pass(const LinearProblem& problem, Pass pass, int pack, bool skewed,
                                            bool must_suit);

// For the kernel "few_long_rows".
std::optional<LinearPass> make_few_long_rows_pass(const LinearProblem& problem, Pass pass, int multiprocessors,
                                                  bool must_suit);

}  // namespace flashscan::cuda
