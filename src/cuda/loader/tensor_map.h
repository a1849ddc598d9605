// SPDX-License-Identifier: Apache-2.0
// Maps for the bulk tensor copy engine. The driver's encoder is looked up at run time: nothing links the driver.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <span>

namespace flashscan::cuda {

struct TensorBox {
    int64_t extent;  // elements along the axis
    int64_t stride;  // bytes; that of the innermost axis is the element's size
    uint32_t box;    // elements that one copy takes
};

// Whether the driver has the encoder and the device (of this compute capability) the engine.
bool has_bulk_copies(int compute_capability_major);

// Encodes a map with axes from the innermost outwards. False when the engine cannot address the tensor: its base and
// strides must be multiples of 16 bytes.
bool encode_tensor_map(CUtensorMap& map, void* base, int element_bytes, std::span<const TensorBox> axes, bool swizzle);

}  // namespace flashscan::cuda
