// SPDX-License-Identifier: Apache-2.0
// Loads and stores of numbers at any address, since elements of custom operators may be unaligned.
#pragma once

#include <cstdint>

namespace flashscan::cuda {

template <typename T>
__device__ __forceinline__ T load_number(const char* array, int64_t i) {
    const char* from = array + i * static_cast<int64_t>(sizeof(T));
    if (reinterpret_cast<uint64_t>(from) % sizeof(T) == 0) return *reinterpret_cast<const T*>(from);
    T x;
    for (unsigned byte = 0; byte < sizeof(T); ++byte) reinterpret_cast<char*>(&x)[byte] = from[byte];
    return x;
}
template <typename T>
__device__ __forceinline__ void store_number(char* array, int64_t i, T x) {
    char* to = array + i * static_cast<int64_t>(sizeof(T));
    if (reinterpret_cast<uint64_t>(to) % sizeof(T) == 0)
        *reinterpret_cast<T*>(to) = x;
    else
        for (unsigned byte = 0; byte < sizeof(T); ++byte) to[byte] = reinterpret_cast<const char*>(&x)[byte];
}
template <typename T>
__device__ __forceinline__ void add_number(char* array, int64_t i, T x) {
    store_number<T>(array, i, load_number<T>(array, i) + x);
}

}  // namespace flashscan::cuda
