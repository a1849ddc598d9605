// SPDX-License-Identifier: Apache-2.0
// The forward scan of a plan of elements, which backward passes use too.
#pragma once

#include "core/backend.h"
#include "cuda/operators/instances/table.h"
#include "cuda/operators/pass.h"

namespace flashscan::cuda {

class OperatorScan {
  public:
    // Books scratch for the words of chunks.
    OperatorScan(const OperatorProblem& problem, const ElementKernels& kernels, const Options& options,
                 Workspace& workspace);

    // Why the device does not take it; empty if it does.
    std::string refusal() const;
    std::string describe() const { return pass_.describe(); }
    // Whether time is cut into chunks, and the values that find_marks writes.
    bool is_cut() const { return pass_.tuning.chunks > 1; }
    int64_t marks() const { return pass_.marks; }

    void forward(const OperatorBuffers& buffers, void* stream) const;
    // What enters the chunks, as Run of an element; reads INPUT and STATE_IN.
    void find_marks(const OperatorBuffers& buffers, void* marks, void* stream) const;
    // y[t-1] for every step as states hold it.
    void find_prefixes(const OperatorBuffers& buffers, void* prefixes, void* stream) const;

  private:
    ElementScanParams common(const OperatorBuffers& buffers, const void* output) const;
    void pass_empty(const OperatorBuffers& buffers, void* stream) const;

    const OperatorProblem p_;
    const ElementKernels& kernels_;
    int device_;
    bool batch_invariant_;
    ElementPass pass_;
    bool overlaps_;
};

// GRAD|STATE_IN of sequences and rows without steps.
void pass_empty_gradients(const OperatorProblem& problem, const ElementKernels& kernels, const OperatorBuffers& buffers,
                          void* stream);

}  // namespace flashscan::cuda
