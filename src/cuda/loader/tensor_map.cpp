// SPDX-License-Identifier: Apache-2.0
// Checks and encodes tensor maps.
#include "cuda/loader/tensor_map.h"

#include "cuda/runtime.h"

namespace flashscan::cuda {
namespace {

CUtensorMapDataType type_of_size(int bytes) {
    switch (bytes) {
    case 2: return CU_TENSOR_MAP_DATA_TYPE_UINT16;
    case 4: return CU_TENSOR_MAP_DATA_TYPE_UINT32;
    case 8:
    case 16: return CU_TENSOR_MAP_DATA_TYPE_UINT64;  // map_parts of them
    }
    fail(Code::internal_error, "no tensor maps of elements of {} bytes", bytes);
}

}  // namespace

bool has_tensor_maps() { return driver().encode_map != nullptr; }

bool can_map(const MapShape& shape) {
    constexpr int64_t largest_box = 256, largest_extent = int64_t{1} << 31, largest_stride = int64_t{1} << 40;
    for (size_t i = 0; i < shape.axes.size(); ++i) {
        const MapAxis& axis = shape.axes[i];
        const int64_t parts = i == 0 ? map_parts(shape.element_bytes) : 1;
        if (axis.extent < 1 || axis.extent * parts > largest_extent || axis.box * parts > largest_box) return false;
        if (axis.extent == 1) continue;
        if (i == 0 ? axis.stride != shape.element_bytes : axis.stride % map_alignment != 0) return false;
        if (axis.stride <= 0 || axis.stride >= largest_stride) return false;
    }
    // Stores write whole units of 16 bytes along the innermost axis.
    return shape.axes[0].box * shape.element_bytes % map_alignment == 0 &&
           shape.axes[0].extent * shape.element_bytes % map_alignment == 0;
}

void encode_map(CUtensorMap& map, const MapShape& shape, const void* base) {
    std::array<cuuint64_t, 3> extents{};
    std::array<cuuint64_t, 2> strides{};
    std::array<cuuint32_t, 3> boxes{}, steps{1, 1, 1};
    for (size_t i = 0; i < shape.axes.size(); ++i) {
        const int parts = i == 0 ? map_parts(shape.element_bytes) : 1;
        extents[i] = static_cast<cuuint64_t>(shape.axes[i].extent * parts);
        boxes[i] = static_cast<cuuint32_t>(shape.axes[i].box * parts);
        // Along an axis of one element any valid stride will do.
        if (i > 0)
            strides[i - 1] = static_cast<cuuint64_t>(shape.axes[i].extent == 1 ? map_alignment : shape.axes[i].stride);
    }
    const CUresult result = driver().encode_map(&map, type_of_size(shape.element_bytes), 3, const_cast<void*>(base),
                                                extents.data(), strides.data(), boxes.data(), steps.data(),
                                                CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE,
                                                CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    if (result == CUDA_ERROR_INVALID_VALUE) fail(Code::internal_error, "the driver refuses a map of a tensor");
    check(result, "making a map of a tensor");
}

}  // namespace flashscan::cuda
