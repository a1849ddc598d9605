// SPDX-License-Identifier: Apache-2.0
#include "cuda/loader/tensor_map.h"

#include <cuda_runtime_api.h>

#include <array>

namespace flashscan::cuda {
namespace {

using Encode = decltype(&cuTensorMapEncodeTiled);

Encode find_encoder() {
    void* function = nullptr;
    cudaDriverEntryPointQueryResult result{};
    const cudaError_t error =
        cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000, cudaEnableDefault, &result);
    if (error != cudaSuccess || result != cudaDriverEntryPointSuccess) {
        cudaGetLastError();
        return nullptr;
    }
    return reinterpret_cast<Encode>(function);
}

Encode encoder() {
    static const Encode function = find_encoder();
    return function;
}

CUtensorMapDataType type_of_size(int bytes) {
    switch (bytes) {
    case 2: return CU_TENSOR_MAP_DATA_TYPE_UINT16;
    case 4: return CU_TENSOR_MAP_DATA_TYPE_UINT32;
    default: return CU_TENSOR_MAP_DATA_TYPE_UINT64;
    }
}

}  // namespace

bool has_bulk_copies(int compute_capability_major) { return compute_capability_major >= 9 && encoder() != nullptr; }

bool encode_tensor_map(CUtensorMap& map, void* base, int element_bytes, std::span<const TensorBox> axes, bool swizzle) {
    constexpr int64_t unit = 16, largest_extent = int64_t{1} << 31, largest_stride = int64_t{1} << 40;
    constexpr size_t most_axes = 5;
    std::array<cuuint64_t, most_axes> extents{}, strides{};
    std::array<cuuint32_t, most_axes> boxes{}, steps{};
    if (reinterpret_cast<uintptr_t>(base) % unit != 0) return false;
    for (size_t i = 0; i < axes.size(); ++i) {
        if (axes[i].extent < 1 || axes[i].extent > largest_extent) return false;
        extents[i] = static_cast<cuuint64_t>(axes[i].extent);
        boxes[i] = axes[i].box;
        steps[i] = 1;
        if (i == 0) continue;
        // An axis of one element may have any stride.
        const int64_t stride = axes[i].extent == 1 ? unit : axes[i].stride;
        if (stride <= 0 || stride % unit != 0 || stride >= largest_stride) return false;
        strides[i - 1] = static_cast<cuuint64_t>(stride);
    }
    return encoder()(&map, type_of_size(element_bytes), static_cast<cuuint32_t>(axes.size()), base, extents.data(),
                     strides.data(), boxes.data(), steps.data(), CU_TENSOR_MAP_INTERLEAVE_NONE,
                     swizzle ? CU_TENSOR_MAP_SWIZZLE_128B : CU_TENSOR_MAP_SWIZZLE_NONE,
                     CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

}  // namespace flashscan::cuda
