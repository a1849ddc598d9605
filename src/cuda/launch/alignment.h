// SPDX-License-Identifier: Apache-2.0
// How the addresses of a call's tensors lie relative to multiples of some bytes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>

namespace flashscan::cuda {

inline bool is_multiple(const void* address, int64_t bytes) {
    return reinterpret_cast<uintptr_t>(address) % static_cast<uintptr_t>(bytes) == 0;
}
// Whether all of them are; null pointers do not count.
inline bool are_multiples(std::initializer_list<const void*> addresses, int64_t bytes) {
    return std::all_of(addresses.begin(), addresses.end(), [&](const void* x) { return is_multiple(x, bytes); });
}
// Whether all of them lie at the same place relative to multiples of `bytes`, and as `first` where it is given; null
// pointers do not count.
inline bool lie_alike(const void* first, std::initializer_list<const void*> others, int64_t bytes) {
    const auto place = [&](const void* x) { return reinterpret_cast<uintptr_t>(x) % static_cast<uintptr_t>(bytes); };
    for (const void* const x : others) {
        if (first == nullptr) first = x;
        if (x != nullptr && place(x) != place(first)) return false;
    }
    return true;
}

}  // namespace flashscan::cuda
