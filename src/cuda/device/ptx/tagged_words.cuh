// SPDX-License-Identifier: Apache-2.0
// A word of 8 bytes and a tag of 8 bytes in global memory, which are written and read together in one access.
#pragma once

#include <cstdint>

namespace flashscan::cuda::ptx {

struct TaggedWord {
    uint64_t word, tag;
};

__device__ __forceinline__ void store_tagged(TaggedWord* to, uint64_t word, uint64_t tag) {
    asm volatile(
        "{\n\t.reg .b128 both;\n\tmov.b128 both, {%1, %2};\n\tst.relaxed.gpu.global.b128 [%0], both;\n\t}" ::"l"(to),
        "l"(word), "l"(tag)
        : "memory");
}

__device__ __forceinline__ TaggedWord load_tagged(const TaggedWord* from) {
    TaggedWord v;
    asm volatile("{\n\t.reg .b128 both;\n\tld.relaxed.gpu.global.b128 both, [%2];\n\tmov.b128 {%0, %1}, both;\n\t}"
                 : "=l"(v.word), "=l"(v.tag)
                 : "l"(from)
                 : "memory");
    return v;
}

}  // namespace flashscan::cuda::ptx
