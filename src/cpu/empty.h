// SPDX-License-Identifier: Apache-2.0
// Kernels for problems without elements: states pass through, and sums over nothing are 0. They cost what is there.
#pragma once

#include <memory>

#include "core/backend.h"

namespace flashscan::cpu {

std::unique_ptr<LinearKernel> make_empty(const LinearProblem& problem);
std::unique_ptr<RnnKernel> make_empty(const RnnProblem& problem);
std::unique_ptr<OperatorKernel> make_empty(const OperatorProblem& problem);
std::unique_ptr<GatedKernel> make_empty(const GatedProblem& problem);
std::unique_ptr<SelectiveKernel> make_empty(const SelectiveProblem& problem);

}  // namespace flashscan::cpu
