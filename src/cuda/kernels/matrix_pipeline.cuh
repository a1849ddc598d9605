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
// neighbouring lanes store neighbouring words.
//
// Tensor cores sum 8 Chunk products, f32 sums the rest (MakeUp).
//
// Bytes: M once for every tile of rows. Synchronisation: two barriers a stage, and with ColumnGroups two more a step.
#pragma once

#include "cuda/kernels/matrix_numbers.cuh"
#include "cuda/kernels/matrix_piece.cuh"
#include "cuda/ptx/barrier.cuh"
#include "cuda/ptx/cluster.cuh"
#include "cuda/ptx/exchange.cuh"
#include "cuda/ptx/launch.cuh"
#include "cuda/ptx/wgmma.cuh"

namespace flashscan::cuda {

template <int Dim, int RowGroups, int ColumnGroups, int StageDepth, int Stages, int Chunk>
struct PipelineTile {
    static constexpr int dim = Dim, row_groups = RowGroups, column_groups = ColumnGroups, chunk = Chunk;
    static constexpr int consumers = RowGroups * ColumnGroups, threads = 128 * (consumers + 1);
    static constexpr int rows = 64 * RowGroups, columns = Dim / ColumnGroups;  // columns: of a consumer
    static constexpr int stage_depth = StageDepth, stages = Stages;
    static constexpr int stage_words = StageDepth * Dim / 4;  // of 16 bytes, of the high parts
    static constexpr int own_words = stage_words / 128;       // of a producing thread
    static constexpr int shared_bytes = 4 * rows * Dim + 32 * Stages * stage_words + 16 * Stages;
    static constexpr int blocks = 2 * shared_bytes < 220000 ? 2 : 1;  // of a multiprocessor
    // Of a thread, where warpgroups share out a multiprocessor's.
    static constexpr int consumer_registers = 216, producer_registers = 72;
    static_assert(columns % 64 == 0 && StageDepth % (8 * Chunk) == 0 && stage_words % 128 == 0);
};

template <typename Tile>
class MatrixPipeline {
    using Word = MatrixWord<float>;
    static constexpr int dim = Tile::dim, row_words = dim / 4, column_tiles = Tile::columns / 64;
    static constexpr int step_chunks = dim / (8 * Tile::chunk), stage_chunks = Tile::stage_depth / (8 * Tile::chunk);

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
          thread_(static_cast<int>(threadIdx.x) % 128) {
        const MatrixStart kind = at_.start(w_);
        skips_ = kind == MatrixStart::nothing && at_.count > 0;
        kind_ = kind;
    }

    __device__ __forceinline__ void run() {
        if (threadIdx.x == 0)
            for (int i = 0; i < Tile::stages; ++i) {
                ptx::make_barrier(full_ + 8 * i, 4);
                ptx::make_barrier(empty_ + 8 * i, 4 * Tile::consumers);
            }
        ptx::let_next_launch_begin();
        ptx::wait_for_launch_before();
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
        int64_t s = first_step(), ahead = s;
        int depth = 0, depth_ahead = 0, stage = 0;
        uint32_t phase = 1;
        for (int i = 0; i < stages_ahead; ++i) prefetch(ahead, depth_ahead);
        if (s < at_.count) load<Whole>(x, s, depth);
        while (s < at_.count) {
            ptx::wait_for_phase(stage_empty(stage), phase);
            Word* const high = stages_ + 2 * stage * Tile::stage_words + thread_;
#pragma unroll
            for (int n = 0; n < Tile::own_words; ++n) {
                Word h, l;
#pragma unroll
                for (int i = 0; i < 4; ++i) split_tf32(x[n][i], h.n[i], l.n[i]);
                high[128 * n] = h;
                high[128 * n + Tile::stage_words] = l;
            }
            depth += Tile::stage_depth;
            if (depth >= d_) depth = 0, ++s;
            // Before the next loads are under way: publishing waits for what is.
            ptx::publish_to_products();
            __syncwarp();
            if (thread_ % 32 == 0) ptx::arrive(stage_full(stage));
            if (s < at_.count) load<Whole>(x, s, depth);
            prefetch(ahead, depth_ahead);
            if (++stage == Tile::stages) stage = 0, phase ^= 1;
        }
    }
    // Bytes that are on their way from memory to L2.
    static constexpr int stages_ahead = 65536 / (16 * Tile::stage_words) < 4 ? 4 : 65536 / (16 * Tile::stage_words);
    __device__ __forceinline__ const float* rows_of(int64_t s, int depth) const {
        return static_cast<const float*>(w_.matrix) + (at_.place(s) * d_ + depth) * d_;
    }
    __device__ __forceinline__ void prefetch(int64_t& s, int& depth) const {
        if (s >= at_.count) return;
        const float* const from = rows_of(s, depth);
        const int count = min(Tile::stage_depth, d_ - depth) * d_;
        for (int i = 32 * thread_; i < count; i += 32 * 128) ptx::prefetch(from + i);
        depth += Tile::stage_depth;
        if (depth >= d_) depth = 0, ++s;
    }
    template <bool Whole>
    __device__ __forceinline__ void load(float (&x)[Tile::own_words][4], int64_t s, int depth) const {
        const int d = Whole ? dim : d_;
        const float* const from = rows_of(s, depth);
#pragma unroll
        for (int n = 0; n < Tile::own_words; ++n) {
            const int word = thread_ + 128 * n, column = word % dim, half = word / dim;
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const int k = half / 2 * 8 + half % 2 + 2 * i;
                x[n][i] = Whole || (column < d && depth + k < d) ? from[k * d + column] : 0.0F;
            }
        }
    }

    // A consuming warp has rows first_row() and on, 16 of them, and columns first_column() and on.
    __device__ __forceinline__ int first_row() const { return group_ / Tile::column_groups * 64 + thread_ / 32 * 16; }
    __device__ __forceinline__ int first_column() const { return group_ % Tile::column_groups * Tile::columns; }
    // Word `word` of a row of r in shared memory: lanes that load or store at once do it in different banks.
    static __device__ __forceinline__ int place(int row, int word) {
        return row * row_words + (word ^ ((row & 1) << 2 | (row & 2)));
    }
    // Numbers 2q and 2q + 1 of eight columns of a lane's rows.
    __device__ __forceinline__ float2& pair(int half, int eight) const {
        const int lane = thread_ % 32;
        auto* const word =
            reinterpret_cast<float2*>(r_ + place(first_row() + lane / 4 + 8 * half, 2 * eight + lane % 4 / 2));
        return word[lane % 2];
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

    // Calls body(row, word) for the warp's words of r.
    template <typename Body>
    __device__ __forceinline__ void for_words(Body&& body) const {
        constexpr int words = Tile::columns / 4;
#pragma unroll 4
        for (int i = thread_ % 32; i < 16 * words; i += 32)
            body(first_row() + i / words, first_column() / 4 + i % words);
    }
    __device__ __forceinline__ bool in_words(const void* data) const {
        return d_ % 4 == 0 && reinterpret_cast<uintptr_t>(data) % 16 == 0;
    }
    // Fills the rows with those of an element of `data`; null: with zeros.
    __device__ __forceinline__ void load_rows(const void* data, int64_t element) const {
        const bool whole = in_words(data);
        const float* const from = static_cast<const float*>(data) + at_.rows_at(element, d_);
        for_words([&](int row, int word) {
            Word x{};
            if (data != nullptr && at_.first_row + row < at_.rows) {
                const float* const own = from + static_cast<int64_t>(row) * d_ + 4 * word;
                if (whole && 4 * word < d_)
                    x = *reinterpret_cast<const Word*>(own);
                else
                    for (int n = 0; n < 4; ++n)
                        if (4 * word + n < d_) x.n[n] = own[n];
            }
            r_[place(row, word)] = x;
        });
    }
    __device__ __forceinline__ void load_unit_rows() const {
        for_words([&](int row, int word) {
            Word x{};
            for (int n = 0; n < 4; ++n)
                if (at_.first_row + row == 4 * word + n && 4 * word + n < d_) x.n[n] = 1;
            r_[place(row, word)] = x;
        });
    }
    __device__ __forceinline__ void store_rows(void* data, int64_t element) const {
        const bool whole = in_words(data);
        float* const to = static_cast<float*>(data) + at_.rows_at(element, d_);
        for_words([&](int row, int word) {
            if (at_.first_row + row >= at_.rows || 4 * word >= d_) return;
            const Word x = r_[place(row, word)];
            float* const own = to + static_cast<int64_t>(row) * d_ + 4 * word;
            if (whole)
                *reinterpret_cast<Word*>(own) = x;
            else
                for (int n = 0; n < 4; ++n)
                    if (4 * word + n < d_) own[n] = x.n[n];
        });
    }
    __device__ __forceinline__ void emit(int64_t s) const {
        const int64_t step = w_.emits_before != 0 ? s + 1 : s;
        if (!at_.emits || step < 0 || step >= at_.places) return;
        __syncwarp();
        store_rows(w_.emitted, at_.place(step));
    }

    // Puts r of the first steps into shared memory.
    __device__ __forceinline__ void begin() const {
        if (!skips_ || (at_.emits && w_.emits_before != 0)) {
            if (kind_ == MatrixStart::nothing)
                load_unit_rows();
            else if (kind_ == MatrixStart::zeros)
                load_rows(nullptr, 0);
            else if (at_.piece > 0)
                load_rows(w_.carries, at_.own(w_));
            else
                load_rows(w_.started, at_.chain);
            emit(-1);
        }
        if (!skips_) return;
        __syncwarp();
        load_rows(w_.matrix, at_.place(0));
        emit(0);
    }

    __device__ __forceinline__ void consume() {
        begin();
        sync_rows();
        int stage = 0;
        uint32_t phase = 0;
        for (int64_t s = first_step(); s < at_.count; ++s) {
            multiply(stage, phase);
            sync_rows();
            keep();
            emit(s);
            sync_rows();
        }
        if (w_.work == MatrixWork::summaries) {
            store_rows(w_.products, at_.own(w_));
            return;
        }
        if (!at_.is_last(w_)) return;
        if (w_.finished != nullptr) store_rows(w_.finished, at_.chain);
        if (w_.reduced != nullptr) store_rows(w_.reduced, at_.chain);
        if (w_.last != nullptr) store_rows(w_.last, at_.last_place(w_));
    }

    __device__ __forceinline__ void load_pairs(float2 (&x)[Tile::chunk][2], int chunk) const {
#pragma unroll
        for (int c = 0; c < Tile::chunk; ++c)
#pragma unroll
            for (int half = 0; half < 2; ++half) x[c][half] = pair(half, chunk * Tile::chunk + c);
    }
    // sum_ = r M, with M in the stages from `stage` on.
    __device__ __forceinline__ void multiply(int& stage, uint32_t& phase) {
#pragma unroll
        for (auto& tile : sum_)
#pragma unroll
            for (float& s : tile) s = 0;
        float2 x[Tile::chunk][2];
        load_pairs(x, 0);
        int chunk = 0;
#pragma unroll 1
        for (int i = 0; i < step_stages_; ++i) {
            ptx::wait_for_phase(stage_full(stage), phase);
            const uint32_t words = ptx::shared_address(stages_ + 2 * stage * Tile::stage_words);
#pragma unroll 1
            for (int c = 0; c < stage_chunks; ++c, ++chunk)
                multiply_chunk(x, chunk, words + static_cast<uint32_t>(c * Tile::chunk * 32 * dim));
            if (thread_ % 32 == 0) ptx::arrive(stage_empty(stage));
            if (++stage == Tile::stages) stage = 0, phase ^= 1;
        }
    }
    // `x`: the chunk's part of the warp's rows; is replaced by the next one's. `words`: where that of M begins.
    __device__ __forceinline__ void multiply_chunk(float2 (&x)[Tile::chunk][2], int chunk, uint32_t words) {
        uint32_t high[Tile::chunk][4], low[Tile::chunk][4];
#pragma unroll
        for (int c = 0; c < Tile::chunk; ++c)
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                float h, l;
                split_tf32(i / 2 == 0 ? x[c][i % 2].x : x[c][i % 2].y, h, l);
                high[c][i] = __float_as_uint(h);
                low[c][i] = __float_as_uint(l);
            }
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
                ptx::multiply_columns(part, low[c], right + c * eight_k + 64 * j, c > 0);
#pragma unroll
            for (int c = 0; c < Tile::chunk; ++c)
                ptx::multiply_columns(part, high[c], right + to_low + c * eight_k + 64 * j, true);
#pragma unroll
            for (int c = 0; c < Tile::chunk; ++c)
                ptx::multiply_columns(part, high[c], right + c * eight_k + 64 * j, true);
            if (j == 0 && chunk + 1 < step_chunks) load_pairs(x, chunk + 1);
            ptx::wait_for_products();
#pragma unroll
            for (int i = 0; i < 32; ++i) sum_[j][i] = fmaf(part[i], factor, sum_[j][i]);
        }
    }
    // r = sum_, with zeros where no columns are: 0 times infinity is NaN.
    __device__ __forceinline__ void keep() {
        const int q = thread_ % 4;
#pragma unroll
        for (int j = 0; j < column_tiles; ++j)
#pragma unroll
            for (int i = 0; i < 16; ++i) {
                const int column = first_column() + 64 * j + i / 2 * 8 + 2 * q;
                pair(i % 2, (first_column() + 64 * j) / 8 + i / 2) =
                    make_float2(column < d_ ? sum_[j][2 * i] : 0.0F, column + 1 < d_ ? sum_[j][2 * i + 1] : 0.0F);
            }
    }

    const MatrixWalk& w_;
    const MatrixPiece at_;
    Word* const r_;
    Word* const stages_;           // of each its high parts, then its low ones
    const uint32_t full_, empty_;  // barriers of the stages
    const int d_, step_stages_, group_, thread_;
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
