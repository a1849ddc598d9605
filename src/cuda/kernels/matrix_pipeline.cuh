// SPDX-License-Identifier: Apache-2.0
// Chains of matrices r[s] = r[s-1] M[s] in f32 with nothing added, see matrix_params.h, in f32 accuracy on tensor cores of
// compute capability 9.0: what prefix products and reductions spend their time in.
//
// The block's last warpgroup produces: it loads M, StageDepth rows at a time, splits what it loads into high and low
// parts of tf32 (matrix_tensor.cuh), and keeps both in a ring of stages in shared memory. The others consume: each has 64
// rows of r, or with ColumnGroups the same rows and a share of the columns. A warp's 16 rows are its own; it takes them
// from shared memory, splits them into its registers, and multiplies them there with a stage, 64 columns at a time.
//
// Within a product the order of k is free. Eight k are taken as 0 2 4 6 1 3 5 7, since a lane then has the k of r that it
// has as columns of the sum. A stage has 16-byte words of four k of a column, a row of words for each half of eight k:
// neighbouring lanes store neighbouring words. Tensor cores sum 8 Chunk products, f32 sums the rest (MakeUp).
//
// Bytes: M once for every tile of rows. Synchronisation: two barriers a stage, and with ColumnGroups two more a step.
#pragma once

#include "cuda/kernels/matrix_numbers.cuh"
#include "cuda/kernels/matrix_piece.cuh"
#include "cuda/kernels/matrix_pipeline_tile.h"
#include "cuda/ptx/async_proxy.cuh"
#include "cuda/ptx/barrier.cuh"
#include "cuda/ptx/cluster.cuh"
#include "cuda/ptx/exchange.cuh"
#include "cuda/ptx/launch.cuh"
#include "cuda/ptx/wgmma.cuh"

namespace flashscan::cuda {

template <typename Tile>
class MatrixPipeline {
    using Word = MatrixWord<float>;
    static constexpr uint32_t step_chunks = Tile::dim / (8 * Tile::chunk);
    static constexpr int dim = Tile::dim, row_words = dim / 4, column_tiles = Tile::columns / 64;
    static constexpr int stage_chunks = Tile::stage_depth / (8 * Tile::chunk);

  public:
    __device__ __forceinline__ MatrixPipeline(const MatrixWalk& walk, unsigned char* shared)
        : w_(walk),
          at_(walk, Tile::rows, false),
          r_(reinterpret_cast<Word*>(shared)),
          stages_(r_ + Tile::rows * row_words),
          full_(ptx::shared_address(stages_ + 2 * Tile::stages * Tile::stage_words)),
          empty_(full_ + 8 * Tile::stages),
          d_(walk.dim),
          step_stages_((walk.dim + Tile::stage_depth - 1) / Tile::stage_depth),
          group_(static_cast<int>(threadIdx.x) / 128),
          thread_(static_cast<int>(threadIdx.x) % 128),
          own_swizzle_(static_cast<uint32_t>(swizzle(thread_ % 32 / 4) * 16)),
          own_rows_(reinterpret_cast<unsigned char*>(r_ + (first_row() + thread_ % 32 / 4) * row_words) +
                    thread_ % 4 * 8) {
        kind_ = at_.start(w_);
        skips_ = kind_ == MatrixStart::nothing && at_.count > 0;
    }

    __device__ __forceinline__ void run() {
        if (threadIdx.x == 0)
            for (int i = 0; i < Tile::stages; ++i) {
                ptx::make_barrier(full_ + 8 * i, 4);
                ptx::make_barrier(empty_ + 8 * i, 4 * Tile::consumers);
            }
        ptx::let_next_launch_begin();
        ptx::wait_for_launch_before();
        clear_counters(w_);
        __syncthreads();
        if (group_ == Tile::consumers) {
            if constexpr (Tile::consumers > 1) ptx::give_registers_up<Tile::producer_registers>();
            if (d_ == dim)
                produce<true>();
            else
                produce<false>();
        } else {
            if constexpr (Tile::consumers > 1) ptx::take_registers<Tile::consumer_registers>();
            consume();
        }
    }

  private:
    __device__ __forceinline__ uint32_t stage_full(int stage) const { return full_ + static_cast<uint32_t>(8 * stage); }
    __device__ __forceinline__ uint32_t stage_empty(int stage) const {
        return empty_ + static_cast<uint32_t>(8 * stage);
    }
    __device__ __forceinline__ int64_t first_step() const { return skips_ ? 1 : 0; }

    // Whole: matrices are of Tile::dim.
    template <bool Whole>
    __device__ __forceinline__ void produce() const {
        float x[Tile::own_words][4];
        Rows now(*this), ahead(*this);
#pragma unroll 1
        for (int i = 0; i < stages_ahead; ++i) prefetch(ahead);
        int stage = 0;
        uint32_t phase = 1;
        const int64_t count = (at_.count - first_step()) * step_stages_;
#pragma unroll 1
        for (int64_t i = 0; i <= count; ++i) {
            if (i > 0) {
                ptx::wait_for_phase(stage_empty(stage), phase);
                split(x, stages_ + 2 * stage * Tile::stage_words + thread_);
                // Before the next loads are under way: publishing waits for what is.
                ptx::fence_async_proxy();
                __syncwarp();
                if (thread_ % 32 == 0) ptx::arrive(stage_full(stage));
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
    // The rows of M that make a stage, one stage after the other.
    struct Rows {
        const MatrixPipeline& own;
        int64_t s;
        int depth = 0;
        const float* from = nullptr;

        __device__ __forceinline__ explicit Rows(const MatrixPipeline& pipeline)
            : own(pipeline), s(pipeline.first_step()) {
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
    // Bytes that are on their way from memory to L2.
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
    // A consuming warp has rows first_row() and on, 16 of them, and columns first_column() and on.
    __device__ __forceinline__ int first_row() const { return group_ / Tile::column_groups * 64 + thread_ / 32 * 16; }
    __device__ __forceinline__ int first_column() const { return group_ % Tile::column_groups * Tile::columns; }
    // Word `word` of a row of r in shared memory: lanes that load or store at once do it in different banks.
    static __device__ __forceinline__ int swizzle(int row) { return (row & 1) << 2 | (row & 2); }
    static __device__ __forceinline__ int place(int row, int word) { return row * row_words + (word ^ swizzle(row)); }
    // Numbers 2q and 2q + 1 of eight columns of a lane's rows.
    __device__ __forceinline__ float2& pair(uint32_t half, uint32_t eight) const {
        return *reinterpret_cast<float2*>(own_rows_ + half * (8 * row_words * 16) + eight / 4 * 128 +
                                          ((eight % 4 * 32) ^ own_swizzle_));
    }
    // Before another lane of those that share rows reads what this one wrote, or writes what it read.
    __device__ __forceinline__ void sync_rows() const {
        if constexpr (Tile::column_groups == 1)
            __syncwarp();
        else if (group_ / Tile::column_groups == 0)
            ptx::named_barrier<1, 128 * Tile::column_groups>();
        else
            ptx::named_barrier<2, 128 * Tile::column_groups>();
    }

    // Calls body(row, word) for the warp's words of r, for `Unrolled` of a lane's at once.
    template <int Unrolled, typename Body>
    __device__ __forceinline__ void for_words(Body&& body) const {
        constexpr int words = Tile::columns / 4;
#pragma unroll Unrolled
        for (int n = 0; n < words / 2; ++n) {
            const int i = thread_ % 32 + 32 * n;
            body(first_row() + i / words, first_column() / 4 + i % words);
        }
    }
    // Whether rows of `data` are there from end to end, in words.
    __device__ __forceinline__ bool in_words(const void* data) const {
        return d_ == dim && at_.first_row + Tile::rows <= at_.rows && reinterpret_cast<uintptr_t>(data) % 16 == 0;
    }
    // Fills the rows with those of an element of `data`, or of the unit matrix.
    __device__ __forceinline__ void load_rows(const void* data, int64_t element, bool unit) const {
        const float* const from = static_cast<const float*>(data) + at_.rows_at(element, d_);
        if (data != nullptr && in_words(data)) {
            for_words<8>([&](int row, int word) {
                r_[place(row, word)] = *reinterpret_cast<const Word*>(from + row * dim + 4 * word);
            });
            return;
        }
        for_words<1>([&](int row, int word) {
            Word x{};
#pragma unroll
            for (int n = 0; n < 4; ++n) {
                const int column = 4 * word + n;
                const bool there = at_.first_row + row < at_.rows && column < d_;
                if (there && data != nullptr) x.n[n] = from[row * d_ + column];
                if (there && unit && at_.first_row + row == column) x.n[n] = 1;
            }
            r_[place(row, word)] = x;
        });
    }
    __device__ __forceinline__ void store_rows(void* data, int64_t element) const {
        float* const to = static_cast<float*>(data) + at_.rows_at(element, d_);
        if (in_words(data)) {
            for_words<8>(
                [&](int row, int word) { *reinterpret_cast<Word*>(to + row * dim + 4 * word) = r_[place(row, word)]; });
            return;
        }
        for_words<1>([&](int row, int word) {
            const Word x = r_[place(row, word)];
#pragma unroll
            for (int n = 0; n < 4; ++n)
                if (at_.first_row + row < at_.rows && 4 * word + n < d_) to[row * d_ + 4 * word + n] = x.n[n];
        });
    }

    __device__ __forceinline__ void consume() {
        int stage = 0;
        uint32_t phase = 0;
        // r[-1] is loaded, or M[0] as r[0].
        const bool has_start = !skips_ || (at_.emits && w_.emits_before != 0);
#pragma unroll 1
        for (int64_t s = has_start ? -1 : 0; s < at_.count; ++s) {
            if (s < first_step()) {
                const bool first = s == 0, carried = at_.piece > 0;
                const void* const start = kind_ != MatrixStart::carried ? nullptr : carried ? w_.carries : w_.started;
                load_rows(first ? w_.matrix : start,
                          first     ? at_.place(0)
                          : carried ? at_.own(w_)
                                    : at_.chain,
                          kind_ == MatrixStart::nothing && !first);
            } else {
                multiply(stage, phase);
                sync_rows();
                if (d_ == dim)
                    keep<true>();
                else
                    keep<false>();
            }
            const int64_t emitted = w_.emits_before != 0 ? s + 1 : s;
            if (at_.emits && emitted >= 0 && emitted < at_.places) {
                __syncwarp();
                store_rows(w_.emitted, at_.place(emitted));
            }
            sync_rows();
        }
        finish();
    }
    // r after the last step.
    __device__ __forceinline__ void finish() const {
        const bool summary = w_.work == MatrixWork::summaries;
        if (!summary && !at_.is_last(w_)) return;
#pragma unroll 1
        for (int i = 0; i < 3; ++i) {
            void* const to = summary  ? (i == 0 ? w_.products : nullptr)
                             : i == 0 ? w_.finished
                             : i == 1 ? w_.reduced
                                      : w_.last;
            if (to != nullptr) store_rows(to, summary ? at_.own(w_) : i < 2 ? at_.chain : at_.last_place(w_));
        }
    }

    // A chunk of the warp's rows.
    struct Factors {
        uint32_t high[Tile::chunk][4], low[Tile::chunk][4];
    };
    __device__ __forceinline__ void load_factors(Factors& f, uint32_t chunk) const {
#pragma unroll
        for (int c = 0; c < Tile::chunk; ++c)
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const float2 x = pair(half, chunk * Tile::chunk + c);
                float high[2], low[2];
                split_tf32(x.x, high[0], low[0]);
                split_tf32(x.y, high[1], low[1]);
#pragma unroll
                for (int i = 0; i < 2; ++i) {
                    f.high[c][2 * i + half] = __float_as_uint(high[i]);
                    f.low[c][2 * i + half] = __float_as_uint(low[i]);
                }
            }
    }
    // sum_ = r M, with M in the stages from `stage` on.
    __device__ __forceinline__ void multiply(int& stage, uint32_t& phase) {
#pragma unroll
        for (auto& tile : sum_)
#pragma unroll
            for (float& s : tile) s = 0;
        Factors left;
        load_factors(left, 0);
        uint32_t chunk = 0;
#pragma unroll 1
        for (int i = 0; i < step_stages_; ++i) {
            ptx::wait_for_phase(stage_full(stage), phase);
            // The same in all lanes, which the compiler does not know.
            const uint32_t words =
                __shfl_sync(0xffffffffU, ptx::shared_address(stages_ + 2 * stage * Tile::stage_words), 0);
#pragma unroll
            for (int c = 0; c < stage_chunks; ++c, ++chunk) {
                if (static_cast<int>(chunk) * 8 * Tile::chunk >= d_) break;
                multiply_chunk(left, chunk, words + static_cast<uint32_t>(c * Tile::chunk * 32 * dim));
            }
            if (thread_ % 32 == 0) ptx::arrive(stage_empty(stage));
            if (++stage == Tile::stages) stage = 0, phase ^= 1;
        }
    }
    // `left`: the chunk's; is replaced by the next one's. `words`: where the chunk's part of M begins.
    __device__ __forceinline__ void multiply_chunk(Factors& left, uint32_t chunk, uint32_t words) {
        Factors next{};
        const float factor = make_up_.next();
        const uint64_t right = ptx::describe_words(words + static_cast<uint32_t>(first_column() * 16), dim * 16);
        constexpr uint64_t to_low = Tile::stage_words, eight_k = 2 * dim;  // in units of 16 bytes
#pragma unroll
        for (int j = 0; j < column_tiles; ++j) {
            if (first_column() + 64 * j >= d_) break;
            float part[32];
            ptx::fence_products();
            // The small ones first: what rounding towards zero takes is in proportion to what is there.
#pragma unroll
            for (int c = 0; c < Tile::chunk; ++c)
                ptx::multiply_columns(part, left.low[c], right + c * eight_k + 64 * j, c > 0);
#pragma unroll
            for (int c = 0; c < Tile::chunk; ++c)
                ptx::multiply_columns(part, left.high[c], right + to_low + c * eight_k + 64 * j, true);
#pragma unroll
            for (int c = 0; c < Tile::chunk; ++c)
                ptx::multiply_columns(part, left.high[c], right + c * eight_k + 64 * j, true);
            ptx::end_products();
            if (j == 0 && chunk + 1 < step_chunks) load_factors(next, chunk + 1);
            ptx::wait_for_ended_products();
#pragma unroll
            for (int c = 0; c < Tile::chunk; ++c) ptx::release_operand(left.high[c]), ptx::release_operand(left.low[c]);
#pragma unroll
            for (int i = 0; i < 32; ++i) sum_[j][i] = fmaf(part[i], factor, sum_[j][i]);
        }
        left = next;
    }
    // r = sum_, with zeros where no columns are: 0 times infinity is NaN.
    template <bool Whole>
    __device__ __forceinline__ void keep() const {
        const int q = thread_ % 4;
#pragma unroll
        for (int j = 0; j < column_tiles; ++j)
#pragma unroll
            for (int i = 0; i < 16; ++i) {
                const int column = first_column() + 64 * j + i / 2 * 8 + 2 * q;
                pair(i % 2, (first_column() + 64 * j) / 8 + i / 2) = make_float2(
                    Whole || column < d_ ? sum_[j][2 * i] : 0.0F, Whole || column + 1 < d_ ? sum_[j][2 * i + 1] : 0.0F);
            }
    }

    const MatrixWalk& w_;
    const MatrixPiece at_;
    Word* const r_;
    Word* const stages_;           // of each its high parts, then its low ones
    const uint32_t full_, empty_;  // barriers of the stages
    const int d_, step_stages_, group_, thread_;
    const uint32_t own_swizzle_;
    unsigned char* const own_rows_;  // the first pair of a lane's first row
    MatrixStart kind_;
    bool skips_;  // M[0] is r[0]
    float sum_[column_tiles][32];
    MakeUp<Tile::chunk> make_up_;
};

template <typename Tile>
__global__ __launch_bounds__(Tile::threads,
                             Tile::blocks) void matrix_pipeline(const __grid_constant__ MatrixWalk walk) {
#ifdef FLASHSCAN_HAS_WGMMA
    extern __shared__ __align__(1024) unsigned char shared[];
    MatrixPipeline<Tile>(walk, shared).run();
#endif
}

}  // namespace flashscan::cuda
