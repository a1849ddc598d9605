// SPDX-License-Identifier: Apache-2.0
// Choices by dtype among those that a family of kernels has.
#pragma once

#include <cstddef>
#include <utility>

#include "core/types.h"

namespace flashscan::cuda {

// Throws Error{internal_error}: nothing is compiled for the dtype, and core or a candidate should have refused it.
[[noreturn]] void fail_without_kernels(Dtype dtype);

// Returns what stands beside the dtype in `rows`, which must have it.
template <typename T, size_t n>
const T& of_dtype(Dtype dtype, const std::pair<Dtype, T> (&rows)[n]) {
    for (const auto& [of, value] : rows)
        if (of == dtype) return value;
    fail_without_kernels(dtype);
}

}  // namespace flashscan::cuda
