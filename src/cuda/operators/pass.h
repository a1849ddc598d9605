// SPDX-License-Identifier: Apache-2.0
// How a launch that scans elements runs: settled when the plan is made, so that a call only fills in pointers.
#pragma once

#include <string>

#include "core/operator_problem.h"
#include "core/workspace.h"
#include "cuda/device/scan/element_params.h"
#include "cuda/launch/launch.h"
#include "cuda/operators/tuning.h"

namespace flashscan::cuda {

struct ElementPass {
    ElementGrid grid;  // of every launch, but for what depends on the call
    ElementTuning tuning;
    int threads = 0, shared_bytes = 0;            // of a block
    size_t words = 0, words_bytes = 0;            // what chunks hand each other, in the workspace
    size_t records = 0, totals = 0, carries = 0;  // in it
    int64_t marks = 0;                            // chunks times rows of all groups

    std::string describe() const;
    int64_t blocks() const { return grid.batches * grid.row_groups * tuning.chunks; }
    LaunchShape launch_shape() const;  // of blocks that a grid holds
};

// Books the words in `workspace`.
ElementPass make_element_pass(const OperatorProblem& problem, const ElementFacts& facts, bool batch_invariant,
                              Workspace& workspace);

// Whether a grid holds the blocks and the device the shared memory of `kernel`; if not, why.
std::string refusal_of(const ElementPass& pass, const void* kernel, int device);

// The grid of a call: pointers of SEQ_OFFSETS and scratch, and how the arrays of elements are aligned.
ElementGrid grid_of_call(const ElementPass& pass, const ElementFacts& facts, const void* seq_offsets, void* scratch,
                         std::initializer_list<const void*> arrays);

// Enqueues the clearing of the words where chunks hand each other any.
void clear_words(const ElementPass& pass, const ElementGrid& grid, void* stream);

// Clears the words and launches. `overlaps`: the kernel may begin before they are clear; see can_overlap.
template <typename Params>
void launch_elements(const void* kernel, const ElementPass& pass, const Params& params, bool overlaps, void* stream) {
    if (pass.blocks() == 0 || pass.grid.time == 0) return;
    clear_words(pass, params.grid, stream);
    LaunchShape shape = pass.launch_shape();
    shape.overlaps = overlaps && pass.tuning.chunks > 1;
    launch(kernel, shape, stream, params);
}

}  // namespace flashscan::cuda
