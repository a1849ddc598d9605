// SPDX-License-Identifier: Apache-2.0
// The barrier of a cluster in two halves, for threads of a warp that may have parted: what a thread wrote before it
// arrives is seen by all threads of the cluster after they have waited.
#pragma once

namespace flashscan::cuda::ptx {

__device__ __forceinline__ void arrive_in_cluster() { asm volatile("barrier.cluster.arrive.release;" ::: "memory"); }
__device__ __forceinline__ void wait_for_cluster() { asm volatile("barrier.cluster.wait.acquire;" ::: "memory"); }

}  // namespace flashscan::cuda::ptx
