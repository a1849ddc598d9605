// SPDX-License-Identifier: Apache-2.0
// The kernel rnn_fused_weights puts WEIGHT into the order in which lanes of the fused kernels hold it, once a call.
//
// Ownership  A thread computes the 16 bytes that a lane has of one left operand, with zeros past the head's extents.
// Bytes      R is read once from memory, as its scattered reads hit L2; the operands are written once.
// Sync       None.
// Limits     None.
#pragma once

#include "cuda/rnn/fused/params.h"
#include "cuda/rnn/fused/team_number.cuh"

namespace flashscan::cuda {

constexpr int rnn_fused_weight_threads = 256;

template <typename X, typename W>
__device__ __forceinline__ uint32_t rnn_weight_bits(const RnnFusedWeightParams& p, int head, int gate, int64_t out,
                                                    int64_t in, int plane) {
    if (gate >= p.gates || out >= p.dim || in >= p.dim) return 0;
    const int64_t matrix = static_cast<int64_t>(gate) * p.heads + head;
    const W* const from = static_cast<const W*>(p.from) + (matrix * p.dim + out) * p.dim + in;
    return TeamHalves<X>(Element<W>::widen(*from)).bits[plane];
}

template <typename X, typename W>
__global__ void __launch_bounds__(rnn_fused_weight_threads) rnn_fused_weights(RnnFusedWeightParams p) {
    const int64_t index = static_cast<int64_t>(blockIdx.x) * rnn_fused_weight_threads + threadIdx.x;
    int64_t rest = index;
    const auto next = [&rest](int extent) {
        const int at = static_cast<int>(rest % extent);
        rest /= extent;
        return at;
    };
    const int lane = next(32), step = next(p.steps), tile = next(p.tiles), plane = next(p.planes);
    const int part = next(p.parts), unit_warp = next(p.unit_warps), block = next(p.blocks),
              head = static_cast<int>(rest);
    if (head >= p.heads) return;
    uint32_t words[4];
    for (int i = 0; i < 4; ++i) {
        const int half = 2 * tile + i % 2, group = half / p.row_gates, row_gate = half % p.row_gates;
        const int unit = p.scatters != 0 ? ((part * p.tiles + tile) * 2 + i % 2) * 8 + lane / 4
                                         : ((block * p.unit_warps + unit_warp) * p.groups + group) * 8 + lane / 4;
        const int k =
            ((p.scatters != 0 ? 0 : part * p.steps) + step / 2 * 2) * 16 + lane % 4 * 8 + step % 2 * 4 + i / 2 * 2;
        const auto bits = [&](int at) -> uint32_t {
            if (group >= p.groups && p.scatters == 0) return 0;
            const int first = p.scatters != 0 ? block * p.period : 0;
            return p.period == 0 ? rnn_weight_bits<X, W>(p, head, row_gate, unit, at, plane)
                                 : rnn_weight_bits<X, W>(p, head, at / p.period, first + at % p.period, unit, plane);
        };
        words[i] = bits(k) | bits(k + 1) << 16;
    }
    static_cast<uint4*>(p.to)[index] = uint4{words[0], words[1], words[2], words[3]};
}

}  // namespace flashscan::cuda
