// SPDX-License-Identifier: Apache-2.0
// The source text between the library's kernels and the user's functions.
#pragma once

#include "cuda/jit/compile.h"

namespace flashscan::cuda {

// Returns sources with `headers`, and after the user's code these functors of namespace flashscan::cuda, which are made
// from the operator's state, followed by `kernels`:
//   CustomOperator   (left, right, out), with the constant `bytes`, the size of an element
//   CustomAdjoint    (left, right, grad_out, grad_left, grad_right), if there is an adjoint
KernelSource operator_source(const CustomOperator& custom, const std::string& headers, const std::string& kernels);

}  // namespace flashscan::cuda
