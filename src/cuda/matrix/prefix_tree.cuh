// SPDX-License-Identifier: Apache-2.0
// The kernel matrix_prefix_tree for chains of summaries, which are products of f32 matrices: all prefixes of a chain by
// a Sklansky parallel prefix network (prefix_tree.h), in one launch, in f32 accuracy on tensor cores (split tf32,
// wgmma). In a walk each step would wait for the one before.
//
// Ownership  A block computes 64 x 64 numbers of one product. Its two warpgroups divide the terms of the sums
//            (split-k), 32 at a time. As in product_warpgroup.cuh the transpose is computed: the left operand of a
//            warpgroup, in registers, is the transposed right matrix, and its right operand, in shared memory, the rows
//            of the left matrix, both split into high and low parts of tf32.
// Bytes      A product moves 2 d / 64 + 1 matrices.
// Bound      The latency of a level, about 5 us for 64 x 64 on an H200: a level waits for the counts of the one before.
// Progress   Blocks are numbered level by level and wait for products of blocks of lower index. Counters in global
//            memory tell how many blocks of a product are done. The hardware starts blocks in the order of their index,
//            so that no block waits for one that cannot run.
// Sync       Two named barriers of a warpgroup for 32 terms, and one count in global memory for each block.
// Limits     Compute capability 9.0 alone (sm_90a).
#pragma once

#include "cuda/device/ptx/async_proxy.cuh"
#include "cuda/device/ptx/barrier.cuh"
#include "cuda/device/ptx/cluster.cuh"
#include "cuda/device/ptx/counter.cuh"
#include "cuda/device/ptx/launch.cuh"
#include "cuda/device/ptx/wgmma.cuh"
#include "cuda/matrix/numbers.cuh"
#include "cuda/matrix/params.h"
#include "cuda/matrix/prefix_tree.h"

namespace flashscan::cuda {

inline constexpr int matrix_tree_tile = 64, matrix_tree_groups = 2, matrix_tree_threads = 128 * matrix_tree_groups;
// Numbers of a warpgroup's panel: high and low parts of 64 rows of 32 numbers.
inline constexpr int matrix_tree_panel = 2 * matrix_tree_tile * 32;
inline constexpr int matrix_tree_shared_bytes = 4 * matrix_tree_groups * matrix_tree_panel;

class MatrixTreeBlock {
    static constexpr int tile = matrix_tree_tile, groups = matrix_tree_groups, eights = 2;
    using Word = MatrixWord<float>;

  public:
    __device__ __forceinline__ MatrixTreeBlock(const MatrixWalk& walk, const MatrixTree& tree, float* shared)
        : w_(walk),
          tree_(tree),
          d_(walk.dim),
          group_(static_cast<int>(threadIdx.x) / 128),
          thread_(static_cast<int>(threadIdx.x) % 128),
          panel_(shared + group_ * matrix_tree_panel),
          skipped_(walk.start == MatrixStart::carried ? 0 : 1) {
        const uint32_t tiles = static_cast<uint32_t>(d_ + tile - 1) / tile;
        uint32_t at = blockIdx.x / (tiles * tiles);
        done_ = tiles * tiles;
        row_ = static_cast<int>(blockIdx.x % done_ / tiles) * tile;
        column_ = static_cast<int>(blockIdx.x % tiles) * tile;
        const auto chains = static_cast<uint32_t>(w_.chains);
        while (at >= chains * static_cast<uint32_t>(tree_.first[level_ + 1])) ++level_;
        at -= chains * static_cast<uint32_t>(tree_.first[level_]);
        const auto products = static_cast<uint32_t>(tree_.first[level_ + 1] - tree_.first[level_]);
        chain_ = at / products;
        element_ = tree_.element(level_, static_cast<int32_t>(at % products));
    }

    __device__ __forceinline__ void run() {
        ptx::let_next_launch_begin();
        ptx::wait_for_launch_before();
        const int32_t before = (element_ >> level_ << level_) - 1;
        const float *const left = await(before, 0), *const right = await(element_, 1);
        __syncthreads();
        multiply(left, right);
        add_up();
        const int places = element_ == tree_.elements - 1 ? 4 : 1;
#pragma unroll 1
        for (int i = 0; i < places; ++i)
            store(i == 0   ? product_of(element_, level_)
                  : i == 1 ? matrix(w_.finished, chain_)
                  : i == 2 ? matrix(w_.reduced, chain_)
                           : matrix(w_.last, last_place()));
        if (level_ == 0 && element_ == 1 && skipped_ == 1 && w_.emitted != nullptr) copy_first(left);
        __syncthreads();
        if (threadIdx.x == 0) ptx::count_up(count_of(element_, level_));
    }

  private:
    __device__ __forceinline__ float* matrix(const void* array, int64_t element) const {
        if (array == nullptr) return nullptr;
        return static_cast<float*>(const_cast<void*>(array)) + element * d_ * d_;
    }
    __device__ __forceinline__ int64_t slot(int32_t i, int k) const {
        return chain_ * tree_.first[tree_.levels] + tree_.product(i, k);
    }
    __device__ __forceinline__ uint32_t* count_of(int32_t i, int k) const { return w_.counters + slot(i, k); }
    // Finds the product that level k computes for y[i]: prefixes are in the emitted array, others in scratch memory.
    // The last prefix may have no place there and is null then; no product needs it.
    __device__ __forceinline__ float* product_of(int32_t i, int k) const {
        if (w_.emitted == nullptr || !tree_.is_prefix(i, k)) return matrix(w_.products, slot(i, k));
        return i + skipped_ < w_.steps ? matrix(w_.emitted, chain_ * w_.steps + i + skipped_) : nullptr;
    }
    // x[i]. Where there is STATE_IN, it is x[0].
    __device__ __forceinline__ const float* given(int32_t i) const {
        if (skipped_ == 0 && i == 0) return matrix(w_.started, chain_);
        return matrix(w_.matrix, chain_ * w_.steps + i - 1 + skipped_);
    }
    // Returns where y[i] is before the block's level. One thread, in warp `waits`, waits until it has been computed.
    __device__ __forceinline__ const float* await(int32_t i, unsigned waits) const {
        const int k = tree_.level_before(i, level_);
        if (k < 0) return given(i);
        if (threadIdx.x == 32 * waits) ptx::wait_for_count(count_of(i, k), done_);
        return product_of(i, k);
    }
    __device__ __forceinline__ int64_t last_place() const {
        return w_.last_places.time + chain_ / w_.last_inside * w_.last_places.outer +
               chain_ % w_.last_inside * w_.last_places.inner;
    }

    __device__ __forceinline__ void sync_group() const {
        if (group_ == 0)
            ptx::named_barrier<1, 128>();
        else
            ptx::named_barrier<2, 128>();
    }
    __device__ __forceinline__ void multiply(const float* left, const float* right) {
        const bool words = d_ % 4 == 0 && reinterpret_cast<uintptr_t>(left) % 16 == 0;
        const uint32_t panel = ptx::shared_address(panel_);
        constexpr uint32_t to_low = tile * 32 * sizeof(float);
#pragma unroll
        for (float& s : sum_) s = 0;
#pragma unroll 1
        for (int k = 32 * group_; k < d_; k += 32 * groups) {
            float m[4][4];
            load_right(m, right, k);
            Word rows[4];
#pragma unroll
            for (int j = 0; j < 4; ++j) rows[j] = load_left(left, k, j, words);
            sync_group();  // until then other warps' products still read the panel
            split_left(rows);
            ptx::fence_async_proxy();
            sync_group();
#pragma unroll
            for (int half = 0; half < 4; half += eights) {
                uint32_t high[eights][4], low[eights][4];
#pragma unroll
                for (int c = 0; c < eights; ++c)
#pragma unroll
                    for (int n = 0; n < 4; ++n) split_tf32(m[half + c][n], high[c][n], low[c][n]);
                float part[32];
                const float factor = make_up_.next();
                ptx::fence_products();
                // The small products come first, because the error of rounding towards zero is proportional to the sum.
#pragma unroll
                for (int c = 0; c < eights; ++c)
                    ptx::multiply_columns(part, low[c], ptx::describe_columns(panel + 32 * (half + c)), c > 0);
#pragma unroll
                for (int c = 0; c < eights; ++c)
                    ptx::multiply_columns(part, high[c], ptx::describe_columns(panel + to_low + 32 * (half + c)), true);
#pragma unroll
                for (int c = 0; c < eights; ++c)
                    ptx::multiply_columns(part, high[c], ptx::describe_columns(panel + 32 * (half + c)), true);
                ptx::wait_for_products();
#pragma unroll
                for (int i = 0; i < 32; ++i) sum_[i] = fmaf(part[i], factor, sum_[i]);
            }
        }
    }
    // Loads the lane's left operands: the rows of the right matrix from k on, transposed.
    __device__ __forceinline__ void load_right(float (&m)[4][4], const float* right, int k) const {
        const int row = k + thread_ % 4, column = column_ + own_column();
        const float* const from = right + static_cast<int64_t>(row) * d_ + column;
#pragma unroll
        for (int c = 0; c < 4; ++c)
#pragma unroll
            for (int n = 0; n < 4; ++n) {
                const int down = 8 * c + n / 2 * 4, across = n % 2 * 8;
                m[c][n] = row + down < d_ && column + across < d_ ? from[down * d_ + across] : 0.0F;
            }
    }
    __device__ __forceinline__ Word load_left(const float* left, int k, int j, bool words) const {
        const int row = row_ + thread_ / 8 + 16 * j, column = k + thread_ % 8 * 4;
        const float* const from = left + static_cast<int64_t>(row) * d_ + column;
        Word x{};
        if (row >= d_ || column >= d_) return x;
        if (words) return *reinterpret_cast<const Word*>(from);
#pragma unroll
        for (int n = 0; n < 4; ++n)
            if (column + n < d_) x.n[n] = from[n];
        return x;
    }
    __device__ __forceinline__ void split_left(const Word (&rows)[4]) const {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            const int row = thread_ / 8 + 16 * j;
            Word* const to = reinterpret_cast<Word*>(panel_ + row * 32) + ((thread_ % 8) ^ (row % 8));
            Word high, low;
#pragma unroll
            for (int n = 0; n < 4; ++n) split_tf32(rows[j].n[n], high.n[n], low.n[n]);
            to[0] = high;
            to[tile * 32 / 4] = low;
        }
    }
    // The lane's first column, counted in the block's.
    __device__ __forceinline__ int own_column() const { return thread_ / 32 * 16 + thread_ % 32 / 4; }

    // Adds the sums of both warpgroups. The first one gets the tile's upper 32 rows, the second the lower ones, in the
    // first half of sum_.
    __device__ __forceinline__ void add_up() {
        static_assert(groups == 2);
        float* const shared = panel_ - group_ * matrix_tree_panel;
        sync_group();
#pragma unroll
        for (int i = 0; i < 16; ++i) panel_[i * 128 + thread_] = group_ == 0 ? sum_[16 + i] : sum_[i];
        __syncthreads();
        const float* const other = shared + (1 - group_) * matrix_tree_panel;
#pragma unroll
        for (int i = 0; i < 16; ++i) sum_[i] = (group_ == 0 ? sum_[i] : sum_[16 + i]) + other[i * 128 + thread_];
    }
    __device__ __forceinline__ void store(float* to) const {
        if (to == nullptr) return;
        const int row = row_ + 32 * group_ + 2 * (thread_ % 4), column = column_ + own_column();
#pragma unroll
        for (int i = 0; i < 16; ++i) {
            const int y = row + i / 4 * 8 + i % 2, x = column + i / 2 % 2 * 8;
            if (y < d_ && x < d_) to[static_cast<int64_t>(y) * d_ + x] = sum_[i];
        }
    }
    // Emits the first element, which is a prefix but no product.
    __device__ __forceinline__ void copy_first(const float* from) const {
        float* const to = matrix(w_.emitted, chain_ * w_.steps + 1);
        for (int i = threadIdx.x; i < tile * tile; i += matrix_tree_threads) {
            const int y = row_ + i / tile, x = column_ + i % tile;
            if (y < d_ && x < d_) to[static_cast<int64_t>(y) * d_ + x] = from[static_cast<int64_t>(y) * d_ + x];
        }
    }

    const MatrixWalk& w_;
    const MatrixTree& tree_;
    const int d_, group_, thread_;
    float* const panel_;
    const int
        skipped_;       // 1 where there is no STATE_IN, so that element i is step i, not the one before it; otherwise 0
    uint32_t done_;     // how many blocks a product has
    int row_, column_;  // the block's first row and column
    int level_ = 0;
    int64_t chain_;
    int32_t element_;
    float sum_[32];
    MakeUp<eights> make_up_;
};

static __global__ void __launch_bounds__(matrix_tree_threads, 2)
    matrix_prefix_tree(const __grid_constant__ MatrixWalk walk, const __grid_constant__ MatrixTree tree) {
#ifdef FLASHSCAN_HAS_WGMMA
    extern __shared__ __align__(1024) unsigned char shared[];
    MatrixTreeBlock(walk, tree, reinterpret_cast<float*>(shared)).run();
#endif
}

}  // namespace flashscan::cuda
