// SPDX-License-Identifier: Apache-2.0
// The text that stands between our kernels and the user's functions.
#pragma once

#include "cuda/jit/compile.h"

namespace flashscan::cuda {

// Sources with `headers`, and behind the user's code functors of namespace flashscan::cuda made of the operator's state:
//   CustomOperator   (left, right, out), with `bytes` of an element
//   CustomAdjoint    (left, right, grad_out, grad_left, grad_right), where there is an adjoint
// `kernels` follow them.
KernelSource operator_source(const CustomOperator& custom, const std::string& headers, const std::string& kernels);

}  // namespace flashscan::cuda
