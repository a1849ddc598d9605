// SPDX-License-Identifier: Apache-2.0
// The kernels that carry a message from one GPU of a host to another: `deliver` runs on the sender's and writes into the
// receiver's mailbox, `collect` runs on the receiver's, waits there and copies. A block has a piece of the message and its
// counters to itself. Blocks are few and small, so that they find room beside the kernels that compute.
#include "cuda/device/ptx/system_flags.cuh"
#include "cuda/launch/peer_mail_kernels.h"

namespace flashscan::cuda {
namespace {

// Copies this block's piece from or to a mailbox.
__device__ __forceinline__ void copy_piece(const MailParams& p, const char* from, char* to) {
    const int64_t first = blockIdx.x * p.piece, count = min(p.piece, p.bytes - first);
    from += first;
    to += first;
    int64_t done = 0;
    if (((reinterpret_cast<uintptr_t>(from) | reinterpret_cast<uintptr_t>(to)) & 15) == 0) {
        done = count & ~int64_t{15};
        for (int64_t i = 16 * threadIdx.x; i < done; i += 16 * mail_threads)
            *reinterpret_cast<uint4*>(to + i) = __ldcg(reinterpret_cast<const uint4*>(from + i));
    }
    for (int64_t i = done + threadIdx.x; i < count; i += mail_threads) to[i] = __ldcg(from + i);
}

__device__ __forceinline__ void wait_until(const uint32_t& flag, uint32_t value, bool is) {
    if (threadIdx.x == 0)
        while ((ptx::read_system_flag(&flag) == value) != is) __nanosleep(20);
    __syncthreads();
}

__global__ void __launch_bounds__(mail_threads) deliver(const __grid_constant__ MailParams p) {
    PieceCounters& counters = p.counters[blockIdx.x];
    const uint32_t sent = p.sent[blockIdx.x];
    wait_until(counters.taken, sent, true);
    copy_piece(p, p.data, p.mailbox);
    __threadfence_system();
    __syncthreads();
    if (threadIdx.x != 0) return;
    p.sent[blockIdx.x] = sent + 1;
    ptx::set_system_flag(&counters.arrived, sent + 1);
}

__global__ void __launch_bounds__(mail_threads) collect(const __grid_constant__ MailParams p) {
    PieceCounters& counters = p.counters[blockIdx.x];
    const uint32_t taken = counters.taken;
    wait_until(counters.arrived, taken, false);
    copy_piece(p, p.mailbox, p.data);
    __syncthreads();
    if (threadIdx.x == 0) ptx::set_system_flag(&counters.taken, taken + 1);
}

}  // namespace

const void* deliver_kernel() { return reinterpret_cast<const void*>(&deliver); }
const void* collect_kernel() { return reinterpret_cast<const void*>(&collect); }

}  // namespace flashscan::cuda
