// SPDX-License-Identifier: Apache-2.0
// Which steps of which row a lane holds, and where sequences begin and end among them.
//
// Chunks, warps, segments and the steps of a lane are counted in the order of the walk. Memory is cut into chunks from
// its beginning for both directions, so that a walk against the order of memory meets the incomplete chunk first.
#pragma once

#include "cuda/device/scan/element_params.h"
#include "cuda/device/tile/sequences.cuh"

namespace flashscan::cuda {

// The element of STATE_IN and STATE_OUT that step t of a row belongs to.
__device__ __forceinline__ int64_t element_state(const ElementGrid& g, int64_t batch, int64_t row, int64_t t) {
    return (g.offsets.data == nullptr ? batch : find_sequence(g.offsets, t)) * g.rows + row;
}

// The time of step i of a lane whose lowest is t0.
template <int L>
__device__ __forceinline__ int64_t element_time(const ElementGrid& g, int64_t t0, int i) {
    return g.down != 0 ? t0 + L - 1 - i : t0 + i;
}

template <int L, int Warps>
struct ElementPlace {
    int32_t chunk, chunks;          // this chunk and how many there are, of the row or of a packed sequence
    int32_t first_chunk;            // the place of chunk 0 among the chunks of the launch
    int32_t row_group, row_groups;  // those of all batch entries are counted
    int lane, warp, log2_lane_rows, log2_rows, warps_in_time;
    int warp_row, warp_time;  // the warp's place in the block
    int segment, segments,
        neighbour;  // the lane's segment of the row, how many the warp has, lanes from one to the next
    int row_in_block;
    int64_t batch, row;
    bool row_exists;
    int64_t t0;       // the lowest time of the lane's steps
    int first, last;  // the lane's steps [first, last) exist
    bool whole;       // whether all steps of the warp exist

    __device__ __forceinline__ explicit ElementPlace(const ElementGrid& g) {
        const int thread = static_cast<int>(threadIdx.x);
        lane = thread & 31, warp = thread >> 5;
        log2_lane_rows = g.log2_lane_rows, log2_rows = g.log2_lane_rows + g.log2_warp_rows;
        warps_in_time = Warps >> g.log2_warp_rows;
        warp_row = warp & ((1 << g.log2_warp_rows) - 1), warp_time = warp >> g.log2_warp_rows;
        segments = 32 >> log2_lane_rows;
        neighbour = g.time_inner != 0 ? 1 : 1 << log2_lane_rows;
        segment = g.time_inner != 0 ? lane & (segments - 1) : lane >> log2_lane_rows;
        const int lane_row = g.time_inner != 0 ? lane >> (5 - log2_lane_rows) : lane & ((1 << log2_lane_rows) - 1);
        row_in_block = (warp_row << log2_lane_rows) + lane_row;
        const uint32_t slot = blockIdx.z * gridDim.y + blockIdx.y;
        ChunkPlace of{0, 0, slot, static_cast<uint32_t>(g.chunks), 0};
        if (g.by_sequence != 0) {
            const int log2_steps = 31 - __clz(L * Warps) + 5 - log2_rows;  // of a chunk
            of = place_of_chunk(g.offsets, log2_steps, slot, lane);
        } else {
            of.end = end_of_steps(g.offsets, g.time);
        }
        chunk = static_cast<int32_t>(of.chunk), chunks = static_cast<int32_t>(of.chunks);
        first_chunk = static_cast<int32_t>(of.first);
        row_group = static_cast<int32_t>(blockIdx.x), row_groups = static_cast<int32_t>(gridDim.x);
        const int32_t groups = static_cast<int32_t>(g.row_groups);
        batch = row_group / groups;
        row = (static_cast<int64_t>(row_group % groups) << log2_rows) + row_in_block;
        row_exists = row < g.rows;
        const int64_t turn = (static_cast<int64_t>(chunk) * warps_in_time + warp_time) * segments + segment;
        const int64_t all = static_cast<int64_t>(chunks) * warps_in_time * segments;
        t0 = of.begin + (g.down != 0 ? all - 1 - turn : turn) * L;
        const int count = row_exists ? static_cast<int>(max(min(of.end - t0, int64_t{L}), int64_t{0})) : 0;
        first = g.down != 0 ? L - count : 0, last = g.down != 0 ? L : count;
        whole = __all_sync(0xffffffffU, count == L) != 0;
    }

    __device__ __forceinline__ bool exists(int i) const { return i >= first && i < last; }
    __device__ __forceinline__ int64_t time(const ElementGrid& g, int i) const { return element_time<L>(g, t0, i); }
    __device__ __forceinline__ int64_t element(const ElementGrid& g, int64_t t) const {
        return batch * g.batch_stride + row * g.row_stride + t * g.time_stride;
    }
    // The element of STATE_IN and STATE_OUT that step i belongs to.
    __device__ __forceinline__ int64_t state(const ElementGrid& g, int i) const {
        return element_state(g, batch, row, time(g, i));
    }
};

// Which of a lane's steps are the first and the last steps of sequences: one bit for each step.
struct ElementEdges {
    uint32_t begin = 0, end = 0;

    static __device__ __forceinline__ bool at(uint32_t mask, int i) { return (mask >> i & 1) != 0; }

    template <int L, int Warps>
    __device__ __forceinline__ ElementEdges(const ElementGrid& g, const ElementPlace<L, Warps>& at) {
        if (at.first >= at.last) return;
        const int64_t low = at.t0, high = at.t0 + (at.last - at.first);
        // Marks the sequence of the times [from, to).
        const auto mark = [&](int64_t from, int64_t to) {
            const int64_t begins = g.down != 0 ? to - 1 : from, ends = g.down != 0 ? from : to - 1;
            const auto bit = [&](int64_t t) {
                return t < low || t >= high ? 0U : 1U << static_cast<int>(g.down != 0 ? low + L - 1 - t : t - low);
            };
            begin |= bit(begins);
            end |= bit(ends);
        };
        if (g.offsets.data == nullptr) {
            mark(0, g.time);
            return;
        }
        int64_t n = find_sequence(g.offsets, low), from = load_offset(g.offsets, n);
        for (; n < g.offsets.sequences && from < high; ++n) {
            const int64_t to = load_offset(g.offsets, n + 1);
            if (from < to) mark(from, to);
            from = to;
        }
    }
};

}  // namespace flashscan::cuda
