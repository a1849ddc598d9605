// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace flashscan::cuda::ptx {

// Makes the thread's accesses to shared memory come before those of the copy engine and of warpgroup products that begin
// later, in other threads after the next barrier.
__device__ __forceinline__ void fence_async_proxy() {
#if __CUDA_ARCH__ >= 900
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}

}  // namespace flashscan::cuda::ptx
