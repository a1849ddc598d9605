// SPDX-License-Identifier: Apache-2.0
// Sums of gradients of custom operators, at any address.
#pragma once

#include <cstring>

#include "core/types.h"

namespace flashscan::cpu {

template <typename T>
void add_numbers(const char* from, size_t bytes, char* to) {
    for (size_t i = 0; i < bytes; i += sizeof(T)) {
        T sum, more;
        std::memcpy(&sum, to + i, sizeof(T));
        std::memcpy(&more, from + i, sizeof(T));
        sum += more;
        std::memcpy(to + i, &sum, sizeof(T));
    }
}

// to += from, elements of `bytes` bytes that are numbers of dtype f32 or f64.
inline void add_gradient(Dtype dtype, const char* from, size_t bytes, char* to) {
    dtype == Dtype::f64 ? add_numbers<double>(from, bytes, to) : add_numbers<float>(from, bytes, to);
}

}  // namespace flashscan::cpu
