// SPDX-License-Identifier: Apache-2.0
// Programmatic dependent launch: a kernel may begin while the launch before it in the stream still runs.
#pragma once

namespace flashscan::cuda::ptx {

// Waits until the launch before has ended and its writes are visible. It returns at once if this launch does not
// overlap that one.
__device__ __forceinline__ void wait_for_launch_before() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// Allows the next launch of the stream to begin.
__device__ __forceinline__ void let_next_launch_begin() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;");
#endif
}

}  // namespace flashscan::cuda::ptx
