// SPDX-License-Identifier: Apache-2.0
// How a launch that scans elements runs. All of it is settled when the plan is made, so that a call only fills in
// pointers.
#pragma once

#include <string>

#include "core/backend.h"
#include "core/operator_problem.h"
#include "core/workspace.h"
#include "cuda/device/scan/element_params.h"
#include "cuda/launch/launch.h"
#include "cuda/launch/look_back_memory.h"
#include "cuda/operators/tuning.h"

namespace flashscan::cuda {

struct ElementPass {
    ElementGrid grid;  // the grid of every launch, without what depends on the call
    ElementTuning tuning;
    int64_t marks = 0;           // how many carries into chunks there are: chunks times rows
    uintptr_t element_part = 1;  // the most bytes of an element that are accessed at once
    bool whole_vectors = false;  // whether rows consist of vectors of 16 bytes
    // Why a grid cannot have so many blocks, or the device not the shared memory of the kernel; empty if both fit. The
    // launch is settled then, and the kernel is null where there is nothing to launch.
    std::string refusal;
    const void* kernel = nullptr;
    LaunchShape shape;
    LookBackMemory exchange;

    std::string describe() const;
    int64_t blocks() const { return grid.batches * grid.row_groups * tuning.chunks; }
    // The grid of a call: with the pointers of SEQ_OFFSETS and scratch, and the alignment of the arrays of elements.
    ElementGrid grid_of_call(const void* seq_offsets, void* scratch, std::initializer_list<const void*> arrays) const;
    // Clears memory and launches the kernel with the parameters of a call.
    template <typename Params>
    void launch(const Params& params, void* stream) const {
        if (kernel == nullptr) return;
        exchange.clear().run(params.grid.records, stream);
        cuda::launch(kernel, shape, stream, params);
    }
};

// Settles a pass of a kernel and books the memory through which chunks exchange runs.
ElementPass make_element_pass(const OperatorProblem& problem, const ElementFacts& facts, const void* kernel,
                              const Options& options, Workspace& workspace);

}  // namespace flashscan::cuda
