// SPDX-License-Identifier: Apache-2.0
// The host sides of the two kernels "tiny", of products of matrices and of affine maps, share what is here.
#pragma once

#include "core/backend.h"
#include "cuda/launch/launch.h"
#include "cuda/operators/instances/table.h"
#include "cuda/operators/pass.h"

namespace flashscan::cuda {

// The backward pass, and its scratch memory. A reduction has no prefixes in OUTPUT, so that backward computes them
// again: it then takes what forward takes, and their place.
struct TinyBackward {
    TinyBackward(const OperatorProblem& p, const ElementKernels& kernels, const Options& options,
                 const Workspace& forward) {
        if (p.is_reduction()) {
            scratch = forward;
            prefixes = scratch.book(p.input_count() * p.element() * p.state_number_bytes());
        }
        pass = make_element_pass(p, kernels.backward, kernels.gradients, options, scratch);
    }
    Workspace scratch;
    size_t prefixes = 0;
    ElementPass pass;
};

// Makes a kernel, or returns null where it refuses the device.
template <typename Kernel>
std::unique_ptr<OperatorKernel> make_tiny(const OperatorProblem& problem, const ElementKernels& kernels,
                                          const Options& options, std::string& refusal) {
    const DeviceScope scope(options.device);
    auto tiny = std::make_unique<Kernel>(problem, kernels, options);
    refusal = tiny->refusal();
    if (!refusal.empty()) return nullptr;
    return tiny;
}

std::unique_ptr<OperatorKernel> make_tiny_affine(const OperatorProblem& problem, const ElementKernels& kernels,
                                                 const Options& options, std::string& refusal);

}  // namespace flashscan::cuda
