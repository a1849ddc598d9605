// SPDX-License-Identifier: Apache-2.0
// The kernel matrix_small_scan, which scans chains of small f32 matrices, products alone, r[s] = r[s-1] M[s]
// (params.h): a single-pass scan with look-back. For small matrices the launches of walk_general.cuh, each of which
// walks steps one after another, would mostly wait. tuning.cpp plans which chains come here.
//
// Ownership  A block of eight warps owns a chunk of a chain. A warp owns S consecutive steps of it, in shared memory. A
//            warp computes a product by multiply-adds; a lane has Dim / 8 x Dim / 4 numbers of it: every eighth row,
//            and neighbouring columns.
// Passes     1. A warp multiplies its steps one after another, and the block scans its warps' totals.
//            2. Chunks are gathered in groups of 16. A chunk publishes its product, the last chunk of a group that of
//               the group. r before a chunk is STATE_IN, if there is one, times the products of the up to 15 earlier
//               groups and of the up to 15 earlier chunks of its own group. A tree that the chunk's place fixes
//               multiplies them.
//            3. With that product every warp computes its own prefixes, which do not wait for each other, and writes
//               them.
// Bytes      Every matrix is read once and written once. A chunk publishes up to two products, and reads up to 30
//            through L2.
// Work       A step takes 2 - 1 / S products, a chunk about 20 more, of which 13 follow each other. The products that
//            follow each other bound short chains.
// Sync       The block's warps synchronise by __syncthreads. What passes between blocks shows by its own words whether
//            it has arrived: the memory is all ones before, which no multiply-add produces (its NaN is 0x7fffffff).
//            Blocks wait for blocks of lower index only.
// Limits     Forward, f32 without tf32, not packed, d up to 32. A chain has up to 256 chunks, 38912 steps with d up to
//            16; longer ones are cut by walk_general.cuh, which may leave the chain of its summaries to this kernel.
#pragma once

#include "cuda/device/ptx/async_copy.cuh"
#include "cuda/device/ptx/exchange.cuh"
#include "cuda/device/ptx/launch.cuh"
#include "cuda/matrix/chunk.cuh"
#include "cuda/matrix/small_scan.h"

namespace flashscan::cuda {

template <int Dim>
class MatrixScan {
    static constexpr int warps = matrix_scan_warps, group_chunks = matrix_scan_group;
    static constexpr int stride = matrix_scan_stride(Dim), slot_numbers = Dim * stride;
    static constexpr int rows = Dim / 8, columns = Dim / 4;  // rows and columns of a lane
    using Sum = float[rows][columns];

  public:
    __device__ __forceinline__ MatrixScan(const MatrixWalk& walk, float* shared)
        : w_(walk),
          at_(walk, Dim, false),
          d_(walk.dim),
          warp_(static_cast<int>(threadIdx.x) / 32),
          lane_(static_cast<int>(threadIdx.x) % 32),
          steps_(static_cast<int>(walk.chunk_steps) / warps),
          first_(warp_ * steps_),
          count_(max(min(static_cast<int>(at_.count) - first_, steps_), 0)),
          own_(shared + first_ * slot_numbers),
          totals_(shared + warps * steps_ * slot_numbers) {}

    __device__ __forceinline__ void run() {
        load_steps();
        ptx::let_next_launch_begin();
        multiply_steps();
        scan_warps();
        ptx::wait_for_launch_before();  // the launch before clears the memory that products are published in
        const bool last = at_.is_last(w_), wanted = w_.emitted != nullptr || last;
        const int chunk = static_cast<int>(at_.chunk), group = chunk / group_chunks, inside = chunk % group_chunks;
        if (!last && warp_ == warps - 1) publish(total(warps - 1), product_of(chunk));
        const bool publishes = inside == group_chunks - 1 && !last;
        if (!wanted && !publishes) return;
        if (inside > 0) {
            fold(product_of(chunk - inside), inside);
            if (warp_ == 0) copy(folded(0), chunks_before());
            if (publishes && warp_ == 1) publish_product(folded(0), total(warps - 1), total_of(group));
            __syncthreads();
        }
        if (!wanted) return;
        if (group > 0) fold(total_of(0), group);
        emit_all(find_carry(group > 0, inside > 0));
    }

  private:
    __device__ __forceinline__ float* slot(int i) const { return totals_ + i * slot_numbers; }
    // Matrices in shared memory: the product of the steps of all warps up to `warp`; partial products of a fold; the
    // warp's right factor; the product of the earlier chunks of the group; the product of everything before the chunk.
    __device__ __forceinline__ float* total(int warp) const { return slot(warp); }
    __device__ __forceinline__ float* folded(int warp) const { return slot(warps + warp); }
    __device__ __forceinline__ float* factor() const { return slot(2 * warps + warp_); }
    __device__ __forceinline__ float* chunks_before() const { return slot(3 * warps); }
    __device__ __forceinline__ float* carry() const { return slot(3 * warps + 1); }

    // Products are published here: first those of the chunks of all chains, then those of the groups.
    __device__ __forceinline__ float* product_of(int64_t chunk) const {
        return static_cast<float*>(w_.products) + (at_.chain * w_.chunks + chunk) * (Dim * Dim);
    }
    __device__ __forceinline__ float* total_of(int64_t group) const {
        const int64_t groups = (w_.chunks + group_chunks - 1) / group_chunks;
        return static_cast<float*>(w_.products) + (w_.chains * w_.chunks + at_.chain * groups + group) * (Dim * Dim);
    }

    // A lane has row lane / 4 and every eighth row after it; its columns are contiguous.
    static __device__ __forceinline__ int row(int i) { return static_cast<int>(threadIdx.x) % 32 / 4 + 8 * i; }
    static __device__ __forceinline__ int column() { return static_cast<int>(threadIdx.x) % 4 * columns; }

    __device__ __forceinline__ bool in_words(const void* data) const {
        return d_ == Dim && reinterpret_cast<uintptr_t>(data) % 16 == 0;
    }
    __device__ __forceinline__ void load(const float* from, float* to) const {
        if (in_words(from)) {
#pragma unroll
            for (int i = lane_; i < Dim * Dim / 4; i += 32)
                ptx::copy_async<16>(to + i / (Dim / 4) * stride + i % (Dim / 4) * 4, from + 4 * i);
            return;
        }
#pragma unroll 4
        for (int i = 0; i < Dim; ++i) {
            if (lane_ < d_ && i < d_)
                ptx::copy_async<4>(to + i * stride + lane_, from + i * d_ + lane_);
            else if (lane_ < Dim)
                to[i * stride + lane_] = 0;
        }
    }
    __device__ __forceinline__ void load_steps() const {
#pragma unroll 1
        for (int i = 0; i < count_; ++i)
            load(static_cast<const float*>(w_.matrix) + at_.place(first_ + i) * d_ * d_, own_ + i * slot_numbers);
        ptx::end_copy_group();
        ptx::wait_for_copy_groups<0>();
        __syncwarp();
    }

    // sum = left right, of which each lane computes its part.
    static __device__ __forceinline__ void multiply(const float* left, const float* right, Sum& sum) {
#pragma unroll
        for (int i = 0; i < rows; ++i)
#pragma unroll
            for (int j = 0; j < columns; ++j) sum[i][j] = 0;
        left += row(0) * stride;
        right += column();
#pragma unroll 2
        for (int k = 0; k < Dim; k += 4) {
            float4 l[rows];
#pragma unroll
            for (int i = 0; i < rows; ++i) l[i] = *reinterpret_cast<const float4*>(left + 8 * i * stride + k);
#pragma unroll
            for (int n = 0; n < 4; ++n) {
                float r[columns];
#pragma unroll
                for (int j = 0; j < columns; j += 4)
                    *reinterpret_cast<float4*>(r + j) = *reinterpret_cast<const float4*>(right + (k + n) * stride + j);
#pragma unroll
                for (int i = 0; i < rows; ++i) {
                    const float x = n == 0 ? l[i].x : n == 1 ? l[i].y : n == 2 ? l[i].z : l[i].w;
#pragma unroll
                    for (int j = 0; j < columns; ++j) sum[i][j] = fmaf(x, r[j], sum[i][j]);
                }
            }
        }
    }
    // Stores the sum with zeros outside of the matrix, because what is there is multiplied too.
    static __device__ __forceinline__ void keep(Sum& sum, int d, float* to) {
        if (d != Dim) {
#pragma unroll
            for (int i = 0; i < rows; ++i)
#pragma unroll
                for (int j = 0; j < columns; ++j)
                    if (row(i) >= d || column() + j >= d) sum[i][j] = 0;
        }
        __syncwarp();
#pragma unroll
        for (int i = 0; i < rows; ++i)
#pragma unroll
            for (int j = 0; j < columns; j += 4)
                *reinterpret_cast<float4*>(to + row(i) * stride + column() + j) =
                    make_float4(sum[i][j], sum[i][j + 1], sum[i][j + 2], sum[i][j + 3]);
        __syncwarp();
    }
    // to = left right; `to` may be one of the factors. It is not inlined, since fetching code that runs only once takes
    // longer than running it.
    static __device__ __noinline__ void multiply_out_of_line(const float* left, const float* right, int d, float* to) {
        Sum sum;
        multiply(left, right, sum);
        keep(sum, d, to);
    }
    __device__ __forceinline__ void multiply_into(const float* left, const float* right, float* to) const {
        multiply_out_of_line(left, right, d_, to);
    }
    template <typename Body>
    __device__ __forceinline__ void for_words(Body&& body) const {
#pragma unroll
        for (int i = lane_; i < Dim * Dim / 4; i += 32) body(i / (Dim / 4) * stride + i % (Dim / 4) * 4, i);
    }
    __device__ __forceinline__ void copy(const float* from, float* to) const {
        for_words(
            [&](int at, int) { *reinterpret_cast<float4*>(to + at) = *reinterpret_cast<const float4*>(from + at); });
        __syncwarp();
    }

    __device__ __forceinline__ void multiply_steps() const {
#pragma unroll 1
        for (int i = 1; i < count_; ++i) {
            float* const to = own_ + i * slot_numbers;
            multiply_into(to - slot_numbers, to, to);
        }
        if (count_ > 0) copy(own_ + (count_ - 1) * slot_numbers, total(warp_));
        __syncthreads();
    }
    __device__ __forceinline__ void scan_warps() const {
#pragma unroll 1
        for (int k = 0; 1 << k < warps; ++k) {
            // The total that this warp updates in stage k: only those whose bit k is set change (Sklansky).
            const int i = warp_ >> k << (k + 1) | 1 << k | (warp_ & ((1 << k) - 1));
            if (i < warps && i * steps_ < static_cast<int>(at_.count))
                multiply_into(total((i >> k << k) - 1), total(i), total(i));
            __syncthreads();
        }
    }

    __device__ __forceinline__ void publish(const float* from, float* to) const {
        for_words([&](int at, int i) {
            const auto words = *reinterpret_cast<const uint4*>(from + at);
            ptx::store_shared_words(reinterpret_cast<uint32_t*>(to) + 4 * i, words.x, words.y);
            ptx::store_shared_words(reinterpret_cast<uint32_t*>(to) + 4 * i + 2, words.z, words.w);
        });
    }
    __device__ __forceinline__ void publish_product(const float* left, const float* right, float* to) const {
        multiply_into(left, right, factor());
        publish(factor(), to);
    }
    // Waits for a published matrix, and if `two` for the next one as well. All words of both are loaded at once.
    __device__ __forceinline__ void await(const float* from, float* to, bool two, float* other) const {
        constexpr int own = Dim * Dim / 128;
        uint4 v[2 * own];
        bool there;
        do {
            there = true;
#pragma unroll
            for (int n = 0; n < 2 * own; ++n) {
                v[n] = make_uint4(0, 0, 0, 0);
                if (n < own || two)
                    v[n] = ptx::load_shared_words(reinterpret_cast<const uint4*>(from) + 32 * n + lane_);
            }
#pragma unroll
            for (int n = 0; n < 2 * own; ++n)
                there = there && v[n].x != empty && v[n].y != empty && v[n].z != empty && v[n].w != empty;
        } while (!there);
#pragma unroll
        for (int n = 0; n < own; ++n) {
            const int i = 32 * n + lane_, at = i / (Dim / 4) * stride + i % (Dim / 4) * 4;
            *reinterpret_cast<uint4*>(to + at) = v[n];
            if (two) *reinterpret_cast<uint4*>(other + at) = v[own + n];
        }
        __syncwarp();
    }
    static constexpr uint32_t empty = 0xffffffffU;

    // Sets folded(0) to the product of `count` published matrices, at most 15.
    __device__ __forceinline__ void fold(const float* from, int count) const {
        const int pairs = (count + 1) / 2;
        if (warp_ < pairs) {
            const bool two = 2 * warp_ + 1 < count;
            await(from + 2 * warp_ * (Dim * Dim), folded(warp_), two, factor());
            if (two) multiply_into(folded(warp_), factor(), folded(warp_));
        }
        __syncthreads();
#pragma unroll 1
        for (int apart = 1; apart < pairs; apart *= 2) {
            const int i = 2 * apart * warp_;
            if (i + apart < pairs) multiply_into(folded(i), folded(i + apart), folded(i));
            __syncthreads();
        }
    }
    // Returns r before the chunk, or null where there is none.
    __device__ __forceinline__ const float* find_carry(bool groups, bool chunks) const {
        const float* before = nullptr;
        if (w_.start == MatrixStart::carried) {
            if (warp_ == 0) {
                load(static_cast<const float*>(w_.started) + at_.chain * d_ * d_, carry());
                ptx::end_copy_group();
                ptx::wait_for_copy_groups<0>();
                __syncwarp();
            }
            before = carry();
        }
        for (const float* next : {groups ? folded(0) : nullptr, chunks ? chunks_before() : nullptr}) {
            if (next == nullptr) continue;
            if (before != nullptr && warp_ == 0) multiply_into(before, next, carry());
            before = before != nullptr ? carry() : next;
        }
        __syncthreads();
        return before;
    }

    // Pass 3: computes and stores the prefixes of the warp's steps; `before` is r before the chunk.
    __device__ __forceinline__ void emit_all(const float* before) const {
        if (at_.chunk == 0 && warp_ == 0 && w_.emits_before != 0 && w_.emitted != nullptr) emit_start(before);
        const bool ends = at_.is_last(w_) && first_ + count_ == at_.count;
        if (count_ == 0 || (w_.emitted == nullptr && !ends)) return;
        if (warp_ > 0 && before != nullptr) {
            multiply_into(before, total(warp_ - 1), factor());
            before = factor();
        } else if (warp_ > 0) {
            before = total(warp_ - 1);
        }
        const int64_t emitted = w_.emitted == nullptr ? 0 : w_.steps - at_.chunk * w_.chunk_steps;
#pragma unroll 1
        for (int i = w_.emitted == nullptr ? count_ - 1 : 0; i < count_; ++i) {
            Sum sum;
            const float* const own = own_ + i * slot_numbers;
            if (before != nullptr)
                multiply(before, own, sum);
            else
                read(own, sum);
            const int64_t s = first_ + i + (w_.emits_before != 0 ? 1 : 0);
            if (s < emitted) store(sum, w_.emitted, at_.place(s));
            if (!ends || i + 1 < count_) continue;
            store(sum, w_.finished, at_.chain);
            store(sum, w_.reduced, at_.chain);
            if (w_.last != nullptr) store(sum, w_.last, at_.last_place(w_));
        }
    }
    // Emits the first element of an exclusive scan.
    __device__ __forceinline__ void emit_start(const float* before) const {
        Sum sum;
        if (before != nullptr) {
            read(before, sum);
        } else {
#pragma unroll
            for (int i = 0; i < rows; ++i)
#pragma unroll
                for (int j = 0; j < columns; ++j) sum[i][j] = row(i) == column() + j ? 1 : 0;
        }
        store(sum, w_.emitted, at_.place(0));
    }
    __device__ __forceinline__ void read(const float* from, Sum& sum) const {
#pragma unroll
        for (int i = 0; i < rows; ++i)
#pragma unroll
            for (int j = 0; j < columns; ++j) sum[i][j] = from[row(i) * stride + column() + j];
    }
    __device__ __forceinline__ void store(const Sum& sum, void* data, int64_t element) const {
        if (data == nullptr) return;
        float* const to = static_cast<float*>(data) + element * d_ * d_ + row(0) * d_ + column();
        const bool words = in_words(data);
#pragma unroll
        for (int i = 0; i < rows; ++i)
#pragma unroll
            for (int j = 0; j < columns; j += 4) {
                if (words) {
                    *reinterpret_cast<float4*>(to + 8 * i * Dim + j) =
                        make_float4(sum[i][j], sum[i][j + 1], sum[i][j + 2], sum[i][j + 3]);
                    continue;
                }
#pragma unroll
                for (int n = j; n < j + 4; ++n)
                    if (row(i) < d_ && column() + n < d_) to[8 * i * d_ + n] = sum[i][n];
            }
    }

    const MatrixWalk& w_;
    const MatrixChunk at_;
    const int d_, warp_, lane_;
    const int steps_, first_, count_;  // steps of a warp, the warp's first step in the chunk, and how many exist
    float *const own_, *const totals_;
};

template <int Dim>
__global__ __launch_bounds__(32 * matrix_scan_warps) void matrix_small_scan(const __grid_constant__ MatrixWalk walk) {
    extern __shared__ __align__(16) unsigned char shared[];
    MatrixScan<Dim>(walk, reinterpret_cast<float*>(shared)).run();
}

}  // namespace flashscan::cuda
