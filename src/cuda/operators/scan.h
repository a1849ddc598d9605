// SPDX-License-Identifier: Apache-2.0
// The scan of the elements of a plan: its forward pass, and what backward passes take from it.
#pragma once

#include "core/backend.h"
#include "cuda/operators/backward_params.h"
#include "cuda/operators/instances/table.h"
#include "cuda/operators/pass.h"

namespace flashscan::cuda {

// The launch that writes the final states of rows and sequences without steps, of which each has so many elements.
class EmptyStates {
  public:
    EmptyStates() = default;
    EmptyStates(const OperatorProblem& problem, const ElementKernels& kernels, int64_t elements);
    void run(const OperatorBuffers& buffers, void* stream) const;

  private:
    SettledLaunch<EmptyElementParams> launch_;  // none where every row has steps
    bool reduces_ = false;
};

// The launch that writes GRAD|STATE_IN of rows and sequences without steps.
class EmptyGradients {
  public:
    EmptyGradients() = default;
    EmptyGradients(const OperatorProblem& problem, const ElementKernels& kernels);
    void run(const OperatorBuffers& buffers, void* stream) const;

  private:
    SettledLaunch<EmptyGradientParams> launch_;  // none where every row has steps
    bool reduces_ = false;
};

class OperatorScan {
  public:
    // Books the memory through which chunks exchange runs.
    OperatorScan(const OperatorProblem& problem, const ElementKernels& kernels, const Options& options,
                 Workspace& workspace);

    // Why the device or the plan does not take it; empty if it does.
    const std::string& refusal() const { return pass_.refusal; }
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
    ElementScanParams params_of_call(const OperatorBuffers& buffers, const void* output) const;

    ElementPass pass_;
    ElementScanParams params_;  // without a call's pointers
    bool reduces_;
    EmptyStates empty_;
};

// Returns which states the gradients of a plan for matrices read as those before each step: a PrefixKind.
int32_t prefix_of(const OperatorProblem& problem);

}  // namespace flashscan::cuda
