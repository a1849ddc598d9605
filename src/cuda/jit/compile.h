// SPDX-License-Identifier: Apache-2.0
// Compiles kernels of the library around a function of the user.
//
// CUDA source is included into the unit that is compiled, after the library's headers, so that its macros do not affect
// them, and the function can be inlined. LTO-IR is linked with a unit that only declares the function, and is inlined
// by the linker.
#pragma once

#include <string>

#include "core/operator_problem.h"

namespace flashscan::cuda {

struct KernelSource {
    std::string headers;       // includes of the library's headers
    std::string declarations;  // declarations of the user's functions, used where there is no source of them
    std::string kernels;       // the kernels that call these functions
};

// Returns machine code for GPUs of compute capability `arch`, 90 for 9.0. Throws Error{invalid_argument} with the
// compiler's output where the user's code is wrong, and Error{dependency_missing}.
std::string compile(const KernelSource& source, const CustomOperator& custom, int arch);

}  // namespace flashscan::cuda
