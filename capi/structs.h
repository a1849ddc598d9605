// SPDX-License-Identifier: Apache-2.0
// Structs that cross the interface: each begins with the size that its caller knows.
#pragma once

#include <cstring>

#include "core/error.h"
#include "flashscan/flashscan.h"

namespace flashscan {

// Larger sizes are garbage, not a struct of a later version.
inline constexpr uint32_t largest_struct = 4096;

inline void check_pointer(const void* pointer, const char* field) {
    if (pointer == nullptr) fail(Code::invalid_argument, "{} is NULL; a valid pointer is needed", field);
}

// The struct_size of a caller's struct, which is at least the size of the struct's first version.
inline uint32_t read_size(const void* given, size_t first_size, const char* name) {
    uint32_t size = 0;
    std::memcpy(&size, given, sizeof size);
    if (size < first_size || size > largest_struct)
        fail(Code::invalid_struct, "{}.struct_size is {}; accepted are {} (sizeof({})) to {}", name, size, first_size,
             name, largest_struct);
    return size;
}

// Copies a caller's struct into today's: fields that the caller does not have stay zero, and fields that this library
// does not have must be zero.
template <typename Struct>
Struct read_struct(const Struct* given, size_t first_size, const char* name) {
    const uint32_t size = read_size(given, first_size, name);
    const auto* bytes = reinterpret_cast<const unsigned char*>(given);
    for (size_t i = sizeof(Struct); i < size; ++i)
        if (bytes[i] != 0)
            fail(Code::struct_too_new,
                 "{}.struct_size is {} and byte {} is not 0, but this library, version {}, knows {} bytes; a newer "
                 "library is needed for that field",
                 name, size, i, FLASHSCAN_VERSION, sizeof(Struct));
    Struct result{};
    std::memcpy(&result, given, size < sizeof(Struct) ? size : sizeof(Struct));
    return result;
}

// Fills a caller's struct with `values`, less struct_size; what the library does not know becomes zero.
template <typename Struct>
void write_struct(void* given, uint32_t size, const Struct& values) {
    auto* bytes = static_cast<unsigned char*>(given);
    std::memset(bytes + sizeof size, 0, size - sizeof size);
    std::memcpy(bytes + sizeof size, reinterpret_cast<const unsigned char*>(&values) + sizeof size,
                (size < sizeof(Struct) ? size : sizeof(Struct)) - sizeof size);
}

}  // namespace flashscan
