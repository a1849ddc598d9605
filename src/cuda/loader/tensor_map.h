// SPDX-License-Identifier: Apache-2.0
// Tensor maps, the descriptors of tensors for the bulk copy engine (TMA). The driver's function that encodes them is
// looked up at run time.
#pragma once

#include <cuda.h>

#include <array>
#include <cstdint>

#include "math/number.h"

namespace flashscan::cuda {

struct MapAxis {
    int64_t extent = 1;  // elements
    int64_t stride = 0;  // bytes
    int64_t box = 1;     // elements that one copy takes
};

// The shape of a map: axes from the innermost outwards. The elements of the innermost one must be contiguous.
struct MapShape {
    int element_bytes = 0;  // 2, 4, 8 or 16
    std::array<MapAxis, 3> axes;
};

// The alignment in bytes that bases and strides of tensors must have.
constexpr int64_t map_alignment = 16;

// How many elements of a map an element of a tensor is: those of 16 bytes are two, as maps have none so large.
FLASHSCAN_HD constexpr int map_parts(int64_t element_bytes) { return element_bytes == 16 ? 2 : 1; }

bool has_tensor_maps();
// Whether a map can have this shape.
bool can_map(const MapShape& shape);
// Throws Error{internal_error} where can_map is false or `base` is not aligned.
void encode_map(CUtensorMap& map, const MapShape& shape, const void* base);

}  // namespace flashscan::cuda
