// SPDX-License-Identifier: Apache-2.0
// The kernel "tiny" of affine maps.
#pragma once

#include "core/backend.h"
#include "cuda/operators/instances/table.h"

namespace flashscan::cuda {

std::unique_ptr<OperatorKernel> make_tiny_affine(const OperatorProblem& problem, const ElementKernels& kernels,
                                                 const Options& options, std::string& refusal);

}  // namespace flashscan::cuda
