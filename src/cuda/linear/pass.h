// SPDX-License-Identifier: Apache-2.0
// A pass (forward or backward) of a plan: how one kernel runs it on a device. Each kernel has a class of its own beside
// the functions that make it (chunked_pass.cpp, rows_pass.cpp, columns_pass.cpp, short_rows_pass.cpp and
// few_long_rows/pass.cpp); this is what they share. All of it is settled when the plan is made, so that a call only
// fills in pointers.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/backend.h"
#include "core/rounding.h"
#include "core/workspace.h"
#include "cuda/launch/launch.h"
#include "cuda/linear/instances/table.h"
#include "cuda/linear/params.h"
#include "cuda/linear/tuning.h"

namespace flashscan::cuda {

// The alignment that the bulk copy engine needs of addresses and strides.
inline constexpr int64_t bulk_alignment = 16;

// How GRAD|GATE of a gate that is broadcast is summed: what the kernel leaves for a second launch to add up. Blocks
// that have all terms of their gates leave none (LinearParams::sums_whole).
enum class GateSums {
    none,           // the kernel writes GRAD|GATE
    over_time,      // a sum over the steps of each chunk, for each row or over rows too
    over_channels,  // "columns": for each step, a sum over the rows of each warp
    of_blocks,      // "rows" and "columns": for each step, a sum over the batch entries or rows of a block's warps
    of_elements     // a gradient for each element; the kernel does not know that the gate is broadcast
};

struct LinearPass {
    virtual ~LinearPass() = default;
    virtual std::string describe() const = 0;
    // Names what sets it apart from the other variants of its direction.
    virtual const char* describe_variant() const = 0;
    // The end of a description.
    std::string describe_sums() const;
    // Enqueues the kernel. `to` has the pointers to a call's tensors; the call's scratch memory begins at `scratch`.
    virtual void enqueue(LinearParams& to, char* scratch, void* stream) const = 0;

    Pass pass{};
    const LinearKernels* kernels = nullptr;
    bool aligned = true;      // whole elements, pairs or vectors of 16 bytes may be read and written at once
    bool time_inner = false;  // whether time, not rows, is the innermost axis of the tiles
    bool down = false;        // whether the walk goes against the order of memory
    bool mirrored = false;    // whether it goes with the steps of tensors that are turned round (SequenceOffsets)
    bool fold = false;        // whether batch and channels are one axis of rows
    Extent batches, rows;
    int lane_rows = 1;          // rows of a lane
    int64_t own_alignment = 0;  // of aligned access, in bytes; 0 where it follows from the rows of a lane

    // The launch, and the one before it that clears the memory through which chunks meet. Where there is such a one,
    // the kernel may begin while that runs.
    const void* kernel = nullptr;
    LaunchShape grid;
    ClearLaunch clear;
    LinearParams params;  // without a call's pointers

    GateSums sums = GateSums::none;
    int log2_sharing = 0;      // of_blocks: the logarithm of how many warps of a block share gates
    bool shared_rows = false;  // and whether they have neighbouring rows, in place of neighbouring batch entries
    int64_t sharing() const { return int64_t{1} << log2_sharing; }
    SettledLaunch<ReduceParams> reduce;  // adds up GRAD|GATE after the kernel
    View gradient, gate;  // GRAD|GATE, and a GATE whose values are found before, as that launch needs them
    // Whether a launch before the kernel writes the gates' values to scratch memory. There is none without elements.
    bool finds_gate_values = false;
    SettledLaunch<GateValuesParams> gate_values;

    // What a call's arguments must be like: the alignment of tensors, whether all of these lie at one place within 16
    // bytes, whether there may be initial and final states, and whether those may be in the same memory though steps
    // are reset.
    int64_t data_alignment = 1, gate_alignment = 1;
    bool lie_alike = false, takes_states = true, takes_states_in_place = true;
    bool one_gate_a_row = false;  // whether all steps share a gate, which is loaded as a constant and may lie anywhere

    // Why this pass of "chunked" stands in for one of the plan's kernel; empty where it does not.
    std::string refusal;

    // Scratch memory, and the offsets of what lies there.
    Workspace workspace;
    size_t records = 0, carries = 0, terms = 0, gates = 0;
};

using LinearPassPointer = std::unique_ptr<LinearPass>;
// Passes of one direction; a call takes the first one whose needs its arguments meet. The last one takes all.
using PassVariants = std::vector<LinearPassPointer>;

// The following functions make the variants of a pass. Where there are none, they tell in `refusal` which condition
// fails: the problem rules the kernel out or, unless the options name it, another is expected to be faster.
PassVariants make_short_rows_passes(const LinearProblem& problem, Pass pass, const Options& options,
                                    std::string& refusal);
PassVariants make_rows_passes(const LinearProblem& problem, Pass pass, const Options& options, std::string& refusal);
PassVariants make_columns_passes(const LinearProblem& problem, Pass pass, const Options& options, std::string& refusal);
PassVariants make_few_long_rows_passes(const LinearProblem& problem, Pass pass, const Options& options,
                                       std::string& refusal);
// Whether "few_long_rows" takes both passes and is expected to be faster than chunks of rows in groups.
bool few_long_rows_suit(const LinearProblem& problem, const Options& options);
// "chunked" takes every problem.
PassVariants make_chunked_passes(const LinearProblem& problem, Pass pass, bool batch_invariant);

// The following functions are shared by those.

// A tensor of a pass, by the name of its strides in the descriptor.
struct Tensor {
    const char* name;
    Strides strides;
    Dtype dtype;
};
// All tensors of a pass but for the gates, and all of its tensors.
std::vector<Tensor> tensors_of(const LinearProblem& p, Pass pass);
std::vector<Tensor> tensors_and_gates_of(const LinearProblem& p, Pass pass);
// Fills in the pass's axes and what follows from them. `columns` tells that it is for the kernel of that name.
// Where it would leave a term of each element, 2^log2_sharing warps of a block share gates and sum theirs, unless
// log2_sharing is 0.
void begin_pass(LinearPass& l, const LinearProblem& problem, Pass pass, bool batch_invariant = false,
                bool columns = false, int log2_sharing = 0);
// The problem as the pass's kernel sees it: where it writes a gradient for each element, GRAD|GATE is dense and has the
// shape of INPUT; where values of gates are found before it, GATE is dense and holds these. The functions below take
// this one as `p`.
LinearProblem seen_by_kernel(const LinearPass& l, LinearProblem problem);
LinearShape shape_of(const LinearPass& l, const LinearProblem& p, bool batch_invariant);
// The axis of a tensor's rows: batch entries where these are folded with a single channel.
struct RowAxis {
    const char* name;
    int64_t stride;
};
RowAxis row_axis(const LinearPass& pass, const Strides& strides);
// The tensor as the pass's kernel sees it.
View view_of(const LinearPass& pass, const Strides& strides, Dtype dtype);
// Fills in what depends on the problem and the tuning.
void settle_params(LinearPass& l, const LinearProblem& p, const ChainedTuning& tuning);
// Fills in the alignment that a call's tensors must have for aligned access. `one_gate` tells that the kernel loads a
// gate that rows or steps share as one element.
void settle_alignment(LinearPass& l, const LinearProblem& p, bool one_gate = false);
// The words of the descriptor for sentences.
const char* name_of(GateForm form);
std::string names_of_broadcast(const LinearProblem& p);
// The following return a sentence, which is empty where the condition holds: that the problem has elements; that it
// also has a gate for each of them, by value, and neither resets nor packed sequences; and that extents and strides
// allow aligned access.
std::string empty_refusal(const LinearProblem& p);
std::string plain_refusal(const LinearProblem& p);
std::string alignment_refusal(const LinearPass& l, const LinearProblem& p, bool one_gate = false);
// Settles how GRAD|GATE of `problem` is summed, and books its scratch memory, after settle_params. Where sums are over
// rows too, the kernel leaves one for each of so many `strips` of them.
void settle_gate_sums(LinearPass& l, const LinearProblem& problem, const LinearProblem& p, Extent strips,
                      bool batch_invariant);

}  // namespace flashscan::cuda
