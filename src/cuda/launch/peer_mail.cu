// SPDX-License-Identifier: Apache-2.0
// The kernels that carry a message from one GPU of a host to another: `deliver` runs on the sender's and writes into
// the receiver's mailbox, `collect` runs on the receiver's, waits there and copies. A block has a part of the message
// and its counters to itself. Blocks are few and small, so that they find room beside the kernels that compute.
//
// `prove` is the handshake of neighbours when a plan is made: it sends a pattern and waits for the other's in the same
// way, reads back what it has sent, and gives up after some time.
#include "cuda/device/ptx/global_timer.cuh"
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

__device__ __forceinline__ ulonglong2 proof_words(uint64_t number) {
    return {number + 2 * threadIdx.x, number + 2 * threadIdx.x + 1};
}

// Returns whether this thread's words are there.
__device__ __forceinline__ bool holds(const uint64_t* words, uint64_t number) {
    const ulonglong2 found = __ldcg(reinterpret_cast<const ulonglong2*>(words) + threadIdx.x),
                     due = proof_words(number);
    return found.x == due.x && found.y == due.y;
}

__global__ void __launch_bounds__(proof_threads) prove(const __grid_constant__ ProofParams p, uint32_t* arrived) {
    const ProofParams::Way& way = p.ways[blockIdx.x];
    reinterpret_cast<ulonglong2*>(way.there->words)[threadIdx.x] = proof_words(way.mine);
    __threadfence_system();
    __syncthreads();
    if (threadIdx.x == 0) {
        ptx::set_system_flag(&way.there->flag, 1);
        const uint64_t begin = ptx::global_time();
        while (ptx::read_system_flag(&way.here->flag) == 0 && ptx::global_time() - begin < p.limit_ns) __nanosleep(100);
    }
    __syncthreads();
    // The sender of a message reads a counter in the receiver's memory, so that loads from there are tried too.
    const bool all = __syncthreads_and(holds(way.here->words, way.theirs) && holds(way.there->words, way.mine)) != 0;
    if (threadIdx.x == 0 && all) atomicAdd(arrived, 1U);
}

}  // namespace

const void* prove_kernel() { return reinterpret_cast<const void*>(&prove); }
const void* deliver_kernel() { return reinterpret_cast<const void*>(&deliver); }
const void* collect_kernel() { return reinterpret_cast<const void*>(&collect); }

}  // namespace flashscan::cuda
