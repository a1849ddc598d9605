// SPDX-License-Identifier: Apache-2.0
// The warp-specialised kernel matrix_walk_pipelined, which walks chunks of chains of f32 matrices without addends,
// r[s] = r[s-1] M[s] (params.h), in f32 accuracy on tensor cores (split tf32, wgmma). Prefix products and reductions of
// f32 matrices spend most of their time in it. As in walk_general.cuh, chunks are summarised by one launch and walked
// by another.
//
// Ownership  A block owns a chunk of a chain's time and 64 rows of r for each group of consumers. Its last warpgroup is
//            the producer (walk_pipelined_producer.cuh): it splits M into high and low parts of tf32 and writes both,
//            StageDepth rows at a time, into a ring buffer of stages in shared memory. The other warpgroups are
//            consumers: each has 64 rows of r, or with ColumnGroups the same rows and a part of the columns. A warp
//            owns 16 rows: it reads them from shared memory, splits them in its registers, and multiplies them by a
//            stage, 64 columns at a time.
// Order      Within a product the order of k is free. Eight k are taken as 0 2 4 6 1 3 5 7, so that the k of r that a
//            lane needs are the columns of the sum that it holds. A stage has 16-byte words of four k of a column, and
//            a row of words for each half of eight k, so that neighbouring lanes store neighbouring words. Tensor cores
//            sum 8 Eights products; these sums are added in f32 (MakeUp).
// Bytes      M is read once for every tile of rows.
// Bound      The tensor cores, with 3 products for one, and the warpgroup that splits M: 8192 x 64 x 64 keeps the
//            tensor cores of an H200 busy for 40 % of the time (bench/results/tried_operators.md).
// Sync       Two mbarriers for each stage, between producer and consumers, and with ColumnGroups two named barriers in
//            each step.
// Limits     Compute capability 9.0 alone (sm_90a); d is Tile::dim or less.
#pragma once

#include "cuda/device/ptx/barrier.cuh"
#include "cuda/device/ptx/launch.cuh"
#include "cuda/device/ptx/wgmma.cuh"
#include "cuda/matrix/walk_pipelined_producer.cuh"

namespace flashscan::cuda {

template <typename Tile>
class MatrixPipeline {
    using Word = MatrixWord<float>;
    static constexpr uint32_t step_k_blocks = Tile::dim / (8 * Tile::eights);
    static constexpr int dim = Tile::dim, row_words = dim / 4, column_tiles = Tile::columns / 64;
    // Whether r is stored to memory while it is multiplied. That saves a tenth of a walk's time; larger tiles lack the
    // registers for it.
    static constexpr bool stores_late = dim <= 128;
    static constexpr int stage_k_blocks = Tile::stage_depth / (8 * Tile::eights);

  public:
    __device__ __forceinline__ MatrixPipeline(const MatrixWalk& walk, unsigned char* shared)
        : w_(walk),
          at_(walk, Tile::rows, false),
          r_(reinterpret_cast<Word*>(shared)),
          ring_(r_ + Tile::rows * row_words),
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
        if (threadIdx.x == 0) ring_.make();
        ptx::let_next_launch_begin();
        ptx::wait_for_launch_before();
        clear_counters(w_);
        __syncthreads();
        if (group_ == Tile::consumers) {
            ptx::give_registers_up<Tile::producer_registers>();
            PipelineProducer<Tile>(w_, at_, first_step(), ring_, thread_).run();
        } else {
            ptx::take_registers<Tile::consumer_registers>();
            consume();
        }
    }

  private:
    __device__ __forceinline__ int64_t first_step() const { return skips_ ? 1 : 0; }

    // A consumer warp has 16 rows from first_row() on, and the columns from first_column() on.
    __device__ __forceinline__ int first_row() const { return group_ / Tile::column_groups * 64 + thread_ / 32 * 16; }
    __device__ __forceinline__ int first_column() const { return group_ % Tile::column_groups * Tile::columns; }
    // Word `word` of a row of r is here in shared memory, swizzled so that loads and stores have no bank conflicts.
    static __device__ __forceinline__ int swizzle(int row) { return (row & 1) << 2 | (row & 2); }
    static __device__ __forceinline__ int place(int row, int word) { return row * row_words + (word ^ swizzle(row)); }
    // The numbers 2q and 2q + 1 of a group of eight columns, in one of the lane's two rows.
    __device__ __forceinline__ float2& pair(uint32_t half, uint32_t eight) const {
        return *reinterpret_cast<float2*>(own_rows_ + half * (8 * row_words * 16) + eight / 4 * 128 +
                                          ((eight % 4 * 32) ^ own_swizzle_));
    }
    // Synchronises the warps that share rows, before one reads what another wrote or overwrites what another read.
    __device__ __forceinline__ void sync_rows() const {
        if constexpr (Tile::column_groups == 1)
            __syncwarp();
        else if (group_ / Tile::column_groups == 0)
            ptx::named_barrier<1, 128 * Tile::column_groups>();
        else
            ptx::named_barrier<2, 128 * Tile::column_groups>();
    }

    // Calls body(row, word) for the lane's share of the warp's words of r.
    template <int Unrolled, typename Body>
    __device__ __forceinline__ void for_words(Body&& body) const {
        constexpr int words = Tile::columns / 4;
#pragma unroll Unrolled
        for (int n = 0; n < words / 2; ++n) {
            const int i = thread_ % 32 + 32 * n;
            body(first_row() + i / words, first_column() / 4 + i % words);
        }
    }
    // Whether all rows of the tile exist in `data` with all columns, and can be accessed in 16-byte words.
    __device__ __forceinline__ bool in_words(const void* data) const {
        return d_ == dim && at_.first_row + Tile::rows <= at_.rows && reinterpret_cast<uintptr_t>(data) % 16 == 0;
    }
    // Fills the rows with those of an element of `data`, or of the unit matrix where `unit`.
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

    // Stores the part of the lane's words of r that is stored during k-block `k_block` of a product.
    __device__ __forceinline__ void store_share(float* to, int k_block) const {
        constexpr int words = Tile::columns / 4, own = words / 2;
        constexpr int share = own > static_cast<int>(step_k_blocks) ? own / static_cast<int>(step_k_blocks) : 1;
        if (k_block * share >= own) return;
#pragma unroll
        for (int n = 0; n < share; ++n) {
            const int i = thread_ % 32 + 32 * (k_block * share + n);
            const int row = first_row() + i / words, word = first_column() / 4 + i % words;
            *reinterpret_cast<Word*>(to + row * dim + 4 * word) = r_[place(row, word)];
        }
    }

    // The loop of a consumer over the steps.
    __device__ __forceinline__ void consume() {
        int stage = 0;
        uint32_t phase = 0;
        // The first rounds load r[-1], or M[0] as r[0]; the others multiply.
        const bool has_start = !skips_ || (at_.emits && w_.emits_before != 0);
        float* left_to_emit = nullptr;  // where the rows are stored during the next product
#pragma unroll 1
        for (int64_t s = has_start ? -1 : 0; s < at_.count; ++s) {
            if (s < first_step()) {
                const bool first = s == 0, carried = at_.chunk > 0;
                const void* const start = kind_ != MatrixStart::carried ? nullptr : carried ? w_.carries : w_.started;
                load_rows(first ? w_.matrix : start,
                          first     ? at_.place(0)
                          : carried ? at_.own(w_)
                                    : at_.chain,
                          kind_ == MatrixStart::nothing && !first);
            } else {
                multiply(stage, phase, left_to_emit);
                left_to_emit = nullptr;
                sync_rows();
                if (d_ == dim)
                    keep<true>();
                else
                    keep<false>();
            }
            const int64_t emitted = w_.emits_before != 0 ? s + 1 : s;
            if (at_.emits && emitted >= 0 && emitted < at_.places) {
                if (stores_late && in_words(w_.emitted) && s + 1 >= first_step() && s + 1 < at_.count) {
                    left_to_emit = static_cast<float*>(w_.emitted) + at_.rows_at(at_.place(emitted), dim);
                } else {
                    __syncwarp();
                    store_rows(w_.emitted, at_.place(emitted));
                }
            }
            sync_rows();
        }
        finish();
    }
    // Stores r after the last step, or the chunk's product.
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

    // A k-block (8 Eights columns) of the warp's rows as left operands.
    struct Factors {
        uint32_t high[Tile::eights][4], low[Tile::eights][4];
    };
    __device__ __forceinline__ void load_factors(Factors& f, uint32_t k_block) const {
#pragma unroll
        for (int c = 0; c < Tile::eights; ++c)
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const float2 x = pair(half, k_block * Tile::eights + c);
                split_tf32(x.x, f.high[c][half], f.low[c][half]);
                split_tf32(x.y, f.high[c][2 + half], f.low[c][2 + half]);
            }
    }
    // Starts the products of a k-block with 64 columns of M as one group of asynchronous products.
    static __device__ __forceinline__ void begin_products(float (&part)[32], const Factors& left, uint64_t right) {
        constexpr uint64_t to_low = Tile::stage_words, eight_k = 2 * dim;  // in units of 16 bytes
        ptx::fence_products();
        // The small products come first, because the error of rounding towards zero is proportional to the sum so far.
#pragma unroll
        for (int c = 0; c < Tile::eights; ++c) ptx::multiply_columns(part, left.low[c], right + c * eight_k, c > 0);
#pragma unroll
        for (int c = 0; c < Tile::eights; ++c)
            ptx::multiply_columns(part, left.high[c], right + to_low + c * eight_k, true);
#pragma unroll
        for (int c = 0; c < Tile::eights; ++c) ptx::multiply_columns(part, left.high[c], right + c * eight_k, true);
        ptx::end_products();
    }
    // Waits for all groups but the last `Later` and adds `part`, the result of the last of the finished ones, whose
    // left operands were `left`.
    template <int Later>
    static __device__ __forceinline__ void add_products(float (&sum)[32], const float (&part)[32], const Factors& left,
                                                        float factor) {
        ptx::wait_for_ended_products<Later>();
#pragma unroll
        for (int c = 0; c < Tile::eights; ++c) ptx::release_operand(left.high[c]), ptx::release_operand(left.low[c]);
#pragma unroll
        for (int i = 0; i < 32; ++i) sum[i] = fmaf(part[i], factor, sum[i]);
    }
    // Waits for a stage and returns the descriptor of its part that begins with the consumer's columns.
    __device__ __forceinline__ uint64_t await(int stage, uint32_t phase) const {
        ptx::wait_for_phase(ring_.full(stage), phase);
        // The shuffle tells the compiler that the address is the same in all lanes.
        const uint32_t words = __shfl_sync(0xffffffffU, ptx::shared_address(ring_.words(stage)), 0);
        return ptx::describe_words(words + static_cast<uint32_t>(first_column() * 16), dim * 16);
    }
    __device__ __forceinline__ void free(int& stage, uint32_t& phase) const {
        if (thread_ % 32 == 0) ptx::arrive(ring_.empty(stage));
        if (++stage == Tile::stages) stage = 0, phase ^= 1;
    }
    static constexpr uint64_t k_block_words = 2 * Tile::eights * dim;  // 16-byte words of a k-block in a stage

    // Computes sum_ = r M, with M in the stages from `stage` on, and stores r at `emitted` unless it is null.
    __device__ __forceinline__ void multiply(int& stage, uint32_t& phase, float* emitted) {
#pragma unroll
        for (auto& tile : sum_)
#pragma unroll
            for (float& s : tile) s = 0;
        if constexpr (Tile::consumers == 1) {
            multiply_alone(await(stage, phase), emitted);
            free(stage, phase);
            return;
        }
        Factors left;
        load_factors(left, 0);
        uint32_t k_block = 0;
#pragma unroll 1
        for (int i = 0; i < step_stages_; ++i) {
            const uint64_t right = await(stage, phase);
#pragma unroll
            for (int c = 0; c < stage_k_blocks; ++c, ++k_block) {
                if (static_cast<int>(k_block) * 8 * Tile::eights >= d_) break;
                multiply_k_block(left, k_block, right + c * k_block_words, emitted);
            }
            free(stage, phase);
        }
    }
    // For a single consumer, which has the tensor cores to itself: it starts the products of a k-block before it waits
    // for those of the k-block before.
    __device__ __forceinline__ void multiply_alone(uint64_t right, float* emitted) {
        static_assert(Tile::consumers > 1 || (Tile::stage_depth == dim && column_tiles == 1));
        Factors left[step_k_blocks];
        float part[2][32], factor[step_k_blocks];
        load_factors(left[0], 0);
#pragma unroll
        for (int c = 0; c < static_cast<int>(step_k_blocks); ++c) {
            factor[c] = make_up_.next();
            begin_products(part[c % 2], left[c], right + c * k_block_words);
            if (c + 1 < static_cast<int>(step_k_blocks)) load_factors(left[c + 1], c + 1);
            if (emitted != nullptr) store_share(emitted, c);
            if (c > 0) add_products<1>(sum_[0], part[(c - 1) % 2], left[c - 1], factor[c - 1]);
        }
        constexpr int last = step_k_blocks - 1;
        add_products<0>(sum_[0], part[last % 2], left[last], factor[last]);
    }
    // Multiplies a k-block. `left` holds its operands and is replaced by those of the next one; `right` is the
    // descriptor of its part of M.
    __device__ __forceinline__ void multiply_k_block(Factors& left, uint32_t k_block, uint64_t right, float* emitted) {
        Factors next{};
        const float factor = make_up_.next();
#pragma unroll
        for (int j = 0; j < column_tiles; ++j) {
            if (first_column() + 64 * j >= d_) break;
            float part[32];
            begin_products(part, left, right + 64 * j);
            if (j == 0 && k_block + 1 < step_k_blocks) load_factors(next, k_block + 1);
            if (stores_late && j == 0 && emitted != nullptr) store_share(emitted, static_cast<int>(k_block));
            add_products<0>(sum_[j], part, left, factor);
        }
        left = next;
    }
    // Stores sum_ as r in shared memory. Columns past the last are zeros, as what is there would be multiplied too.
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
    const MatrixChunk at_;
    Word* const r_;
    const PipelineRing<Tile> ring_;
    const int d_, step_stages_, group_, thread_;
    const uint32_t own_swizzle_;
    unsigned char* const own_rows_;  // the first pair of the lane's first row
    MatrixStart kind_;
    bool skips_;  // whether r[0] is M[0], so that there is no product at step 0
    float sum_[column_tiles][32];
    MakeUp<Tile::eights> make_up_;
};

template <typename Tile>
__global__ __launch_bounds__(Tile::threads,
                             Tile::blocks) void matrix_walk_pipelined(const __grid_constant__ MatrixWalk walk) {
#ifdef FLASHSCAN_HAS_WGMMA
    extern __shared__ __align__(1024) unsigned char shared[];
    MatrixPipeline<Tile>(walk, shared).run();
#endif
}

}  // namespace flashscan::cuda
