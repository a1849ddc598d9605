// SPDX-License-Identifier: Apache-2.0
// Machine code from kernels of ours around a function of the user's.
//
// CUDA source is included into the one unit that is compiled, behind our headers, so that none of its macros reaches
// them and the function is inlined. LTO-IR is linked with a unit that only declares the function, and inlined there.
#pragma once

#include <string>

#include "core/operator_problem.h"

namespace flashscan::cuda {

struct KernelSource {
    std::string headers;       // our includes
    std::string declarations;  // of the user's functions, where their source is not there
    std::string kernels;       // what calls the functions
};

// For GPUs of compute capability `arch`, 90 for 9.0. Throws Error{invalid_argument} with all that the compiler says
// where the user's code is wrong, and Error{dependency_missing}.
std::string compile(const KernelSource& source, const CustomOperator& custom, int arch);

}  // namespace flashscan::cuda
