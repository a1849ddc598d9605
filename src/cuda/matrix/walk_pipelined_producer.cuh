// SPDX-License-Identifier: Apache-2.0
// The ring buffer of walk_pipelined.cuh, and the producer: the warpgroup that fills it with the high and low parts of
// M.
#pragma once

#include "cuda/device/ptx/async_proxy.cuh"
#include "cuda/device/ptx/cluster.cuh"
#include "cuda/device/ptx/exchange.cuh"
#include "cuda/matrix/chunk.cuh"
#include "cuda/matrix/numbers.cuh"
#include "cuda/matrix/walk_pipelined_tile.h"

namespace flashscan::cuda {

// The ring buffer in shared memory: for each stage its high parts, then its low parts; after all stages two mbarriers
// for each.
template <typename Tile>
class PipelineRing {
    using Word = MatrixWord<float>;

  public:
    __device__ __forceinline__ explicit PipelineRing(Word* stages)
        : stages_(stages), barriers_(ptx::shared_address(stages + 2 * Tile::stages * Tile::stage_words)) {}
    __device__ __forceinline__ Word* words(int stage) const { return stages_ + 2 * stage * Tile::stage_words; }
    __device__ __forceinline__ uint32_t full(int stage) const { return barriers_ + static_cast<uint32_t>(8 * stage); }
    __device__ __forceinline__ uint32_t empty(int stage) const { return full(stage + Tile::stages); }
    // One thread calls this.
    __device__ __forceinline__ void make() const {
        for (int i = 0; i < Tile::stages; ++i) {
            ptx::make_barrier(full(i), 4);
            ptx::make_barrier(empty(i), 4 * Tile::consumers);
        }
    }

  private:
    Word* const stages_;
    const uint32_t barriers_;
};

template <typename Tile>
class PipelineProducer {
    using Word = MatrixWord<float>;
    static constexpr int dim = Tile::dim;

  public:
    // Produces M of the steps of `at` from `first` on.
    __device__ __forceinline__ PipelineProducer(const MatrixWalk& walk, const MatrixChunk& at, int64_t first,
                                                const PipelineRing<Tile>& ring, int thread)
        : w_(walk), at_(at), ring_(ring), d_(walk.dim), thread_(thread), first_(first) {}

    __device__ __forceinline__ void run() const {
        if (d_ == dim)
            produce<true>();
        else
            produce<false>();
    }

  private:
    // The producer's loop. Whole tells that matrices have Tile::dim rows, not fewer.
    template <bool Whole>
    __device__ __forceinline__ void produce() const {
        float x[Tile::own_words][4];
        Rows now(*this), ahead(*this);
#pragma unroll 1
        for (int i = 0; i < stages_ahead; ++i) prefetch(ahead);
        int stage = 0;
        uint32_t phase = 1;
        const int64_t count = (at_.count - first_) * ((d_ + Tile::stage_depth - 1) / Tile::stage_depth);
#pragma unroll 1
        for (int64_t i = 0; i <= count; ++i) {
            if (i > 0) {
                ptx::wait_for_phase(ring_.empty(stage), phase);
                split(x, ring_.words(stage) + thread_);
                // The stage is published before the next loads start, because the fence would wait for them.
                ptx::fence_async_proxy();
                __syncwarp();
                if (thread_ % 32 == 0) ptx::arrive(ring_.full(stage));
                if (++stage == Tile::stages) stage = 0, phase ^= 1;
            }
            load<Whole>(x, now);
            prefetch(ahead);
        }
    }
    static __device__ __forceinline__ void split(const float (&x)[Tile::own_words][4], Word* high) {
#pragma unroll
        for (int n = 0; n < Tile::own_words; ++n) {
            Word h, l;
#pragma unroll
            for (int i = 0; i < 4; ++i) split_tf32(x[n][i], h.n[i], l.n[i]);
            high[128 * n] = h;
            high[128 * n + Tile::stage_words] = l;
        }
    }
    // The rows of M that make the current stage; `advance` goes on to the next stage.
    struct Rows {
        const PipelineProducer& own;
        int64_t s;
        int depth = 0;
        const float* from = nullptr;

        __device__ __forceinline__ explicit Rows(const PipelineProducer& producer) : own(producer), s(producer.first_) {
            find();
        }
        __device__ __forceinline__ bool exist() const { return s < own.at_.count; }
        __device__ __forceinline__ void advance() {
            depth += Tile::stage_depth;
            from += Tile::stage_depth * own.d_;
            if (depth < own.d_) return;
            depth = 0;
            ++s;
            find();
        }

      private:
        __device__ __forceinline__ void find() {
            from = static_cast<const float*>(own.w_.matrix) + own.at_.place(s) * own.d_ * own.d_;
        }
    };
    // How many stages ahead M is prefetched into L2.
    static constexpr int stages_ahead = 4;
    __device__ __forceinline__ void prefetch(Rows& rows) const {
        static_assert(4 * Tile::stage_words == 32 * 128);
        if (!rows.exist()) return;
        if (32 * thread_ < min(Tile::stage_depth, d_ - rows.depth) * d_) ptx::prefetch(rows.from + 32 * thread_);
        rows.advance();
    }
    template <bool Whole>
    __device__ __forceinline__ void load(float (&x)[Tile::own_words][4], Rows& rows) const {
        if (!rows.exist()) return;
        constexpr int halves = dim < 128 ? 128 / dim : 1, passes = dim < 128 ? 1 : dim / 128;
        const int d = Whole ? dim : d_, own_k = dim < 128 ? thread_ / dim : 0, own_column = thread_ % dim;
        const float* const from = rows.from + own_k * d + own_column;
#pragma unroll
        for (int n = 0; n < Tile::own_words; ++n) {
            const int half = n / passes * halves, column = n % passes * 128;
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const int k = half / 2 * 8 + half % 2 + 2 * i;
                const bool there = Whole || (own_column + column < d && rows.depth + own_k + k < d);
                x[n][i] = there ? from[k * d + column] : 0.0F;
            }
        }
        rows.advance();
    }

    const MatrixWalk& w_;
    const MatrixChunk& at_;
    const PipelineRing<Tile>& ring_;
    const int d_, thread_;
    const int64_t first_;
};

}  // namespace flashscan::cuda
