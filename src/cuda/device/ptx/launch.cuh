// SPDX-License-Identifier: Apache-2.0
// Programmatic dependent launch: a kernel begins while the one before it still runs.
#pragma once

namespace flashscan::cuda::ptx {

// Waits until the launch before has ended and its writes are visible, where this one was launched to overlap it.
__device__ __forceinline__ void wait_for_launch_before() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// Lets the launch that waits for this one begin.
__device__ __forceinline__ void let_next_launch_begin() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;");
#endif
}

}  // namespace flashscan::cuda::ptx
