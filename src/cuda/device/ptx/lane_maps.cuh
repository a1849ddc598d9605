// SPDX-License-Identifier: Apache-2.0
// Composition of affine maps of neighbouring lanes.
#pragma once

namespace flashscan::cuda::ptx {

// Composes the map h -> a h + x with that of the lane `distance` before, which comes first; lanes that have none keep
// theirs. The shuffle itself says which these are. All lanes of the warp call it.
__device__ __forceinline__ void compose_with_early(float& a, float& x, int distance) {
    asm volatile(
        "{\n\t.reg .pred exists;\n\t.reg .f32 early_a, early_x;\n\t"
        "shfl.sync.up.b32 early_x|exists, %1, %2, 0, 0xffffffff;\n\t"
        "shfl.sync.up.b32 early_a|exists, %0, %2, 0, 0xffffffff;\n\t"
        "@exists fma.rn.f32 %1, %0, early_x, %1;\n\t"
        "@exists mul.rn.f32 %0, %0, early_a;\n\t}"
        : "+f"(a), "+f"(x)
        : "r"(distance));
}

}  // namespace flashscan::cuda::ptx
