// SPDX-License-Identifier: Apache-2.0
// How a launch that scans elements runs. All of it is settled when the plan is made, so that a call only fills in
// pointers.
#pragma once

#include <string>

#include "core/operator_problem.h"
#include "core/workspace.h"
#include "cuda/device/scan/element_params.h"
#include "cuda/launch/launch.h"
#include "cuda/operators/tuning.h"

namespace flashscan::cuda {

struct ElementPass {
    ElementGrid grid;  // the grid of every launch, without what depends on the call
    ElementTuning tuning;
    int threads = 0, shared_bytes = 0;            // of a block
    size_t words = 0, words_bytes = 0;            // place and size of the memory through which chunks exchange runs
    size_t records = 0, totals = 0, carries = 0;  // offsets in that memory
    int64_t marks = 0;                            // how many carries into chunks there are: chunks times rows

    std::string describe() const;
    int64_t blocks() const { return grid.batches * grid.row_groups * tuning.chunks; }
    LaunchShape launch_shape() const;  // for passes that refusal_of does not refuse
};

// Settles a pass and books the memory through which chunks exchange runs.
ElementPass make_element_pass(const OperatorProblem& problem, const ElementFacts& facts, bool batch_invariant,
                              Workspace& workspace);

// Returns why a grid cannot have so many blocks, or the device not the shared memory of `kernel`; empty if both fit.
std::string refusal_of(const ElementPass& pass, const void* kernel, int device);

// The grid of a call: with the pointers of SEQ_OFFSETS and scratch, and the alignment of the arrays of elements.
ElementGrid grid_of_call(const ElementPass& pass, const ElementFacts& facts, const void* seq_offsets, void* scratch,
                         std::initializer_list<const void*> arrays);

// Sets all bits of the memory through which chunks exchange runs, if there is any.
void clear_words(const ElementPass& pass, const ElementGrid& grid, void* stream);

// Clears that memory and launches the kernel. With `overlaps` the kernel may begin before the memory is clear
// (can_overlap).
template <typename Params>
void launch_elements(const void* kernel, const ElementPass& pass, const Params& params, bool overlaps, void* stream) {
    if (pass.blocks() == 0 || pass.grid.time == 0) return;
    clear_words(pass, params.grid, stream);
    LaunchShape shape = pass.launch_shape();
    shape.overlaps = overlaps && pass.tuning.chunks > 1;
    launch(kernel, shape, stream, params);
}

}  // namespace flashscan::cuda
