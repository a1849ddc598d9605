// SPDX-License-Identifier: Apache-2.0
#include "cuda/launch/by_dtype.h"

#include "core/error.h"

namespace flashscan::cuda {

void fail_without_kernels(Dtype dtype) {
    fail(Code::internal_error, "no CUDA kernels of this kind for {}", name_of(dtype));
}

}  // namespace flashscan::cuda
