// SPDX-License-Identifier: Apache-2.0
// Whether the library has the code of a kernel for a device. Some kernels, in whose place others can run, are compiled
// to machine code alone, without the PTX that newer devices need.
#pragma once

#include <string>

namespace flashscan::cuda {

// How a kernel is compiled: to machine code of all architectures, or of those that have clusters of blocks.
enum class Compiled {
    to_machine_code,
    for_clusters
};

// Returns a sentence that says so where it has not, and nothing where it has.
std::string code_refusal_of(Compiled kernel, int device);

}  // namespace flashscan::cuda
