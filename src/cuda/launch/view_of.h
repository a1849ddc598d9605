// SPDX-License-Identifier: Apache-2.0
// Tensors as kernels take them: a plan settles their strides, and a call fills in where their data are.
#pragma once

#include "core/extents.h"
#include "cuda/device/tile/view.h"

namespace flashscan::cuda {

// The strides of a tensor whose elements have `bytes` bytes.
inline View view_of(const Strides& strides, int64_t bytes) {
    return {nullptr, strides.batch * bytes, strides.channels * bytes, strides.time * bytes};
}

inline void point(View& view, const void* data) { view.data = static_cast<char*>(const_cast<void*>(data)); }

}  // namespace flashscan::cuda
