// SPDX-License-Identifier: Apache-2.0
// Chains of matrices: r[s] = r[s-1] M[s] + u[s], see matrix_params.h.
//
// A block has a piece of a chain's time and some of its rows, which it keeps in shared memory and walks from the first
// step to the last; M comes by in slabs of some of its rows, fetched ahead. Pieces whose r[-1] is not known yet are
// summarised instead, r -> r P + U, with P walked from M[0] by all of its d rows, and U by the rows of r. The summaries
// are a chain of the same form, as long as there are pieces, and its r are the r[-1] of the pieces and the r after the
// last step. n steps so cost 2n products, in as many pieces at once as one likes, and a reduction n; nothing depends on
// timing.
//
// Bytes: M once for every Tile::rows rows of r and every launch. Synchronisation: a barrier a slab, one a step, and one
// more where r is emitted.
#pragma once

#include "cuda/kernels/matrix_numbers.cuh"
#include "cuda/kernels/matrix_params.h"
#include "cuda/kernels/sequences.cuh"
#include "cuda/ptx/async_copy.cuh"
#include "cuda/ptx/launch.cuh"
#include "cuda/ptx/wgmma.cuh"

namespace flashscan::cuda {

template <typename Tile>
inline constexpr int matrix_shared_bytes = static_cast<int>(sizeof(typename Tile::Number)) *
                                           (Tile::row_numbers + Tile::stages * Tile::slab * Tile::slab_stride);

// Plain: f32 matrices as they are, nothing added, everything in words of 16 bytes: a third of the code, which small
// problems wait for.
template <typename Tile, bool Plain>
class MatrixBlock {
    using Number = typename Tile::Number;
    using Real = RealType<Number>;
    using Word = MatrixWord<Number>;
    static constexpr int width = Word::width, row_words = Tile::dim / width;

  public:
    __device__ __forceinline__ MatrixBlock(const MatrixWalk& walk, Number* shared)
        : w_(walk), row_(shared), slabs_(shared + Tile::row_numbers), d_(walk.dim) {
        int64_t block = blockIdx.x;
        const auto tile = static_cast<int32_t>(block % w_.row_tiles);
        block /= w_.row_tiles;
        piece_ = block % w_.pieces;
        chain_ = block / w_.pieces;
        // The tiles of U, then those of P.
        const bool has_rows = w_.work == MatrixWork::walk || adds_anything();
        const int32_t tiles = has_rows ? (w_.rows + Tile::rows - 1) / Tile::rows : 0;
        product_ = tile >= tiles;
        rows_ = product_ ? d_ : w_.rows;
        first_row_ = (product_ ? tile - tiles : tile) * Tile::rows;
        adds_ = adds_anything() && !product_;
        emits_ = w_.work == MatrixWork::walk && w_.emitted != nullptr;
        find_steps();
        copies_ = is_transposed()                               ? Copies::numbers
                  : in_words(w_.matrix, w_.matrix_dtype)        ? Copies::words
                  : sizeof(Number) == 4 && in_octets(w_.matrix) ? Copies::octets
                                                                : Copies::numbers;
        depth_ = (d_ + Tile::depth_unit - 1) / Tile::depth_unit * Tile::depth_unit;
        slabs_of_step_ = (d_ + Tile::slab - 1) / Tile::slab;
    }

    __device__ __forceinline__ void run() {
        // What is not of the matrix is read as zeros.
        for (int i = threadIdx.x; i < matrix_shared_bytes<Tile> / 16; i += Tile::threads)
            reinterpret_cast<Word*>(row_)[i] = Word{};
        ptx::let_next_launch_begin();
        ptx::wait_for_launch_before();
        __syncthreads();
        walk(begin());
        __syncthreads();
        finish();
    }

  private:
    __device__ __forceinline__ bool adds_anything() const { return !Plain && w_.addend != nullptr; }
    __device__ __forceinline__ bool is_transposed() const { return !Plain && w_.transposed != 0; }
    __device__ __forceinline__ bool is_conjugate() const { return !Plain && w_.conjugate != 0; }

    __device__ __forceinline__ void find_steps() {
        const int64_t outer = chain_ / w_.chains_inside;
        int64_t from = 0, length = w_.steps;
        if (w_.offsets.data != nullptr) {
            from = load_offset(w_.offsets, outer);
            length = load_offset(w_.offsets, outer + 1) - from;
        }
        base_ = outer * w_.places.outer + chain_ % w_.chains_inside * w_.places.inner +
                (w_.turned != 0 ? from + length - 1 : from) * w_.places.time;
        stride_ = w_.turned != 0 ? -w_.places.time : w_.places.time;
        const int64_t skipped = piece_ * w_.piece_steps;
        count_ = max(min(length - skipped, w_.piece_steps), int64_t{0});
        all_ = places_ = count_;
        if (w_.work == MatrixWork::walk && w_.leaves_end != 0 && piece_ == w_.pieces - 1 && count_ > 0) {
            --count_;
            if (w_.emits_before == 0) --places_;
        }
        base_ += skipped * stride_;
    }

    __device__ __forceinline__ int64_t place(int64_t s) const { return base_ + s * stride_; }
    // Where the block's rows of `element` begin in an array of r or u.
    __device__ __forceinline__ int64_t rows_at(int64_t element) const { return (element * rows_ + first_row_) * d_; }
    __device__ __forceinline__ bool in_words(const void* data, Dtype dtype) const {
        return Plain ||
               (dtype == dtype_of_number<Number> && d_ % width == 0 && reinterpret_cast<uintptr_t>(data) % 16 == 0);
    }
    __device__ __forceinline__ bool in_octets(const void* data) const {
        return (w_.matrix_dtype == Dtype::bf16 || w_.matrix_dtype == Dtype::f16) && d_ % 8 == 0 &&
               reinterpret_cast<uintptr_t>(data) % 16 == 0;
    }
    __device__ __forceinline__ int rows_here() const { return min(Tile::rows, rows_ - first_row_); }

    // Calls body(row, column) for the words of the block's rows, of which some may reach beyond the last column.
    template <typename Body>
    __device__ __forceinline__ void for_words(Body&& body) const {
        const int count = rows_here() * row_words;
#pragma unroll 2
        for (int i = threadIdx.x; i < count; i += Tile::threads)
            if (i % row_words * width < d_) body(i / row_words, i % row_words * width);
    }
    // The numbers of `data` from `at` on, as far as the row goes.
    __device__ __forceinline__ Word load_word(const void* data, Dtype dtype, int64_t at, int column, bool whole) const {
        Word x{};
        if (whole) return *reinterpret_cast<const Word*>(static_cast<const Number*>(data) + at);
#pragma unroll
        for (int n = 0; n < width; ++n)
            if (column + n < d_) x.n[n] = load_number<Number>(data, dtype, at + n);
        return x;
    }
    __device__ __forceinline__ void store_word(void* data, Dtype dtype, int64_t at, int column, bool whole,
                                               const Word& x) const {
        if (whole) {
            *reinterpret_cast<Word*>(static_cast<Number*>(data) + at) = x;
            return;
        }
#pragma unroll
        for (int n = 0; n < width; ++n)
            if (column + n < d_) store_number(data, dtype, at + n, x.n[n]);
    }

    // Fills the rows with an array's.
    __device__ __forceinline__ void load_rows(const void* data, Dtype dtype, int64_t element) const {
        const bool whole = in_words(data, dtype);
        const int64_t from = rows_at(element);
        for_words([&](int row, int column) {
            Tile::write(row_, row, column,
                        load_word(data, dtype, from + static_cast<int64_t>(row) * d_ + column, column, whole));
        });
    }
    // Fills the rows with those of M[0].
    __device__ __forceinline__ void load_matrix_rows() const {
        const int64_t from = place(0) * d_ * d_;
        if (!is_transposed() && !is_conjugate()) {
            const bool whole = in_words(w_.matrix, w_.matrix_dtype);
            for_words([&](int row, int column) {
                Tile::write(row_, row, column,
                            load_word(w_.matrix, w_.matrix_dtype,
                                      from + static_cast<int64_t>(first_row_ + row) * d_ + column, column, whole));
            });
            return;
        }
        for_words([&](int row, int column) {
            for (int n = 0; n < width && column + n < d_; ++n) {
                const int own = first_row_ + row, i = is_transposed() ? column + n : own,
                          j = is_transposed() ? own : column + n;
                const Number x =
                    load_number<Number>(w_.matrix, w_.matrix_dtype, from + static_cast<int64_t>(i) * d_ + j);
                Tile::put(row_, row, column + n, is_conjugate() ? conj(x) : x);
            }
        });
    }
    __device__ __forceinline__ void load_unit_rows() const {
        for (int row = threadIdx.x; row < rows_here(); row += Tile::threads)
            Tile::put(row_, row, first_row_ + row, one(Number{}));
    }

    // r[-1] of the piece: zeros or the unit matrix where there is none.
    __device__ __forceinline__ void load_start(MatrixStart kind) const {
        if (kind == MatrixStart::nothing && !adds_) load_unit_rows();
        if (kind != MatrixStart::carried) return;
        constexpr Dtype own = dtype_of_number<Number>;
        if (piece_ > 0) {
            load_rows(w_.carries, own, chain_ * w_.pieces + piece_);
            return;
        }
        if (w_.started != nullptr) load_rows(w_.started, own, chain_);
        if (Plain || w_.added_start == nullptr) return;
        __syncthreads();
        pass_on(w_.added_start, w_.added_start_dtype, chain_, -1);
    }

    // Puts r of the first steps into shared memory; returns the step to go on with.
    __device__ __forceinline__ int64_t begin() {
        MatrixStart kind = piece_ > 0 ? MatrixStart::carried : w_.start;
        if (w_.work == MatrixWork::summaries)
            kind = product_ || w_.adds_before == 0 ? MatrixStart::nothing : MatrixStart::zeros;
        const bool skips = kind == MatrixStart::nothing && count_ > 0;
        if (!skips || (emits_ && w_.emits_before != 0)) {
            load_start(kind);
            __syncthreads();
            settle(-1);
        }
        if (!skips) return 0;
        __syncthreads();
        if (!adds_) load_matrix_rows();
        __syncthreads();
        settle(0);
        return 1;
    }

    // Adds to r[s - 1] M[s], which is in the rows, what belongs to it, and emits it. s = -1: before the first step.
    __device__ __forceinline__ void settle(int64_t s) const {
        const int64_t adds = w_.adds_before != 0 ? s + 1 : s, emits = w_.emits_before != 0 ? s + 1 : s;
        const bool add = adds_ && adds >= 0 && adds < all_, emit = emits_ && emits >= 0 && emits < places_;
        if (add || emit) pass_on(add ? w_.addend : nullptr, w_.addend_dtype, place(adds), emit ? emits : -1);
    }
    // Adds the rows of `element` of an array, if there is one, and emits the rows as r of step `emits` unless negative.
    __device__ __forceinline__ void pass_on(const void* addend, Dtype addend_dtype, int64_t element,
                                            int64_t emits) const {
        const bool add = addend != nullptr, whole_in = in_words(addend, addend_dtype);
        const bool whole_out = in_words(w_.emitted, w_.emitted_dtype);
        const int64_t from = rows_at(element), to = rows_at(place(emits));
        for_words([&](int row, int column) {
            const int64_t at = static_cast<int64_t>(row) * d_ + column;
            Word x = Tile::read(row_, row, column);
            if (add) {
                const Word u = load_word(addend, addend_dtype, from + at, column, whole_in);
#pragma unroll
                for (int n = 0; n < width; ++n) x.n[n] = x.n[n] + u.n[n];
                Tile::write(row_, row, column, x);
            }
            if (emits >= 0) store_word(w_.emitted, w_.emitted_dtype, to + at, column, whole_out, x);
        });
    }

    __device__ __forceinline__ void walk(int64_t first) {
        Tile tile;
        tile.clear();
        Tile::publish();
        int64_t s = first, fetch_step = first;
        int slab = 0, stage = 0, fetch_slab = 0, fetch_stage = 0, ahead = Tile::stages - 1;
        while (s < count_) {
            if (ahead == 0) {
                ptx::wait_for_copy_groups<Tile::stages - 2>();
                __syncthreads();
            }
            if (fetch_step < count_) fetch(fetch_step, fetch_slab, fetch_stage);
            ptx::end_copy_group();
            if (++fetch_stage == Tile::stages) fetch_stage = 0;
            if (++fetch_slab == slabs_of_step_) fetch_slab = 0, ++fetch_step;
            if (ahead > 0) {
                --ahead;
                continue;
            }
            const int k = slab * Tile::slab;
            tile.multiply(row_, k, slabs_ + stage * Tile::slab * Tile::slab_stride, min(Tile::slab, depth_ - k), d_,
                          !Plain && w_.matrix_dtype != dtype_of_number<Number>, !Plain && w_.rounded_factors != 0,
                          is_conjugate());
            if (++stage == Tile::stages) stage = 0;
            if (++slab < slabs_of_step_) continue;
            __syncthreads();
            tile.store(row_, d_);
            tile.clear();
            if (adds_ || emits_) {
                __syncthreads();
                settle(s);
            }
            Tile::publish();
            slab = 0;
            ++s;
        }
    }

    // Rows slab * Tile::slab and on of M[s].
    __device__ __forceinline__ void fetch(int64_t s, int slab, int stage) const {
        Number* const to = slabs_ + stage * Tile::slab * Tile::slab_stride;
        const int first = slab * Tile::slab, there = min(Tile::slab, d_ - first);
        const int64_t element = place(s) * d_ * d_, from = element + static_cast<int64_t>(first) * d_;
        if (Plain || copies_ == Copies::words)
            fetch_words(to, static_cast<const Number*>(w_.matrix) + from, there);
        else if (copies_ == Copies::octets)
            fetch_octets(to, from, there);
        else
            fetch_numbers(to, element, first, there);
        if (first + there == depth_ || there == Tile::slab) return;
        // The rows up to a multiple of what a product takes.
        for (int i = threadIdx.x; i < (min(Tile::slab, depth_ - first) - there) * Tile::dim; i += Tile::threads)
            to[(there + i / Tile::dim) * Tile::slab_stride + i % Tile::dim] = Number{};
    }
    __device__ __forceinline__ void fetch_words(Number* to, const Number* from, int there) const {
#pragma unroll 2
        for (int i = threadIdx.x; i < there * row_words; i += Tile::threads) {
            const int k = i / row_words, n = i % row_words * width;
            if (n < d_) ptx::copy_async<16>(to + k * Tile::slab_stride + n, from + k * d_ + n);
        }
    }
    // Eight 16-bit numbers at a time.
    __device__ __forceinline__ void fetch_octets(Number* to, int64_t from, int there) const {
        if constexpr (std::is_same_v<Number, float>) {
            constexpr int in_row = Tile::dim / 8;
#pragma unroll 2
            for (int i = threadIdx.x; i < there * in_row; i += Tile::threads) {
                const int k = i / in_row, n = i % in_row * 8;
                if (n >= d_) continue;
                const uint4 words = *reinterpret_cast<const uint4*>(static_cast<const uint16_t*>(w_.matrix) + from +
                                                                    static_cast<int64_t>(k) * d_ + n);
                float4 x[2];
                widen(words.x, x[0].x, x[0].y), widen(words.y, x[0].z, x[0].w);
                widen(words.z, x[1].x, x[1].y), widen(words.w, x[1].z, x[1].w);
                *reinterpret_cast<float4*>(to + k * Tile::slab_stride + n) = x[0];
                *reinterpret_cast<float4*>(to + k * Tile::slab_stride + n + 4) = x[1];
            }
        }
    }
    __device__ __forceinline__ void widen(uint32_t word, float& low, float& high) const {
        if (w_.matrix_dtype == Dtype::bf16)
            low = Element<__nv_bfloat16>::widen_half(word, 0), high = Element<__nv_bfloat16>::widen_half(word, 1);
        else
            low = Element<__half>::widen_half(word, 0), high = Element<__half>::widen_half(word, 1);
    }
    __device__ __forceinline__ void fetch_numbers(Number* to, int64_t element, int first, int there) const {
        const bool across = is_transposed();
        const int fast = across ? Tile::slab : Tile::dim;
        for (int i = threadIdx.x; i < Tile::slab * Tile::dim; i += Tile::threads) {
            const int k = across ? i % fast : i / fast, n = across ? i / fast : i % fast;
            if (k >= there || n >= d_) continue;
            const int64_t from = element + (across ? static_cast<int64_t>(n) * d_ + first + k
                                                   : static_cast<int64_t>(first + k) * d_ + n);
            Number* const number = to + k * Tile::slab_stride + n;
            if (w_.matrix_dtype != dtype_of_number<Number>) {
                *number = load_number<Number>(w_.matrix, w_.matrix_dtype, from);
                continue;
            }
            const auto* parts = reinterpret_cast<const Real*>(static_cast<const Number*>(w_.matrix) + from);
#pragma unroll
            for (size_t part = 0; part < sizeof(Number) / sizeof(Real); ++part)
                ptx::copy_async<sizeof(Real)>(reinterpret_cast<Real*>(number) + part, parts + part);
        }
    }

    // r after the last step.
    __device__ __forceinline__ void finish() const {
        constexpr Dtype own = dtype_of_number<Number>;
        if (w_.work == MatrixWork::summaries) {
            store_rows(product_ ? w_.products : w_.sums, own, chain_ * w_.pieces + piece_);
            return;
        }
        if (piece_ != w_.pieces - 1) return;
        if (w_.finished != nullptr) store_rows(w_.finished, own, chain_);
        if (w_.reduced != nullptr) store_rows(w_.reduced, w_.reduced_dtype, chain_);
        if (w_.last != nullptr)
            store_rows(w_.last, w_.last_dtype,
                       w_.last_places.time + chain_ / w_.last_inside * w_.last_places.outer +
                           chain_ % w_.last_inside * w_.last_places.inner);
    }
    __device__ __forceinline__ void store_rows(void* data, Dtype dtype, int64_t element) const {
        const bool whole = in_words(data, dtype);
        const int64_t to = rows_at(element);
        for_words([&](int row, int column) {
            store_word(data, dtype, to + static_cast<int64_t>(row) * d_ + column, column, whole,
                       Tile::read(row_, row, column));
        });
    }

    enum class Copies {  // of slabs, at a time
        words,
        octets,  // of 16-bit numbers
        numbers
    };

    const MatrixWalk& w_;
    Number* const row_;
    Number* const slabs_;
    const int d_;
    int depth_, slabs_of_step_, rows_, first_row_;
    int64_t piece_, chain_, base_, stride_;
    int64_t all_;     // steps of the piece
    int64_t count_;   // that are walked
    int64_t places_;  // where r is emitted
    Copies copies_;
    bool product_, adds_, emits_;
};

template <typename Tile, bool Plain>
__global__ __launch_bounds__(Tile::threads) void matrix_walk(const __grid_constant__ MatrixWalk walk) {
#ifndef FLASHSCAN_HAS_WGMMA
    if constexpr (Tile::by_warpgroups) return;
#endif
    extern __shared__ __align__(1024) unsigned char shared[];
    MatrixBlock<Tile, Plain>(walk, reinterpret_cast<typename Tile::Number*>(shared)).run();
}

}  // namespace flashscan::cuda
