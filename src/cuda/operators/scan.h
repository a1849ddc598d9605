// SPDX-License-Identifier: Apache-2.0
// The scan of the elements of a plan: its forward pass, and what backward passes take from it.
#pragma once

#include "core/backend.h"
#include "cuda/operators/instances/table.h"
#include "cuda/operators/pass.h"

namespace flashscan::cuda {

class OperatorScan {
  public:
    // Books the memory through which chunks exchange runs.
    OperatorScan(const OperatorProblem& problem, const ElementKernels& kernels, const Options& options,
                 Workspace& workspace);

    // Why the device or the plan does not take it; empty if it does.
    std::string refusal() const;
    std::string describe() const { return pass_.describe(); }
    // Whether time is cut into more than one chunk, and how many values find_marks writes.
    bool is_cut() const { return pass_.tuning.chunks > 1; }
    int64_t marks() const { return pass_.marks; }

    void forward(const OperatorBuffers& buffers, void* stream) const;
    // Writes the carry into each chunk, each a Run of an element. Reads INPUT and STATE_IN.
    void find_marks(const OperatorBuffers& buffers, void* marks, void* stream) const;
    // Writes y[t-1] for every step, in the format of states.
    void find_prefixes(const OperatorBuffers& buffers, void* prefixes, void* stream) const;

  private:
    ElementScanParams common(const OperatorBuffers& buffers, const void* output) const;

    const OperatorProblem p_;
    const ElementKernels& kernels_;
    int device_;
    ElementPass pass_;
    bool overlaps_;
};

// Returns which states the gradients of a plan for matrices read as those before each step: a PrefixKind.
int32_t prefix_of(const OperatorProblem& problem);

// Writes the final states of rows and sequences without steps, of which each has so many elements.
void pass_empty_states(const OperatorProblem& problem, const ElementKernels& kernels, int64_t elements,
                       const OperatorBuffers& buffers, void* stream);
// Writes GRAD|STATE_IN of rows and sequences without steps.
void pass_empty_gradients(const OperatorProblem& problem, const ElementKernels& kernels, const OperatorBuffers& buffers,
                          void* stream);

}  // namespace flashscan::cuda
