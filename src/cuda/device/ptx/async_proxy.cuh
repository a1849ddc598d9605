// SPDX-License-Identifier: Apache-2.0
// The fence between a thread's accesses to shared memory and those of asynchronous units.
#pragma once

namespace flashscan::cuda::ptx {

// Orders the thread's accesses to shared memory before those of the bulk copy engine and of wgmma (the async proxy)
// that start later, or in other threads after the next barrier.
__device__ __forceinline__ void fence_async_proxy() {
#if __CUDA_ARCH__ >= 900
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}

}  // namespace flashscan::cuda::ptx
