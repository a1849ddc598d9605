// SPDX-License-Identifier: Apache-2.0
// Which steps of which chain a block walks, and with which rows; params.h has the recurrence.
#pragma once

#include "cuda/device/tile/sequences.cuh"
#include "cuda/matrix/params.h"

namespace flashscan::cuda {

__device__ __forceinline__ void clear_counters(const MatrixWalk& w) {
    for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < w.num_counters;
         i += static_cast<int64_t>(gridDim.x) * blockDim.x)
        w.counters[i] = 0;
}

struct MatrixChunk {
    int64_t chunk, chain;
    int64_t all;              // steps of the chunk
    int64_t count;            // steps that the block walks
    int64_t places;           // steps whose r it emits
    int32_t rows, first_row;  // rows of r or P, and the first that the block has
    bool product;             // whether the block computes P, not U or r
    bool adds, emits;

    // `has_addend` tells whether the walk has u.
    __device__ __forceinline__ MatrixChunk(const MatrixWalk& w, int tile_rows, bool has_addend) {
        // These counts fit into 32 bits, as a grid has fewer blocks, and divisions of 64 bits are slow.
        const auto chunks = static_cast<uint32_t>(w.chunks), tiles_of_rows = static_cast<uint32_t>(w.row_tiles);
        const auto tile = static_cast<int32_t>(blockIdx.x % tiles_of_rows);
        chunk = blockIdx.x / tiles_of_rows % chunks;
        chain = blockIdx.x / tiles_of_rows / chunks;
        // Tiles of rows are those of U (or r), then those of P.
        const bool has_rows = w.work == MatrixWork::walk || has_addend;
        const int32_t tiles = has_rows ? (w.rows + tile_rows - 1) / tile_rows : 0;
        product = tile >= tiles;
        rows = product ? w.dim : w.rows;
        first_row = (product ? tile - tiles : tile) * tile_rows;
        adds = has_addend && !product;
        emits = w.work == MatrixWork::walk && w.emitted != nullptr;
        find_steps(w);
    }

    // The element of step s; and the first number of the block's rows in an element of r or u.
    __device__ __forceinline__ int64_t place(int64_t s) const { return base_ + s * stride_; }
    __device__ __forceinline__ int64_t rows_at(int64_t element, int dim) const {
        return (element * rows + first_row) * dim;
    }
    // The number of the chunk among those of all chains: where its summary is, and its carry.
    __device__ __forceinline__ int64_t own(const MatrixWalk& w) const { return chain * w.chunks + chunk; }
    __device__ __forceinline__ bool is_last(const MatrixWalk& w) const { return chunk == w.chunks - 1; }

    __device__ __forceinline__ MatrixStart start(const MatrixWalk& w) const {
        if (w.work == MatrixWork::summaries)
            return product || w.adds_before == 0 ? MatrixStart::nothing : MatrixStart::zeros;
        return chunk > 0 ? MatrixStart::carried : w.start;
    }
    // The element of MatrixWalk::last that belongs to the chain.
    __device__ __forceinline__ int64_t last_place(const MatrixWalk& w) const {
        const auto own = static_cast<uint32_t>(chain), inside = static_cast<uint32_t>(w.last_inside);
        return w.last_places.time + own / inside * w.last_places.outer + own % inside * w.last_places.inner;
    }

  private:
    int64_t base_, stride_;

    __device__ __forceinline__ void find_steps(const MatrixWalk& w) {
        const auto own = static_cast<uint32_t>(chain), inside = static_cast<uint32_t>(w.chains_inside);
        const int64_t outer = own / inside;
        int64_t from = 0, length = w.steps;
        if (w.offsets.data != nullptr) {
            from = load_offset(w.offsets, outer);
            length = load_offset(w.offsets, outer + 1) - from;
        }
        base_ = outer * w.places.outer + own % inside * w.places.inner +
                (w.turned != 0 ? from + length - 1 : from) * w.places.time;
        stride_ = w.turned != 0 ? -w.places.time : w.places.time;
        const int64_t skipped = chunk * w.chunk_steps;
        base_ += skipped * stride_;
        all = places = count = max(min(length - skipped, w.chunk_steps), int64_t{0});
        if (w.work != MatrixWork::walk || w.leaves_end == 0 || !is_last(w) || count == 0) return;
        --count;
        if (w.emits_before == 0) --places;
    }
};

}  // namespace flashscan::cuda
